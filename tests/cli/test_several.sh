#!/bin/bash
# zklock run --and: several locks, all or none.
# shellcheck source=tests/cli/lib_jobs.sh
. "$(dirname "$0")/lib_jobs.sh"

free() { code 1 zklock check "$1"; }

# What CMD is told is of the first; the token is that of each.
# shellcheck disable=SC2016 # for the inner shell
code 0 zklock run --and b -a c a bash -c 'echo "$ZKLOCK_PATH" "$ZKLOCK_NODE"; zklock --json ls a b c | grep -c "\"token\":$ZKLOCK_TOKEN,.*\"holds\"\|\"holds\":true.*\"token\":$ZKLOCK_TOKEN,"'
matches "path and znode" "$(head -n 1 "$work/out")" '^/locks/a /locks/a/_c_[-0-9a-f]{36}-lock-[0-9]{10}$'
same "locks held with that token" "$(tail -n 1 "$work/out")" 3
for lock in a b c; do free $lock; done
code 3 zklock run --and b a sh -c 'exit 3'

# All or none: somebody else holds the second one.
start other b
await "the other one" said "in other"
code 124 zklock run -n --and b a touch "$work/ran"
matches "what it says" "$(cat "$work/err")" 'is held by somebody else, or one of those that --and names'
code 124 zklock run -w 300ms --and b a touch "$work/ran"
true_that "CMD does not run without the second lock" test ! -e "$work/ran"
free a
until_seen '/locks/b": 1 ahead; held by' 'zklock run --and b a true'
free a
start both --and b a
await "a place at both" queued b 2
same "in the first queue it stands alone" "$(zklock ls a | grep -c '^  holds ')" 1
# Who comes later at either waits behind it.
start late a
await "a late one at the first" queued a 2
same "none of them runs" "$(log)" "in other,"
let_go other
await "both locks" said "in both"
code 0 zklock check a
code 0 zklock check b
same "the late one waits" "$(log)" "in other,out other,in both,"
let_go both
await "the late one" said "in late"
let_go late
wait
same "order" "$(log)" "in other,out other,in both,out both,in late,out late,"
free a
free b

# Named in opposite orders, again and again: they never wait for each other, and never run together.
: >"$work/log"
again() { # NAME LOCK LOCK2
    for _ in 1 2 3 4 5; do
        zklock run -w 60s --and "$3" "$2" sh -c "echo in >>'$work/log'; echo out >>'$work/log'" || echo "failed $1" >>"$work/log"
    done
}
again one a b &
again two b a &
wait
same "ten runs, one after the other" "$(paste -sd' ' "$work/log")" "$(for _ in {1..10}; do printf 'in out '; done | sed 's/ $//')"
free a
free b

# One that is in use as something else is named.
start slot -j 2 slots
await "a slot" said "in slot"
code 125 zklock run -n --and slots a true
matches "a semaphore" "$(cat "$work/err")" 'in use as a semaphore'
free a
let_go slot
wait
