#!/bin/bash
# The script of `zklock completion fish`: fish takes it, and offers what bash does.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
command -v fish >/dev/null || { echo "no fish here"; trap - EXIT; rm -rf "$work"; exit 77; }

export HOME=$work XDG_CONFIG_HOME=$work XDG_DATA_HOME=$work
code 0 zklock completion fish
same "nothing on standard error" "$(cat "$work/err")" ""
cp "$work/out" "$work/zklock.fish"
code 0 fish --no-execute "$work/zklock.fish"

# offered LINE: what is offered for its last word, in one line.
offered() {
    # shellcheck disable=SC2016 # for fish
    fish --no-config -c 'source $argv[1]; complete -C $argv[2]' "$work/zklock.fish" "$1" 2>&1 | cut -f1 | sort | tr '\n' ' ' | sed 's/ $//'
}
touch "$work/authority"
cd "$work" || exit 1
while IFS='|' read -r line wanted; do
    same "completion of '$line'" "$(offered "$line")" "$wanted"
done <<'TABLE'
zklock rel|release
zklock -s localhost:2181 do|doctor
zklock help wat|watch
zklock --session|--session-timeout
zklock run --sh|--shared
zklock run -w 5s --slo|--slots
zklock run --report autho|authority
zklock run back|
zklock ls backup --js|
zklock run backup zklock rel|release
zklock run -n backup -- zklock rel|release
TABLE
