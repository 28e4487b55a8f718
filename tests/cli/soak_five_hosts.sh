#!/bin/bash
# A cron job on five hosts: in each of ten slots it is done exactly once, though the clock of one host is a minute fast, and the
# host that does it in the middle slot is switched off while it does. Each host is a network, a process space and a host name of
# its own with Debian's cron in it; three servers. Root. Two minutes a slot, twenty-two in all.
# ZKLOCK_SLOTS: how many (10).
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

if [ -z "${ZKLOCK_SANDBOX_DIR:-}" ]; then
    for program in cron ip iptables unshare nsenter; do
        command -v "$program" >/dev/null || { echo "skipped: no $program"; exit 77; }
    done
    unshare -nmu true 2>/dev/null || { echo "skipped: no network namespace for us"; exit 77; }
    rm -rf "$work"
    trap - EXIT
    exec unshare -nm sh -c 'ip link set lo up && exec "$@"' - zklock sandbox -n 3 -- bash "$0"
fi

slots=${ZKLOCK_SLOTS:-10}
victim_slot=$((slots / 2))
gateway=10.77.0.254
export runs=$work/runs
chmod 755 "$work"
touch "$runs"

# The servers listen on the loopback of this network; the hosts reach them at the gateway.
ip link add br0 type bridge
ip addr add "$gateway/24" dev br0
ip link set br0 up
echo 1 >/proc/sys/net/ipv4/conf/br0/route_localnet
iptables -w -t nat -A PREROUTING -d "$gateway" -p tcp -j DNAT --to-destination 127.0.0.1
servers=${ZKLOCK_SERVERS//127.0.0.1/$gateway}

cat >"$work/make-report" <<'JOB'
#!/bin/sh
# The true time, whatever this host believes.
echo "$(hostname) begin $ZKLOCK_TOKEN $(env -u LD_PRELOAD date +%s)" >>"$1"
sleep 5
echo "$(hostname) done $ZKLOCK_TOKEN $(env -u LD_PRELOAD date +%s)" >>"$1"
JOB
chmod 755 "$work/make-report"

# host NUMBER [CLOCK]: the crontab is what README says, but for where the program is, and what becomes of its words.
host() {
    local name=host$1 folder=$work/host$1 preload=
    mkdir -p "$folder/crontabs" "$folder/cron.d"
    : >"$folder/crontab"
    [ -z "${2:-}" ] || preload="LD_PRELOAD=$2"
    cat >"$folder/crontabs/root" <<CRONTAB
PATH=$(dirname "$ZKLOCK"):/usr/local/bin:/usr/bin:/bin
MAILTO=""
ZKLOCK_SERVERS=$servers
CLOCK_STEP_FILE=$work/minute
${preload:-HOST=$name}
*/2 * * * * zklock once --slot 2m report -- $work/make-report $runs >>$folder/words 2>&1
CRONTAB
    chmod 600 "$folder/crontabs/root"
    ip link add "$name" type veth peer name "$name.eth"
    ip link set "$name" master br0 up
    CLOCK_STEP_FILE=$work/minute unshare -nmupf --kill-child --mount-proc sh -c "
        hostname $name
        mount -t tmpfs none /run
        mount --bind $folder/crontabs /var/spool/cron/crontabs
        mount --bind $folder/cron.d /etc/cron.d
        mount --bind $folder/crontab /etc/crontab
        echo >$folder/up
        until ip link show $name.eth >/dev/null 2>&1; do read -r line <$folder/plugged; done
        ip link set lo up
        ip addr add 10.77.0.$1/24 dev $name.eth
        ip link set $name.eth up
        exec ${preload:+env $preload} cron -f" &
    hosts[$1]=$!
    mkfifo "$folder/plugged"
    await "$name" lines "$folder/up" 1
    ip link set "$name.eth" netns "$(pgrep -P "${hosts[$1]}")"
    echo >"$folder/plugged"
}

done_lines() { [ "$(grep -c ' done ' "$runs")" -ge "$1" ]; }
begun_in() { awk -v slot="$1" '$2 == "begin" && int(($4 + 60) / 120) == slot' "$runs"; }
# within SECONDS WHAT CMD...: a slot takes longer than await has.
within() {
    local left=$1 what=$2
    shift 2
    until "$@"; do
        left=$((left - 1))
        [ "$left" -gt 0 ] || { bad "waited for: $what"; return 1; }
        read -rt 1 <> <(:) || :
    done
    ok
}

echo 60 >"$work/minute"
declare -a hosts
for number in 1 2 3 4; do
    host "$number"
done
host 5 "$CLOCK_STEP"

# The first slot is the one after the first whole one: who began in the middle may have missed its beginning.
within 300 "the first run" done_lines 1
first=$(awk 'NR == 1 { print int(($4 + 60) / 120) + 1 }' "$runs")
for ((slot = first; slot < first + slots; slot++)); do
    begun() { [ -n "$(begun_in "$slot")" ]; }
    within 200 "the run of slot $slot" begun || break
    if [ "$slot" -eq $((first + victim_slot)) ]; then
        victim=$(begun_in "$slot" | awk '{ print $1 }')
        echo "slot $slot: $victim is switched off while it works"
        kill -9 "${hosts[${victim#host}]}"
    fi
done
within 200 "the end of the last run" done_lines $((slots + 1))
last=$((first + slots - 1))
true_that "the record of the last slot" zklock once --status --slot 2m report >"$work/status"
cat "$work/status"

# A run belongs to the slot in which its token's first begin is. Tokens of a slot that was begun twice differ.
awk -v first="$first" -v last="$last" '
    { slot = int(($4 + 60) / 120) }
    $2 == "begin" { of[$3] = slot; begun[slot]++; by[slot] = by[slot] " " $1 }
    $2 == "done" { finished[of[$3]]++; who[of[$3]] = $1 }
    END {
        for (slot = first; slot <= last; slot++) {
            printf "slot %d: begun by%s, done by %s\n", slot, by[slot], who[slot]
            if (finished[slot] != 1) { printf "done %d times\n", finished[slot]; failed = 1 }
        }
        exit failed
    }' "$runs" >"$work/table"
same "slots that were not done exactly once" $? 0
cat "$work/table"
same "runs begun in all slots" "$(awk '{ n += NF - 7 } END { print n }' "$work/table")" $((slots + 1))
for number in 1 2 3 4 5; do
    same "what cron would mail from host$number" "$(sort "$work/host$number/words" | uniq -c)" ""
done
for number in 1 2 3 4 5; do
    kill -9 "${hosts[$number]}" 2>/dev/null
done
wait 2>/dev/null
