# others.sh - sourced by run.sh and meet.sh: how a program of another language is started. They have set here.
# enter ZKLOCK PROGRAM WHO RECIPE: begins again in a sandbox. There it sets who, recipe, rounds and room, a folder, and defines ours, which runs
# PROGRAM with its arguments.
# prepare WHO NAME: defines other, which runs NAME.py or Name.java or NAME.go with its arguments. Ends with 77 when what it needs is not installed.
#
# Sessions of all programs last 15 s. A client gives its connection up after two thirds of that
# without a reply, and the other libraries have no lease: on a loaded machine that stalls a server
# for some seconds, shorter sessions would show what these libraries do when they are cut off.
# shellcheck shell=bash disable=SC2015,SC2034,SC2154,SC2317
jars=/usr/share/java

enter() {
    [ "${5:-}" = inside ] || exec "$1" sandbox -- "$0" "$1" "$2" "$3" "$4" inside
    contender=$2 who=$3 recipe=$4
    rounds=${ZKLOCK_ROUNDS:-30}
    room=$(mktemp -d)
    trap 'rm -rf "$room"' EXIT
    ours() { exec "$contender" "$@"; }
}

lacking() {
    echo "$1 is not installed"
    exit 77
}

# compile_classes DIRECTORY: once for all tests (interop_classes), since it takes as long as one of them.
compile_classes() {
    command -v javac >/dev/null && [ -e $jars/curator-recipes.jar ] || lacking "libcurator-recipes-java or a JDK"
    path=$jars/curator-recipes.jar:$jars/curator-framework.jar:$jars/curator-client.jar:$jars/zookeeper.jar
    path=$path:$jars/zookeeper-jute.jar:$jars/guava.jar:$jars/slf4j-api.jar:$jars/slf4j-nop.jar
    [ "$1/Meet.class" -nt "$here/Meet.java" ] && [ "$1/Contend.class" -nt "$here/Contend.java" ] ||
        javac -J-XX:+UseSerialGC -J-XX:TieredStopAtLevel=1 -cp "$path" -d "$1" "$here/Meet.java" "$here/Contend.java" || exit 1
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
        compile_classes "$CLASSES"
        other() { exec java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xmx128m -cp "$CLASSES:$path" "$class" "$@"; }
        ;;
    esac
}
