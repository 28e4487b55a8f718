#!/bin/bash
# What the command makes of its words, without any server.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

# exit code | words | what standard error must say
while IFS='|' read -r wanted words says; do
    eval "set -- $words"
    code "$wanted" zklock -s 127.0.0.1:1 "$@" </dev/null
    says "$says"
    prints_only ""
done <<'TABLE'
125||zklock run backup
125|rnu x true|did you mean 'run'
125|frobnicate|no subcommand 'frobnicate'
125|--frobnicate|--frobnicate: unknown option$
125|--jsno ls|did you mean '--json'
125|-w 5s run x true|-w: unknown option here; it goes after the subcommand: zklock run -w
125|run --slot x true|did you mean '--slots'
125|run -j '' x true|-j: '' is not a number from 0 to 10000$
125|run --server=x true|--server: unknown option; did you mean '--servers'
125|run -Q x true|-Q: unknown option$
125|once --slots 15m x true|did you mean '--slot'
125|ls backup --json|options come before LOCK; a lock of that name is /locks/--json
125|watch backup -q|options come before LOCK
125|watch|which lock
125|watch --record=f x|^zklock: --record is no more: redirect 'zklock --json watch LOCK'
125|watch --replay f|^zklock: --replay is no more: 'zklock --json watch LOCK' prints every change
125|watch --speed 3 x|^zklock: --speed is no more: removed together with --replay
125|watch --span 5m x|^zklock: --span is no more: on a terminal, watch shows the table of 'zklock ls'
125|explain x|^zklock: 'explain' is no more: 'run --report FILE' says how a run ended, 'zklock --json ls' who queues
125|help explain|^zklock: 'explain' is no more
125|completion zsh|^zklock: completion zsh is no more: only bash is completed
125|completion fish|^zklock: completion fish is no more: only bash is completed
125|ls --record f x|--record: unknown option
125|check -- --is-me|options come before LOCK
125|run -- -n x|options come before LOCK
125|run|which lock
125|run x|which command
125|run x --|which command
125|run -c true|which lock
125|run -c true x true|takes the place of CMD
125|run -w x true|'x' is no duration
125|run -w 5q x true|'5q' is no duration
125|run -w -5 x true|'-5' is no duration
125|run -w 5.s x true|'5.s' is no duration
125|run -w '' x true|'' is no duration
125|run -w 99999999999h x true|is no duration
125|run -E 256 x true|not a number from 0 to 255
125|run -E -1 x true|not a number from 0 to 255
125|run -E ' 3' x true|not a number from 0 to 255
125|run -j -1 x true|-j: '-1' is not a number from 0 to 10000
125|run -r -j 3 x true|exclude each other
125|run -r --and y x true|exclude each other
125|run --and y -j 3 x true|exclude each other
125|run --revocable -r x true|--revocable goes with none of
125|run -j 2 --revocable x true|--revocable goes with none of
125|run --revocable --and y x true|--revocable goes with none of
125|run --delay-after-crash 1s -r x true|--delay-after-crash goes with none of
125|run -j 2 --delay-after-crash 1s x true|--delay-after-crash goes with none of
125|run --delay-after-crash 1s --and y x true|--delay-after-crash goes with none of
125|elect --delay-after-crash -1s x true|is no duration
125|once --delay-after-crash 1s --slot 1m x true|--delay-after-crash: unknown option
125|once --revocable --slot 1m x true|--revocable: unknown option
125|revoke|which lock
125|revoke x y|which lock
125|revoke -w long x|'long' is no duration
125|revoke --token none x|--token: 'none' is none
125|revoke a/../b|'..' is not allowed
125|revkoe x|did you mean 'revoke'
125|resize|which lock, and how many
125|resize x|which lock, and how many
125|resize x 3 4|which lock, and how many
125|resize x 0|K: '0' is not a number from 1 to 10000
125|resize x 10001|K: '10001' is not a number from 1 to 10000
125|resize x 3x|K: '3x' is not a number
125|resize x ''|K: '' is not a number
125|resize x 99999999999999999999|is not a number from 1 to 10000
125|resize -j 3 x|-j: unknown option
122|resize x 3|no response from 127.0.0.1:1
125|run --and x x true|'/locks/x' is named twice
125|run -a y --and /locks/y x true|'/locks/y' is named twice
125|run --and a/../b x true|'..' is not allowed
125|run --and '' x true|empty component
125|run --and -n x true|'-n': options come before LOCK
125|run --and y|which lock
125|run $(printf -- '-a l%d ' {1..100}) x true|--and: more than 100 LOCKs
125|run --report /nonexistent/file x true|--report /nonexistent/file: No such file or directory; make its directory first
125|run --report|missing argument
125|--session-timeout 0 run x true|out of range
125|--session-timeout 1ms run x true|100ms to 24h is possible
125|--tick 0s run x true|out of range
125|--tick 2x run x true|--tick: '2x' is no duration
125|--leader-pause -1s run x true|'-1s' is no duration
125|--leader-pause 25h run x true|--leader-pause: '25h' is out of range
125|--leader-pause|--leader-pause: missing argument
125|--observer-masters maybe run x true|--observer-masters: 'maybe' is none of detect, none, some
125|sandbox -C 4lw.commands.whitelist=ruok|the sandbox itself needs srvr
125|sandbox -C tickTime=4000|use zklock --tick DUR sandbox
125|--tls a,b,c run x true|built without TLS.*SECURITY.md
125|--tls ,a run x true|ca.pem.,cert.pem,key.pem
125|--sasl GSSAPI run x true|built without SASL.*SECURITY.md
125|--sasl GSSAPI --sasl-server zookeeper/ run x true|SERVICE/.HOST, as in zookeeper/zk.example.org
125|--sasl DIGEST-MD5 --sasl-server /x run x true|SERVICE/.HOST
125|elect|which election
125|-s memory:x doctor|memory:x is inside this process
125|once --slot 1m|which job
125|once --status|which job
125|once --status x true|'true': --status runs nothing
125|once --status -n x|only --slot goes with it
125|once --status -c true x|only --slot goes with it
125|once --status --report f x|only --slot goes with it
125|once --status -E 3 x|only --slot goes with it
125|once --status --slot 10ms x|a slot is a second
125|once --status a/../b|'..' is not allowed
122|once --status x|no response from 127.0.0.1:1
125|--auth-file /nonexistent run x true|--auth-file /nonexistent: No such file
125|run -n a/../b true|"a/../b": path: '..' is not allowed
125|run '' true|empty component
125|run $(printf '%03000d' 0) true|longer than 1024 bytes
125|run / true|'/' itself cannot be a lock
125|run /zookeeper/x true|belongs to the ensemble
125|run $'a\xff' true|not valid UTF-8
125|run x-0123456789 true|looks like a contender
125|once --slot 15m a/. true|'.' is not allowed
125|ls x a/../b|'..' is not allowed
125|sandbox -n 2|1 server or 3
125|sandbox -C nothing|want KEY=VALUE
125|check|which lock
125|check a b|which lock
125|hold|which lock
125|elect x|which command
125|--tls-host x check x|--tls-host is for --tls, which is missing
125|elect --backoff soon x true|'soon' is no duration
125|elect --backoff 30d x true|'30d' is out of range
125|elect -w 5s x true|unknown option
125|elect --health '' x true|which command
125|elect --health ./ok --every 1ms x true|'1ms' is out of range
125|elect --health ./ok --fails 0 x true|'0' is not a number from 1 to 1000
125|elect --fails 2 x true|--health, which is missing
125|elect --listen here x true|'here' is no address
125|elect --listen 99999 x true|'99999' is no address
125|elect --hook /nowhere x true|--hook /nowhere: No such file or directory; name a program
125|run --hook '' x true|No such file
125|once x true --slot 15m|which slots
125|once --slot 10ms x true|a slot is a second
125|once --slot 4000d x true|out of range
125|once --slot 10s@10s x true|the phase is less than the slot
125|once --slot 10s x|which command
125|once x true -h|which slots
125|release|which lock
125|release x|--force removes
125|release --force x|standard input is no terminal to ask on; --yes does without
125|release --force --yes --token 99999999999999999999 y|'9*' is none
122|run -w 200ms x true|^zklock: no response from 127.0.0.1:1 within 2[0-9]{2} ms; is it running\? -s or .ZKLOCK_SERVERS .* 'zklock doctor'
122|run -n -w 200ms x true|127.0.0.1:1
TABLE

