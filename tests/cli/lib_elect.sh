# lib_elect.sh - lib.sh, under a sandbox with a short tick, and what the tests of zklock elect share.
# shellcheck shell=bash source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need_sandbox --tick 500ms sandbox

zk() { zklock --tick 500ms --session-timeout 4s "$@"; }
elect() { # NAME ARG...: zklock elect in the background
    local name=$1
    shift
    background zklock --tick 500ms --session-timeout 4s elect "$@" 2>>"$work/$name.said"
}
# CMD of NAME: a line with its pid for each term, then it stays.
stay() { echo "echo \$\$ >>$work/$1.terms; exec sleep 600"; }
last_pid() { tail -n 1 "$work/$1.terms"; }
