# lib.sh - what the tests of the command share. Sourced by every test_*.sh; $ZKLOCK is the command under test.
# shellcheck shell=bash disable=SC2034
set -u

: "${ZKLOCK:?the command under test}"
PATH=$(dirname "$ZKLOCK"):$PATH
LC_ALL=C.UTF-8 # in some languages $EPOCHREALTIME has a comma
export PATH LC_ALL

# How this host and user show themselves; a user may have no name.
me="$(hostname):[0-9]+ \\($(id -un 2>/dev/null || id -u)\\)"

checks=0
ran=
failures=0
work=$(mktemp -d)
mkfifo "$work/never" # nobody writes to it
trap 'finish' EXIT

# Begins again under a sandbox with these options, unless under one already.
need_sandbox() {
    if [ -z "${ZKLOCK_SANDBOX_DIR:-}" ]; then
        rm -rf "$work"
        trap - EXIT
        [ -z "${ZKLOCK_TEST_JARS:-}" ] || export ZKLOCK_SANDBOX_JARS=$ZKLOCK_TEST_JARS
        exec zklock "$@" -- bash "$0"
    fi
}

ok() { checks=$((checks + 1)); }

bad() {
    checks=$((checks + 1))
    failures=$((failures + 1))
    echo "FAILED: $*"
    [ -z "${ZKLOCK_TEST_FIRST:-}" ] || exit 1 # the first failure is enough: tests/mutants
}

# same WHAT GOT WANTED
same() { if [ "$2" = "$3" ]; then ok; else bad "$1: got '$2', wanted '$3'"; fi; }

# matches WHAT TEXT PATTERN: a line of TEXT is like PATTERN (of grep -E). What is asked thousands of times, here and below, starts no process.
matches() {
    local line
    while IFS= read -r line; do
        [[ $line =~ $3 ]] && ok && return
    done <<<"$2"
    bad "$1: '$2' does not match '$3'"
}

# true_that WHAT CMD...
true_that() {
    local what=$1
    shift
    if "$@"; then ok; else bad "$what"; fi
}

# code WANTED CMD...: runs CMD; its output is in $work/out and $work/err.
code() {
    local wanted=$1 got=0
    shift
    ran=$*
    "$@" >"$work/out" 2>"$work/err" || got=$?
    if [ "$got" -eq "$wanted" ]; then ok; else bad "exit code of '$ran': got $got, wanted $wanted: $(head -c 300 "$work/err")"; fi
}

# file_matches WHAT FILE PATTERN, file_is WHAT FILE TEXT: what FILE in $work has matches, or is that.
file_matches() { matches "$1" "$(<"$work/$2")" "$3"; }
file_is() { same "$1" "$(<"$work/$2")" "$3"; }

# What the last `code` left: says PATTERN, prints PATTERN: standard error, or standard output, matches; says_only TEXT, prints_only TEXT: it is that.
says() { file_matches "what '$ran' says" err "$1"; }
prints() { file_matches "what '$ran' prints" out "$1"; }
says_only() { file_is "what '$ran' says" err "$1"; }
prints_only() { file_is "what '$ran' prints" out "$1"; }

# ends WHAT WANTED [PID]: waits for the end of that process, or of $pid: its exit code.
ends() {
    local got=0
    wait "${3:-$pid}" || got=$?
    same "$1" "$got" "$2"
}

# ended_by SIGNAL WHAT WANTED [PID]: the same of one that gets a signal.
ended_by() {
    kill "-$1" "${4:-$pid}"
    ends "${@:2}"
}

# shellcheck disable=SC2086 # one pid for each server
freeze_servers() { kill -STOP $ZKLOCK_SANDBOX_PIDS; }
# shellcheck disable=SC2086
thaw_servers() { kill -CONT $ZKLOCK_SANDBOX_PIDS; }

now_ms() { echo $((${EPOCHREALTIME/./} / 1000)); }

# moment [S]: a pause, which starts no process
moment() { read -rt "${1:-0.01}" <>"$work/never" || :; }

# await WHAT CMD...: until CMD succeeds, a minute at most, or $patience_ms: less than a session's timeout, for what its end would bring as well.
# What tests ask is mostly the command itself: asked each 10 ms, it took half of the processor.
await() {
    local what=$1 deadline=$((${EPOCHREALTIME/./} + ${patience_ms:-60000} * 1000))
    shift
    until "$@" 2>/dev/null; do
        if [ "${EPOCHREALTIME/./}" -gt "$deadline" ]; then
            bad "waited for: $what"
            return 1
        fi
        moment 0.06
    done
    ok
}

