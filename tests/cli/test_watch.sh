#!/bin/bash
# watch: a stream of lines, a table on a terminal. One server: three that were all away may elect a leader and yet commit nothing (3.8.0).
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need_sandbox sandbox

# watch: every change as a line, and an end when nobody reads; a table on a terminal.
background zklock watch watched >"$work/watched"
await "the empty queue" lines "$work/watched" 1
hold watched
await "a holder in the stream" lines "$work/watched" 2
kill -TERM "$holder"
await "its end in the stream" lines "$work/watched" 3
ended_by INT "exit code of watch after INT" 130
matches "what watch says" "$(sed -n 2p "$work/watched")" '^\{"v":1,"path":"/locks/watched","contenders":\[\{"position":0,"holds":true,.*\}\],"foreign":0\}$'
same "watch says each change once" "$(grep -c '"contenders":\[\]' "$work/watched")" 2
code 0 timeout 100 bash -c 'zklock watch watched | head -n 1'
# Servers that are away for a while do not end it; a signal does, also then.
background zklock watch away >"$work/away" 2>"$work/said"
await "the stream" lines "$work/away" 1
freeze_servers
await "word of the silence" grep -q 'no response from the servers' "$work/said"
thaw_servers
hold away
await "the stream to go on" lines "$work/away" 2
freeze_servers
begin=$(now_ms)
ended_by INT "exit code of watch after INT, without servers" 130
true_that "at once" [ $(($(now_ms) - begin)) -lt 30000 ]
thaw_servers
kill "$holder"
wait "$holder"
# A lock below it is shown while somebody holds it, and once when it is free: else three lines would not be enough for the last one.
hold watched/below
until_seen "no contenders" "stty rows 4; export TERM=xterm; (timeout 60 sh -c 'until grep -q below $work/seen; do sleep 0.1; done'; kill $holder) & zklock watch watched"
ends "exit code of the holder" 143 "$holder"
