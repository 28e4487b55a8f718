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
failures=0
work=$(mktemp -d)
trap 'finish' EXIT

# Begins again under a sandbox with these options, unless under one already.
need_sandbox() {
    if [ -z "${ZKLOCK_SANDBOX_DIR:-}" ]; then
        rm -rf "$work"
        trap - EXIT
        exec zklock "$@" -- bash "$0"
    fi
}

ok() { checks=$((checks + 1)); }

bad() {
    checks=$((checks + 1))
    failures=$((failures + 1))
    echo "FAILED: $*"
}

# same WHAT GOT WANTED
same() { if [ "$2" = "$3" ]; then ok; else bad "$1: got '$2', wanted '$3'"; fi; }

# matches WHAT TEXT PATTERN (of grep -E)
matches() { if grep -qE -- "$3" <<<"$2"; then ok; else bad "$1: '$2' does not match '$3'"; fi; }

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
    "$@" >"$work/out" 2>"$work/err" || got=$?
    same "exit code of '$*' ($(head -c 300 "$work/err"))" "$got" "$wanted"
}

now_ms() { echo $((${EPOCHREALTIME/./} / 1000)); }

moment() { read -rt 0.01 <> <(:) || :; }

# await WHAT CMD...: until CMD succeeds, a minute at most.
await() {
    local what=$1 deadline=$(($(now_ms) + 60000))
    shift
    until "$@" 2>/dev/null; do
        if [ "$(now_ms)" -gt "$deadline" ]; then
            bad "waited for: $what"
            return 1
        fi
        moment
    done
    ok
}

# thrice CMD...: CMD succeeds, at the third time at the latest. For bounds on time: a machine that stalls misses one by itself.
thrice() { "$@" || "$@" || "$@"; }

# Runs CMD in the background as $pid, with every signal as it is at first: a script's background ignores INT and QUIT.
background() {
    env --default-signal "$@" &
    pid=$!
}

# for_others DIR: a copy of the command in DIR, which another user can reach wherever the build is.
for_others() { install -D -m 755 "$(command -v zklock)" "$1/zklock"; }

# queued LOCK N: N contenders stand in the queue, the holder included.
queued() { [ "$(zklock ls "$1" | grep -cE '^  (holds|[0-9]+) ')" -eq "$2" ]; }

# A process that has ended, reaped by its parent or not.
gone() { [ ! -e "/proc/$1" ] || grep -q '^State:.*[ZX]' "/proc/$1/status"; }

all_gone() {
    local pid
    while read -r pid; do
        gone "$pid" || return 1
    done <"$1"
}

# The shell around zklock is named, or the one of whoever runs the tests decides: Ctrl-C reaches it, too, when zklock has the
# terminal, and unlike bash, dash ends of it at once.
on_terminal() { SHELL=/bin/bash script -qec "$1" /dev/null; }

# until_seen PATTERN CMD: CMD on a terminal, what it shows in $work/seen; Ctrl-C as soon as that is like PATTERN (of grep -E).
until_seen() {
    : >"$work/seen"
    # shellcheck disable=SC2094 # one side reads what the other one writes: that is the point
    { await "a terminal with '$1'" grep -qE -- "$1" "$work/seen" >&2; printf '\003'; } | on_terminal "stty -echo; $2" >>"$work/seen"
}

lines() { [ -e "$1" ] && [ "$(wc -l <"$1")" -ge "$2" ]; }

# With a short tick.
zk() { zklock --tick 500ms --session-timeout 4s "$@"; }
elect() { # NAME ARG...: zklock elect in the background
    local name=$1
    shift
    background zklock --tick 500ms --session-timeout 4s elect "$@" 2>>"$work/$name.said"
}
# CMD of NAME: a line with its pid for each term, then it stays.
stay() { echo "echo \$\$ >>$work/$1.terms; exec sleep 600"; }
last_pid() { tail -n 1 "$work/$1.terms"; }

finish() {
    rm -rf "$work"
    echo "$checks checks, $failures failed"
    [ "$failures" -eq 0 ] || exit 1
}
