#!/bin/bash
# The script of `zklock completion bash`, as bash would call it.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

code 125 zklock completion
code 125 zklock completion tcsh
says 'for which shell\? bash'
code 0 zklock completion bash
says_only ""
# shellcheck disable=SC1091
. "$work/out"
same "complete -p" "$(complete -p zklock)" "complete -F _zklock zklock"

# offered WORD...: what is offered for the last word, in one line. Bash splits words at : and = as well.
offered() {
    COMP_LINE="zklock $*"
    mapfile -t COMP_WORDS < <(grep -oE '[:=]+|[^:= ]+' <<<"$COMP_LINE")
    [[ $COMP_LINE != *' ' ]] || COMP_WORDS+=('')
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    COMPREPLY=()
    _zklock zklock "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    printf '%s\n' "${COMPREPLY[@]}" | in_one_line
}

# As bash has it, only while it completes.
compopt() { COMPREPLY+=("as $2"); }

in_one_line() { grep . | sort | tr '\n' ' ' | sed 's/ $//'; }

# Everything that help lists is offered, and nothing else.
listed() { # of a subcommand: the global ones, too
    { zklock "$@"; zklock --help; } | sed -n 's/^      --\([-a-z]*\).*/--\1/p; s/^  \(-[a-zA-Z]\), --\([-a-z]*\).*/\1\n--\2/p' | sort -u | in_one_line
}
mapfile -t commands < <(zklock --help | sed -n '/^Subcommands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
same "subcommands" "$(offered '')" "$(printf '%s\n' help "${commands[@]}" | in_one_line)"
same "global options" "$(offered -)" "$(listed --help)"
for command in "${commands[@]}"; do
    same "options of $command" "$(offered "$command" -)" "$(listed "$command" --help)"
done

# words (the last one is completed) | what is offered
touch "$work/a file" "$work/auth"
cd "$work" || exit 1
while IFS='|' read -r words wanted; do
    eval "set -- $words"
    same "completion of 'zklock $words'" "$(offered "$@")" "$wanted"
done <<'TABLE'
rel|release
--session|--session-timeout
-s localhost:2181 do|doctor
-s 127.0.0.1:2181 rel|release
-s zk1:2181,zk2:2181/chroot rel|release
-s [::1]:2181 rel|release
-s zk1:rel|
--servers=localhost rel|release
--servers=zk1:2181 rel|release
--servers=zk1:2181 run --sh|--shared
help wat|watch
run --sh|--shared
run -w 5s --sla|
run --wait=5s --slo|--slots
run -w ''|
run -w --sl|
run --report au|as filenames auth
run --report=au|as filenames auth
run --wait=|
run --wait=-|
run --auth-file au|as filenames auth
hold --for ''|
revoke --to|--token
run --rev|--revocable
run back|
run backup --sh|
ls backup --js|
TABLE
true_that "a command after LOCK" grep -qw bash <<<"$(offered run backup ba)"
true_that "a command after LOCK --" grep -qw bash <<<"$(offered run -n backup -- ba)"
true_that "a command of sandbox" grep -qw bash <<<"$(offered sandbox -n 3 -- ba)"
true_that "a command behind a value with =" grep -qw bash <<<"$(offered sandbox -C a=b -- ba)"
same "no command without --" "$(offered sandbox ba)" ""
same "files for a command" "$(offered run backup cat au)" "as filenames auth"
same "files for an option of a command" "$(offered run backup cat --from=au)" "as filenames auth"

# With bash-completion, the command's own words are its own affair.
_command_offset() { COMPREPLY=("from word $1"); }
same "offset" "$(offered run -w 5s backup cat au)" "from word 5"
same "offset after --" "$(offered run backup -- cat au)" "from word 4"
same "offset of the command itself" "$(offered run backup ca)" "from word 3"
same "offset behind values with : and =" "$(offered -s zk1:2181 run --wait=5s backup cat a=b)" "from word 10"
same "offset in a sandbox" "$(offered sandbox -- zklock ru)" "from word 3"
