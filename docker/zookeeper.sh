#!/bin/sh
# A ZooKeeper server. ID: its number; SERVERS: the lines of all of them, "server.1=HOST:2888:3888;2181 ..."; TICK_MS.
# DATA: the folder of its data.
set -eu
data=${DATA:-/data}
echo "$ID" >"$data/myid"
{
    printf '%s\n' "tickTime=$TICK_MS" initLimit=20 syncLimit=10 maxSessionTimeout=60000 "dataDir=$data" forceSync=no
    printf '%s\n' admin.enableServer=false standaloneEnabled=false quorumListenOnAllIPs=true maxClientCnxns=0
    printf '%s\n' 4lw.commands.whitelist=srvr,ruok
    # shellcheck disable=SC2086
    printf '%s\n' $SERVERS
} >"$data/zoo.cfg"
jars=/usr/share/java
exec java -Xms16m -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \
    -cp $jars/zookeeper.jar:$jars/slf4j-simple.jar org.apache.zookeeper.server.quorum.QuorumPeerMain "$data/zoo.cfg"
