#!/bin/bash
# meet.sh MEET WHO RECIPE: two members of this library's and two of WHO's (curator, kazoo) meet on a real server: group (ours and
# Curator's GroupMember or kazoo's Party see each other), double (Curator's double barrier), barrier. ZKLOCK_ROUNDS (30) times; nobody is let in or
# out too early, nobody is stuck, and one of each kind is killed with -9 in the last round of group and double. When Curator is cut off from
# the server in a double barrier, they meet anew, three times at most. Exit 77: what it needs is not installed.
set -u
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=tests/interop/others.sh
. "$here/others.sh"
enter "$@"
prepare "$who" meet

all_run() {
    local pid
    for pid; do
        kill -0 "$pid" 2>/dev/null || return 1
    done
}

# meet_at DIRECTORY: 0 all is well, 1 it is not, 3 Curator was cut off, of which nothing follows (Meet.java).
meet_at() {
    local at=$1 i code pids=() victims="" bad=0 cut=0
    mkdir -p "$at/scene"
    for i in 0 1 2 3; do
        [ $i -lt 2 ] && kind=ours || kind=other
        $kind "/interop/$$/${at##*/}" "$rounds" "$at/scene" "$recipe" $i >"$at/said.$i" 2>&1 &
        pids+=($!)
    done
    if [ "$recipe" != barrier ]; then
        until [ "$(cat "$at"/said.* | grep -c '^waits')" = 4 ] || ! all_run "${pids[@]}"; do
            sleep 0.2
        done
        victims="1 3"
        kill -9 "${pids[1]}" "${pids[3]}" 2>/dev/null
    fi
    for i in 2 3 0 1; do
        wait "${pids[$i]}" 2>/dev/null
        code=$?
        case $code-" $victims " in
        0-*) ;;
        3-*)
            cut=3
            kill -9 "${pids[@]}" 2>/dev/null
            ;;
        *" $i "*) ;;
        *) bad=1 ;;
        esac
    done
    grep -hv -e '^round' -e '^waits' "$at"/said.*
    met=$(grep -c '^round' "$at/said.0")
    echo "$who, $recipe: met $met times"
    [ $cut = 0 ] || return $cut
    # Who came how far, and when: the member that was last at the end is the one to ask.
    [ $bad = 0 ] || find "$at/scene" \( -name "*.$met.*" -o -name "*.$((met + 1)).*" \) -printf '%T+ %f\n' | sort
    [ $bad = 0 ] && [ "$met" = "$rounds" ]
}

for try in 1 2 3; do
    meet_at "$room/$try"
    result=$?
    [ $result = 3 ] || exit $result
done
echo "cut off each time: too little of this machine is left for this test"
exit 1
