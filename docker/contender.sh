#!/bin/sh
# One life of a process that contends (tests/chaos/contender.c); each life has a name and a history of its own.
#   contender.sh PATH...
set -eu
name=$(hostname)
life=$(find /record -name "$name-*.history" | wc -l)
exec chaos_contender "$ZKLOCK_SERVERS" "$TICK_MS" "$TIMEOUT_MS" /record "$name-$life" "$$$(date +%N)" "$@"
