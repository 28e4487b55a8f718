#!/bin/bash
# links.sh SOURCE: what the pages (*.md) point to exists: files, headings in them, and paths of this tree named in code spans. So do the pages
# that code, scripts and manual pages name; a public header also names the heading, as in docs/lease.md#assumptions.
# shellcheck disable=SC2016
set -eu
cd "$1"
wrong=0

complain() {
    echo "$page: $1" >&2
    wrong=1
}

# prose FILE: without its blocks of code
prose() {
    awk '/^ *```/ {code = !code; next} !code' "$1"
}

# headings FILE: their names as links have them
headings() {
    prose "$1" | sed -n 's/^#\{1,6\} *//p' | tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9 _-]//g; s/ /-/g'
}

# check_link TARGET FOLDER: of a link, or of the name of a page; without a file it is this page
check_link() {
    local file=${1%%#*} anchor=
    [[ $1 != http*://* ]] || return 0
    [ "$1" = "${1#*#}" ] || anchor=${1#*#}
    file=${file:+$2/$file}
    file=${file:-$page}
    if [ ! -e "$file" ]; then
        complain "names $1, which is not there"
    elif [ -n "$anchor" ] && ! headings "$file" | grep -qxF -- "$anchor"; then
        complain "names $1: no such heading"
    elif [ -z "$anchor" ] && [[ $page == include/* ]]; then
        complain "names $1 without a heading of it: a reader of a header looks for the section"
    fi
}

# check_span TEXT: `src/protocol/lease.c`, `scripts/soak sim`, `tests/sim/golden`: from the root, or from where the page is; `lease.c`: anywhere
check_span() {
    local path=${1%% *}
    path=${path%%:*}
    [[ $path != *NAME* ]] || return 0 # a pattern
    case $path in
    *[!a-z_.*]*) ;;
    *.c | *.h) [ -n "$(find . -name "$path" -print -quit)" ] || complain "names $path, which is nowhere" ;;
    esac
    [[ $path =~ ^(bench|cmake|docker|docs|examples|include|man|recipes|scripts|src|systemd|tests)/[A-Za-z0-9_./*-]+$ ]] || return 0
    compgen -G "$path" >/dev/null || compgen -G "$(dirname "$page")/$path" >/dev/null || complain "names $path, which is not there"
}

pages=$(find . \( -name build -o -name .git \) -prune -o -name '*.md' -print | sed 's|^\./||' | sort)
for page in $pages; do
    while read -r target; do
        check_link "$target" "$(dirname "$page")"
    done < <(prose "$page" | grep -oE '\]\([^) ]+\)' | sed 's/^](//; s/)$//')
    while read -r span; do
        check_span "$span"
    done < <(prose "$page" | grep -oE '`[^`]+`' | tr -d '`')
done

# Named from the root: docs/lease.md, SECURITY.md#access-lists.
while IFS=: read -r page reference; do
    check_link "$reference" .
done < <(grep -rIoHE '(\bdocs/[a-z-]+|\bSECURITY|\bRELEASING|\bCONTRIBUTING)\.md(#[a-z0-9_-]+)?' \
    include src recipes bench man examples scripts docker monitoring systemd packaging | sort -u)
exit $wrong
