#!/usr/bin/env bash
# cli_same_test - every command group, without an owner and through one: the same output.
. "$(dirname "$0")/lib.sh"

mkdir -p tree/sub/deep tree/empty
echo 'Hello, World' >tree/hello.txt
printf 'a\0b' >tree/binary
head -c 3000000 /dev/urandom >tree/large
head -c 20000 /dev/zero >tree/sub/zeros
ln -s ../hello.txt tree/sub/link
printf '#!/bin/sh\n' >tree/sub/deep/run.sh
chmod 750 tree/sub/deep/run.sh
tar -C tree -cf tree.tar .

# What differs from run to run: times, ids, inode and process numbers, sizes on disk.
normal()
{
	sed -E 's/[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(\.[0-9]+)?Z/TIME/g; s/[0-9]{8}-[0-9]{6}\.[0-9]{3}/DATE/g;
		s/"(pid|ino|owner|disk_bytes|mtime_ns|blocks)":[0-9]+/"\1":N/g; s/^inode +[0-9]+/inode N/; s/inode [0-9]+/inode N/; s/\.put-[0-9]+/.put-N/'
}
# Each line: a command and what it printed, on both outputs, and its status.
run()
{
	echo "\$ $*"
	timeout 60 "$computer" "$@" >"$dir/.out" 2>"$dir/.err" </dev/null
	echo "= $?"
	normal <"$dir/.out"
	normal <"$dir/.err"
}
files()
{
	local w=$1
	run fs "$w" put "$dir/tree/hello.txt" /
	run fs "$w" put "$dir/tree/large" /large
	run fs "$w" put -r "$dir/tree" /
	run fs "$w" ls
	run fs "$w" ls -l tree
	run fs "$w" ls -r tree
	run fs "$w" ls --json tree/sub
	run fs "$w" tree
	run fs "$w" tree --json tree/sub
	run fs "$w" cat hello.txt tree/hello.txt
	run fs "$w" stat tree/sub/link hello.txt
	run fs "$w" mkdir -p a/b/c
	run fs "$w" mkdir a
	run fs "$w" cp hello.txt a/copy
	run fs "$w" cp -r tree a/b
	run fs "$w" mv a/copy a/moved
	run fs "$w" ln -s moved a/link
	run fs "$w" ln hello.txt a/hard
	run fs "$w" chmod u+x,go-r a/moved
	run fs "$w" chmod -R go= a/b
	run fs "$w" ls -l a
	run fs "$w" find / --name '*.txt'
	run fs "$w" find --json a --type l
	run fs "$w" grep -i 'hello, w' /
	run fs "$w" grep -c a /tree
	run fs "$w" grep -l nothing-has-this /
	run fs "$w" rm a/b
	run fs "$w" rm -r a/b
	run fs "$w" rm nothere
	run fs "$w" ls -r
	run fs "$w" cat tree/nothere
	timeout 60 "$computer" fs "$w" get large - | cmp - "$dir/tree/large" && echo "large is whole"
	rm -rf got && run fs "$w" get -r tree got && fingerprint got && rm -rf got
}
time_travel()
{
	local w=$1
	run snapshot "$w" one
	run fs "$w" mkdir after
	run fs "$w" rm tree/hello.txt
	run fs "$w" put "$dir/tree/hello.txt" /changed
	run snapshot "$w" two
	run snapshots "$w"
	run snapshots "$w" --json
	run diff "$w" one two
	run diff "$w" one --stat
	run diff "$w" one --patch
	run diff "$w" one two --json
	run fs "$w@one" ls
	run restore "$w" one --keep kept
	run fs "$w" ls
	run fork "$w@two" "$w-fork"
	run fs "$w-fork" ls
	run create "$w-from" --from "$w"
	run fs "$w-from" ls
	run rm "$w-fork" "$w-from"
	run snapshot "$w" kept --delete
	run snapshots "$w"
}
ports()
{
	local w=$1
	run export "$w" e.tar
	tar -tf e.tar | sort
	timeout 60 "$computer" export "$w" - | tar -tf - | sort
	run export "$w" e.tar.gz --path /tree
	tar -tzf e.tar.gz | sort
	run export "$w" e.db
	run export "$w" e.dir/
	fingerprint e.dir
	run import "$dir/tree.tar" "$w" --to /from-tar
	run import "$dir/tree" "$w" --to /from-dir
	timeout 60 "$computer" import - "$w" --to /from-stdin <tree.tar
	run fs "$w" ls -r
	run import e.db "$w-again"
	run fs "$w-again" ls -r
	run rm "$w-again"
	rm -rf e.tar e.tar.gz e.db e.dir
}
trust()
{
	local w=$1
	run limit "$w"
	run limit "$w" --bytes 100M --inodes 5000
	run limit "$w" --json
	run check "$w"
	run check "$w" --json
	run audit verify "$w"
	# Who asked differs (a mount's process looks around), what was asked for does not.
	run audit "$w" --actor cli --op unlink --op mkdir --op rename
	run audit "$w" --actor cli --path /tree --op unlink --limit 1
	run info "$w" | grep -vE '^(owner|on disk|id|audit|path)'
}
everything()
{
	ok c create "$1"
	[ "$2" = owned ] && mkdir -p mnt && ok c mount "$1" mnt
	files "$1"
	time_travel "$1"
	ports "$1"
	trust "$1"
	[ "$2" = owned ] && ok c umount mnt && wait_asleep "$1"
	run rm "$1"
	run ls
}

everything w alone >alone.txt || fail "$(tail -n 5 alone.txt)"
cat alone.txt | grep -c '^\$' | sed 's/$/ commands without an owner/'
# Nothing that should work failed, in either way: what fails on purpose is listed.
same "what failed" "$(grep -B1 -E '^= [^0]' alone.txt | grep '^\$')" "\$ fs w mkdir a
\$ fs w grep -l nothing-has-this /
\$ fs w rm a/b
\$ fs w rm nothere
\$ fs w cat tree/nothere"
has "content is whole" "$(cat alone.txt)" '^large is whole'
same "the tree came back" "$(sed -n '/get -r tree got/,/^\$ snapshot/p' alone.txt | grep -c sha256 || true)" 0
need_mount
need_root
everything w owned >owned.txt || fail "$(tail -n 5 owned.txt)"
# The sequence numbers of the audit go on, but a mount's own records are among them.
seqless() { sed -E 's/^ +[0-9]+ TIME/ N TIME/; s/^[0-9]+ records, the chain/N records, the chain/' "$1"; }
same "through an owner as without" "$(seqless owned.txt)" "$(seqless alone.txt)"
