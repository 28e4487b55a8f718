#!/bin/bash
# Every example of every --help and of the manual, typed on a terminal as a new user would, with stand-ins for the jobs it names.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need_sandbox sandbox
manual=$(cd "$(dirname "$0")/../../man" && pwd)

mkdir "$work/bin" "$work/home"
for job in bin/pg_dump bin/dump bin/make home/job home/report home/read-it home/frame home/both home/rotate home/scheduler home/lead home/ok; do
    printf '#!/bin/sh\necho "%s ran"\n' "$job" >"$work/$job"
    chmod +x "$work/$job"
done
printf '#!/bin/sh\nexec cat\n' >"$work/bin/logger"
chmod +x "$work/bin/logger"
PATH=$work/bin:$PATH
cd "$work/home" || exit 1
for report in web1 web2; do zklock run --report "$report.json" backup true; done

# What is before the usage: examples, without crontab's columns and without comments.
examples() { zklock "$@" --help | sed -n '3,/^Usage:/{/zklock /{/^Usage:/d;s/^[^z]*//;s/  *#.*//;p}}'; }
all_examples() {
    local command
    # shellcheck disable=SC2119
    examples
    for command in $(zklock --help | sed -n '/^Subcommands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
        examples "$command"
    done
    awk '/^```/ {on = !on} on && /zklock / && !/^ExecStart/ {sub(/^[^z]*/, ""); print}' "$manual"/zklock*.scd
}

# shellcheck disable=SC2094 # what it has said is what is waited for
# Types the line; what goes on for ever is ended by Ctrl-C as soon as it has said something.
type_on_terminal() { # LINE
    printf '%s\n' "$1" >"$work/line"
    : >"$work/seen"
    { case $1 in
      *"hold "* | *"watch "* | *"sandbox -n"*)
          until [ -s "$work/seen" ]; do moment; done
          printf '\003'
          ;;
      esac; } | script -qefc "bash $work/line" "$work/typescript" >"$work/seen" 2>&1
}

count=0
all_examples | awk '!seen[$0]++' >"$work/examples"
exec 9<"$work/examples"
while read -r line <&9; do
    count=$((count + 1))
    line=${line//--listen 9470/--listen 0} # a port that nobody has
    line=${line//-w 5s/-w 50s}             # a machine that stalls
    line=${line/%bench/bench --for 200ms}
    type_on_terminal "${line//zk1:2181,zk2:2181/$ZKLOCK_SERVERS}"
    got=$?
    if [ "$got" -eq 1 ] && [[ $line == *doctor ]]; then # it gives a server two seconds
        type_on_terminal "${line//zk1:2181,zk2:2181/$ZKLOCK_SERVERS}"
        got=$?
    fi
    case $line in
    *"hold "* | *"watch "* | *"sandbox -n"*) wanted='^(130|0)$' ;; # ended by Ctrl-C; of a pipe its reader
    *"check "*"||"*) wanted='^0$' ;;
    *"check "* | *"release "* | *"resize "* | *"revoke "*) wanted='^1$' ;; # nobody holds it, or ever did
    *) wanted='^0$' ;;
    esac
    matches "exit code of '$line' ($(head -c 300 "$work/seen"))" "$got" "$wanted"
done
true_that "$count examples were found" [ "$count" -ge 50 ]
true_that "jobs were run" grep -q 'scheduler ran' <(zklock elect scheduler -- ./scheduler)
