#!/usr/bin/env bash
# cli_errors_host_test - a host that does not play along: full disk, no /dev/fuse, no privileges.
. "$(dirname "$0")/lib.sh"
need_root

# ---- a full disk ----

mkdir tmpfs
mount -t tmpfs -o size=4m none tmpfs || skip "tmpfs cannot be mounted"
ok env COMPUTER_HOME="$dir/tmpfs" timeout 60 "$computer" create full
echo kept | COMPUTER_HOME=$dir/tmpfs ok c fs full put - kept
head -c 8000000 /dev/urandom >big
full() { COMPUTER_HOME=$dir/tmpfs c "$@"; }
refused 1 "No space|full" full fs full put big big
same "what was there is there" "$(full fs full cat kept)" kept
same "nothing of what did not fit" "$(full fs full ls -a)" kept
has "no damage" "$(full check full)" 'as it should be'
mount -o remount,size=64m none tmpfs
ok full fs full put big big
full fs full cat big | cmp - big || fail "not what was put"
umount tmpfs

# ---- a read-only home ----

ok c create sealed
mount --bind home home && mount -o remount,bind,ro home || skip "no bind mounts"
refused 1 "" c create another
refused 1 "" c fs sealed mkdir x
umount home
same "nothing was made" "$(c ls --json | json '[w["name"] for w in d]')" "['sealed']"

# ---- no /dev/fuse ----

mkdir mnt
[ -e /dev/fuse ] && {
	# A private mount namespace whose /dev has no fuse.
	mkdir dev
	hidden()
	{
		unshare -m sh -c 'mount -t tmpfs none "$1" && cp -a /dev/null /dev/zero /dev/random /dev/urandom "$1" &&
			mount --move "$1" /dev && shift && exec timeout 60 "$@"' sh "$dir/dev" "$computer" "$@"
	}
	refused 1 "/dev/fuse" hidden mount sealed mnt
	refused 1 "/dev/fuse" hidden exec sealed -- true
	has "doctor says it" "$(hidden doctor)" 'missing +/dev/fuse'
	same "files work without" "$(echo 1 | hidden fs sealed put - one && hidden fs sealed cat one)" 1
	wait_asleep sealed
}

# ---- no privileges ----

command -v setpriv >/dev/null || skip "setpriv is not installed"
chmod 755 "$dir"
cp "$computer" program && chmod 755 program
mkdir nobody && chown 65534:65534 nobody
nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups env HOME="$dir/nobody" COMPUTER_HOME="$1" timeout 60 "$dir/program" "${@:2}"; }
chmod 700 home
refused 1 "Permission denied" nobody "$dir/home" create mine
refused 1 "Permission denied" nobody "$dir/home" info sealed
refused 1 "Permission denied" nobody "$dir/home" info "$dir/home/sealed.db"
ok nobody "$dir/nobody/home" create mine
echo 1 | ok nobody "$dir/nobody/home" fs mine put - one
same "an ordinary user's own workspace" "$(nobody "$dir/nobody/home" fs mine cat one)" 1
refused 1 "mnt|fuse" nobody "$dir/nobody/home" mount mine mnt
same "and nothing was mounted" "$(ls mnt)" ""
# A socket of root's is not for everybody.
if can_mount; then
	ok c mount sealed mnt
	refused 1 "Permission denied" nobody "$dir/home" fs sealed ls
	ok c umount mnt
fi
exit 0
