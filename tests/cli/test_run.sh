#!/bin/bash
# zklock run: exit codes, what CMD gets, what it writes, the time it waits.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need_sandbox sandbox

# exit code | words after "zklock run"
while IFS='|' read -r wanted words; do
    eval "set -- $words"
    code "$wanted" zklock run "$@"
done <<'TABLE'
0|x true
1|x false
0|x -- true
3|x -- sh -c 'exit 3'
255|x -- sh -c 'exit 255'
120|x -- sh -c 'exit 120'
9|-c 'exit 9' x
9|-c 'exit 9' x --
143|x -- sh -c 'kill -TERM $$'
137|x -- sh -c 'kill -KILL $$'
129|x -- sh -c 'kill -HUP $$'
127|x -- /no/such/command
126|x -- /
0|/an/absolute/path true
0|deep/er/name true
0|-w 1m x true
0|-n x true
0|-w 0 x true
0|--grace 1s x true
125|bad/../path true
125|/ true
125|/a//b true
125|$'ctl\001' true
TABLE
# CMD ignores TERM from its birth: a trap of its own may come later than that.
code 0 env --ignore-signal=CHLD zklock run --hook true x true
code 137 env --ignore-signal=TERM zklock run --max-run 200ms --grace 200ms x sleep 60

# Nothing after LOCK is ours.
code 0 zklock run x echo -n -w 5 --help -- --version
prints_only "-w 5 --help -- --version"
code 127 zklock run x -n true
says '-n: No such file or directory; options of ours come before LOCK'
code 0 zklock run -- x echo -n plain
prints_only "plain"

# Standard files are CMD's.
same "standard input" "$(printf 'one\ntwo' | zklock run x cat)" "$(printf 'one\ntwo')"
code 0 zklock run x sh -c 'echo out; echo err >&2'
prints_only "out"
says_only "err"
exec 7>"$work/seven"
zklock run x sh -c 'echo seven >&7'
exec 7>&-
file_is "another descriptor" seven "seven"
# A reader of CMD's output sees its end although CMD closes it long before it ends.
same "an output closed early" "$(zklock run x sh -c 'echo gone; exec >&- ; :' | cat)" "gone"

# Without standard files nothing is mistaken for one.
same "no standard files" "$(zklock run x sh -c 'echo fine' 0<&- 2>&-)" fine
code 0 bash -c 'exec <&- >&- 2>&-; zklock run x true'
code 125 bash -c 'zklock ls x >&-'

# Environment: ours wins over an inherited one.
code 0 env ZKLOCK_TOKEN=old zklock run demo env
for name in PATH=/locks/demo "NODE=/locks/demo/_c_[-0-9a-f]{36}-lock-[0-9]{10}" "TOKEN=[1-9][0-9]*" "SERVERS=$ZKLOCK_SERVERS"; do
    prints "^ZKLOCK_$name\$"
done
same "one token" "$(grep -c ^ZKLOCK_TOKEN= "$work/out")" 1
first=$(zklock run demo sh -c 'echo $ZKLOCK_TOKEN')
second=$(zklock run demo sh -c 'echo $ZKLOCK_TOKEN')
true_that "tokens rise: $first, $second" [ "$second" -gt "$first" ]
same "an ignored signal stays ignored" "$(trap '' HUP; zklock run x sh -c 'kill -HUP $$; echo alive')" alive

# Waiting for somebody who holds.
hold busy
code 124 zklock -q run -n busy true
says_only ""
code 0 zklock run -E 0 -n busy true
code 255 zklock run -E 255 -n busy true
# took FROM TO CODE ARG...: zklock ends with CODE after that many milliseconds. -w bounds the connection, too: a slow server makes another code.
took() {
    local from=$1 to=$2 begin took got=0
    begin=$(now_ms)
    zklock "${@:4}" 2>/dev/null || got=$?
    took=$(($(now_ms) - begin))
    true_that "$from ms took $took ms" [ "$took" -ge "$from" ]
    { [ "$got" -eq "$3" ] && [ "$took" -lt "$to" ]; } || ! echo "$from ms took $took ms, exit code $got"
}
true_that "-w 1s is never over in time" thrice took 1000 8000 7 run -E 7 -w 1s busy true
await "the queue to be as before" queued busy 1

# A folder of PATH that must not be looked into, or a folder of CMD's name: still not found.
mkdir -p "$work/bin/zklock-no-such-command"
code 127 env PATH="$work/bin:$PATH" zklock run x zklock-no-such-command
says 'zklock-no-such-command: No such file or directory'

