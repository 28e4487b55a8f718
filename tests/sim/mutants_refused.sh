#!/bin/sh
# mutants_refused.sh MUTANTS: what the runner refuses by name: an edit whose lines are gone or there twice, a function that is
# gone, a file without an edit or a description, a tier that nobody knows, a seed that is no number.
set -eu
mutants=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

# refused NAME WORDS: the mutant on standard input is refused, with these words.
refused() {
    cat >"$folder/$1.mutant"
    if said=$("$mutants" --check -d "$folder" "$1"); then
        echo "$1 was taken" >&2
        failed=1
    elif ! echo "$said" | grep -q "^$1 .*DOES NOT APPLY: .*$2"; then
        printf '%s: expected "%s"\n%s\n' "$1" "$2" "$said" >&2
        failed=1
    fi
    rm "$folder/$1.mutant"
}

edit() {
    printf '%s\n\nfile: src/protocol/share.c\nfunction: %s\nold:\n%s\nnew:\n%s\n' "$@"
}

edit "A line that is gone." zkl__slot_of "    not_there();" "    ;" | refused gone "not_there.*0 times in zkl__slot_of"
edit "A line that is there more than once." "" "}" ";" | sed '/^function/d' | refused twice "there [0-9]* times in src/protocol/share.c"
edit "A function that is gone." zkl__no_such "    return 0;" "    return 1;" | refused function "zkl__no_such is there 0 times"
edit "Changes nothing." zkl__slot_of "{" "{" | refused nothing "replaces nothing"
edit "" zkl__slot_of "{" "{;" | refused undescribed "says not what it is"
edit "A tier of its own. " zkl__slot_of "{" "{;" | sed 's/^file/tier: nobody\n&/' | refused tier "no tier is called nobody"
edit "A seed that is none." zkl__slot_of "{" "{;" | sed 's/^file/seed: first\n&/' | refused seed "seed:. has no place here"
echo "Only words." | refused words "edits nothing"
edit "The file is gone." zkl__slot_of "{" "{;" | sed 's/share\.c/no.c/' | refused file "there is no src/protocol/no.c"
edit "This one is taken." zkl__slot_of "{" "{;" >"$folder/taken.mutant"
"$mutants" --check -d "$folder" >/dev/null || failed=1
exit $failed
