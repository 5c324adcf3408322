# lib.sh - what the shell tests of the program share. Source it: it makes a folder and cleans up.
# shellcheck shell=bash
#
# $computer is the program ($1 of the test), $dir an empty folder, where the test runs; workspaces are
# in $dir/home. TAP is not spoken: a test ends at the first thing that is not as it should be.
set -u
set -o pipefail
computer=$(realpath "$1")
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
dir=$(mktemp -d "${TMPDIR:-/tmp}/computer-e2e.XXXXXX") || exit 99
export COMPUTER_HOME=$dir/home TZ=UTC LC_ALL=C.UTF-8
unset NO_COLOR XDG_DATA_HOME
cd "$dir" || exit 99
mounts=()
checks=0

cleanup()
{
	local status=$? m
	trap - EXIT
	for m in $(awk -v d="$dir/" 'index($2, d) == 1 { print $2 }' /proc/mounts | sort -r); do
		timeout 20 umount "$m" 2>/dev/null || umount -l "$m" 2>/dev/null
	done
	# A process that keeps a mount ends when the mount does; one that does not is ended here.
	local pid file
	for file in "$dir"/*.pid; do
		[ -f "$file" ] && pid=$(cat "$file") && kill -KILL "$pid" 2>/dev/null
	done
	cd / && rm -rf --one-file-system "$dir"
	[ $status -eq 0 ] && echo "$checks checks"
	exit $status
}
trap cleanup EXIT
trap 'exit 1' INT TERM HUP

fail()
{
	echo "FAIL: $*"
	exit 1
}
skip()
{
	echo "skip: $*"
	exit 77
}
c() { timeout 60 "$computer" "$@"; }

# same WHAT GOT WANTED
same()
{
	checks=$((checks + 1))
	[ "$2" = "$3" ] && return
	echo "FAIL: $1"
	diff <(printf '%s\n' "$3") <(printf '%s\n' "$2") | sed 's/^</wanted/; s/^>/got   /'
	exit 1
}
# has WHAT TEXT PATTERN: an extended regular expression
has()
{
	checks=$((checks + 1))
	grep -qE -- "$3" <<<"$2" && return
	fail "$1: no /$3/ in: $2"
}
# ok COMMAND...: exit status 0
ok()
{
	checks=$((checks + 1))
	"$@" || fail "status $? of: $*"
}
# refused STATUS PATTERN COMMAND...: that status, nothing on standard output, and one line on standard
# error that starts with "computer: ", matches, and says what to do.
refused()
{
	local want=$1 pattern=$2 got err
	shift 2
	checks=$((checks + 1))
	"$@" >"$dir/.out" 2>"$dir/.err"
	got=$?
	err=$(cat "$dir/.err")
	[ "$got" = "$want" ] || fail "status $got, not $want, of: $* ($err)"
	[ -s "$dir/.out" ] && fail "$* printed something though it failed: $(head -c 200 "$dir/.out")"
	[ "$(wc -l <"$dir/.err")" = 1 ] || fail "not one line of error from: $* ($err)"
	grep -q '^computer: .*;' "$dir/.err" || fail "not 'computer: WHAT: WHY; what to do': $err"
	grep -qE -- "$pattern" "$dir/.err" || fail "no /$pattern/ in: $err"
}
json() { python3 -c 'import json, sys; d = json.load(sys.stdin); print(eval(sys.argv[1], {"d": d}))' "$1"; }

can_mount()
{
	[ "$(id -u)" = 0 ] || [ -u "$(command -v fusermount3)" ] || return 1
	(: <>/dev/fuse) 2>/dev/null
}
need_mount() { can_mount || skip "/dev/fuse cannot be used here"; }
need_root() { [ "$(id -u)" = 0 ] || skip "needs root"; }
# What the files are, whoever looks: a line for each.
fingerprint()
{
	(cd "$1" && find . -mindepth 1 -printf '%P %y %m %s %l\n' | sort; find . -type f -print0 | sort -z | xargs -0 -r sha256sum)
}
# Nobody owns a workspace any more: a mount's process needs a moment to let go.
wait_asleep()
{
	local i
	for ((i = 0; i < 200; i++)); do
		[ "$(c ls --json | json "[w['awake'] for w in d if w['name'] == '$1']")" = '[False]' ] && return
		sleep 0.05
	done
	fail "$1 is still awake"
}
