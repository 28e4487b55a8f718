#!/bin/sh
# The thing that the locks protect (tests/chaos/resource.c): takes writes, refuses those with an old token.
#   resource.sh PATH...
set -eu
record=${RECORD:-/record}
rm -f "$record/resource"
page=$(mktemp)
truncate -s 4096 "$page"
exec 3<>"$page"
rm "$page"
exec chaos_resource "$record" "$@"
