#!/bin/bash
# doctor, where the servers' tickTime is not what zklock was told, and no four-letter command but srvr is allowed, as by default.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need_sandbox --tick 4s sandbox -C 4lw.commands.whitelist=srvr -C maxSessionTimeout=80000
same "the sandbox says its tickTime" "$ZKLOCK_TICK" 4000ms
unset ZKLOCK_TICK

finds 1 '^BAD .*: tickTime is 4000ms, and --tick says 2000ms: .* use --tick 4000ms, or ZKLOCK_TICK=4000ms$' \
    zklock --session-timeout 20s doctor
ZKLOCK_TICK=4s finds 0 '^ok .*: tickTime is 4000ms, as the timeouts of two probe sessions show$' zklock --session-timeout 20s doctor
finds 0 '^ok ' zklock --session-timeout 20s --tick 5s doctor
ZKLOCK_TICK=1s finds 0 '^ok ' zklock --session-timeout 20s --tick 4s doctor # the option counts
finds 1 '"ok":true,"text":"tickTime is 4000ms' zklock --session-timeout 20s --tick 4s --json -s "$ZKLOCK_SERVERS,127.0.0.1:1" doctor
same "as JSON" "$(grep -c '"ok":true,"text":"tickTime is 4000ms' "$work/out")" 1

# What is asked for tells, too, where the servers change it.
code 0 zklock -v --session-timeout 4s run x true # 2 ticks are 8 s
says \
    '\[warning\] session: the server changed the session timeout of 4000 ms to 8000 ms.*its tickTime is 4000 ms; tick_ms is 2000'
code 0 zklock -v --tick 4s --session-timeout 4s run x true
same "no warning where the tick is known" "$(grep -c '\[warning\].*tick' "$work/err")" 0

# A bound that is configured hides the tickTime: that is said, and is not ok. A lower bound that is too low to show hides nothing.
if [ -z "${INSIDE:-}" ]; then
    finds 0 '^ok .*: tickTime is 200ms, as the timeouts of two probe sessions show$' \
        env INSIDE=1 ZKLOCK_TICK=200ms zklock sandbox -C 4lw.commands.whitelist=srvr -C maxSessionTimeout=4000 -- zklock --session-timeout 4s doctor
    for bounds in "minSessionTimeout=9000 -C maxSessionTimeout=80000" "maxSessionTimeout=60000"; do
        # shellcheck disable=SC2086
        finds 1 '^BAD .*: tickTime not verified: it sets minSessionTimeout or maxSessionTimeout' \
            env INSIDE=1 zklock --tick 4s sandbox -C 4lw.commands.whitelist=srvr -C $bounds -- zklock --session-timeout 20s --tick 4s doctor
    done
    finds 1 '^BAD .*: tickTime not verified: it sets minSessionTimeout or maxSessionTimeout.*allow conf' \
        env INSIDE=1 zklock --tick 4s sandbox -C 4lw.commands.whitelist=srvr -- zklock --session-timeout 20s doctor
fi

# CMD, and a hook, find the servers with what belongs to them, whatever the variables said before.
ZKLOCK_TICK=1s code 0 zklock --session-timeout 40s --tick 5s --observer-masters none run x sh -c 'echo $ZKLOCK_TICK $ZKLOCK_OBSERVER_MASTERS'
prints_only "5000ms none"
