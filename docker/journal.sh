#!/bin/sh
# What a job under zklock does here: writes its token into a journal that all hosts share, again and again, for SECONDS or until it is
# stopped. Nobody may write after somebody with a higher token has: so the journal tells.
#   journal.sh FILE [SECONDS]
set -eu
lines=$((${2:-1000000} * 20))
while [ "$lines" -gt 0 ]; do
    echo "$ZKLOCK_TOKEN ${NAME:-$(hostname)}" >>"${RECORD:-/record}/$1"
    sleep 0.05
    lines=$((lines - 1))
done
