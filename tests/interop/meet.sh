#!/bin/bash
# meet.sh ZKLOCK MEET WHO RECIPE: two members of this library's and two of WHO's (curator, kazoo) meet on a real server: group (ours and
# Curator's GroupMember or kazoo's Party see each other), double (Curator's double barrier), barrier. ZKLOCK_ROUNDS (60) times; nobody is let in or
# out too early, nobody is stuck, and one of each kind is killed with -9 in the last round of group and double. Exit 77: what it
# needs is not installed.
set -u
if [ "${5:-}" != inside ]; then
    exec "$1" sandbox -- "$0" "$1" "$2" "$3" "$4" inside
fi
meet=$2
who=$3
recipe=$4
here=$(dirname "$(readlink -f "$0")")
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
rounds=${ZKLOCK_ROUNDS:-60}

# shellcheck source=tests/interop/others.sh
. "$here/others.sh"
prepare "$who" meet
ours() { exec "$meet" "$@"; }

mkdir "$room/scene"
pids=()
for i in 0 1 2 3; do
    [ $i -lt 2 ] && kind=ours || kind=other
    $kind "/interop/$recipe" "$rounds" "$room/scene" "$recipe" $i >"$room/said.$i" 2>&1 &
    pids+=($!)
done
waiting() { cat "$room"/said.* | grep -c '^waits'; }
alive() {
    for pid in "${pids[@]}"; do
        kill -0 "$pid" 2>/dev/null || return 1
    done
}
victims=""
if [ "$recipe" != barrier ]; then
    until [ "$(waiting)" = 4 ] || ! alive; do
        sleep 0.05
    done
    victims="1 3"
    kill -9 "${pids[1]}" "${pids[3]}"
fi
bad=0
for i in 0 1 2 3; do
    wait "${pids[$i]}" || case " $victims " in *" $i "*) ;; *) bad=1 ;; esac
done
grep -hv -e '^round' -e '^waits' "$room"/said.*
met=$(grep -c '^round' "$room/said.0")
echo "$who, $recipe: met $met times"
[ $bad = 0 ] && [ "$met" = "$rounds" ]
