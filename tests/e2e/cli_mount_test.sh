#!/usr/bin/env bash
# cli_mount_test - mount and umount, their errors, and what becomes of a mount whose owner died.
. "$(dirname "$0")/lib.sh"
need_mount
need_root

ok c create w
echo one | ok c fs w put - one
ok c snapshot w before
mkdir mnt other used
ok c mount w mnt
same "read" "$(cat mnt/one)" one
echo two >mnt/two || fail "cannot write"
same "seen by others at once" "$(c fs w cat two)" two
echo changed | ok c fs w put - two
same "seen on the mount at once" "$(cat mnt/two)" changed
same "awake" "$(c ls --json | json 'd[0]["awake"]')" True
same "one mount" "$(c info w --json | json 'd["mounts"]')" 1

refused 1 "mnt" c mount w mnt
ok c create v
refused 1 "mnt" c mount v mnt
refused 1 "nothere" c mount v nothere
refused 1 "Not a directory|not a directory" c mount v mnt/one
refused 1 "not.*mount|not ours|mount" c umount used
refused 1 "" c rm w
refused 1 "" c rename w x
ok c umount mnt
same "gone" "$(ls -A mnt)" ""
wait_asleep w
same "kept" "$(c fs w cat two)" changed
has "whole" "$(c check w)" 'as it should be'

# By name; read-only; of a snapshot.
ok c mount w mnt
ok c umount w
same "gone by name" "$(ls -A mnt)" ""
wait_asleep w
ok c mount w mnt --read-only
(echo x >mnt/x) 2>/dev/null && fail "written through a read-only mount"
ok c umount mnt
wait_asleep w
ok c mount w mnt --at before
same "as it was" "$(ls mnt)" one
(echo x >mnt/x) 2>/dev/null && fail "a snapshot was written"
ok c umount mnt
wait_asleep w

for transport in dev uring; do
	if [ $transport = uring ] && [ "$(c doctor --json | json 'd["fuse_uring"]')" != True ]; then
		refused 1 "uring" c mount w mnt --transport uring
		continue
	fi
	ok c mount w mnt --transport $transport
	same "over $transport" "$(c info w --json | json 'd["uring"]')" "$([ $transport = uring ] && echo True || echo False)"
	cat mnt/one >/dev/null || fail "cannot read over $transport"
	ok c umount mnt
	wait_asleep w
done

# In the foreground, ended by a signal: unmounted, and all of it durable.
env --default-signal=INT timeout 60 "$computer" mount w mnt --foreground &
pid=$!
for ((i = 0; i < 100; i++)); do [ -e mnt/one ] && break; sleep 0.05; done
echo three >mnt/three
pkill -INT -P $pid
wait $pid
same "status after ^C" $? 0
same "unmounted by ^C" "$(ls -A mnt)" ""
same "kept over ^C" "$(c fs w cat three)" three

# An owner that is killed: what was synced is there, and the next mount cleans up.
ok c mount w mnt
echo four >mnt/four && sync -f mnt/four && python3 -c 'import os; f = os.open("mnt/four", os.O_RDONLY); os.fsync(f)'
kill -KILL "$(c info w --json | json 'd["owner"]')"
for ((i = 0; i < 100; i++)); do ls mnt >/dev/null 2>&1 || break; sleep 0.05; done
same "works without its owner" "$(c fs w cat four)" four
ok c mount w mnt
same "mounted over a dead mount" "$(cat mnt/four)" four
ok c umount mnt
wait_asleep w
has "whole after a kill" "$(c check w)" 'as it should be'
