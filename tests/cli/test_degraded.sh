#!/bin/bash
# A majority serves, and something is wrong beside it: a server that is stopped, dead, late, or that takes no more connections. Nobody is
# granted a lock only to be stopped a moment later, and nobody is told that no server responds.
# ZKLOCK_ROUNDS: how many jobs in each of these (3).
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need_sandbox sandbox -n 3
rounds=${ZKLOCK_ROUNDS:-3}
IFS=, read -ra address <<<"$ZKLOCK_SERVERS"
read -ra process <<<"$ZKLOCK_SANDBOX_PIDS"

# run_jobs NAME SERVERS SECONDS: so many jobs as there are rounds, each with a lock of its own and four at a time
# ($at_once); all end with 0.
run_jobs() {
    local name=$1 servers=$2 seconds=$3 i
    rm -f "$work/$name".*
    for ((i = 0; i < rounds; i++)); do
        while [ "$(jobs -rp | wc -l)" -ge "${at_once:-4}" ]; do
            moment
        done
        {
            got=0
            zklock -s "$servers" run "$name-$i" -- sleep "$seconds" >"$work/$name.$i" 2>&1 || got=$?
            echo "$got" >>"$work/$name.$i"
        } &
    done
    wait
    for ((i = 0; i < rounds; i++)); do
        file_is "$name, job $i" "$name.$i" 0
    done
}

followers=()
for i in 0 1 2; do
    [ "$(mode_of "${address[i]}")" = leader ] || followers+=("$i")
done
stopped=${followers[0]} good=${followers[1]}
same "followers" "${#followers[@]}" 2

# Stopped: it accepts connections and says nothing.
kill -STOP "${process[stopped]}"
run_jobs stopped "$ZKLOCK_SERVERS" 3
run_jobs hung-and-good "${address[stopped]},${address[good]}" 1
run_jobs hung-first "${address[stopped]},${address[good]},127.0.0.1:1" 1
kill -CONT "${process[stopped]}"

# One that refuses: nothing listens there.
run_jobs refusing "127.0.0.1:1,${address[good]}" 1

# Dead.
kill -KILL "${process[stopped]}"
run_jobs dead "$ZKLOCK_SERVERS" 3

# The same, in a sandbox of its own: apart NAME OPTION...; its commands come on standard input.
apart() {
    local name=$1
    shift
    {
        echo ". '$(realpath "$(dirname "$0")/lib.sh")'"
        declare -f run_jobs
        cat
    } >"$work/$name.sh"
    true_that "$name" zklock sandbox "$@" -- bash "$work/$name.sh"
}

# Alone, and late by three seconds: it refuses until then. It is a door in front of the server that opens then, for a Java that starts may take
# longer than the ten seconds that zklock waits for a connection.
apart late <<'LATE'
rounds=4
python3 -c '
import os, socket, threading, time
host, port = os.environ["ZKLOCK_SERVERS"].rsplit(":", 1)
door = socket.socket()
door.bind(("127.0.0.1", 0))
print(door.getsockname()[1], flush=True)
time.sleep(3)
door.listen(64)
def pass_on(source, to):
    try:
        while data := source.recv(65536):
            to.sendall(data)
        to.shutdown(socket.SHUT_WR)
    except OSError:
        pass
while True:
    ends = door.accept()[0], socket.create_connection((host, int(port)))
    for pair in ends, ends[::-1]:
        threading.Thread(target=pass_on, args=pair, daemon=True).start()' >"$work/door" &
door=$!
disown # run_jobs waits for all of our children
await "a closed door" lines "$work/door" 1
run_jobs late "127.0.0.1:$(cat "$work/door")" 1
kill "$door"
LATE

# No more than three connections from one address, and six who want one: the last ones wait for one turn, of the ten seconds that they have.
apart few -C maxClientCnxns=3 <<'FEW'
rounds=6 at_once=6
run_jobs few "$ZKLOCK_SERVERS" 1
FEW
