#!/bin/sh
# One life of a process that contends (tests/chaos/contender.c); each life has a name and a history
# of its own. Its page of numbers (tests/chaos/page.h) is its own as well: no nemesis aims by it.
#   contender.sh ROOT OBJECT...     OBJECT as in tests/chaos/object.h
# NAME: the machine's, if it is not the host name; RECORD: the folder of all records
set -eu
record=${RECORD:-/record}
name=${NAME:-$(hostname)}
life=$(find "$record" -name "$name-*.history" | wc -l)
page=$(mktemp)
truncate -s 4096 "$page"
exec 3<>"$page"
rm "$page"
exec chaos_contender "$ZKLOCK_SERVERS" "$TICK_MS" "$TIMEOUT_MS" "$record" "$name-$life" \
    "$$$(date +%N)" "$@"
