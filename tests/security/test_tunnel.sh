#!/bin/bash
# The recipe of SECURITY.md: stunnel in front of a ZooKeeper that takes TLS with certificates of both sides and nothing else. Who listens
# to the line reads nothing; who has no certificate, or another server's, gets nowhere.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
for program in openssl stunnel keytool java python3; do
    command -v "$program" >/dev/null || exit 77
done
[ -r /usr/share/java/zookeeper.jar ] && [ -r /usr/share/java/netty-all.jar ] || exit 77
cd "$work" || exit 1
# shellcheck source=tests/security/tls.sh
. "$here/tls.sh"
certificate zookeeper.example ours DNS:zookeeper.example
certificate client ours DNS:client
certificate stranger theirs DNS:stranger
tls_server secure zookeeper.example need
tls=$port

# --- tunnels ----------------------------------------------------------------------------------------------------------

# tap NAME TO: $port leads to port TO, and is heard in NAME.tape
tap() {
    python3 "$here/wiretap.py" "$1.port" "$2" "$1.tape" &
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
    await "the tunnel $1" grep -q "Configuration successful" "$1.log"
}

run() {
    local to=$1
    shift
    zklock -s "127.0.0.1:$to" --tick 1s --auth-file secret "$@"
}

canary=kanari-5d0b77e1
secret secret "digest:ann:$canary"

tap line "$tls"
tunnel good "$port" client ours
good=$port
tap before "$good"
before=$port
await "the server" run "$good" ls

code 0 run "$before" run secret-name-4711 echo through
prints_only through
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
await "the impostor is named" grep -qE "verif|certificate" impostor.log
code 0 run "$good" run x true