for command in run elect once hold check ls watch release doctor sandbox bench; do
    for words in "help $command" "$command --help" "$command -h"; do
        eval "code 0 zklock $words"
        matches "zklock $words" "$(sed -n 3,4p "$work/out")" '^  .*zklock ' # examples lead
        says_only ""
        same "lines of 'zklock $words' too wide for a terminal" "$(awk 'length > 79' "$work/out")" ""
    done
done
code 0 zklock --help
same "lines of 'zklock --help' too wide for a terminal" "$(awk 'length > 79' "$work/out")" ""
code 0 zklock help
prints '^  -V, --version'
code 0 zklock once --help
prints '^--status shows the last slot'
code 0 zklock -V
prints '^zklock [0-9]+\.[0-9]+\.[0-9]+$'

# The variable is as good as the option, and looked at as closely.
while IFS='|' read -r tick says; do
    ZKLOCK_TICK=$tick code 125 zklock -s memory:usage run x true
    says "$says"
done <<'TABLE'
soon|\$ZKLOCK_TICK: 'soon' is no duration
0|\$ZKLOCK_TICK: '0' is out of range
2d|\$ZKLOCK_TICK: '2d' is out of range
13s|session timeout of 10000 ms .* leaves no lease with tick_ms 13000
TABLE
ZKLOCK_OBSERVER_MASTERS=maybe code 125 zklock -s memory:usage run x true
says '[$]ZKLOCK_OBSERVER_MASTERS: .maybe. is none of'
ZKLOCK_OBSERVER_MASTERS='' code 0 zklock -s memory:usage run x true
ZKLOCK_TICK='' code 0 zklock -s memory:usage run x true
code 125 zklock -s memory:usage --leader-pause 7s run x true
says 'leaves no lease with tick_ms 2000 and leader_pause_ms 7000'

