#!/bin/sh
# posix_compare - run posix_suite on a reference directory and on another one, and compare.
#
#   posix_compare.sh SUITE REFERENCE-DIR DIR DIFFERENCES [PREFIX]
#
# Every line must be the same, or its name be listed in DIFFERENCES ("NAME reason", one a line; a
# name may end in *). A listed difference that is not there any more is a failure too: the list
# stays true. Exit status 0: the same; 1: not; 77: the suite could not run.
set -eu

suite=$1 reference=$2 dir=$3 differences=$4 prefix=${5-}
[ "$(id -u)" = 0 ] || { echo "posix_compare: needs root" >&2; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/posix-compare.XXXXXX")
trap 'rm -rf "$work"' EXIT

run() { # DIR FILE: the results, without what tells nothing
	status=0
	timeout 300 "$suite" "$1" ${prefix:+"$prefix"} >"$work/raw" || status=$?
	[ "$status" -le 1 ] || { echo "Bail out! posix_suite on $1: status $status"; exit 1; }
	grep -E '^(not )?ok ' "$work/raw" >"$2"
	grep -q '^1\.\.[1-9]' "$work/raw" || { echo "Bail out! posix_suite on $1: no plan"; exit 1; }
}
run "$reference" "$work/reference"
run "$dir" "$work/other"

awk -v list="$differences" '
	function name_of(line) {
		sub(/^(not )?ok /, "", line)
		sub(/:? .*/, "", line)
		sub(/:$/, "", line)
		return line
	}
	function listed(name,   i) {
		for (i = 1; i <= count; i++) {
			if (pattern[i] == name || (pattern[i] ~ /\*$/ &&
			    index(name, substr(pattern[i], 1, length(pattern[i]) - 1)) == 1)) {
				used[i] = 1
				return 1
			}
		}
		return 0
	}
	BEGIN {
		while ((getline line < list) > 0)
			if (line !~ /^#/ && split(line, words, " ") > 1)
				pattern[++count] = words[1]
	}
	FNR == NR { reference[name_of($0)] = $0; next }
	{
		name = name_of($0)
		total++
		if (reference[name] == $0) {
			same++
		} else if (listed(name)) {
			known++
			print "# listed: " name
		} else {
			bad++
			print "# reference: " reference[name]
			print "# here:      " $0
			print "not ok " name
		}
		delete reference[name]
	}
	END {
		for (name in reference) {
			bad++
			print "not ok " name ": did not run here"
		}
		for (i = 1; i <= count; i++)
			if (!used[i] && prefix == "") {
				bad++
				print "not ok " pattern[i] ": listed as a difference, but there is none"
			}
		print "# " total " cases: " same + 0 " the same, " known + 0 " listed differences, " bad + 0 " others"
		if (bad)
			exit 1
		print "ok the same results"
		print "1..1"
	}' prefix="$prefix" "$work/reference" "$work/other"
