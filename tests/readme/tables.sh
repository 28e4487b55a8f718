#!/bin/bash
# tables.sh SOURCE BUILD: what tests/features.tsv, tests/faults.tsv, tests/security/attacks.tsv and docs/lessons.md name as shown exists: programs,
# tests in them, faults and invariants of the simulator, stories, plans, kinds of chaos, mutants.
# shellcheck disable=SC2001,SC2013,SC2016,SC2020
set -eu
cd "$1"
wrong=0
known=$(cd "$2" && ctest -N | sed -n 's/^ *Test *#[0-9]*: //p')

complain() {
    echo "$file: $1" >&2
    wrong=1
}

# The file of a program, if its tests have names.
source_of() {
    case $1 in
    unit_* | integration_* | security_*) echo "tests/${1%%_*}/test_${1#*_}.c" ;;
    shell_*) echo "tests/shell/test_$1.c" ;;
    esac
}

is_known() {
    grep -qxF -- "$1" <<<"$known" || grep -rqE "(NAME |set\(name |zklock_test\()$1\b" tests --include=CMakeLists.txt
}

# check_word KIND WORD
check_word() {
    case $1 in
    mutant) [ -e "tests/mutants.d/$2.mutant" ] || complain "no mutant $2" ;;
    golden) [ -e "tests/sim/golden/$2.txt" ] || [ -e "tests/sim/shell/golden/$2.txt" ] || complain "no golden story $2" ;;
    plan) [ -e "tests/sim/seeds/$2.plan" ] || [ -e "tests/sim/shell/seeds/$2.plan" ] || complain "no kept plan $2" ;;
    chaos) grep -q "{\"$2\"," tests/chaos/chaos.c || complain "no kind of chaos $2" ;;
    fault) grep -q "\"$2\"" tests/sim/plan_text.c || complain "the simulator has no fault $2" ;;
    invariant) grep -qE "^ \*  $2 " tests/sim/invariants.h || complain "the simulator has no invariant $2" ;;
    esac
}

# check_quoted WORDS: fault `x`, invariant `y`, kept plan `z`, mutant `a`, golden `b`, chaos `c`
check_quoted() {
    local word
    while read -r word; do
        check_word "${word%% *}" "${word##* }"
    done < <(grep -oE '(fault|invariant|plan|mutant|golden|chaos) `[a-z-]+`' <<<"$1" | tr -d '`')
}

# check_tests PROGRAM WORDS
check_tests() {
    local source name
    source=$(source_of "$1")
    is_known "$1" || [ -e "${source:-/none}" ] || complain "no test program $1"
    for name in $(grep -oE '\btest_[a-z0-9_]+' <<<"$2"); do
        grep -qE "\bTEST[A-Z_]*\(([a-z_]+, )?$name\)" "${source:-/dev/null}" || complain "$1 has no $name"
    done
}

# check_clause CLAUSE: "program: test_a, test_b", "cli_queue"
check_clause() {
    local word
    for word in $(grep -oE '\b(unit|integration|security|sim|shell|chaos|cli|interop|cost|consumer|readme|man)_[a-z0-9_]+' <<<"${1%%:*}"); do
        check_tests "$word" "$1"
    done
}

# The last column of a table: clauses with ; between them.
for file in tests/features.tsv tests/faults.tsv tests/security/attacks.tsv; do
    shown=$(tail -n +2 "$file" | cut -f3)
    while read -r clause; do
        check_clause "$clause"
    done < <(tr ';' '\n' <<<"$shown" | sed 's/^ *//; s/ *$//' | grep .)
    check_quoted "$shown"
done
file=docs/lessons.md
check_quoted "$(cat "$file")"
exit $wrong
