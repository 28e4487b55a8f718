#!/bin/bash
# An operator's script that used every option of the manual pages of November 2026 (commit 054faf0) goes on working. What took the place of an
# option: test_usage.sh.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need_sandbox --tick 500ms sandbox -n 1 -C maxClientCnxns=0 --respawn 100ms
secret secret 'digest:ann:pencil'
global=(-s "$ZKLOCK_SERVERS" --session-timeout 20s --tick 500ms --leader-pause 500ms --observer-masters none)
kept() { # CODE WORD...: the exit code, as the manual page had it
    local wanted=$1
    shift
    code "$wanted" zklock "${global[@]}" "$@"
}

finds 0 '' zklock "${global[@]}" doctor
kept 0 run -w 1m --grace 500ms --max-run 1m --report "$work/report" --hook true --metrics "$work/metrics" -E 3 a true
kept 0 run -c 'exit 0' a
kept 0 run --command 'exit 0' --revocable --delay-after-crash 1s a
kept 0 run -r shared true
kept 0 run --shared --wait 1m shared true
kept 0 run -j 2 slots true
kept 0 run --slots 2 slots true
kept 0 run --and b --and c a true
kept 0 --auth-file "$work/secret" run mine true
kept 0 -q -v --json run a true
zklock "${global[@]}" hold -w 1m --delay-after-crash 1s --for 10m held <>"$work/never" >"$work/held" &
holder=$!
await "the holder" test -s "$work/held"
kept 124 run -n held true
kept 7 run --try --conflict-exit-code 7 held true
kept 7 hold -n -E 7 held
kept 0 check held
kept 0 check --is-me held
kept 0 ls held
kept 0 --json ls held
kept 121 revoke -w 1s held
kept 1 revoke --token 1 held
kept 1 release --force --yes --token 1 held
kept 0 release -f -y held
ends "the holder whose lock an operator removed" 120 "$holder"
kept 0 resize slots 3
kept 0 elect --once --value db1 --backoff 1s --health true --every 1s --fails 2 --delay-after-crash 1s --listen 0 --hook true \
    --grace 500ms --report "$work/report" --metrics "$work/metrics" boss true
kept 0 elect --once -c true boss
NOTIFY_SOCKET=$work/none kept 0 elect --notify --once boss true
kept 0 once --slot 87600h@1h -w 1m -E 3 --hook true --grace 500ms --max-run 1m --report "$work/report" --metrics "$work/metrics" job true
kept 0 once --slot 87600h@1h -n -c true job
kept 0 once --status --slot 87600h@1h job
kept 0 bench --for 200ms a
zklock "${global[@]}" watch a >"$work/seen" &
watcher=$!
await "what watch prints" test -s "$work/seen"
kill $watcher
wait $watcher 2>/dev/null
kept 0 --help
kept 0 --version
for refused in "--tls ca.pem,cert.pem,key.pem --tls-host zk run a true" "--sasl DIGEST-MD5 --sasl-server zookeeper/zk run a true"; do
    # shellcheck disable=SC2086 # words
    kept 125 $refused
    says 'built without (TLS|SASL)'
done
