#!/bin/bash
# zklock run -r, -j and --and: many readers or one other; K at a time; several locks, all or none.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need_sandbox sandbox

log() { cut -d' ' -f1,2 "$work/log" | tr '\n' ','; }
touch "$work/log"

# Two readers together; a writer behind them.
start r1 -r x
await "the first reader" said "in r1"
start r2 -r x
await "the second reader" said "in r2"
start w x
await "the writer to queue" queued x 3
same "who holds" "$(zklock ls x | grep -c '^  holds .* read ')" 2
code 124 zklock run -n -r x true
code 124 zklock run -n x true
let_go r1
let_go r2
await "the writer" said "in w"
let_go w
wait
same "order" "$(log | sed 's/out r2,out r1/out r1,out r2/')" "in r1,in r2,out r1,out r2,in w,out w,"
file_matches "a reader's znode" log '^in r1 [1-9][0-9]* /locks/x/_c_[-0-9a-f]{36}-__READ__[0-9]{10}$'

# Two at a time, in the order they came.
: >"$work/log"
start a -j 2 y
await "a" said "in a"
start b -j 2 y
await "b" said "in b"
start c -j 2 y
await "c to queue" queued y/locks 1
code 124 zklock run -n -j 2 y true
says 'no slot is free'
code 0 zklock check y
code 125 zklock run -n -r y true
says 'the path is in use as a semaphore.*; name another LOCK, or use this one as the others do'
let_go b
await "c" said "in c"
let_go a
let_go c
wait
same "order of slots" "$(log | cut -d, -f1-4)" "in a,in b,out b,in c"
file_matches "a slot's znode" log '^in a [1-9][0-9]* /locks/y/leases/_c_[-0-9a-f]{36}-lease-[0-9]{10}$'
code 1 zklock check y

# A slot and a reader's share are stopped in time as a lock is.
for how in -r "-j 1"; do
    # shellcheck disable=SC2086
    background zklock run $how stopped bash -c "trap '' TERM; echo \$\$ >$work/pid; while :; do sleep 1; done"
    await "CMD" lines "$work/pid" 1
    kill -STOP "$pid"
    await "CMD to die under '$how'" gone "$(cat "$work/pid")"
    ended_by CONT "exit code under '$how'" 120
    rm "$work/pid"
done

# A directory of locks is no semaphore; a queue of several kinds.
hold team/first
run_as reader -r team/second
reader=$pid
up reader
code 0 zklock ls team
same "ls of a directory" "$(grep -o '^/.*' "$work/out" | tr '\n' ' ')" "/locks/team/first /locks/team/second "
code 0 bash -c 'zklock watch team | head -n 2'
same "watch of a directory" "$(grep -c '"path":"/locks/team/\(first\|second\)"' "$work/out")" 2
zklock run team/second true &
writer=$!
await "a writer behind the reader" queued team/second 2
finds 0 "^ok   /locks/team/second: readers and plain locks in one queue: Curator's InterProcessMutex does not see readers" zklock doctor
if has_kazoo; then
    stranger "zk.Lock('/locks/mixed').acquire()"
    zklock run mixed true &
    await "a waiter behind kazoo" queued mixed 2
    finds 0 "^ok   /locks/mixed: kazoo's locks and others in one queue: kazoo sees only its own, unless" zklock doctor
fi
[ -z "${stranger:-}" ] || kill "$stranger"
finds 0 '' zklock -q doctor
prints_only "" # but what is bad
kill "$holder" "$reader"
wait "$holder" "$reader" "$writer"
run_as permit -j 2 permits
up permit
code 0 bash -c 'zklock watch permits | head -n 1'
prints '"path":"/locks/permits/leases","contenders":\[\{'
code 0 zklock ls permits
prints ' 0x[1-9a-f][0-9a-f]* +lease '
kill "$pid"
wait "$pid" || true # by our signal

# --- several locks ------------------------------------------------------------------------------------------------------
: >"$work/log"
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
says 'is held by somebody else, or one of those that --and names'
code 124 zklock run -w 10s --and b a touch "$work/ran"
true_that "CMD does not run without the second lock" test ! -e "$work/ran"
free a
until_seen '/locks/b": 1 ahead; held by' 'zklock run --and b a true'
free a
start both --and b a
await "a place at both" queued b 2
same "in the first queue it stands alone" "$(zklock ls a | grep -c '^  holds ')" 1
let_go other
await "both locks" said "in both"
code 0 zklock check a
code 0 zklock check b
let_go both
wait
same "order" "$(log)" "in other,out other,in both,out both,"
free a
free b

# One that is in use as something else is named.
start slot -j 2 slots
await "a slot" said "in slot"
code 125 zklock run -n --and slots a true
says '^zklock: "/locks/slots": the path is in use as a semaphore'
free a
let_go slot
wait
