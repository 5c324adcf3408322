#!/bin/sh
# fsdiff_mount.sh - FSDIFF MOUNT: our mount, vfs alone and tmpfs, for some seeds of today.
#
# FSDIFF_STEPS and FSDIFF_SEEDS make it longer: hours on demand.
set -eu
fsdiff=$1 mount=$2
steps=${FSDIFF_STEPS:-4000} seeds=${FSDIFF_SEEDS:-3}
work=$(mktemp -d "${TMPDIR:-/tmp}/fsdiff.XXXXXX")
trap 'umount "$work/tmpfs" 2>/dev/null || true; rm -rf "$work"' EXIT
mkdir "$work/tmpfs"
mount -t tmpfs -o mode=755 tmpfs "$work/tmpfs" || exit 77
chmod 755 "$work"
seed=${FSDIFF_SEED:-$(date +%s)}
for i in $(seq "$seeds"); do
	mkdir "$work/tmpfs/$i" "$mount/$i"
	"$fsdiff" --seed "$((seed + i))" --steps "$steps" "$work/tmpfs/$i" "$mount/$i" \
		"sys:$work/$i.db"
	rm -rf "$work/tmpfs/$i" "${mount:?}/$i"
done
