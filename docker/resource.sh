#!/bin/sh
# The thing that the locks protect (tests/chaos/resource.c): takes writes, refuses those with an old token.
#   resource.sh PATH...
set -eu
rm -f /record/resource
truncate -s 4096 /tmp/page
exec 3<>/tmp/page
exec chaos_resource /record "$@"