# thrice CMD...: CMD succeeds, at the third time at the latest. For bounds on time: a machine that stalls misses one by itself.
thrice() { "$@" || "$@" || "$@"; }

# finds CODE PATTERN CMD...: CMD, which asks a doctor, ends with CODE and prints PATTERN (of grep -E); its output is in $work/out and $work/err. It
# gives a server two seconds, so in a machine that stalls it asks again, thrice at most.
found() {
    local got=0
    "${@:3}" >"$work/out" 2>"$work/err" || got=$?
    [ "$got" -eq "$1" ] && { [ -z "$2" ] || grep -qE -- "$2" "$work/out"; }
}
finds() {
    ran=${*:3}
    if thrice found "$@"; then ok; else bad "'$ran' does not end with $1 and '$2': $(head -c 300 "$work/out" "$work/err")"; fi
}

# Runs CMD in the background as $pid, with every signal as it is at first: a script's background ignores INT and QUIT.
background() {
    env --default-signal "$@" &
    pid=$!
}

# secret FILE TEXT: FILE in $work, for --auth-file
secret() {
    printf '%s\n' "$2" >"$work/$1"
    chmod 600 "$work/$1"
}

# token_of LOCK: of the last in its queue
token_of() { zklock --json ls "$1" | sed 's/.*"token":\([0-9]*\).*/\1/'; }

# In front of a command: as a user who owns nothing. Root only.
nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)

# for_others DIR: a copy of the command in DIR, which another user can reach wherever the build is.
for_others() { install -D -m 755 "$(command -v zklock)" "$1/zklock"; }

# run_as NAME ARG...: zklock run with ARG in the background; CMD writes its pid to $work/NAME.cmd and stays. up NAME: until it does.
run_as() {
    local name=$1
    shift
    rm -f "$work/$name.cmd"
    background zklock --session-timeout 30s run "$@" bash -c "echo \$\$ >$work/$name.cmd; exec sleep 600" 2>"$work/$name.err"
}
up() { await "CMD of $1" lines "$work/$1.cmd" 1; }

# gate FILE: a FIFO at which CMD waits for a line. To write one waits for nobody, even if CMD has ended: this shell has it open as well.
gate() {
    mkfifo "$1"
    exec {gate}<>"$1"
}

# start NAME ARG...: zklock run with ARG in the background. CMD says "in NAME" in $work/log, stays until let_go NAME, and says "out NAME"; said WORDS:
# whether it has.
start() {
    local name=$1
    shift
    gate "$work/$name.go"
    background zklock --session-timeout 30s run "$@" bash -c "echo in $name \$ZKLOCK_TOKEN \$ZKLOCK_NODE >>$work/log; read -r <$work/$name.go; echo out $name >>$work/log"
}
let_go() { echo >"$work/$1.go"; }
said() {
    local line
    while read -r line; do
        [[ "$line " == "$1 "* ]] && return
    done <"$work/log"
    return 1
}

# queued LOCK N: N contenders stand in the queue, the holder included.
queued() { [ "$(zklock ls "$1" | grep -cE '^  (holds|[0-9]+) ')" -eq "$2" ]; }

# hold LOCK: somebody holds it from now on, as $holder, until a signal comes. The session is that of a machine that stands still for seconds.
hold() {
    zklock --session-timeout 30s hold "$1" <>"$work/never" >"$work/held" &
    holder=$!
    await "a holder of $1" queued "$1" 1
}

