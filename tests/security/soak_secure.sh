#!/bin/bash
# TLS and SASL for real: a ZooKeeper client library that has both ($ZKLOCK is built with it; scripts/soak secure does that), real servers,
# and a Kerberos of its own on loopback. Over each: a lock is acquired, waited for, handed over in order, and lost when the
# server falls silent; and what is wrong is refused by its name.
# Debian packages: libzookeeper-java default-jre-headless openssl krb5-kdc krb5-admin-server krb5-user libsasl2-modules
# libsasl2-modules-gssapi-mit
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"
PATH=$PATH:/usr/sbin
for program in openssl keytool java python3 kinit krb5kdc kadmin.local kdb5_util; do
    command -v $program >/dev/null || { echo "$program is missing: see the head of $0" >&2; exit 77; }
done
zklock doctor -s 127.0.0.1:1 2>/dev/null | grep -q 'TLS built in, SASL built in' || {
    echo "the client library of $ZKLOCK has no TLS or no SASL: scripts/soak secure builds one" >&2
    exit 77
}
here=$(cd "$(dirname "$0")" && pwd)
cd "$work" || exit 1
umask 077
# shellcheck source=tests/security/tls.sh
. "$here/tls.sh"

# --- a lock -----------------------------------------------------------------------------------------------------------

# to OPTION...: how zklock gets to the server that was started last
to() {
    export ZKLOCK_SERVERS=localhost:$port
    options=("$@")
}
zk() { zklock --tick 1s --session-timeout 16s "${options[@]}" "$@"; }

granted_in_order() { [ "$(cat order 2>/dev/null)" = "$1" ]; }
waits() { [ "$(zk ls 2>/dev/null | grep -cE '^  (holds|[0-9]+) ')" -eq "$1" ]; }

# whole_lock NAME: acquire, wait, hand-over in order, loss
whole_lock() {
    echo "== $1"
    rm -f order go
    await "$1: the server" zk ls
    code 0 zk run -w 60s work/first echo through
    same "$1: acquired, CMD ran" "$(cat out)" through
    local holder waiter
    zk run -w 60s jobs/turn -- sh -c 'while [ ! -e go ]; do sleep 0.05; done; printf a >>order' &
    holder=$!
    await "$1: one holds" waits 1
    zk run -w 60s jobs/turn -- sh -c 'printf b >>order' &
    waiter=$!
    await "$1: one waits" waits 2
    code 124 zk run -w 8s jobs/turn true
    touch go
    ends "$1: the holder's exit code" 0 "$holder"
    ends "$1: the waiter's exit code" 0 "$waiter"
    true_that "$1: handed over in order" granted_in_order ab
    zk run -w 60s jobs/lost -- sleep 120 &
    holder=$!
    await "$1: it holds" waits 1
    kill -STOP $server
    ends "$1: exit code after a loss" 120 "$holder"
    kill -CONT $server
    code 0 zk run -w 60s jobs/lost true
}

# refused CODE PATTERN ARGUMENT...: a run that must end with CODE and say PATTERN
refused() {
    local wanted=$1 pattern=$2
    shift 2
    code "$wanted" zklock --tick 1s --session-timeout 16s "$@" run -w 10s refused true
    says "$pattern"
    sed 's/^/   /' err
}

# --- TLS --------------------------------------------------------------------------------------------------------------

ours=ours.pem,client.pem,client.key
certificate good ours DNS:localhost
certificate elsewhere ours DNS:elsewhere.example
certificate expired ours DNS:localhost -1
certificate client ours DNS:client
certificate stranger theirs DNS:client

tls_server mutual good need
to --tls "$ours"
whole_lock "TLS, both sides have certificates"
refused 122 'the certificate of localhost:[0-9]* is not trusted: .*certificate' --tls theirs.pem,client.pem,client.key
refused 122 'ends the handshake' --tls ours.pem,stranger.pem,stranger.key
refused 122 'is for another name: ' -s "127.0.0.1:$port" --tls "$ours"
refused 122 'is for another name: ' --tls "$ours" --tls-host zk.example
code 0 zklock --tick 1s --session-timeout 16s -s "127.0.0.1:$port" --tls "$ours" --tls-host localhost run x true
code 0 zklock --tick 1s --session-timeout 16s -s "127.0.0.1:$port" --tls "$ours" --tls-host "" run x true
refused 125 'authorities in absent.pem cannot be loaded' --tls absent.pem,client.pem,client.key
refused 125 'key stranger.key cannot be loaded: .*mismatch' --tls ours.pem,client.pem,stranger.key
stop_server

