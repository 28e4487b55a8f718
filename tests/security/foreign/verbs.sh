#!/bin/bash
# verbs.sh ZKLOCK SERVERS PATH...: the verbs of the command that read a queue, at each PATH, where sweep.c has made foreign znodes. Each is good that
# ends in time with 0, or with an error that names the path; the others are printed. Exit code: whether there were any.
set -u
zklock=$1 servers=$2
shift 2
export UBSAN_OPTIONS=print_stacktrace=1:exitcode=99 ASAN_OPTIONS=detect_leaks=0:handle_abort=1:exitcode=99
bad=0

verb() { # PATH WORD...
    local code=0 said
    said=$(timeout 60 "$zklock" -s "$servers" --tick 500ms "${@:2}" 2>&1 </dev/null) || code=$?
    if [ $code -eq 99 ] || { [ $code -ne 0 ] && [[ $said != *$1* ]]; }; then
        echo "${*:2}: $code: $said"
        bad=1
    fi
}

for path; do
    verb "$path" ls "$path"
    verb "$path" --json ls "$path"
    verb "$path" check "$path"
    verb "$path" revoke -w 100ms "$path"
    verb "$path" run -n "$path" -- true
    verb "$path" run -n -j 0 "$path" -- true
    verb "$path" release --force --yes "$path"
    "$zklock" -s "$servers" --tick 500ms --json watch "$path" | head -n 1 | grep -q "$path" || bad=1
done
verb /locks doctor
exit $bad
