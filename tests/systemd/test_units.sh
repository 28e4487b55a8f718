#!/bin/bash
# The units are what systemd takes, and what they start is what the command takes.
#   test_units.sh BUILT_FOLDER SOURCE_FOLDER BINDIR
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"
built=$1 source=$2 bindir=$3
command -v systemd-analyze >/dev/null || exit 77

# As they are, but for the place of the command and of the settings.
mkdir "$work/units"
ln -s "$ZKLOCK" "$work/zklock"
for unit in "$built"/*.service "$source"/*.timer; do
    sed "s|$bindir/zklock|$work/zklock|; s|^EnvironmentFile=.*|EnvironmentFile=$work/settings|" "$unit" >"$work/units/$(basename "$unit")"
done
printf 'ZKLOCK_SERVERS=memory\nSLOT=1h\nCOMMAND=true\n' >"$work/settings"
for instance in zklock-elect@demo.service zklock-once@demo.service zklock-once@demo.timer; do
    true_that "$instance verifies" env SYSTEMD_UNIT_PATH="$work/units:" systemd-analyze verify --man=no "$instance" \
        >"$work/out" 2>"$work/err"
    same "what systemd says of $instance" "$(grep -F zklock- "$work/err")" ""
done

# starts UNIT: its command line up to the instance's name
# shellcheck disable=SC2016
starts() { sed -n 's/^ExecStart=\(.*\) %i -- $COMMAND$/\1/p' "$work/units/$1"; }

for unit in zklock-elect@.service zklock-once@.service; do
    level=$(systemd-analyze security --offline=true "$built/$unit" 2>/dev/null | sed -n 's/.*exposure level.*: \([0-9.]*\) .*/\1/p')
    if [ -n "$level" ]; then true_that "$unit is in a box ($level of 10)" awk "BEGIN { exit !($level < 4) }"; fi # systemd 250
    line=$(starts $unit)
    matches "$unit" "$line" "^$work/zklock [a-z]+ --"
    # shellcheck disable=SC2086,SC2016
    code 0 ${line/'${SLOT}'/1h} --help
done
