#!/usr/bin/env bash
# cli_signals_test - ^C in the middle leaves nothing half-done.
. "$(dirname "$0")/lib.sh"

ok c create w
echo old | ok c fs w put - file
# A stream that never ends; the file is large enough to be on its way when it is cancelled.
mkfifo stream
# A writer that goes on to hold the stream open.
feed()
{
	(cat "$1"; exec sleep 30) >stream &
	feeder=$!
}
head -c 3000000 /dev/zero >zeros
feed zeros
"$computer" fs w put - file <stream &
pid=$!
sleep 0.7
kill -TERM $pid
wait $pid
status=$?
kill $feeder
[ $status = 130 ] || fail "status $status after a signal"
checks=$((checks + 1))
same "the old content" "$(c fs w cat file)" old
same "nothing beside it" "$(c fs w ls -a)" file
has "whole" "$(c check w)" 'as it should be'

# An import that is cancelled leaves no workspace.
tar -C "$source_dir" -cf - src | head -c 300000 >part.tar
feed part.tar
"$computer" import - half <stream &
pid=$!
sleep 0.7
kill -TERM $pid
wait $pid
[ $? -ne 0 ] || fail "a cancelled import says it was done"
kill $feeder
same "no half workspace" "$(c ls --json | json '[w["name"] for w in d]')" "['w']"

# Following the audit ends well.
"$computer" audit w --follow >log &
pid=$!
sleep 0.5
kill -INT $pid 2>/dev/null || true
kill -TERM $pid 2>/dev/null || true
wait $pid
[ -s log ] || fail "nothing was followed"
checks=$((checks + 1))
