#!/usr/bin/env bash
# cli_exec_test - exec: streams, status, signals, time-outs, the live files.
. "$(dirname "$0")/lib.sh"
need_mount

ok c create w
echo one | ok c fs w put - one
c exec w -- true 2>err || {
	grep -qE 'permitted|namespace|cgroup|denied' err && skip "no container here: $(cat err)"
	fail "$(cat err)"
}
x() { c exec w "$@"; }
same "the live files" "$(x -- cat one)" one
same "the working directory" "$(x -- pwd)" /workspace
same "standard input" "$(echo hello | x -- tr a-z A-Z)" HELLO
same "standard error" "$(x -- sh -c 'echo oops >&2' 2>&1 >/dev/null)" oops
same "binary" "$(head -c 300000 "$computer" | x -- cat | cmp - <(head -c 300000 "$computer") && echo same)" same
for status in 0 1 2 77 255; do
	x -- sh -c "exit $status"
	same "status" $? $status
done
x -- sh -c 'kill -TERM $$'
same "ended by a signal" $? 143
x -- nosuchprogram 2>err
same "no such program" $? 127
x -- /etc 2>err
same "no program" $? 126
same "a file that it makes" "$(x -- sh -c 'echo made > made' && c fs w cat made)" made
same "environment" "$(x --env A=1 --env 'B=two words' -- sh -c 'echo $A $B')" "1 two words"
same "options of the program" "$(x ls -a one)" one
same "cwd" "$(x --cwd /tmp -- pwd)" /tmp
start=$SECONDS
refused 124 "too long" x --timeout 500ms -- sleep 30
[ $((SECONDS - start)) -lt 20 ] || fail "the time-out did not end it"
has "JSON" "$(x --json -- sh -c 'echo out; echo err >&2; exit 3')" '"status":3.*"stdout":"out\\n".*"stderr":"err\\n"'
same "no network" "$(x -- sh -c 'ls /sys/class/net 2>/dev/null | grep -v ^lo$; cat /proc/net/dev | tail -n +3 | grep -vc lo: || true' | tail -n 1)" 0
x -- sh -c 'touch /usr/x' 2>/dev/null && fail "the host's /usr was written"
x -- test -e "$computer" && fail "the host's files are seen"

# ^C reaches the program.
env --default-signal=INT timeout 60 "$computer" exec w -- sh -c 'trap "echo caught; exit 9" INT; echo ready; while :; do sleep 0.1; done' >out &
for ((i = 0; i < 200; i++)); do grep -q ready out && break; sleep 0.05; done
pkill -INT -P $!
wait $!
same "status after ^C" $? 9
same "the program got it" "$(tail -n 1 out)" caught

# Through an owner: the same.
need_root
mkdir mnt
ok c mount w mnt
same "through an owner" "$(x -- cat one)" one
x -- sh -c 'echo seen > both; exit 5'
same "status through an owner" $? 5
same "seen on the mount" "$(cat mnt/both)" seen
echo host >mnt/host
same "seen in the container" "$(x -- cat host)" host
ok c umount mnt
has "on record" "$(c audit w --op exec)" 'exec'
