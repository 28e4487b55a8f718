#!/bin/sh
# commands.sh ZKLOCK README: runs every ```sh block of the README on a sandbox; each must succeed.
set -eu
PATH=$(dirname "$1"):$PATH
export PATH
lines=$("$(dirname "$0")/blocks.sh" sh "$2")
test -n "$lines"
printf '%s\n' "$lines"
exec zklock sandbox -- sh -eu -c "$lines"
