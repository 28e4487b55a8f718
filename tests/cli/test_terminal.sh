#!/bin/bash
# What a terminal sees, and nobody else: the line about the queue; the keyboard belongs to CMD.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need_sandbox sandbox

hold busy

until_seen "held by $me for 00:0" "zklock run busy true"
file_matches "a terminal" seen "waiting for \"busy\": 1 ahead; held by $me for 00:0[0-9]:[0-5][0-9]"
# Narrow terminals: one line stays one line, a table is cut.
plain() { tr -d '\r' | sed 's/\x1b\[[0-9;?]*[A-Za-z]/\n/g'; }
until_seen 'busy.: 1' "stty cols 30; zklock run busy true"
matches "a narrow terminal" "$(plain <"$work/seen")" '^zklock: waiting for "busy": 1$'
until_seen "holds +00:0.:.. " "stty cols 20 rows 5; export TERM=xterm; zklock watch busy"
matches "watch on a narrow terminal" "$(plain <"$work/seen")" '^  holds  00:0[0-9]:[0-5][0-9] +$'
same "lines of watch that wrap" "$(plain <"$work/seen" | awk 'length > 20')" ""
same "lines of ls that wrap" "$(on_terminal "stty cols 20; zklock ls busy" | awk 'length > 20')" ""
same "lines that look like the first of check" "$(on_terminal "stty cols 16; zklock check busy" | grep -c '^[^ ]')" 1
until_seen "[.][.][.]" "stty cols 80 rows 4; export TERM=xterm; zklock watch busy x"
same "lines of watch in a low window" "$(tr -d '\r' <"$work/seen" | sed 's/\x1b\[[JK]//g' | awk 'BEGIN { RS = "\033\\[H" } NR == 2 { print gsub("\n", "") }')" 3
until_seen "holds .* $me" "export TERM=dumb; zklock watch busy"
same "nothing but text where TERM is dumb" "$(grep -c $'\e' "$work/seen")" 0

short() { on_terminal "zklock run -w 500ms busy true" </dev/null >"$work/seen"; ! grep waiting "$work/seen"; }
true_that "a short wait on a terminal shows nothing" thrice short
on_terminal "zklock -q run -w 10s busy true" </dev/null >"$work/seen"
file_is "a quiet wait on a terminal" seen ""
code 124 zklock run -w 10s busy true
says_only 'zklock: "busy" was not granted in 10.0 s; '"'zklock ls busy' shows who holds it"
kill "$holder"
wait "$holder"

# CMD may read the terminal, and gets what is typed on it.
same "what is typed" "$(echo typed | on_terminal "zklock run x head -n 1" | tail -1)" typed
# Ctrl-C ends CMD, which is in the foreground, and the script that has called zklock; without a script, also a list of the shell's.
type_when_up() { await "CMD" lines "$work/up" 1 >&2 && printf '%b' "$1"; }
cat >"$work/job" <<'EOF'
zklock ${*:-run x} sh -c 'echo up >$UP; exec sleep 60'
echo "went on"
EOF
for how in "bash $work/job" "bash $work/job sandbox --" "sh $work/job" "set -m; . $work/job"; do
    rm -f "$work/up"
    type_when_up '\003' | UP=$work/up typescript "$how" >"$work/seen"
    same "exit code of $how after Ctrl-C" $? 130
    same "$how after Ctrl-C" "$(grep -c "went on" "$work/seen")" 0
done
rm "$work/up"
# A terminal that Ctrl-S has stopped does not keep CMD from running.
cat >"$work/job" <<'EOF'
flow() { python3 -c "import termios; termios.tcflow(0, termios.$1)"; }
flow TCOOFF
zklock -v run x sh -c 'echo >"$UP"' &
timeout 60 cat "$UP" >"$UP.read"
ran=$?
flow TCOON
wait $!
echo "$ran $?"
EOF
mkfifo "$work/began"
UP=$work/began on_terminal "bash $work/job" </dev/null >"$work/seen"
same "CMD on a terminal that is stopped" "$(tail -1 "$work/seen")" "0 0"
# Ctrl-Z stops the job as a shell expects it, fg goes on.
cat >"$work/job" <<'EOF'
set -m
zklock --session-timeout 30s run x bash -c 'echo up >$UP; read -r line; echo "CMD read $line"'
echo "code $?"
jobs
fg >/dev/null
echo "code $?"
EOF
type_when_up '\032typed\n' | UP=$work/up on_terminal "bash $work/job" >"$work/seen"
file_matches "Ctrl-Z" seen '^code 148'
file_matches "Ctrl-Z" seen '^\[1\].*Stopped'
file_matches "Ctrl-Z and fg" seen '^CMD read typed'
matches "Ctrl-Z and fg" "$(tail -1 "$work/seen")" '^code 0'

# So it does in a pipeline, where the keyboard does not reach CMD.
cat >"$work/job" <<'EOF'
set -m
zklock --session-timeout 30s run x bash -c 'echo $$ >$UP; read -r line <$GO; echo "CMD read $line"' | cat
echo "code $?"
timeout 60 sh -c 'until grep -q "State:.T" /proc/$(cat $UP)/status; do sleep 0.02; done'
echo "stopped $?"
echo typed >"$GO" &
fg %1 >/dev/null
EOF
rm "$work/up"
gate "$work/go"
type_when_up '\032' | GO=$work/go UP=$work/up on_terminal "bash $work/job" >"$work/seen"
file_matches "Ctrl-Z in a pipeline" seen '^code 148'
file_matches "CMD of a pipeline that was stopped" seen '^stopped 0'
file_matches "Ctrl-Z in a pipeline and fg" seen '^CMD read typed'
# Where no shell could let it go on, it stops nothing.
rm "$work/up"
type_when_up '\032typed\n' | on_terminal "exec zklock run --max-run 60s x bash -c 'echo up >$work/up; read -r line; echo \"CMD read \$line\"'" >"$work/seen"
file_matches "Ctrl-Z without a shell" seen '^CMD read typed'
same "what Ctrl-Z without a shell says" "$(grep -c "will be lost" "$work/seen")" 0

# In a pipeline, or with its input from elsewhere, CMD has the terminal when it asks for it, as ssh does for a password.
ask="echo up >$work/up; read -r line </dev/tty; echo \"CMD read \$line\""
for how in "zklock run x bash -c '$ask' | cat" "zklock run x bash -c '$ask' </dev/null"; do
    rm -f "$work/up"
    type_when_up 'typed\n' | on_terminal "$how" >"$work/seen"
    file_matches "terminal of $how" seen '^CMD read typed'
done
# In the background it waits for fg.
rm -f "$work/up"
cat >"$work/job" <<'EOF'
set -m
zklock run x bash -c 'echo up >$UP; read -r line; echo "CMD read $line"' 2>"$SAID" &
timeout 60 sh -c 'until grep -q "when this job is in the foreground" "$SAID"; do sleep 0.02; done'
fg >/dev/null
echo "code $?"
EOF
type_when_up 'typed\n' | UP=$work/up SAID=$work/said on_terminal "bash $work/job" >"$work/seen"
file_matches "background and fg" seen '^CMD read typed'
matches "background and fg" "$(tail -1 "$work/seen")" '^code 0'
# A job that goes on in the background, before its lock is granted or after, leaves the shell its terminal.
go_on_in_background() {
    printf '%s\n' "zklock run x sh -c 'echo up >$work/up; read -r line <$work/go'"
    await "a job in the foreground" "$@" >&2
    printf '\032'
    await "a stopped job" grep -q Stopped "$work/seen" >&2
    printf 'bg\n'
    [ "$way" != "queued x 2" ] || kill "$holder"
    echo >"$work/go"
    await "the end of the job" lines "$work/up" 1 >&2 && await "its release" queued x 0 >&2
    printf 'echo al""ive\nexit\n'
}
for way in "lines $work/up 1" "queued x 2"; do
    rm -f "$work/up"
    : >"$work/seen"
    [ "$way" != "queued x 2" ] || hold x
    # shellcheck disable=SC2086,SC2094
    go_on_in_background $way | typescript "TERM=dumb bash --norc -i" >>"$work/seen"
    file_matches "a shell whose job went on in the background ($way)" seen '^alive'
done
# A CMD that is stopped for good leaves its terminal to Ctrl-C.
type_when_stopped() { await "CMD is stopped" grep -q 'stopped by SIGSTOP' "$work/said" >&2 && printf '%b' "$1"; }
: >"$work/said"
type_when_stopped '\003' | typescript "exec zklock run x sh -c 'kill -STOP \$\$' 2>$work/said" >/dev/null
same "exit code after Ctrl-C at a CMD that is stopped" $? 130
# hold in the background reads nothing that is typed, however often it looks: a read would stop it.
rm -f "$work/up"
cat >"$work/job" <<'EOF'
set -m
zklock hold x >"$UP" &
echo $! >"$UP.pid"
wait $!
echo "code $?"
EOF
switches() { awk '$1 == "voluntary_ctxt_switches:" { print $2 }' "/proc/$1/status"; }
looked() { [ ! -e "/proc/$1" ] || [ "$(switches "$1")" -ge "$2" ]; } # one that was stopped ends with its shell
type_and_end() {
    local pid
    type_when_up 'typed\n'
    await "an echo of what is typed" grep -q typed "$work/seen" >&2
    pid=$(cat "$work/up.pid")
    await "two looks of hold" looked "$pid" $(($(switches "$pid") + 2)) >&2
    kill "$pid"
}
: >"$work/seen"
# shellcheck disable=SC2094 # one side reads what the other one writes: that is the point
type_and_end | UP=$work/up typescript "bash $work/job" >>"$work/seen"
same "hold in the background" "$(tr -d '\r' <"$work/seen" | tail -1)" "code 143"
