#!/usr/bin/env bash
# cli_usage_test - what the program says when it is used wrongly, and that every command has its help.
. "$(dirname "$0")/lib.sh"

c >out 2>err
same "status without a command" $? 2
has "usage" "$(cat err)" '^Usage: computer COMMAND'
has "help" "$(c --help)" 'Workspaces:'
has "help" "$(c help)" 'snapshots'
has "version" "$(c version)" '^computer [0-9]'
same "--version" "$(c --version)" "$(c version)"
same "version as JSON" "computer $(c version --json | json 'd["version"]')" "$(c version)"

refused 2 "unknown command 'crate', perhaps 'create'" c crate x
refused 2 "unknown command" c frobnicate
refused 2 "unknown command 'lss', perhaps 'ls'" c fs x lss
refused 2 "unknown option '--form'" c create --form x
refused 2 "unknown option '--fro', perhaps '--from'" c create --fro=y x
refused 2 "unknown option '-q'" c create -q x
refused 2 "expected NAME" c create
refused 2 "one operand too many" c create a b
refused 2 "needs a value" c create a --from
refused 2 "takes no value" c mount a b --read-only=yes
refused 2 "is not a size" c create --quota-bytes 1Q x
refused 2 "is not a number" c create --quota-inodes -1 x
refused 2 "is not a time" c audit x --since yesterday
refused 2 "there is no operation" c audit x --op frob
refused 2 "transport is auto" c mount a b --transport pigeon
refused 2 "no backend" c exec x --backend shell -- true
refused 2 "is not NAME=VALUE" c exec x --env A -- true
refused 2 "exclude each other" c restore x y --keep z --no-keep
refused 2 "says no format" c export x thing
refused 2 "is no mode" c fs x chmod u~x y
refused 2 "is no expression" c fs x grep '('
refused 2 "not bash or zsh" c completion fish
[ -e home ] && fail "wrong use made something"

for name in $(sed -n 's/^COMMAND(\(.*\))/\1/p' "$source_dir/src/cli/commands.def"); do
	ok c "$name" --help >out
	has "help of $name" "$(cat out)" "^Usage: computer $name"
	[ "$name" = complete ] && continue
	grep -q "computer $name" "$source_dir/docs/cli.md" || fail "docs/cli.md does not know $name"
	grep -qw -- "$name" "$source_dir/docs/man/computer.1" || fail "the manual does not know $name"
done
for name in $(sed -n 's/^FS_COMMAND(\(.*\))/\1/p' "$source_dir/src/cli/fs_commands.def"); do
	ok c fs x "$name" --help >out
	has "help of fs $name" "$(cat out)" "^Usage: computer fs NAME $name"
	same "help fs $name" "$(c help fs "$name")" "$(cat out)"
	grep -qE "fs NAME $name\b" "$source_dir/docs/cli.md" || fail "docs/cli.md does not know fs $name"
done

same "completion for bash" "$(c completion bash)" "$(cat "$source_dir/completion/computer.bash")"
same "completion for zsh" "$(c completion zsh)" "$(cat "$source_dir/completion/_computer")"
has "completion of commands" "$(c complete -- sna)" '^snapshots$'
has "completion of fs commands" "$(c complete -- fs x '')" '^grep$'
has "completion of options" "$(c complete -- create --)" '^--quota-bytes$'
ok c create alpha
ok c snapshot alpha before
same "completion of workspaces" "$(c complete -- info '')" alpha
has "completion of snapshots" "$(c complete -- restore alpha '')" '^before$'
# shellcheck source=/dev/null
(
	PATH=$(dirname "$computer"):$PATH
	. "$source_dir/completion/computer.bash"
	COMP_WORDS=(computer res) COMP_CWORD=1
	_computer
	[ "${COMPREPLY[*]}" = restore ]
) || fail "bash does not complete 'res'"

# A reader that goes away, and a full disk.
c help | head -n 1 >/dev/null
ok c help >/dev/null
c help >/dev/full 2>err
same "status on a full disk" $? 1
has "a full disk is said" "$(cat err)" 'cannot write the output'
