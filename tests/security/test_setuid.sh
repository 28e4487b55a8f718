#!/bin/bash
# A CMD that has become another user's, as sudo does: it cannot be stopped one by one, which is said; in a control group of its own it can.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"
[ "$(id -u)" = 0 ] || exit 77
need_sandbox --tick 500ms sandbox
chmod 755 "$work"
mkdir -m 777 "$work/open"
install -m 4755 "$SLEEPER" "$work/sleeper"
for_others "$work/bin"
as=("${nobody[@]}" "$work/bin/zklock" --session-timeout 15s)
beyond='process [0-9]+ \(sleeper\) under .*/sleeper runs as another user and cannot be stopped: it may go on beside the next holder; run zklock itself as that user \(sudo zklock \.\.\.\)'

start() { # NAME ARG...
    local name=$1
    shift
    background "${as[@]}" run "$@" "$name" "$work/sleeper" "$work/open/$name.pid" "$work/open/$name.end" 2>"$work/$name.err"
    await "a setuid CMD" lines "$work/open/$name.pid" 1
    same "whose it is" "$(awk '/^Uid/ {print $2}' "/proc/$(head -1 "$work/open/$name.pid")/status")" 0
}
said() { grep -qE "$beyond" "$work/$1.err"; }

# Told to end: it is said that it does not, and the lock stays held until it has.
start long --max-run 3s --grace 200ms
await "that is said" said long
true_that "the lock is still held" zklock -q check long
if gone "$(head -1 "$work/open/long.pid")"; then bad "CMD was stopped: nothing is shown here"; else ok; fi
touch "$work/open/long.end"
ends "exit code: CMD's own" 7
same "it is said once" "$(grep -cE "$beyond" "$work/long.err")" 1

# The lock is lost: the same, and 120 when it has ended.
start lost
freeze_servers
await "that is said at a loss" said lost
touch "$work/open/lost.end"
ends "exit code of a loss" 120
thaw_servers

# The keeper killed: zklock itself says so.
start unkept
kill -KILL "$(pgrep -P "$pid")"
await "that is said without a keeper" grep -q 'runs as another user and cannot be stopped: waiting for its end' "$work/unkept.err"
touch "$work/open/unkept.end"
ends "exit code without a keeper" 125

# A check of --health that nothing ends has failed.
background "${as[@]}" elect --health "[ ! -e $work/open/hangs ] || exec $work/sleeper $work/open/health.pid $work/open/health.end" \
    --every 500ms --fails 2 boss sleep 600 2>"$work/boss.err"
await "a leader" grep -q leader "$work/boss.err"
touch "$work/open/hangs"
ZKLOCK_TEST_FIRST="" await "a failed check" grep -q 'health failed: stopping' "$work/boss.err" # the check would stay
touch "$work/open/health.end"
ended_by TERM "exit code of a candidate" 143

# A control group that is ours to divide: CMD is stopped, whoever it runs as and however it forks.
mounted=/sys/fs/cgroup
[ -e $mounted/cgroup.controllers ] || mounted=/sys/fs/cgroup/unified
own=$mounted/zklock-test-$$
if mkdir "$own" 2>/dev/null && [ -e "$own/cgroup.kill" ]; then
    chown 65534 "$own" "$own/cgroup.procs"
    inside() { bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$own" "${as[@]}" "$@" 2>"$work/inside.err"; }
    for chain in "" chain; do
        rm -f "$work/open/in.pid"
        inside run --max-run 300ms --grace 200ms in "$work/sleeper" "$work/open/in.pid" "$work/open/in.end" $chain
        same "exit code in a control group $chain" $? "$([ -z "$chain" ] && echo 137 || echo 0)"
        true_that "CMD is dead $chain" gone "$(tail -1 "$work/open/in.pid")"
        same "nothing was said" "$(grep -c 'another user' "$work/inside.err")" 0
    done
    same "no control group is left" "$(find "$own" -mindepth 1 -type d | wc -l)" 0
    rmdir "$own"
else
    echo "no control groups here"
fi
