#!/bin/bash
# zklock once: one run per slot over two hosts' cron, the winner killed half-way, what is recorded.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need_sandbox --tick 500ms sandbox

code 125 zklock --session-timeout 1300ms once --slot 10s job true
says '^zklock: this session of 1300ms'

# So long that none ends in the middle of the test.
slot=87600h

# A failure is CMD's own, and is not recorded; a success is.
code 3 zklock once --slot $slot fails sh -c 'exit 3'
code 0 zklock once --slot $slot --report "$work/report" fails echo ran
prints_only ran
file_matches "its report" report '"outcome": *"ran"'
code 0 zklock once --slot $slot --report "$work/report" fails echo again
prints_only ""
says_only ""
code 0 zklock -v once --slot $slot fails echo again
says 'was done in this slot already'
matches "it says so on a terminal" "$(on_terminal "zklock once --slot $slot fails echo again")" 'was done in this slot already'
file_matches "its report" report '"outcome": *"done"'

# The winner is killed half-way: who queued behind it in the slot runs it, when the winner's session has ended.
zklock --session-timeout 20s once --slot $slot dies -- sh -c "echo winner >>'$work/dies'; sleep 60" &
winner=$!
await "the winner at work" test -s "$work/dies"
zklock --session-timeout 20s once --slot $slot dies -- sh -c "echo second >>'$work/dies'" &
second=$!
await "the second in the queue" queued dies 2
kill -9 $winner
wait $winner 2>/dev/null
ends "the second's exit code" 0 "$second"
same "who ran" "$(tr '\n' ' ' <"$work/dies")" "winner second "
code 0 zklock once --slot $slot dies echo third
prints_only ""

# A job that zklock stopped, or that a signal to zklock asked to stop, did not finish, even when it exits with 0: the slot stays
# open for the next host. Of a signal to the job itself zklock knows nothing, and the exit code decides.
stopped() { # JOB: its slot is not recorded, and the report says why
    code 1 zklock once --status --slot $slot "$1"
    file_matches "$1: its report" report '"outcome": *"error", *"exit_code": *125.*"reason": *".*the slot is not recorded'
}
calm='trap "exit 0" TERM INT QUIT; echo $$ >"$0"; while :; do sleep 0.05; done'
# So long that its trap is set by then, however slowly it starts.
code 125 zklock once --slot $slot --max-run 10s --report "$work/report" too-long -- sh -c "$calm" "$work/begun.too-long"
says '"too-long": .* was stopped by --max-run: the slot is not recorded'
stopped too-long
code 125 zklock once --slot $slot --max-run 10s --report "$work/report" left -- bash -c "bash -c '$calm' '$work/begun.left' & exit 0"
stopped left
for signal in TERM INT QUIT; do
    background zklock once --slot $slot --report "$work/report" "by-$signal" -- sh -c "$calm" "$work/begun.$signal"
    await "the job that gets $signal" test -s "$work/begun.$signal"
    kill -"$signal" "$pid"
    ends "exit code of a job that got $signal" 125
    stopped "by-$signal"
done
zklock once --slot $slot itself -- sh -c "$calm" "$work/begun.itself" &
worker=$!
await "the job that somebody else ends" test -s "$work/begun.itself"
kill -TERM "$(cat "$work/begun.itself")"
ends "exit code of a job that somebody else ended" 0 "$worker"
code 0 zklock once --status --slot $slot itself

# What is recorded. Nothing is created by asking.
code 1 zklock once --status never
prints_only $'/locks/never: nothing is recorded\n/locks/never: nobody is at it'
code 1 zklock --json once --status --slot $slot never
field() { python3 -c 'import json, sys; print(json.dumps(json.load(open(sys.argv[1])).get(sys.argv[2], "missing")))' "$work/out" "$1"; }
for name in slot slot_ms recorded recorded_ms age_ms; do same "$name of no record" "$(field $name)" null; done
same "done, never run" "$(field "done")" false
before=$(now_ms)
code 0 zklock once --slot 2s@1s --slot 1s often true
code 0 zklock once --status often
utc='[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z'
prints "^/locks/often: last recorded slot $utc, at $utc, 00:0[0-9]:[0-9]{2} ago$"
prints '^/locks/often: nobody is at it$'
code 0 zklock --json once --status often
same "version" "$(field v)" 1
same "path" "$(field path)" '"/locks/often"'
same "no slot is due" "$(field due) $(field due_ms)" "null null"
same "done" "$(field "done")" true
same "a whole second" $(($(field slot_ms) % 1000)) 0
true_that "recorded since we began" test "$(field recorded_ms)" -ge $((before - 1))
same "the text is of that time" "$(date -u -d "$(tr -d '"' <<<"$(field recorded)")" +%s)" $(($(field recorded_ms) / 1000))

# A slot that began before the record, and one whose round time came after it.
code 0 zklock once --status --slot $slot fails
prints "^/locks/fails: slot $utc is done$"
last=$(zklock --json once --status often | grep -o '"slot_ms":[0-9]*' | cut -d: -f2)
missed() { zklock once --status --slot 1s often >"$work/out" || [ $? -ne 1 ]; }
not() { ! "$@"; }
await "a slot after $last that nobody runs" not missed
prints "^/locks/often: slot $utc is not done$"

# By round times: half an hour before the next one, the slot that is due is still the one behind us.
code 0 zklock once --slot 1h@0s hourly true
code 0 zklock once --status --slot 1h@0s hourly

# Who is at it.
gate "$work/go"
zklock once --slot $slot busy -- sh -c "echo >'$work/begun'; read -r line <'$work/go'" &
worker=$!
await "the job at work" test -s "$work/begun"
code 1 zklock once --status --slot $slot busy
prints "^/locks/busy: at it now: $me; 0 behind$"
code 1 zklock --json once --status busy
matches "who, as JSON" "$(field contenders)" "\"holds\": true.*\"pid\": $worker,"
echo >"$work/go"
wait $worker
code 0 zklock once --status --slot $slot busy

# What is no job.
if has_kazoo; then
    stranger "zk.create('/locks/permits', b'2', makepath=True)" # a semaphore that nobody uses: only its limit is there
    for words in "--status permits" "--slot $slot permits true"; do
        # shellcheck disable=SC2086
        code 125 zklock once $words
        says '/locks/permits: used as a semaphore, not as a job'
    done
fi

# A job with other jobs below it, and with folders that anybody may make, is a job.
for name in parent parent/daily parent/weekly parent/locks parent/leases; do code 0 zklock once --slot $slot $name -- true; done
for how in run 'elect --once'; do
    # shellcheck disable=SC2086
    code 125 zklock $how --delay-after-crash 1s parent true
    says '"parent": the data of the path is no release mark, .*; name another LOCK, or use this one as'
done
code 0 zklock once --status --slot $slot parent
code 0 zklock run --delay-after-crash 1s careful true
code 125 zklock once --slot $slot careful true
says '"careful": its data is not .*; name another LOCK, or use this one as'
code 1 zklock check parent
