#!/bin/bash
# The script of `zklock completion zsh`: zsh takes it, and registers it.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
command -v zsh >/dev/null || { echo "no zsh here"; trap - EXIT; rm -rf "$work"; exit 77; }

code 0 zklock completion zsh
same "nothing on standard error" "$(cat "$work/err")" ""
same "first line, which compinit reads" "$(head -n 1 "$work/out")" "#compdef zklock"
cp "$work/out" "$work/_zklock"
code 0 zsh -fn "$work/_zklock"
# shellcheck disable=SC2016 # for zsh
code 0 zsh -fc 'fpath=($1 $fpath); autoload -U compinit; compinit -D -u; echo $_comps[zklock]; autoload +X _zklock' zsh "$work"
same "registered" "$(cat "$work/out")" _zklock
same "nothing on standard error of zsh" "$(cat "$work/err")" ""
