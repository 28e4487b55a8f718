#!/bin/sh
# measured.sh SOURCE: the figures in the README are those of docs/measurements.md, and the plots that it shows are there. scripts/bench writes both.
set -eu
cd "$1"
page=$(sed -n '/^## In short/,/^## Goals/p' docs/measurements.md | grep '^|' || true)
readme=$(sed -n '/^<!-- measured: /,/^<!-- \/measured -->/p' README.md | grep '^|' || true)
grep -q '^<!-- /measured -->' README.md || {
    echo "README.md has no block of figures" >&2
    exit 1
}
if [ "$page" != "$readme" ]; then
    echo "README.md has other figures than docs/measurements.md: scripts/bench writes both, commit both" >&2
    exit 1
fi
sed -n 's/^!\[.*](\(docs\/img\/.*\))$/\1/p' README.md | while read -r plot; do
    [ -s "$plot" ] || {
        echo "README.md shows $plot, which is not there" >&2
        exit 1
    }
done
# The README's date and commit are the page's, too.
run=$(sed -n 's/.* on \([0-9-]\{10\}\), with the tree of commit \([0-9a-f]*\)\..*/\1, commit \2/p' docs/measurements.md)
grep -qF "\`scripts/bench\`, $run:" README.md || {
    echo "README.md does not say that its figures are of $run" >&2
    exit 1
}
