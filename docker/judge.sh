#!/bin/sh
# Judges the journals of the jobs (journal.sh): a line with a lower token than a line above it is a job that still worked when another
# one did already.
#   judge.sh JOURNAL...
set -eu
for journal in "$@"; do
    awk -v name="$(basename "$journal")" '
    $1 + 0 < highest { printf "%s:%d: %s wrote with token %s after %s\n", name, NR, $2, $1, highest > "/dev/stderr"; bad++ }
    $1 + 0 > highest { highest = $1 + 0; terms++; hosts[$2]++ }
    END {
        for (host in hosts) list = list " " host " " hosts[host]
        printf "%s: %d lines, %d terms (%s ), %d written too late\n", name, NR, terms, list, bad
        exit bad > 0 || terms < 2
    }' "$journal"
done
