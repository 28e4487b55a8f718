#!/bin/bash
# What servers refuse, and what is missing here, is said by its name and with the remedy.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
has_kazoo || exit 77
if [ -n "${LOCAL_SESSIONS:-}" ]; then
    code 125 zklock run -w 20s x true
    says '"x": the servers gave a local session.*localSessionsUpgradingEnabled=true'
    exit
fi
need_sandbox sandbox -C enforceQuota=true

stranger '
zk.create("/locks/full", makepath=True)
zk.create("/zookeeper/quota/locks/full/zookeeper_limits", b"count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=1", makepath=True)
zk.create("/zookeeper/quota/locks/full/zookeeper_stats", b"count=1,bytes=0")
zk.create("/locks/stays", makepath=True, acl=[make_acl("world", "anyone", read=True, write=True, create=True, admin=True)])'
code 125 zklock run -w 20s full true
says '"full": the quota of the path is used up: raise it \(setquota\)'

# Said once, while the run itself goes as ever.
code 0 zklock run -w 20s stays true
same "warnings of no DELETE ($(cat "$work/err"))" "$(grep -cE '/locks/stays#[0-9]+: DELETE on the directory is missing: .*setAcl' "$work/err")" 1

# No descriptor for the connection: not "no response".
for limit in 5 6 7; do
    code 125 bash -c "ulimit -n $limit && exec zklock ls"
    says 'no file descriptor is left for a connection.*ulimit -n|no thread or no descriptor'
done

code 0 env -u ZKLOCK_SANDBOX_DIR LOCAL_SESSIONS=1 zklock sandbox -n 3 -C localSessionsEnabled=true -C localSessionsUpgradingEnabled=false -- bash "$0"
cat "$work/out"