# Secrets, which are never shown.
secret auth 'nothing'
code 125 zklock --auth-file "$work/auth" run x true
says 'SCHEME:CREDENTIALS'
if grep -q nothing "$work/err"; then bad "the secret was shown"; else ok; fi
printf 'digest:ann:one\ndigest:ann:two\n' >"$work/auth"
code 125 zklock --auth-file "$work/auth" run x true
says 'more than one line'
mkdir -m 700 "$work/folder"
code 125 zklock --auth-file "$work/folder" run x true
says 'Is a directory'

code 0 env -u PATH "$ZKLOCK" -s memory:usage run --hook true x true
says_only 'zklock: memory:usage is inside this process: nobody else is kept out'
code 0 env -C /bin PATH=/usr/sbin: "$ZKLOCK" -s memory:usage run --hook true x ./true

# What cannot be written to standard output is said, and is no success.
for words in --help --version "help run" "-s memory:usage ls x" "-s memory:usage --json ls x" "-s memory:usage check x" "-s memory:usage hold --for 0 x"; do
    got=0
    eval "zklock $words" >/dev/full 2>"$work/err" </dev/null || got=$?
    same "exit code of 'zklock $words' on a full disk" "$got" 125
    says '^zklock: standard output: No space left on device$'
done

if [ -n "${LACKING:-}" ]; then
    ln -s "$LACKING" "$work/lacking.so" # the linker would take a path with a space apart
    lacking() { env LD_PRELOAD="$work/lacking.so" zklock -s memory:usage "$@"; }
    # A keeper that could not see the lease's end does not begin.
    NO_TIMER=1 code 125 lacking run x touch "$work/ran"
    says 'keeper process gets no descriptor: Too many open files'
    true_that "CMD does not run under a blind keeper" [ ! -e "$work/ran" ]
    # The library for HTTP is loaded when something is to be served, and its want is said then.
    code 125 lacking elect --listen 0 x touch "$work/ran"
    says '^zklock: --listen 0: no such library \(Debian: libmicrohttpd12\)$'
    true_that "CMD does not run" [ ! -e "$work/ran" ]
    code 0 lacking run x true
fi

# A host whose name is no UTF-8.
if unshare --map-root-user --uts true 2>/dev/null; then
    code 0 unshare --map-root-user --uts python3 -c 'import os, socket; socket.sethostname(b"h\xff"); os.execvp("zklock", ["zklock", "-s", "memory:usage", "run", "x", "true"])'
fi