# Reports.
report() { zklock run --report "$work/report" "$@" 2>/dev/null; cat "$work/report"; }
matches "busy" "$(report -n busy true)" '"v":1,"outcome":"busy","exit_code":124,.*"node":null,"token":null,"child":\{"exit":null,"signal":null\}.*"held_ms":null.*"reason":"\\"busy\\" is held'
kill "$holder"
code 3 zklock -v run x sh -c 'exit 3'
says '^zklock: "x": granted after [0-9]+ms, token [0-9]+, znode /locks/x/_c_.*-lock-[0-9]{10}$'
says '^zklock: "x": given back after [0-9]+ms, exit code 3$'
matches "ran" "$(report x sh -c 'exit 3')" '"outcome":"ran","exit_code":3,"lock":"x","path":"/locks/x","node":"/locks/x/_c_.*"token":[1-9].*"exit":3,"signal":null'
matches "killed" "$(report x sh -c 'kill -9 $$')" '"outcome":"ran","exit_code":137,.*"exit":null,"signal":9'
matches "not found" "$(report x zklock-no-such-command)" '"outcome":"error","exit_code":127'
matches "not found, and no UTF-8" "$(report x $'/no/\xff')" '"exit_code":127,.*"reason":"/no/\?: '
matches "too long" "$(report --max-run 10ms x sleep 600)" '"exit_code":143,.*"reason":".*--max-run'
matches "no hook" "$(report --hook /nonexistent x true)" '"error","exit_code":125,.*"wait_ms":[0-9]{1,4},.*"reason":"--hook'
mkdir "$work/gone"
code 3 zklock run --report "$work/gone/report" x sh -c 'rmdir "$0"; exit 3' "$work/gone"
says 'report.*No such file'
mkfifo "$work/pipe"
python3 -c 'import os, select, sys
pipe = os.open(sys.argv[1], os.O_RDONLY | os.O_NONBLOCK)
print("reads", flush=True)
poll = select.poll()
poll.register(pipe)
poll.poll() # something, or the end
print(os.read(pipe, 65536).decode())' "$work/pipe" >"$work/read" &
reader=$!
await "a reader" lines "$work/read" 1
code 0 zklock run --report "$work/pipe" x true
ends "the reader of a report" 0 $reader
file_matches "a report through a pipe" read '"outcome":"ran"'
code 125 zklock run --report "$work/pipe" x true
says 'No such device or address; start what reads it first'
code 0 bash -c 'echo kept; zklock run --report /dev/stdout x true'
prints kept
code 125 zklock run --report /dev/fd/0 x true </dev/null
matches "unreachable" "$(zklock -s 127.0.0.1:1 run --report /dev/stdout -w 200ms x true 2>/dev/null)" '"outcome":"unreachable","exit_code":122'

# Metrics: a whole file at any time, for a collector that is another user; old ones are replaced.
has() { grep -q "^$1\$" "$work/m.prom"; }
echo old >"$work/m.prom"
export -f has
code 0 zklock run --metrics "$work/m.prom" m.1 bash -c "work=$work; has 'zklock_held{session=\"m.1\"} 1'"
true_that "metrics after the end" has 'zklock_hold_seconds_count{session="m.1"} 1'
same "what metrics leave behind" "$(cd "$work" && echo m.prom*)" m.prom
same "who may read metrics" "$(stat -c %a "$work/m.prom")" 644
chmod 640 "$work/m.prom"
code 0 zklock run --metrics "$work/m.prom" 'a} b' true
same "who may read metrics that were hidden" "$(stat -c %a "$work/m.prom")" 640
true_that "metrics of any name" has 'zklock_command_stops_total{session="a} b"} 0'
hold m.2
zklock run --metrics "$work/m.prom" m.2 true &
pid=$!
await "metrics of one that waits" has 'zklock_waiting{session="m.2"} 1'
kill "$holder" "$pid"
wait "$holder" "$pid"
code 125 zklock run --metrics /nonexistent/m x touch "$work/ran"
true_that "CMD was not run" [ ! -e "$work/ran" ]

# -w bounds everything, the connection included.
true_that "-w 500ms without a server is never over in time" thrice took 500 8000 122 -s 127.0.0.1:1 run -w 500ms x true

# Access refused.
secret ann digest:ann:secret
secret ben digest:ben:secret
code 0 zklock --auth-file "$work/ann" run private true
code 121 zklock --auth-file "$work/ben" run private true
says '"private": .* does not permit it .*; --auth-file has to give credentials'
code 121 zklock run private true
