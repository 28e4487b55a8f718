#!/bin/bash
# A server older than 3.5: every verb says what it misses, and when; none waits.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need_sandbox sandbox -n 3

# refused CMD...: long before its deadline of an hour; the test's own timeout stands for that.
refused() {
    code 125 "$@"
    says 'locks need ZooKeeper 3\.5\.0 or later'
}

# Several times: the refusal closes the connection, and meets other requests under way.
for i in 1 2 3 4 5; do
    refused zklock run -w 1h "lock-$i" -- echo never
done
refused zklock run --shared -w 1h shared -- echo never
refused zklock run -w 1h one -l two -- echo never
refused zklock elect election -- echo never
refused zklock once -w 1h --slot 1h daily -- echo never
refused zklock hold -w 1h held

code 0 zklock ls
matches "ls" "$(cat "$work/out" "$work/err")" 'no lock below /locks'
# Prints how many servers are too old, and ends as the doctor does.
count_refused() {
    zklock doctor | grep -c ': 3\.4\..*: too old, it refuses every lock'
    return "${PIPESTATUS[0]}"
}
finds 1 '^3$' count_refused