# A process that has ended, reaped by its parent or not.
gone() {
    local stat
    [ -n "$1" ] && { ! read -r stat <"/proc/$1/stat" || [[ ${stat##*) } == [ZX]* ]]; } 2>/dev/null
}

all_gone() {
    local pid
    while read -r pid; do
        gone "$pid" || return 1
    done <"$1"
}

# The shell around zklock is named, or the one of whoever runs the tests decides: Ctrl-C reaches it, too, when zklock has the
# terminal, and unlike bash, dash ends of it at once.
typescript() { SHELL=/bin/bash env --default-signal script -qec "$1" /dev/null; }
# on_terminal CMD: what it shows as text, without carriage returns.
on_terminal() { typescript "$1" | tr -d '\r'; }

# until_seen PATTERN CMD: CMD on a terminal, what it shows in $work/seen; Ctrl-C as soon as that is like PATTERN (of grep -E).
# It waits in this shell: a failure in the shell of a pipe would not count. And a failure does not end the test here: the terminal would stay.
until_seen() {
    local keyboard pid
    : >"$work/seen"
    exec {keyboard}> >(typescript "stty -echo; $2" >>"$work/seen")
    pid=$!
    ZKLOCK_TEST_FIRST="" await "a terminal with '$1'" grep -qE -- "$1" "$work/seen"
    printf '\003' >&"$keyboard"
    exec {keyboard}>&-
    wait "$pid"
}

# mode_of HOST:PORT: what that server says that it is.
mode_of() {
    exec 8<>"/dev/tcp/${1%:*}/${1##*:}" && echo srvr >&8 && sed -n 's/^Mode: //p' <&8
    exec 8<&-
}

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# http METHOD PORT PATH [SIZE]: "STATUS BODY" of what a server on this machine answers to a request with a body of that size.
http() {
    exec 8<>"/dev/tcp/127.0.0.1/$2" && printf "$1 $3 HTTP/1.0\r\nContent-Length: %d\r\n\r\n%${4:-0}s" "${4:-0}" "" >&8 &&
        awk 'NR == 1 { printf "%s ", $2 } body; /^\r?$/ { body = 1 }' <&8
    exec 8<&-
}

lines() { local all && [ -e "$1" ] && mapfile all <"$1" && [ "${#all[@]}" -ge "$2" ]; }

# A session that outlives a stall of several seconds of the machine, for a sandbox with a short tick.
zk() { zklock --session-timeout 20s "$@"; }
elect() { # NAME ARG...: zklock elect in the background
    local name=$1
    shift
    background zklock --session-timeout 20s elect "$@" 2>>"$work/$name.said"
}
# leads NAME N: waits for its Nth term. stay NAME: CMD of it, a line with its pid for each term, then it stays.
leads() { await "term $2 of $1" lines "$work/$1.terms" "$2"; }
stay() { echo "echo \$\$ >>$work/$1.terms; exec sleep 600"; }
last_pid() { tail -n 1 "$work/$1.terms"; }

# run_lively NAME run OPTION...: CMD in the background does not end of TERM, whose time it notes, and says all the time that it lives.
run_lively() {
    FILE=$work/$1
    rm -f "$FILE".*
    background zklock --session-timeout 4s "${@:2}" "$1" bash -c "trap 'echo \${EPOCHREALTIME/./} >$FILE.term' TERM; echo \$\$ >$FILE.pid
        exec 9<>$work/never; while :; do echo \${EPOCHREALTIME/./} >>$FILE.beat; read -rt 0.002 -u 9; done"
    await "CMD" lines "$FILE.beat" 1
}

# dead_before_next NAME OPTION...: with these options the next one is granted at $granted, us, and CMD's last sign of life was before that.
dead_before_next() {
    local last
    granted=$(zklock --session-timeout 20s "${@:2}" run "$1" bash -c 'echo ${EPOCHREALTIME/./}')
    last=$(tail -n 1 "$FILE.beat")
    true_that "CMD was seen alive at $last, and the next grant was at $granted" [ "${last:-0}" -lt "$granted" ]
    true_that "CMD is dead" gone "$(cat "$FILE.pid")"
}

has_kazoo() { /usr/bin/python3 -c 'import kazoo' 2>/dev/null; }

# stranger CODE: a client of another library, zk, does what the lines of CODE (Python) say, and stays, as $stranger.
stranger() {
    rm -f "$work/ready"
    /usr/bin/python3 -c "
import os, sys
from kazoo.client import KazooClient
from kazoo.security import make_acl
zk = KazooClient(os.environ['ZKLOCK_SERVERS'])
zk.start()
$1
print('ready', flush=True)
sys.stdin.read()" <>"$work/never" >"$work/ready" &
    stranger=$!
    await "a stranger" lines "$work/ready" 1
}

finish() {
    # Those of our children that live: a pid that was noted down may be somebody else's by now.
    # shellcheck disable=SC2046
    kill -KILL $(jobs -pr; jobs -ps) 2>/dev/null
    wait 2>/dev/null
    rm -rf "$work"
    echo "$checks checks, $failures failed"
    [ "$failures" -eq 0 ] || exit 1
}
