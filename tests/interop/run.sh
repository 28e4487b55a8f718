#!/bin/bash
# run.sh ZKLOCK CONTEND WHO [RECIPE]: this library's contenders and WHO's (curator, kazoo) at one path on a real server, for a lock, a latch
# (Curator's LeaderLatch) or a semaphore (of one permit): 60 rounds of each, one contender of each kind killed with -9 meanwhile.
# No two inside at once, nobody stuck. Exit 77: what it needs is not installed.
set -u
if [ "${5:-}" != inside ]; then
    exec "$1" sandbox -- "$0" "$1" "$2" "$3" "${4:-lock}" inside
fi
contend=$2
who=$3
recipe=$4
here=$(dirname "$(readlink -f "$0")")
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
jars=/usr/share/java

case $who in
kazoo)
    /usr/bin/python3 -c 'import kazoo' 2>/dev/null || { echo "python3-kazoo is not installed"; exit 77; }
    other() { exec /usr/bin/python3 "$here/contend.py" "$@"; }
    ;;
curator)
    command -v javac >/dev/null && [ -e $jars/curator-recipes.jar ] ||
        { echo "libcurator-recipes-java or a JDK is not installed"; exit 77; }
    path=$jars/curator-recipes.jar:$jars/curator-framework.jar:$jars/curator-client.jar:$jars/zookeeper.jar
    path=$path:$jars/zookeeper-jute.jar:$jars/guava.jar:$jars/slf4j-api.jar:$jars/slf4j-nop.jar
    javac -cp "$path" -d "$room" "$here/Contend.java" || exit 1
    other() { exec java -XX:+UseSerialGC -Xmx128m -cp "$room:$path" Contend "$@"; }
    ;;
esac
ours() { exec "$contend" "$@"; }

scene=$room/inside
pids=()
victims=()
start() { # KIND ROUNDS
    "$1" "/interop/$recipe" "$2" "$scene" "$recipe" >"$room/$1.$RANDOM$RANDOM" 2>&1 &
}
for kind in ours other; do
    start $kind 30; pids+=($!)
    start $kind 30; pids+=($!)
    start $kind 100000; victims+=($!)
done
# Each victim once it has been inside: by then it holds or queues nearly all the time.
for kind in ours other; do
    for _ in $(seq 600); do
        [ "$(cat "$room/$kind".* | grep -c '^round')" -ge 6 ] && break
        sleep 0.05
    done
done
kill -9 "${victims[@]}"
bad=0
for pid in "${pids[@]}"; do
    wait "$pid" || bad=1
done
wait "${victims[@]}" 2>/dev/null
cat "$room"/ours.* "$room"/other.* >"$room/all"
grep -v '^round' "$room/all"
overlaps=$(grep -c '^OVERLAP' "$room/all")
mine=$(cat "$room"/ours.* | grep -c '^round')
theirs=$(cat "$room"/other.* | grep -c '^round')
echo "$who, $recipe: $theirs rounds of theirs, $mine of ours, $overlaps overlaps"
[ $bad = 0 ] && [ "$overlaps" = 0 ] && [ "$mine" -ge 60 ] && [ "$theirs" -ge 60 ]
