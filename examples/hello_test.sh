#!/bin/sh
# hello_test.sh HELLO - the example does what its page says, and a second run says why it cannot.
set -eu
hello=$1
dir=$(mktemp -d "${TMPDIR:-/tmp}/hello-test-XXXXXX")
trap 'rm -rf "$dir"' EXIT
export COMPUTER_HOME="$dir" XDG_RUNTIME_DIR="$dir"

"$hello" w >"$dir/out" || { cat "$dir/out"; exit 1; }
cat "$dir/out"
grep -q '^  greeting.txt, 5 bytes$' "$dir/out"
grep -q '^restored: hello, world$' "$dir/out"
grep -q '^no container on this host: ' "$dir/out" ||
	{ grep -q '^HELLO, WORLD$' "$dir/out" && grep -q '^  LOUD.txt, 13 bytes$' "$dir/out"; }
if "$hello" w 2>"$dir/err"; then
	echo "created twice"
	exit 1
fi
grep -q "there is a workspace 'w' already" "$dir/err"
