#!/bin/bash
# zklock once: one run per slot over two hosts' cron, the winner killed half-way, what is recorded.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need_sandbox --tick 500ms sandbox

code 125 zklock once job true
code 125 zklock once --slot 100ms job true
code 125 zklock once --slot 10s@10s job true
code 125 zklock once --slot 10s job
code 125 zklock once --slot 10s

# So long that none ends in the middle of the test.
slot=87600h

# A failure is CMD's own, and is not recorded; a success is.
code 3 zklock once --slot $slot fails sh -c 'exit 3'
code 0 zklock once --slot $slot --report "$work/report" fails echo ran
same "what it said" "$(cat "$work/out")" ran
matches "its report" "$(cat "$work/report")" '"outcome": *"ran"'
code 0 zklock once --slot $slot --report "$work/report" fails echo again
same "nothing ran again" "$(cat "$work/out")" ""
matches "it says so" "$(cat "$work/err")" 'was done in this slot already'
matches "its report" "$(cat "$work/report")" '"outcome": *"done"'

# Two daemons fire in the same second, one of them 300 ms late, over three slots of four seconds: one run for each. A slot
# reaches two seconds to each side, which a busy machine may be late by.
fire() { # HOST DELAY: at each round time
    local host=$1 delay=$2 slot=4000 now next
    for _ in 1 2 3; do
        now=$(now_ms)
        next=$(((now / slot + 1) * slot + delay))
        while [ "$(now_ms)" -lt $next ]; do moment; done
        zklock -q --session-timeout 4s --tick 500ms once --slot 4s cron -- sh -c "echo $((next / slot)) $host >>'$work/runs'"
    done
}
fire a 0 &
first=$!
fire b 300
wait $first
same "runs in three slots" "$(sort "$work/runs" | cut -d' ' -f1 | uniq -c | awk '$1 != 1' | wc -l)" 0
true_that "at least three slots ran ($(wc -l <"$work/runs"))" test "$(wc -l <"$work/runs")" -ge 3

# The winner is killed half-way: who queued behind it in the slot runs it, when the winner's session has ended.
zklock --session-timeout 4s --tick 500ms once --slot $slot dies -- sh -c "echo winner >>'$work/dies'; sleep 60" &
winner=$!
await "the winner at work" test -s "$work/dies"
zklock --session-timeout 4s --tick 500ms once --slot $slot dies -- sh -c "echo second >>'$work/dies'" &
second=$!
await "the second in the queue" queued dies 2
kill -9 $winner
wait $winner 2>/dev/null
wait $second
same "the second's exit code" $? 0
same "who ran" "$(tr '\n' ' ' <"$work/dies")" "winner second "
code 0 zklock once --slot $slot dies echo third
same "it is done now" "$(cat "$work/out")" ""
