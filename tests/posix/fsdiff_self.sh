#!/bin/sh
# fsdiff_self.sh - the differential test tests itself: two directories of one filesystem are equal.
set -eu
work=$(mktemp -d "${TMPDIR:-/tmp}/fsdiff.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/a" "$work/b"
chmod 755 "$work"
"$1" --steps 1000 --threads 2 "$work/a" "$work/b"
