#!/bin/bash
# The sandbox: serves, passes things on, and leaves nothing however it ends.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
TMPDIR=$work/tmp/ü
export TMPDIR
mkdir -p "$TMPDIR"

# Nothing of a sandbox is left: no directory, no server, no guardian (they all name the directory or hold it).
nothing_left() { [ "$(find "$work/tmp" -mindepth 1)" = "$TMPDIR" ] && ! pgrep -f "$TMPDIR" >/dev/null; }

start_sandbox() {
    rm -f "$work/said"
    env --default-signal zklock sandbox "$@" >"$work/said" &
    pid=$!
    await "the sandbox" lines "$work/said" 1
}

# For endings, which are the kernel's and the guardian's: no server in Java, which takes half a second.
stand_in=$(dirname "$(realpath "$0")")/stand_in
quick() { JAVA_HOME=$stand_in "$@"; }

for n in 1 3; do
    start_sandbox -n "$n"
    file_matches "what it says" said "^ZKLOCK_SERVERS=(127\.0\.0\.1:[0-9]+,?){$n}\$"
    code 0 env "$(cat "$work/said")" zklock run x true
    ended_by TERM "exit code after TERM" 143
    true_that "TERM leaves nothing at once" nothing_left
    start_sandbox -n "$n"
    kill -KILL "$pid"
    await "KILL to leave nothing" nothing_left
done 2>/dev/null
for name in INT HUP QUIT USR1 USR2 ALRM; do
    quick start_sandbox
    ended_by "$name" "exit code after $name" $((128 + $(kill -l "$name")))
    true_that "$name leaves nothing at once" nothing_left
done 2>/dev/null
for name in SEGV PIPE ABRT; do
    quick start_sandbox
    kill "-$name" "$pid"
    await "$name to leave nothing" nothing_left
done 2>/dev/null
quick start_sandbox
kill -STOP "$pid"
kill -KILL "$pid"
await "KILL while stopped to leave nothing" nothing_left

# Killed while it starts.
for delay in 0 1 3 8 21; do
    SILENT=1 JAVA_HOME=$stand_in zklock sandbox -n 3 >/dev/null 2>&1 &
    pid=$!
    for _ in $(seq "$delay"); do moment; moment; done
    kill -KILL "$pid"
    wait "$pid"
    await "KILL while starting to leave nothing" nothing_left
done 2>/dev/null

# Its parent dies.
JAVA_HOME=$stand_in bash -c 'zklock sandbox >"$1" & wait' - "$work/orphan" &
pid=$!
await "a sandbox whose parent lives" lines "$work/orphan" 1
ended_by KILL "its parent" 137
await "a parent's death to leave nothing" nothing_left
JAVA_HOME=$stand_in bash -c "zklock sandbox -- bash -c 'echo \$\$ >$work/command; while :; do sleep 1; done' & wait" &
pid=$!
await "CMD of a sandbox whose parent lives" lines "$work/command" 1
ended_by KILL "its parent" 137
await "a parent's death to leave nothing of CMD's sandbox" nothing_left
await "CMD to die" gone "$(cat "$work/command")"

# The guardian is killed: the servers die, the directory goes.
quick start_sandbox
kill -KILL "$(pgrep -P "$pid")"
wait "$pid" 2>/dev/null
same "exit code after the guardian's death" $? 125
await "the guardian's death to leave nothing" nothing_left

# CMD.
quick code 0 zklock sandbox -- true
quick code 5 zklock sandbox -- sh -c 'exit 5'
quick code 137 zklock sandbox -- sh -c 'kill -9 $$'
quick code 5 timeout -k 1 60 env --ignore-signal=CHLD bash -c 'ulimit -Sn 16; exec zklock sandbox -- sh -c "exit 5"'
quick code 127 zklock sandbox -- zklock-no-such-command
mkdir -p "$work/bin/zklock-no-such-command"
quick code 127 env PATH="$work/bin:$PATH" zklock sandbox -- zklock-no-such-command
quick code 126 zklock sandbox -- /etc/passwd
same "standard input" "$(echo in | quick zklock sandbox -- cat)" in
# Nobody else is given the port on which a follower will lead: it would be elected for ever, and never lead.
take='import re, socket, sys
for port in re.findall("server.*:([0-9]+):", open(sys.argv[1] + "/1/zoo.cfg").read()):
    try:
        socket.socket().bind(("127.0.0.1", int(port)))
    except OSError as error:
        print(error)'
code 0 zklock sandbox -n 3 -- sh -c 'echo "$ZKLOCK_SERVERS $ZKLOCK_SANDBOX_PIDS"; python3 -c "$0" "$ZKLOCK_SANDBOX_DIR"' "$take"
same "ports of servers that nobody else may take" "$(grep -c "Address already in use" "$work/out")" 3
prints '^(127\.0\.0\.1:[0-9]+,){2}127\.0\.0\.1:[0-9]+ [0-9]+ [0-9]+ [0-9]+$'
quick background zklock sandbox -- bash -c "trap 'exit 44' TERM; echo up >$work/up; while :; do sleep 0.05; done"
await "CMD" lines "$work/up" 1
ended_by TERM "TERM reaches CMD" 44
true_that "nothing is left after CMD" nothing_left

# A server that died comes again; several sandboxes at once do not meet.
code 0 zklock --tick 500ms sandbox --respawn 50ms -- bash -c 'zklock run x true && kill -9 $ZKLOCK_SANDBOX_PIDS &&
    { zklock run x true || zklock run x true || zklock run x true; }' # each waits ten seconds for a JVM
background zklock sandbox -- zklock run x true
code 0 zklock sandbox -n 3 -- zklock run x true
ends "another sandbox" 0

quick start_sandbox --json
file_matches "as JSON" said '^\{"v":1,"servers":"127\.0\.0\.1:[0-9]+","pids":\[[0-9]+\],"folder":"/.*"\}$'
kill -TERM "$pid"
wait "$pid"

code 0 env -C "${ZKLOCK_SANDBOX_JARS:-/usr/share/java}" ZKLOCK_SANDBOX_JARS=. zklock sandbox true
code 0 env -C "$work/tmp" TMPDIR=ü zklock sandbox env -C / sh -c 'ls "$ZKLOCK_SANDBOX_DIR"'

# What is missing is named.
code 125 env ZKLOCK_SANDBOX_JARS="$work" zklock sandbox
says 'zookeeper.jar: No such file.*apt-get install'
code 125 env TMPDIR=/nonexistent zklock sandbox
says 'no temporary directory.*TMPDIR'
if unshare --map-root-user --mount true 2>/dev/null; then
    mkdir "$work/full"
    code 125 unshare --map-root-user --mount bash -c 'mount -t tmpfs -o size=4k full "$1"; cat /dev/zero >"$1/zeros"; TMPDIR=$1 exec zklock sandbox' - "$work/full"
    says 'no server can be started in .*: No space left on device; TMPDIR'
fi
code 125 zklock sandbox -C initLimit=x
says 'did not start'
true_that "nothing is left at the end" nothing_left
