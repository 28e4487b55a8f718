#!/bin/bash
# The stale follower: the holder's zklock hangs on a follower that is cut from its leader and goes on answering. CMD, which
# ignores TERM, must be dead before the next one is granted.
# ZKLOCK_ROUNDS: how often (1).
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

# A network of our own, in which links can be cut: where the machine permits it.
if [ -z "${ZKLOCK_SANDBOX_DIR:-}" ]; then
    for program in unshare iptables ss ip; do
        command -v "$program" >/dev/null || { echo "skipped: no $program"; exit 77; }
    done
    alone=-n
    [ "$(id -u)" -eq 0 ] || alone=-rn
    unshare "$alone" sh -c 'ip link set lo up && iptables -w -L -n' >/dev/null 2>&1 ||
        { echo "skipped: no network namespace, or no packet filter, for us"; exit 77; }
    rm -rf "$work"
    trap - EXIT
    exec unshare "$alone" sh -c 'ip link set lo up && exec "$@"' - zklock sandbox -n 3 -- bash "$0"
fi

IFS=, read -ra addresses <<<"$ZKLOCK_SERVERS"
read -ra pids <<<"$ZKLOCK_SANDBOX_PIDS"

# Sets leader, follower, and the port to which their link goes.
find_link() {
    local n
    leader=
    follower=
    for n in 0 1 2; do
        case $(mode_of "${addresses[n]}") in
        leader) leader=$n ;;
        follower) follower=$n ;;
        esac
    done
    [ -n "$leader" ] && [ -n "$follower" ] || return 1
    quorum_port=$(sed -n "s/^server\.$((leader + 1))=127\.0\.0\.1:\([0-9]*\):.*/\1/p" "$ZKLOCK_SANDBOX_DIR/1/zoo.cfg")
}

# Cuts each link of the follower to its leader: one that has just joined may connect anew. True as soon as CMD was told.
cut() {
    local port
    for port in $(ss -Htnp state established "dport = :$quorum_port" | awk -v "pid=pid=${pids[$follower]}," \
        'index($0, pid) { sub(/.*:/, "", $3); print $3 }'); do
        iptables -w -C INPUT -p tcp --sport "$port" --dport "$quorum_port" -j DROP 2>/dev/null && continue
        iptables -w -A INPUT -p tcp --sport "$port" --dport "$quorum_port" -j DROP
        iptables -w -A INPUT -p tcp --sport "$quorum_port" --dport "$port" -j DROP
    done
    [ -s "$FILE.term" ]
}

# A session of two ticks, so that the leader ends it long before the follower notices the cut (syncLimit, five ticks).
round() {
    await "an ensemble" find_link || return
    run_lively "stale-$1" -s "${addresses[$follower]}" run
    await "a cut" cut || return
    dead_before_next "stale-$1" -s "${addresses[$leader]}"
    ends "exit code of the holder" 120
    iptables -w -F INPUT
    echo "round $1: CMD was dead $(((granted - $(tail -n 1 "$FILE.beat")) / 1000)) ms before the next grant"
}

for n in $(seq "${ZKLOCK_ROUNDS:-1}"); do
    round "$n"
done
