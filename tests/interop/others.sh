# others.sh - sourced by run.sh and meet.sh: how a program of another language is started. They have set here.
# begin DIRECTORY ZKLOCK: what all tests share (interop_begin). In DIRECTORY: servers, the address of a sandbox that ends with ctest, our parent;
# clients.jar, since to compile takes as long as a test; and clients.jsa, an archive of what a client loads. With it, one starts in half of the
# processor time. A JVM that cannot make or use it does without.
# enter PROGRAM WHO RECIPE: sets who, recipe, rounds and room, a folder, and defines ours, which runs PROGRAM with its arguments.
# prepare WHO NAME: defines other, which runs NAME.py or Name.java or NAME.go with its arguments. Ends with 77 when what it needs is not installed.
#
# Sessions of all programs last 15 s. A client gives its connection up after two thirds of that
# without a reply, and the other libraries have no lease: on a loaded machine that stalls a server
# for some seconds, shorter sessions would show what these libraries do when they are cut off.
# shellcheck shell=bash disable=SC2015,SC2034,SC2154,SC2317
jars=/usr/share/java

begin() {
    rm -f "$1/servers"
    (
        "$2" sandbox >"$1/servers" &
        tail --pid=$PPID -f /dev/null
        kill $!
    ) </dev/null >/dev/null 2>&1 &
    timeout 60 sh -c 'until [ -s "$1" ]; do sleep 0.1; done' - "$1/servers" || exit 1
    export "$(cat "$1/servers")"
    find_curator "$1"
    [ "$1/clients.jar" -nt "$here/Meet.java" ] && [ "$1/clients.jar" -nt "$here/Contend.java" ] && return
    javac -J-XX:+UseSerialGC -J-XX:TieredStopAtLevel=1 -cp "$path" -d "$1" "$here/Meet.java" "$here/Contend.java" &&
        (cd "$1" && python3 -m zipfile -c clients.jar ./*.class) || exit 1
    JAVA_TOOL_OPTIONS='' java -XX:+UseSerialGC -XX:ArchiveClassesAtExit="$1/clients.jsa" -cp "$path" Contend /archived 3 rw </dev/null || :
}

enter() {
    contender=$1 who=$2 recipe=$3
    rounds=${ZKLOCK_ROUNDS:-30}
    room=$(mktemp -d)
    trap 'rm -rf "$room"' EXIT
    export "$(cat "$SHARED/servers")"
    ours() { exec "$contender" "$@"; }
}

lacking() {
    echo "$1 is not installed"
    exit 77
}

find_curator() {
    command -v javac >/dev/null && [ -e $jars/curator-recipes.jar ] || lacking "libcurator-recipes-java or a JDK"
    path=$1/clients.jar
    for jar in curator-recipes curator-framework curator-client zookeeper zookeeper-jute guava slf4j-api slf4j-nop; do
        path=$path:$jars/$jar.jar
    done
}

prepare() {
    case $1 in
    kazoo)
        /usr/bin/python3 -c 'import kazoo' 2>/dev/null || lacking python3-kazoo
        script=$here/$2.py
        other() { exec /usr/bin/python3 "$script" "$@"; }
        ;;
    go)
        source=/usr/share/gocode/src/github.com/samuel/go-zookeeper
        command -v go >/dev/null && [ -d $source ] || lacking "golang-go or golang-github-samuel-go-zookeeper-dev"
        GO111MODULE=off GOPATH=/usr/share/gocode GOCACHE=$room/cache GOFLAGS=-p=1 go build -o "$room/$2.go" "$here/$2.go" || exit 1
        program=$room/$2.go
        other() { exec "$program" "$@"; }
        ;;
    curator)
        class=${2^}
        find_curator "$SHARED"
        other() { exec java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xmx128m -XX:SharedArchiveFile="$SHARED/clients.jsa" -Xlog:disable -cp "$path" "$class" "$@"; }
        ;;
    esac
}
