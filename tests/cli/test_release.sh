#!/bin/bash
# zklock release --force: shows whom, asks, removes exactly that one; the removed holder stops its CMD and says 120.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need_sandbox sandbox

# Not without a word: no terminal, no --yes.
run_as first x
first=$pid
up first
run_as second x
second=$pid
await "the waiter" queued x 2
code 125 zklock release --force x
true_that "nobody was removed" queued x 2

# A terminal: no is no, and so is anything but yes.
for answer in n '' maybe; do
    echo "$answer" | on_terminal "zklock release --force x; echo code \$?" >"$work/seen"
    file_matches "what it shows" seen "^  who      $me, holds for 00:0[0-9]:[0-9]{2}\$"
    file_matches "the session" seen '^  session  0x[0-9a-f]+$'
    file_matches "the znode" seen '^  znode    _c_[-0-9a-f]{36}-lock-[0-9]{10}$'
    file_matches "answer '$answer'" seen '^code 1$'
done
true_that "still nobody was removed" queued x 2

# Yes: the next one is granted, the removed one's CMD is stopped.
echo y | on_terminal "zklock release --force x; echo code \$?" >"$work/seen"
file_matches "answer y" seen '^code 0$'
ends "exit code of the removed holder" 120 "$first"
file_matches "why it was lost" first.err '"x": lost while it was held: our node was removed by somebody$'
true_that "its CMD is dead" gone "$(cat "$work/first.cmd")"
up second

# A waiter, by its token; then the holder, as JSON.
run_as third x
third=$pid
await "a waiter" queued x 2
token=$(token_of x)
code 1 zklock release --force --yes --token 1 x
says 'no contender has this token'
code 0 zklock release --force --yes --token "$token" x
says "^  who      $me, waits for"
true_that "the holder stays" [ ! -e "$work/third.cmd" ]
code 0 zklock --json release --force --yes x
prints '^\{"v":1,"event":"removed","path":"/locks/x","contender":\{"position":0,"holds":true,.*"pid":'
same "JSON is one line" "$(wc -l <"$work/out")" 1
ends "exit code of the second removed holder" 120 "$second"
up third # it has queued again
kill -TERM "$third"
wait "$third"

# Who waits for a slot stands in another folder than who has one: a token finds both.
run_as slot -j 1 slots
slot=$pid
up slot
await "its own place in the queue to be free" queued slots/locks 0
background zklock run -j 1 slots true
await "who waits for a slot" queued slots/locks 1
await "the znode of its permit" queued slots/leases 2
code 0 zklock --json check slots
same "who holds a slot" "$(grep -o '"holds":true' "$work/out" | wc -l)" 1
token=$(token_of slots/locks)
code 0 zklock release --force --yes --token "$token" slots
says "^  who      $me, "
true_that "the slot is still taken" zklock -q check slots
kill -TERM "$slot"
wait "$slot"
ends "exit code of who waited" 0

# One of several: a semaphore's permits, readers.
for how in "-j 2" -r; do
    path=several${how%% *}
    # shellcheck disable=SC2086
    run_as one $how "$path"
    one=$pid
    up one
    # shellcheck disable=SC2086
    run_as two $how "$path"
    up two
    code 125 zklock release --force --yes "$path"
    says 'held by several: say with --token'
    token=$(awk '$1 == "holds" { print $3 }' "$work/err" | head -1)
    code 0 zklock -q release --force --yes --token "$token" "$path"
    says_only ""
    ends "exit code of the removed one under '$how'" 120 "$one"
    ended_by TERM "exit code of the other one under '$how'" 143
done

# With --delay-after-crash a removal is no release: nobody is granted the lock at once. After a release everybody is.
for how in run 'elect --once'; do
    lock=careful-${how%% *}
    # shellcheck disable=SC2086
    code 0 zklock $how --delay-after-crash 1h "$lock" true
    # shellcheck disable=SC2086
    code 0 zklock $how --delay-after-crash 1h "$lock" true
done
code 0 zklock hold -n --for 1ms --delay-after-crash 1h careful-run
run_as careful --delay-after-crash 1h careful-run
up careful
code 0 zklock release --force --yes careful-run
ends "exit code of the careful holder" 120
code 124 zklock run -n --delay-after-crash 1h careful-run true
says '"careful-run" was not granted: it is held, or its last holder did not release'
code 124 zklock run -w 10s --delay-after-crash 1h careful-run true
says '"careful-run" was not granted: it is held, or its last holder did not release'
code 0 zklock run --delay-after-crash 100ms careful-run true
code 0 zklock run -n --delay-after-crash 1h careful-run true

# A znode that no session made is nobody's place: nobody is said to hold by it. Made as an operator might, with kazoo.
if has_kazoo; then
    stray=_c_00000000-0000-0000-0000-000000000000-lock-0000000000
    stranger "zk.create('/locks/strayed/$stray', b'made by hand', makepath=True)"
    code 1 zklock check strayed
    prints_only "/locks/strayed is free"
    code 0 zklock ls strayed
    prints '^  stray .* 0x0 .* made by hand$'
    code 0 zklock run -w 20s strayed true
    code 1 zklock doctor
    prints "^BAD  /locks/strayed: $stray is no session's: .*--token [0-9]+ LOCK'"
    code 1 zklock release --force --yes strayed
    code 0 zklock release --force --yes --token "$(sed -n 's/.*--token \([0-9]*\) LOCK.*/\1/p' <(zklock doctor))" strayed
    finds 0 '' zklock doctor
fi
