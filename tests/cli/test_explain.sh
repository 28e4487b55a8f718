#!/bin/bash
# explain: a clean release, a holder that was killed, a lease that was lost; by record, by report, by both, by neither.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need_sandbox sandbox

record=$work/record
mkfifo "$work/end"
background zklock watch --record "$record" shop >"$work/stream"
watcher=$pid
await "the record" lines "$record" 2
in_record() { grep -q "\"pid\":$1,$2" "$record"; }

# One that releases, and reports.
zklock run --report "$work/clean" shop sh -c "echo up >$work/up; read -r line; exit 7" <>"$work/end" &
clean=$!
await "the first one in the record" in_record "$clean" ""
# One that is killed, both processes; one that waits behind it.
background zklock --session-timeout 4s run --report "$work/killed" shop sleep 600
killed=$pid
await "the second one in the record" in_record "$killed" ""
background zklock --session-timeout 4s run --report "$work/lost" shop sleep 600
lost=$pid
await "the third one in the record" in_record "$lost" ""
echo >"$work/end"
wait "$clean"
same "exit code of the first one" $? 7
await "the second one as holder" grep -q "\"contenders\":\[{\"position\":0,\"holds\":true,[^}]*\"pid\":$killed," "$record"
kill -9 "$killed"
wait "$killed" 2>/dev/null
# The third one is granted when the session of the second one has ended; then it is stopped for longer than its lease.
await "the third one as holder" grep -q "\"contenders\":\[{\"position\":0,\"holds\":true,[^}]*\"pid\":$lost," "$record"
kill -STOP "$lost"
await "the end of the third one in the record" sh -c "tail -1 '$record' | grep -q '\"contenders\":\[\]'"
kill -CONT "$lost"
wait "$lost"
same "exit code of the one that lost" $? 120
code 0 zklock run --report "$work/other" other true
kill -INT "$watcher"
wait "$watcher"

# part TOKEN-LINE: the lines about a contender in $work/out
about() { sed -n "/^token [0-9]*  .*:$1 /,/^[^ ]/p" "$work/out" | head -4; }

# By the record alone: the killed one and the stopped one are known, how the first one ended is not.
code 0 zklock explain --record "$record" shop
same "the lock" "$(head -1 "$work/out")" /locks/shop
matches "the first one" "$(about "$clean")" '^  queued   at [-0-9T:]+Z, nobody ahead$'
matches "the end of the first one" "$(about "$clean")" '^  ended    at [-0-9T:]+Z: released or lost: nobody saw which'
matches "whom the second one waited for" "$(about "$killed")" "^  queued   at .*, with 1 ahead; waited for token [0-9]+ \($(hostname):$clean "
matches "whom the third one waited for" "$(about "$lost")" "^  queued   at .*, with 2 ahead; waited for token [0-9]+ \($(hostname):$killed "
matches "the grant" "$(about "$killed")" '^  granted  at [-0-9T:]+Z$'
matches "the killed one" "$(about "$killed")" '^  ended    .*: KILLED: its process was gone at [-0-9T:]+Z, its znode [0-9]+\.[0-9] s later with its session'
matches "the stopped one" "$(about "$lost")" '^  ended    .*: LOST: its process was stopped from [-0-9T:]+Z on'
matches "the last loss" "$(grep '^last loss' "$work/out")" "^last loss: token [0-9]+, $(hostname):$lost .*: LOST: its process was stopped"
matches "what is not known" "$(grep '^not known' "$work/out")" 'How 1 holders ended'
matches "what is not known" "$(grep '^not known' "$work/out")" 'What happened before [-0-9T:]+Z'

# With the reports: CMD's exit code, and why the lock was lost, in the words of that run.
code 0 zklock explain --record "$record" --report "$work/clean" --report "$work/lost" --report "$work/other" shop
matches "a report of another lock" "$(cat "$work/err")" 'this is about /locks/other and was left out'
matches "the first one, reported" "$(about "$clean")" "^  ended    at .*: released; CMD's exit code was 7\$"
matches "the lost one, reported" "$(about "$lost")" '^  ended    at .*: LOST: "shop": lost while it was held: the lease ended'
same "all are told once" "$(grep -c '^token' "$work/out")" 3
if grep -q 'How [0-9]* holders' "$work/out"; then bad "an end is still said to be unknown"; else ok; fi

# By the reports alone, without servers: what the rest was is not known, and is said.
code 0 env ZKLOCK_SERVERS=127.0.0.1:1 zklock --json explain --report "$work/lost" shop
python3 - "$work/out" "$lost" <<'PY' || bad "the JSON of a report alone"
import json, sys
told = json.load(open(sys.argv[1]))
only, = told["contenders"]
assert told["v"] == 1 and told["path"] == "/locks/shop" and told["now"] is None, told
assert ":%s (" % sys.argv[2] in only["who"] and only["end"] == "reported" and only["report"]["outcome"] == "lost", only
assert only["queued_ms"] <= only["granted_ms"] <= only["ended_ms"], only
assert told["last_loss"] == only
assert any("no answer from" in text for text in told["unknown"]) and any("ZooKeeper keeps nothing" in text for text in told["unknown"]), told["unknown"]
PY
matches "why, on standard error" "$(cat "$work/err")" 'no answer from 127.0.0.1:1'
code 122 zklock -s 127.0.0.1:1 explain shop
# By what stands there now: who holds, who waits; a process that is gone or stopped is told before its session ends.
background zklock --session-timeout 20s run shop sleep 600
holder=$pid
await "a holder" queued shop 1
background zklock run shop true
waiter=$pid
await "a waiter" queued shop 2
code 0 zklock explain shop
matches "who holds" "$(about "$holder")" '^  state    holds now$'
matches "who waits" "$(about "$waiter")" '^  state    waits now$'
matches "for whom" "$(about "$waiter")" "waited for token [0-9]+ \($(hostname):$holder "
kill -STOP "$holder"
code 0 zklock explain shop
matches "a stopped holder" "$(about "$holder")" '^  state    its process is stopped: kill -CONT'
kill -9 "$holder"
wait "$holder" 2>/dev/null
code 0 zklock explain shop
matches "a dead holder" "$(about "$holder")" '^  state    its process is gone: its znode ends with its session'
kill "$waiter"
wait "$waiter"
code 0 zklock explain nothing
matches "nothing" "$(cat "$work/out")" '^nothing is known of any contender$'
matches "no loss" "$(cat "$work/out")" '^last loss: none is known$'

# Files that are something else.
echo '{"v":1}' >"$work/bad"
code 125 zklock explain --report "$work/bad" shop
matches "no report" "$(cat "$work/err")" "no report; 'zklock run --report FILE' writes one"
code 125 zklock explain --report "$record.none" shop
matches "no file" "$(cat "$work/err")" 'No such file'
code 125 zklock explain --record "$work/bad" shop
matches "no record" "$(cat "$work/err")" 'no record'
