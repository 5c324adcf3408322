#!/usr/bin/env bash
# readme_test - every command in README.md works as written, in its order.
. "$(dirname "$0")/lib.sh"
need_mount
need_root

mkdir bin && ln -s "$computer" bin/computer
PATH=$dir/bin:$PATH
cp -r "$source_dir/src" "$source_dir/tools" .
# The blocks after "Five things to try"; those before it are what runs this.
awk '/^## Five things/ { on = 1 } /^## Honest/ { on = 0 }
	on && /^```sh/ { block = 1; next } /^```/ { block = 0 } on && block' "$source_dir/README.md" >commands
[ "$(grep -c computer commands)" -ge 15 ] || fail "README.md has lost its commands"
while IFS= read -r line; do
	echo "+ $line"
	timeout 60 bash -c "set -o pipefail; $line" >out 2>&1 </dev/null
	status=$?
	cat out
	# `| head` ends what it reads early: that is no failure.
	[ $status = 0 ] || [[ $line == *'| head'* ]] || fail "status $status"
	checks=$((checks + 1))
	case $line in
	*'cat todo.txt') same "todo" "$(cat out)" 'remember the milk' ;;
	*'find /'*) has "headers" "$(cat out)" '/src/base/base.h' ;;
	'ls mnt/tools') has "tools" "$(cat out)" 'install-deps' ;;
	*'cat lines.txt') has "lines" "$(cat out)" 'total' ;;
	*'diff notes before'*) has "diff" "$(cat out)" 'D .*src/base/base.h' ;;
	esac
done <commands
same "the fork has what was restored" "$(computer fs experiment cat src/base/base.h)" "$(cat src/base/base.h)"
