#!/bin/bash
# What goes wrong at three in the morning: each is told in one line, which names the thing and the remedy.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need_sandbox sandbox -C maxClientCnxns=60

hold busy
secret unknown nosuch:me:secret
printf '#!/nowhere/interpreter\n' >"$work/script"
chmod +x "$work/script"

# Runs the line with no more of what -n limits.
limited() { (ulimit "$1" "$2" && shift 2 && exec "$@"); }

# one_line WHAT CODE PATTERN WORDS: the exit code, and that there is one line of zklock's, which is like PATTERN.
one_line() {
    code "$2" eval "$4" </dev/null
    same "lines at '$1'" "$(grep -c '^zklock: ' "$work/err")" 1
    matches "what is said at '$1'" "$(grep '^zklock: ' "$work/err")" "$3"
}

# what happens | exit code | what the one line is like | command
while IFS='|' read -r what wanted pattern words; do
    one_line "$what" "$wanted" "$pattern" "$words"
done <<TABLE
disk full: --report|125|--report /dev/full: No space left on device; make room there, or name another file|zklock run --report /dev/full x true
a report without a name|125|--report : No such file or directory|zklock run --report "" x sh -c 'exit 3'
disk full: --metrics|125|--metrics /dev/full: No space left on device; make room there|zklock run --metrics /dev/full x true
a hook that may not be executed|125|--hook /etc/passwd: Permission denied; name a program|zklock run --hook /etc/passwd x true
no DNS|122|no response from nosuch.invalid:2181 .*: no (server )?name .*; .*'zklock doctor'|zklock -s nosuch.invalid:2181 run -w 2s x true
no chroot|125|chroot of .* does not exist; create it first|zklock -s $ZKLOCK_SERVERS/none run x true
credentials of an unknown kind|121|credentials of scheme "nosuch" refused; --auth-file has to give|zklock --auth-file $work/unknown run x true
held by another one, -n|124|"busy" is held by somebody else; 'zklock ls busy' shows by whom|zklock run -n busy true
lock used as a semaphore|125|the path is in use as a lock.*; name another LOCK, or use this one as the others do|zklock run -j 2 busy true
CMD's interpreter is not there|127|$work/script: No such file or directory|zklock run x $work/script
CMD is killed, as for lack of memory|137|"x": somebody killed sh \\(SIGKILL\\); 'journalctl -k' shows a lack of memory|zklock run x sh -c 'kill -9 \$\$'
the keeper is killed|125|"x": the keeper process was killed, (and with it)?(before it started)? sh; run it again|zklock run x sh -c 'kill -9 \$PPID; sleep 60'
CMD leaves a process behind|0|sh has ended, processes it left behind have not: "x" is held until they end|zklock run x sh -c 'for n in \$(seq 300); do ! grep -q behind $work/err || break; sleep 0.1; done & exit 0'
CMD runs for too long|143|sleep ran for 0.3 s \\(--max-run\\): stopping it|zklock run --max-run 300ms x sleep 60
too few descriptors|125|no [a-z ]*descriptor [a-z ]*: raise the limits? \\(ulimit -n|limited -n 8 zklock run x true
too few descriptors for the keeper|125|zklock-keeper: cannot start this process: Too many open files; raise the limit \\(ulimit -n for files|limited -n 5 zklock run x true 3</dev/null
nothing to release|1|"free": nobody holds it|zklock release --force --yes free
a holder that does not listen|121|accepts no request: it runs without --revocable, .*release --force|zklock -q revoke busy
no Java|125|no java in .JAVA_HOME or .PATH; on Debian: apt-get install|env -u JAVA_HOME PATH=/nowhere $(command -v zklock) sandbox
TABLE

if unshare --map-root-user --mount true 2>/dev/null; then
    one_line "no /proc" 125 "/proc cannot be read: No such file or directory; mount it" \
        "unshare --map-root-user --mount bash -c 'mount -t tmpfs none /proc; exec zklock run x touch $work/ran'"
    true_that "CMD was not run" [ ! -e "$work/ran" ]
fi
# Where /proc hides processes (hidepid), one that hides its memory as well is killed nevertheless.
if [ "$(id -u)" -eq 0 ] && unshare --mount true 2>/dev/null; then
    for_others "$work/bin"
    chmod 711 "$work"
    mkfifo -m 666 "$work/hidden"
    # shellcheck disable=SC2016
    unshare --mount bash -c 'mount -t proc -o hidepid=2 proc /proc && exec "$@"' - \
        "${nobody[@]}" "$work/bin/zklock" --session-timeout 30s run --revocable --grace 6s hidden python3 -c '
import ctypes, os, sys, time
if os.fork() == 0:
    os.setsid()
    ctypes.CDLL(None).prctl(4, 0)  # PR_SET_DUMPABLE
    open(sys.argv[1], "w").write("hidden")
time.sleep(120)' "$work/hidden" &
    pid=$!
    same "a process that hides" "$(timeout 60 cat "$work/hidden")" hidden
    zklock -q revoke -w 30s hidden || kill -KILL "$pid"
    ends "exit code where a process hides" 143
fi
one_line "a limit of files' sizes" 125 "--metrics $work/large: File too large; raise the limit .ulimit -f." \
    "limited -f 8 zklock run --metrics $work/large x true"
same "what it leaves behind" "$(cd "$work" && echo large*)" "large*"

# Provocations that need somebody else to be hurt meanwhile.
# The process that runs the hooks is killed: the next event says so, and CMD is not harmed.
printf '#!/bin/sh\necho "$ZKLOCK_EVENT" >>%s/events\n' "$work" >"$work/hook"
chmod +x "$work/hook"
run_as hook --hook "$work/hook" hook
up hook
await "the first event" lines "$work/events" 1
hooks=$(ps -eo pid,comm,args | awk -v hook="$work/hook" '$2 == "zklock-hook" && index($0, hook) { print $1 }')
kill -9 "$hooks"
await "the end of the process that runs the hooks" gone "$hooks"
ended_by TERM "exit code without the process that runs the hooks" 143
file_is "what is said of it" hook.err "zklock: --hook $work/hook: released is dropped: the process that runs the hooks was killed; start zklock again"
# A hook that hangs keeps nobody who reads CMD's output waiting, and lets no health check go on.
mkfifo "$work/hang"
printf '#!/bin/bash\ncase $ZKLOCK_EVENT in jeopardy | safe) exit ;; esac\n[ "$ZKLOCK_EVENT" != released ] || read -rt 20 <>%s/hang\necho >>%s/hook.ended\n' "$work" "$work" >"$work/hook"
: >"$work/hook.ended"
same "CMD's output" "$(zklock run --hook "$work/hook" hangs echo fine)" fine
true_that "a reader of CMD's output waits for no hook" [ "$(wc -l <"$work/hook.ended")" -le 1 ]
zklock elect --once --health true --hook "$work/hook" hangs bash -c 'pgrep -P "$(ps -o ppid= -p $PPID | tr -d " ")" -x zklock-health' 2>/dev/null >"$work/health"
await "the end of the process that runs --health" gone "$(cat "$work/health")"
true_that "it does not wait for a hook" [ "$(wc -l <"$work/hook.ended")" -lt 4 ]
printf '\n\n' 1<>"$work/hang"
# The keeper is killed while zklock is queued.
zklock run busy touch "$work/ran" 2>"$work/queued.err" &
pid=$!
await "a waiter" queued busy 2
kill -9 "$(pgrep -P "$pid")"
kill "$holder"
ends "exit code of a waiter without its keeper" 125
file_matches "what it says" queued.err 'the keeper process was killed, before it started touch; run it again'
# The terminal is closed: CMD gets HUP, the lock is released.
python3 - "$work" <<'PY'
import os, pty, sys, time
pid, terminal = pty.fork()
if pid == 0:
    os.execvp("zklock", ["zklock", "run", "closed", "sh", "-c", "echo up >%s/up; exec sleep 600" % sys.argv[1]])
while not os.path.exists(sys.argv[1] + "/up"):
    time.sleep(0.01)
os.close(terminal)
_, status = os.waitpid(pid, 0)
print(os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status), file=open(sys.argv[1] + "/closed", "w"))
PY
file_is "exit code when the terminal is closed" closed 129
code 1 zklock check closed
# Somebody sets the clock, a day on and a day back: no lock is lost, and CMD has its time.
if [ -n "${CLOCK_STEP:-}" ]; then
    ln -s "$CLOCK_STEP" "$work/clock_step.so" # the linker would take a path with a space apart
    set_clock() { echo "$1" >"$work/clock.new" && mv "$work/clock.new" "$work/clock"; }
    stepped=(env --default-signal "LD_PRELOAD=$work/clock_step.so" "CLOCK_STEP_FILE=$work/clock")
    set_clock 86400
    true_that "the clock is set" [ $(($("${stepped[@]}" date +%s) - $(date +%s))) -ge 86000 ]
    set_clock 0
    begin=$(now_ms)
    "${stepped[@]}" zklock --session-timeout 20s run --max-run 25s clock sleep 600 2>"$work/clock.err" &
    pid=$!
    await "CMD under that clock" queued clock 1
    set_clock 86400
    await "a look after the clock was set" zklock run clock2 true
    set_clock -86400
    ends "exit code under that clock" 143
    true_that "CMD ran for its time" [ $(($(now_ms) - begin)) -ge 25000 ]
    same "what is said of a clock that was set" "$(grep -v max-run "$work/clock.err")" ""
fi
# The servers stand still: a holder is stopped by its lease, with a line that names the remedy.
run_as silent silent
up silent
freeze_servers
await "the end of CMD" grep -q 'the lease ends in' "$work/silent.err"
thaw_servers
matches "what a holder says" "$(head -1 "$work/silent.err")" "^zklock: \"silent\": no response from the servers, the lease ends in [0-9]+ms: stopping bash; 'zklock doctor' asks each server\$"
ends "exit code of a holder without servers" 120
# More connections from one host than the servers permit.
one_line "too many connections" 122 "no response from .*; is it running\\? .*'zklock doctor' asks each" \
    "env -u ZKLOCK_SANDBOX_DIR zklock sandbox -C maxClientCnxns=1 -- zklock -q run -w 60s x sh -c 'zklock doctor >$work/doctor 2>&1; exec zklock run -w 3s y true'"
file_matches "the doctor of it" doctor 'maxClientCnxns'
# Half of the servers are gone.
one_line "two of three servers gone" 122 "no response from .* within .*'zklock doctor' asks each" \
    "env -u ZKLOCK_SANDBOX_DIR zklock sandbox -n 3 -- bash -c 'set -- \$ZKLOCK_SANDBOX_PIDS; kill -9 \$1 \$2; zklock run -w 4s x true'"
