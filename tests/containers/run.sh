#!/bin/bash
# What docker/compose.yml starts, and docker/nemesis.py and the judges, without Docker: every script
# of docker/ against three servers on loopback. Shows that the scripts fit the programs; what
# containers and networks add is for scripts/soak docker-test.
#   run.sh SOURCE ZKLOCK CHAOS_PROGRAMS SECONDS
set -euo pipefail
source=$1 zklock=$2 programs=$3 seconds=$4
if ! unshare --user --map-current-user --pid --fork true 2>/dev/null && [ "$(id -u)" -ne 0 ]; then
    echo "this user may make no PID namespace"
    exit 77
fi
[ -r /usr/share/java/zookeeper.jar ] || { echo "libzookeeper-java is not installed"; exit 77; }

CONTAINERS=$(mktemp -d)
record=$CONTAINERS/record
mkdir "$record"
export CONTAINERS
PATH=$source/tests/containers:$source/docker:$(dirname "$zklock"):$programs:$PATH
services=()

# Ends what is still there; the containers are ours alone.
finish() {
    code=$?
    for service in "${services[@]}"; do
        [ -e "$CONTAINERS/smoke_${service}_1.code" ] || docker kill "smoke_${service}_1" || true
    done
    [ $code -eq 0 ] || tail -n 5 "$CONTAINERS"/*.log >&2
    rm -rf "$CONTAINERS"
}
trap finish EXIT

await() {
    for _ in $(seq 1200); do
        ! "$@" || return 0
        sleep 0.1
    done
    echo "$* did not happen within two minutes" >&2
    return 1
}

# Free ports: taken from the kernel, all at once, so that no two are the same.
read -ra port < <(python3 -c '
import socket
taken = [socket.socket() for _ in range(9)]
for one in taken:
    one.bind(("127.0.0.1", 0))
print(*[one.getsockname()[1] for one in taken])')
ensemble=
servers=
for i in 0 1 2; do
    ensemble+="server.$((i + 1))=127.0.0.1:${port[i]}:${port[i + 3]};127.0.0.1:${port[i + 6]} "
    servers+=",127.0.0.1:${port[i + 6]}"
done

# service NAME COMMAND [VARIABLE=VALUE...]
service() {
    local name=$1 command=$2
    shift 2
    {
        printf 'export %q\n' "PATH=$PATH" "NAME=$name" "RECORD=$record" "TICK_MS=500" "$@"
        printf 'exec %s\n' "$command"
    } >"$CONTAINERS/smoke_${name}_1.sh"
    services+=("$name")
    docker start "smoke_${name}_1"
}

# The command that compose.yml gives to a kind of service.
command_of() {
    sed -n "/$1/,/^\$/s/^ *command: //p" "$source/docker/compose.yml" | head -n 1 |
        sed 's/\$\$/$/g'
}

for i in 1 2 3; do
    mkdir "$CONTAINERS/data$i"
    service "zoo$i" zookeeper.sh "ID=$i" "SERVERS=$ensemble" "DATA=$CONTAINERS/data$i"
done
service resource "$(command_of '^  resource:')"
client=("ZKLOCK_SERVERS=${servers#,}" TIMEOUT_MS=6000)
await test -S "$record/resource" # contenders connect to it
for i in 1 2 3; do
    service "contender$i" "$(command_of '^x-contender:')" "${client[@]}"
    service "singleton$i" "$(command_of '^x-singleton:')" "${client[@]}"
done
for i in 1 2 3 4; do
    service "worker$i" "$(command_of '^x-worker:')" "${client[@]}"
done

# Somebody takes over from whoever leads: no fault of the nemesis is sure to do that.
leader() { tail -n 1 "$record/singleton.journal" 2>/dev/null | cut -d' ' -f2; }
somebody_leads() { [ -n "$(leader)" ]; }
another_leads() { [ "$(leader)" != "$first" ]; }
await somebody_leads
first=$(leader)
docker kill "smoke_${first}_1"
await another_leads
docker start "smoke_${first}_1"

ZKLOCK_SERVERS=${servers#,} nemesis.py smoke "$record" "$seconds" "${ZKLOCK_SEED:-1}"
chaos_judge --slack 3000 --grants 20 "$record"/*.history
judge.sh "$record/jobs.journal" "$record/singleton.journal"
