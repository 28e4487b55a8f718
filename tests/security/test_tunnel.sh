#!/bin/bash
# The recipe of SECURITY.md: stunnel in front of a ZooKeeper that takes TLS with certificates of both sides and nothing else. Who listens
# to the line reads nothing; who has no certificate, or another server's, gets nowhere.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
jars=/usr/share/java
for program in openssl stunnel keytool java python3; do
    command -v "$program" >/dev/null || exit 77
done
[ -r $jars/zookeeper.jar ] && [ -r $jars/netty-all.jar ] && [ -r $jars/slf4j-nop.jar ] || exit 77
cd "$work" || exit 1
started=()
at_end() {
    kill "${started[@]}" 2>/dev/null
    wait
    finish
}
trap at_end EXIT

# authority NAME: a certificate authority; certificate NAME AUTHORITY
authority() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -keyout "$1.key" -out "$1.pem" -subj "/CN=$1"
} 2>/dev/null
certificate() {
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$1.key" -out "$1.csr" -subj "/CN=$1"
    openssl x509 -req -in "$1.csr" -CA "$2.pem" -CAkey "$2.key" -CAcreateserial -days 2 -out "$1.pem" \
        -extfile <(echo "subjectAltName=DNS:$1")
} 2>/dev/null
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

authority ours
authority theirs
certificate zookeeper.example ours
certificate client ours
certificate stranger theirs
openssl pkcs12 -export -in zookeeper.example.pem -inkey zookeeper.example.key -out server.p12 -passout pass:changeit
keytool -importcert -noprompt -alias ca -file ours.pem -keystore trust.p12 -storetype PKCS12 -storepass changeit >/dev/null 2>&1

# --- the server -------------------------------------------------------------------------------------------------------
tls=$(free_port)
mkdir data
cat >zoo.cfg <<EOF
tickTime=500
dataDir=$work/data
secureClientPort=$tls
secureClientPortAddress=127.0.0.1
serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory
ssl.keyStore.location=$work/server.p12
ssl.keyStore.type=PKCS12
ssl.keyStore.password=changeit
ssl.trustStore.location=$work/trust.p12
ssl.trustStore.type=PKCS12
ssl.trustStore.password=changeit
ssl.clientAuth=need
admin.enableServer=false
EOF
java -Xmx192m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$jars/zookeeper.jar:$jars/slf4j-nop.jar:$jars/netty-all.jar:$(printf '%s:' $jars/netty-*[a-z].jar)" \
    org.apache.zookeeper.server.quorum.QuorumPeerMain zoo.cfg >server.log 2>&1 &
started+=($!)

# --- tunnels ----------------------------------------------------------------------------------------------------------

# tap NAME TO: $port leads to port TO, and is heard in NAME.tape
tap() {
    python3 "$here/wiretap.py" "$1.port" "$2" "$1.tape" &
    started+=($!)
    await "the tap $1" test -e "$1.port"
    port=$(cat "$1.port")
}

# tunnel NAME TO CERTIFICATE AUTHORITY: $port leads to port TO through TLS; CERTIFICATE none: without one
tunnel() {
    port=$(free_port)
    {
        printf 'foreground = yes\npid =\noutput = %s\n[zookeeper]\nclient = yes\n' "$work/$1.log"
        printf 'accept = 127.0.0.1:%s\nconnect = 127.0.0.1:%s\n' "$port" "$2"
        printf 'CAfile = %s\nverifyChain = yes\ncheckHost = zookeeper.example\n' "$work/$4.pem"
        [ "$3" = none ] || printf 'cert = %s\nkey = %s\n' "$work/$3.pem" "$work/$3.key"
    } >"$1.conf"
    stunnel "$1.conf" >/dev/null 2>&1 &
    started+=($!)
    await "the tunnel $1" grep -q "Configuration successful" "$1.log"
}

run() {
    local to=$1
    shift
    zklock -s "127.0.0.1:$to" --tick 500ms --auth-file secret "$@"
}

canary=kanari-5d0b77e1
printf 'digest:ann:%s\n' $canary >secret
chmod 600 secret

tap line "$tls"
tunnel good "$port" client ours
good=$port
tap before "$good"
before=$port
await "the server" run "$good" ls

code 0 run "$before" run secret-name-4711 echo through
same "what ran" "$(cat "$work/out")" through
true_that "the tap before the tunnel hears the password (so taps hear)" grep -qa $canary before.tape
true_that "the tap before the tunnel hears the name" grep -qa secret-name-4711 before.tape
true_that "the tap on the line hears" test -s line.tape
for word in $canary secret-name-4711 ann; do
    true_that "the tap on the line does not hear $word" bash -c "! grep -qa $word line.tape"
done

code 122 run "$tls" run -w 3s x true
tunnel uncertified "$tls" none ours
code 122 run "$port" run -w 3s x true
tunnel stranger "$tls" stranger ours
code 122 run "$port" run -w 3s x true
tunnel impostor "$tls" client theirs # as if the server were not ours
code 122 run "$port" run -w 3s x true
matches "the impostor" "$(cat impostor.log)" "verif|certificate"
code 0 run "$good" run x true
