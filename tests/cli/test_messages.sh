#!/bin/bash
# Every message of the command is in man/messages.txt, from which zklock-messages(7) is made; none that is there is missing in the code.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
tree=$(cd "$(dirname "$0")/../.." && pwd)

code 0 "$tree/scripts/lib/messages"
same "what is wrong" "$(grep -v ' 0 wrong$' "$work/out")" ""

# The check finds a message that is not in the list, one that is not in the code, and a "?".
mkdir -p "$work/tree/man" "$work/tree/src"
cp -r "$tree/src/cli" "$work/tree/src"
cp -r "$tree/scripts" "$work/tree"
cp "$tree/man/messages.txt" "$work/tree/man"
check=$work/tree/scripts/lib/messages
echo 'void added(void) { cli_error("\"%s\": the moon is %" PRId64 " km away" "; wait", name, km); }' >>"$work/tree/src/cli/words.c"
code 1 "$check"
prints 'not in the list: "…": the moon is … km away; wait$'
"$check" --update
code 1 "$check"
prints 'what to do[?] "…": the moon is … km away; wait$'
same "what --update keeps" "$(grep -v moon "$work/tree/man/messages.txt" | grep -vxF $'\t?')" "$(cat "$tree/man/messages.txt")"
cp "$tree/src/cli/words.c" "$work/tree/src/cli"
code 1 "$check"
prints 'not in the code: "…": the moon is … km away; wait$'

# What the command says in earnest is there, too: one of each kind of call.
in_list() { # MESSAGE of the command, with its ellipses
    grep -qxF -e "$1" "$tree/man/messages.txt"
}
code 125 zklock run
true_that "a usage error" in_list '…: which lock?'
code 125 zklock -s memory:messages run --grace 9s x true
matches "an error" "$(tail -1 "$work/err")" '^zklock: --grace 9000ms does not fit'
true_that "an error" in_list '--grace …ms does not fit: this session of …ms leaves a lease of …ms, of which CMD can be given …ms; shorten --grace or lengthen --session-timeout'
