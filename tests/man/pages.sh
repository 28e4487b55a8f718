#!/bin/sh
# pages.sh ZKLOCK LIBRARY PAGES SOURCES: every function, every subcommand and every option has its place in a manual page, no page speaks of
# one that is not there, and the formatter finds nothing to say.
set -eu
zklock=$1 library=$2 pages=$3 sources=$4
failed=0
complain() {
    echo "$*" >&2
    failed=1
}

# What --help lists of options, its own or the global ones.
options() {
    "$zklock" ${1:+"$1"} --help | sed -n "/^$2/,/^\$/p" | grep -o -- '--[a-z][-a-z]*' | sort -u
}

for function in $(nm -D --defined-only "$library" | sed -n 's/.* \(zkl_[a-z_]*\)\(@.*\)\{0,1\}$/\1/p'); do
    [ -s "$pages/$function.3" ] || complain "$function has no page"
done

# shellcheck disable=SC2013 # words
for type in $(sed -n 's/^} \(zkl_[a-z_]*\);$/\1/p; s/^typedef .*(\*\(zkl_[a-z_]*\))(.*/\1/p' "$sources"/../include/zklock/*.h); do
    [ -s "$pages/$type.3" ] || complain "$type has no page"
done

global=$(options "" "Global options:")
for option in $global; do
    grep -q -- "@$option@" "$sources/zklock.1.scd" || complain "zklock(1) does not speak of $option"
done
subcommands=$("$zklock" --help | sed -n '/^Subcommands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
[ -n "$subcommands" ]
for subcommand in $subcommands; do
    source=$sources/zklock-$subcommand.1.scd
    [ -s "$pages/zklock-$subcommand.1" ] || {
        complain "$subcommand has no page"
        continue
    }
    grep -q "^\*$subcommand\*" "$sources/zklock.1.scd" || complain "zklock(1) does not list $subcommand"
    own=$(options "$subcommand" "Options:")
    for option in $own; do
        grep -q -- "@$option@" "$source" || complain "zklock-$subcommand(1) does not speak of $option"
    done
    for option in $(grep -o -- '[*@]--[a-z][-a-z]*[*@]' "$source" | tr -d '*@' | sort -u); do
        printf '%s\n' "$own" "$global" | grep -qx -- "$option" || complain "zklock-$subcommand(1) speaks of $option, which there is not"
    done
done
listed=$(sed -n 's/^\*[a-z]*\* (\*zklock-\([a-z]*\)\*(1))$/\1/p' "$sources/zklock.1.scd")
for name in $listed; do
    printf '%s\n' "$subcommands" | grep -qx "$name" || complain "zklock(1) lists $name, which there is not"
done
for source in "$sources"/zklock-*.1.scd; do
    name=${source##*/zklock-}
    printf '%s\n' "$subcommands" | grep -qx "${name%.1.scd}" || complain "there is no subcommand ${name%.1.scd}"
done

if command -v man >/dev/null 2>&1 && command -v groff >/dev/null 2>&1; then
    for page in "$pages"/zklock*.[137]; do
        said=$(man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null) || true
        [ -z "$said" ] || complain "$page: $said"
    done
fi
exit $failed
