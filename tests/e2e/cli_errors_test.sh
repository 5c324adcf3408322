#!/usr/bin/env bash
# cli_errors_test - bad input of every kind: one line, the right status, and nothing changed.
. "$(dirname "$0")/lib.sh"

# Everything below $dir but our own notes: names, sizes, contents.
state()
{
	find "$dir" -name '.out' -prune -o -name '.err' -prune -o -printf '%P %y %s\n' | grep -vE -- '-(wal|shm) |\.lock ' | sort
	find "$dir" -type f ! -name '.out' ! -name '.err' ! -name '*-wal' ! -name '*-shm' ! -name '*.lock' -print0 | sort -z | xargs -0 -r sha256sum
}
unchanged()
{
	local before after
	before=$(state)
	refused "$@"
	after=$(state)
	same "nothing changed by: ${*:3}" "$after" "$before"
}

ok c create good
echo content | ok c fs good put - file
ok c snapshot good first

# Unknown workspaces, snapshots, paths.
for command in "info" "rm" "snapshots" "snapshot" "check" "audit" "limit" "audit verify"; do
	# shellcheck disable=SC2086
	unchanged 1 "nothere" c $command nothere
done
unchanged 1 "nothere" c fs nothere ls
unchanged 1 "nothere" c rename nothere new
unchanged 1 "nothere" c fork nothere new
unchanged 1 "nothere" c create new --from nothere
unchanged 1 "nothere" c export nothere out.tar
unchanged 1 "nothere" c exec nothere -- true
unchanged 1 "nothere" c info "$dir/nothere.db"
unchanged 1 "nosnap" c restore good nosnap
unchanged 1 "nosnap" c fork good@nosnap new
unchanged 1 "nosnap" c fs good@nosnap ls
unchanged 1 "nosnap" c diff good nosnap
unchanged 1 "nosnap" c snapshot good nosnap --delete
unchanged 1 "No such file" c fs good cat nofile
unchanged 1 "No such file" c fs good rm nofile
unchanged 1 "No such file" c fs good put "$dir/nofile" x
unchanged 1 "No such file" c import "$dir/nofile" new
unchanged 1 "Is a directory" c fs good cat /
unchanged 1 "Not a directory" c fs good cat file/below

# Names.
long=$(printf 'n%.0s' {1..65})
for name in 'a/b' $'a\nb' $'a\033[31mb' '' '.hidden' '-dash' 'sp ace' "$long" 'ümlaut'; do
	unchanged 1 '' c create -- "$name"
	grep -qP '[\x00-\x08\x0b-\x1f]' "$dir/.err" && fail "control characters in an error: $(cat -v "$dir/.err")"
done
for name in 'a/b' $'a\nb' '' "$(printf 's%.0s' {1..129})"; do
	unchanged 1 '' c snapshot good -- "$name"
done
unchanged 1 "good" c create good
unchanged 1 "first" c snapshot good first
unchanged 1 "good" c import "$source_dir/LICENSE" good
ok c create other
unchanged 1 "other" c rename good other
unchanged 1 "other" c fork good other

# Files that are no workspaces, or a newer program's.
echo "not a database" >text.db
: >empty.db
head -c 100000 /dev/urandom >random.db
sqlite3 foreign.db 'create table t (x); insert into t values (1);' </dev/null
mkdir folder.db
for file in text.db empty.db random.db foreign.db folder.db; do
	unchanged 1 "$file" c info "$dir/$file"
	unchanged 1 "$file" c fs "$dir/$file" ls
	unchanged 1 "$file" c check "$dir/$file"
done
ok c export good newer.db
sqlite3 newer.db 'pragma user_version = 9999;' </dev/null
unchanged 1 "newer" c info "$dir/newer.db"
unchanged 1 "newer" c import "$dir/newer.db" imported
unchanged 1 "" c import "$dir/foreign.db" imported
unchanged 1 "" c import "$dir/random.db" imported2

# Targets that are there already.
echo mine >out.tar
echo mine >out.db
mkdir full && echo mine >full/file
unchanged 1 "out.tar" c export good out.tar
unchanged 1 "out.db" c export good out.db
unchanged 1 "full" c export good full/
unchanged 1 "full/file" c fs good get file full
unchanged 1 "Not a directory|not a directory" c export good "$dir/text.db/x.tar"

# Damage: refused or reported, never a crash.
ok c export good damaged.db
size=$(stat -c %s damaged.db)
for at in 100 5000 9000; do
	[ "$at" -lt "$size" ] || continue
	cp damaged.db "damaged-$at.db"
	head -c 2000 /dev/zero | tr '\0' '\377' | dd of="damaged-$at.db" bs=1 seek="$at" conv=notrunc status=none
	timeout 60 "$computer" check "$dir/damaged-$at.db" >/dev/null 2>err
	status=$?
	[ $status = 0 ] || [ $status = 1 ] || fail "check of a damaged file: status $status: $(cat err)"
	timeout 60 "$computer" fs "$dir/damaged-$at.db" cat file >/dev/null 2>err
	[ $? -le 1 ] || fail "reading a damaged file: $(cat err)"
done

# Quotas.
ok c create small --quota-bytes 100K --quota-inodes 10
refused 1 "quota" c fs small put "$computer" big
same "nothing of what did not fit" "$(c fs small ls -a)" ""
for i in 1 2 3 4 5 6 7 8 9; do c fs small mkdir "d$i" 2>/dev/null; done
refused 1 "quota" c fs small mkdir more
