#!/bin/bash
# monitoring/: the rules pass their tests; every name in rules and dashboard is one that zklock writes; a Prometheus that scrapes
# real candidates fires the alerts, and stops firing.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$here/../..
# shellcheck source=tests/cli/lib.sh
. "$here/../cli/lib.sh"
# An absolute path, since need_sandbox begins again with $0.
[ -n "${ZKLOCK_SANDBOX_DIR:-}" ] || tools=$("$here/prometheus") || {
    echo "skipped: no Prometheus"
    exit 77
}
export tools
need_sandbox --tick 500ms sandbox
PATH=$tools:$PATH

rules=$top/monitoring/zklock.rules.yml
code 0 promtool check rules "$rules"
code 0 promtool test rules "$top/monitoring/zklock.rules.test.yml"

# --- names -----------------------------------------------------------------------------------------------------------------
# The dashboard's expressions as rules, with Grafana's variables filled in.
python3 - "$top/monitoring/zklock.dashboard.json" >"$work/dashboard.yml" <<'PYTHON'
import json, sys
print("groups: [{name: dashboard, rules: [")
for panel in json.load(open(sys.argv[1]))["panels"]:
    for target in panel["targets"]:
        text = target["expr"].replace("$__rate_interval", "1m").replace("$session", ".*")
        print(f'  {{record: "panel:{panel["id"]}{target["refId"]}", expr: {json.dumps(text)}}},')
print("]}]")
PYTHON
code 0 promtool check rules "$work/dashboard.yml"

stay() { background zklock --session-timeout 15s elect --listen 0 "$1" sleep 600 2>"$work/$1.said"; }
port_of() { sed -n 's/.*listening on port //p' "$work/$1.said"; }
has_port() { [ -n "$(port_of "$1")" ]; }
leads() { grep -q ': leader, token' "$work/$1.said"; }
for one in report scheduler; do
    stay "$one"
    await "$one to listen" has_port "$one"
    await "$one to lead" leads "$one"
done
http GET "$(port_of scheduler)" /metrics | sed '1s/^200 //' >"$work/metrics"
code 0 promtool check metrics <"$work/metrics"
# shellcheck disable=SC2013 # words
for name in $(grep -ohE 'zklock_[a-z_]+' "$rules" "$work/dashboard.yml" | sort -u); do
    true_that "no such metric: $name" grep -qE "^$name(_bucket)?[{ ]" "$work/metrics"
done

# --- a Prometheus that runs ----------------------------------------------------------------------------------------------
# The same rules, thirty times as fast.
sed -E 's/for: 1m/for: 2s/; s/for: 2m/for: 4s/; s/\[1m\]/[2s]/g; s/\[5m\]/[10s]/g; s/\[10m\]/[20s]/g; s/(\[|offset )1h/\16s/g' \
    "$rules" >"$work/fast.yml"
cat >"$work/prometheus.yml" <<YAML
global: {scrape_interval: 500ms, scrape_timeout: 400ms, evaluation_interval: 500ms}
rule_files: [fast.yml]
scrape_configs:
  - {job_name: zklock, static_configs: [{targets: ["127.0.0.1:$(port_of scheduler)"]}]}
  - {job_name: zklock-jobs, static_configs: [{targets: ["127.0.0.1:$(port_of report)"]}]}
YAML
code 0 promtool check config "$work/prometheus.yml"
port=$(free_port)
prometheus --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/tsdb" --web.listen-address="127.0.0.1:$port" \
    --log.level=error &
moment() { sleep 0.5; } # it evaluates its rules as often
alerts() { http GET "$port" /api/v1/alerts; }
fires() { # ALERT SESSION
    alerts | sed 's/{"labels"/\n&/g' | grep -qE "\"alertname\":\"$1\".*${2:+\"session\":\"[^\"]*$2}.*\"state\":\"firing\""
}
silent() { alerts | grep -q '^200 ' && ! fires "$@"; }
await "the report that hangs" fires ZklockHeldTooLong report
true_that "nothing is said of the leader" silent ZklockHeldTooLong scheduler
true_that "nobody was lost" silent ZklockLost ""
# The servers are silent for longer than the lease.
kill -STOP "$ZKLOCK_SANDBOX_PIDS"
await "a loss" fires ZklockLost scheduler # first: it fires for twenty seconds
await "no connection" fires ZklockDisconnected scheduler
await "no leader" fires ZklockNobodyLeads scheduler
kill -CONT "$ZKLOCK_SANDBOX_PIDS"
await "the connection" silent ZklockDisconnected scheduler
await "a leader again" silent ZklockNobodyLeads scheduler
await "the end of what was" silent ZklockLost scheduler
# zklock itself is stopped.
kill -STOP "$pid"
await "a target that is down" fires ZklockTargetDown ""
kill -CONT "$pid"
await "the target" silent ZklockTargetDown ""