tls_server one-sided good none
to --tls "$ours"
whole_lock "TLS, the servers alone have certificates"
# Client libraries before 3.10 want files of the client's nevertheless.
refused 125 'wants a certificate and a key' --tls ours.pem
stop_server

tls_server elsewhere elsewhere need
to --tls "$ours" --tls-host elsewhere.example
await "the server of another name" zk ls
refused 122 'is for another name: ' --tls "$ours"
stop_server

tls_server expired expired need
to --tls "$ours"
# The first handshakes of a server take a long time on a busy machine.
await "the server with an expired certificate" openssl s_client -connect "localhost:$port" -cert client.pem -key client.key \
    </dev/null >/dev/null
refused 122 'is not trusted: certificate has expired' "${options[@]}"
stop_server

# --- DIGEST-MD5 -------------------------------------------------------------------------------------------------------

sasl_server() {
    local name=$1
    shift
    server "$name" "-Djava.security.auth.login.config=$work/$name.jaas" "$@" <<END
clientPort=@PORT@
clientPortAddress=127.0.0.1
authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider
END
}

cat >digest-md5.jaas <<END
Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_ann="correct horse"; };
END
echo 'sasl:ann:correct horse' >right
echo 'sasl:ann:incorrect' >wrong
echo 'sasl:bob:battery staple' >nobody
echo 'digest:ann:correct horse' >digest
sasl_server digest-md5
to --sasl DIGEST-MD5 --auth-file right
whole_lock DIGEST-MD5
true_that "the server knows the user" grep -q 'adding SASL authorization for authorizationID: ann' digest-md5/log
refused 121 'SASL failed: ' --sasl DIGEST-MD5 --auth-file wrong
refused 121 'SASL failed: ' --sasl DIGEST-MD5 --auth-file nobody
refused 121 'SASL failed: ' --sasl DIGEST-MD5
refused 121 'SASL failed: .*mechanism' --sasl NO-SUCH-MECHANISM --auth-file right
refused 125 'sasl:USER:PASSWORD' --sasl DIGEST-MD5 --auth-file digest
stop_server

# --- Kerberos ---------------------------------------------------------------------------------------------------------

kdc=$(free_port)
export KRB5_CONFIG=$work/krb5.conf KRB5_KDC_PROFILE=$work/kdc.conf KRB5CCNAME=FILE:$work/tickets
cat >krb5.conf <<END
[libdefaults]
default_realm = ZKLOCK.TEST
dns_lookup_kdc = false
dns_canonicalize_hostname = false
rdns = false
udp_preference_limit = 1
[realms]
ZKLOCK.TEST = {
kdc = 127.0.0.1:$kdc
}
END
cat >kdc.conf <<END
[realms]
ZKLOCK.TEST = {
database_name = $work/principal
key_stash_file = $work/stash
acl_file = $work/kadm5.acl
kdc_listen = 127.0.0.1:$kdc
kdc_tcp_listen = 127.0.0.1:$kdc
max_life = 1h
}
END
kerberos() { kadmin.local -r ZKLOCK.TEST -q "$1" >>kadmin.log 2>&1; }
kdb5_util create -s -r ZKLOCK.TEST -P master >kadmin.log 2>&1
kerberos "addprinc -randkey zookeeper/localhost"
kerberos "addprinc -randkey zookeeper/rekeyed"
kerberos "addprinc -randkey ann"
kerberos "ktadd -k $work/server.keytab zookeeper/localhost"
kerberos "ktadd -k $work/ann.keytab ann"
krb5kdc -n -r ZKLOCK.TEST >kdc.log 2>&1 &
await "a ticket" kinit -k -t ann.keytab ann

cat >kerberos.jaas <<END
Server { com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="$work/server.keytab" storeKey=true
useTicketCache=false principal="zookeeper/localhost@ZKLOCK.TEST"; };
END
sasl_server kerberos "-Djava.security.krb5.conf=$work/krb5.conf"
to --sasl GSSAPI
whole_lock Kerberos
true_that "the server knows the principal" grep -q 'authorizationID: ann@ZKLOCK.TEST' kerberos/log
KRB5CCNAME=FILE:$work/none refused 121 'SASL failed: .*No credentials were supplied' --sasl GSSAPI
refused 121 'SASL failed: .*Server .* not found in Kerberos database' --sasl GSSAPI --sasl-server zookeeper/elsewhere
# A ticket for another service than the server's key.
refused 121 'SASL failed' --sasl GSSAPI --sasl-server zookeeper/rekeyed
stop_server
