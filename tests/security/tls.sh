# tls.sh - certificates, and servers that take nothing but TLS: sourced by what attacks them, behind tests/cli/lib.sh and in $work.
# shellcheck shell=bash disable=SC2034,SC2154
jars=${ZKLOCK_TEST_JARS:-/usr/share/java}

authority() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -keyout "$1.key" -out "$1.pem" -subj "/CN=$1"
} 2>/dev/null
# certificate NAME AUTHORITY ALTNAME [DAYS]: NAME.pem, NAME.key, NAME.p12
certificate() {
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$1.key" -out "$1.csr" -subj "/CN=$1"
    openssl x509 -req -in "$1.csr" -CA "$2.pem" -CAkey "$2.key" -CAcreateserial -days "${4:-2}" -out "$1.pem" \
        -extfile <(echo "subjectAltName=$3")
    openssl pkcs12 -export -in "$1.pem" -inkey "$1.key" -out "$1.p12" -passout pass:changeit
} 2>/dev/null

authority ours
authority theirs
keytool -importcert -noprompt -alias ca -file ours.pem -keystore trust.p12 -storetype PKCS12 -storepass changeit >/dev/null 2>&1

# server NAME JAVA-OPTION... <LINES OF zoo.cfg: a server in folder NAME, $server is its pid. @PORT@ is a port of its own, $port.
server() {
    local name=$1
    shift
    port=$(free_port)
    mkdir -p "$name/data"
    {
        printf 'tickTime=1000\ndataDir=%s\nadmin.enableServer=false\n' "$work/$name/data"
        sed "s/@PORT@/$port/"
    } >"$name/zoo.cfg"
    local path=$jars/zookeeper-jute.jar:$jars/zookeeper.jar:$jars/slf4j-simple.jar:$jars/netty-all.jar
    java -Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 "$@" -cp "$path:$(printf '%s:' "$jars"/netty-*[a-z].jar)" \
        org.apache.zookeeper.server.quorum.QuorumPeerMain "$name/zoo.cfg" >"$name/log" 2>&1 &
    server=$!
}

# stop_server
stop_server() {
    kill -9 "$server"
    wait "$server" 2>/dev/null || true
}

# tls_server NAME CERTIFICATE CLIENTAUTH
tls_server() {
    server "$1" <<END
secureClientPort=@PORT@
secureClientPortAddress=127.0.0.1
serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory
ssl.keyStore.location=$work/$2.p12
ssl.keyStore.type=PKCS12
ssl.keyStore.password=changeit
ssl.trustStore.location=$work/trust.p12
ssl.trustStore.type=PKCS12
ssl.trustStore.password=changeit
ssl.clientAuth=$3
END
}
