# lib_jobs.sh - lib.sh, under a sandbox, and jobs that say when they are in and out, and go on when they are let.
# shellcheck shell=bash source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need_sandbox sandbox

# Runs a CMD that says "in NAME", waits for a line on its own fifo, and says "out NAME".
start() {
    local name=$1
    shift
    mkfifo "$work/$name.go"
    zklock run "$@" bash -c "echo in $name \$ZKLOCK_TOKEN \$ZKLOCK_NODE >>$work/log; read -r <$work/$name.go; echo out $name >>$work/log" &
}
let_go() { echo >"$work/$1.go"; }
said() { grep -q "^$1\( \|\$\)" "$work/log"; }
log() { cut -d' ' -f1,2 "$work/log" | tr '\n' ','; }
touch "$work/log"
