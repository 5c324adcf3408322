#!/usr/bin/env bash
# demo_test - `make demo` does what it says, and leaves nothing behind.
. "$(dirname "$0")/lib.sh"
need_mount
need_root
for program in git pandoc groff meson; do
	command -v $program >/dev/null || skip "$program is not installed"
done
mkdir tmp
TMPDIR=$dir/tmp timeout 280 "$source_dir/tools/demo" "$computer" >log 2>&1 || {
	tail -n 60 log
	fail "the demo failed"
}
tail -n 5 log
has "it got to its end" "$(cat log)" '^Done'
same "nothing left in TMPDIR" "$(ls -A tmp)" ""
# Of its own: other tests mount and unmount beside it.
same "nothing left mounted" "$(awk -v d="$dir/tmp" 'index($2, d) == 1 { print $2 }' /proc/mounts)" ""
