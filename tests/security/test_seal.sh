#!/bin/bash
# Places in a queue that is made without credentials, and a client of another kind: it may read and delete them, and not write them. The
# identity that lets their own session do that is in no output, log, or znode.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"
/usr/bin/python3 -c "import kazoo" 2>/dev/null || exit 77
need_sandbox sandbox

cat >"$work/write" <<'EOF'
import os
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
for auth in (None, [("digest", "zklock:guessed")]):
    client = KazooClient(os.environ["ZKLOCK_SERVERS"], auth_data=auth)
    client.start()
    places = client.get_children("/locks/sealed")
    assert len(places) == 2, places
    for place in places:
        path = "/locks/sealed/" + place
        try:
            client.set(path, b"__REVOKE__")
            print("written: " + path)
        except NoAuthError:
            print("refused")
        try:
            client.set_acls(path, client.get_acls("/locks")[0])
            print("opened: " + path)
        except NoAuthError:
            print("refused")
        print(client.get(path)[0], client.get_acls(path)[0])
    client.stop()
EOF

mkfifo "$work/end"
zklock -v hold sealed <"$work/end" >"$work/held" 2>"$work/holder" &
holder=$!
exec 8>"$work/end"
await "a holder" test -s "$work/held"
zklock -v run -w 60s sealed true 2>"$work/waiter" 8>&- &
waiter=$!
await "a waiter" queued sealed 2
/usr/bin/python3 "$work/write" >"$work/said" 2>"$work/err" || bad "kazoo: $(tail -1 "$work/err")"
true_that "eight times refused" test "$(grep -c '^refused$' "$work/said")" -eq 8
true_that "nothing written" bash -c "! grep -q 'written\|opened' $work/said"
exec 8>&-
wait $holder
wait $waiter
ended=$?
same "the waiter ($(tail -1 "$work/waiter"))" "$ended" 0
true_that "the identity's secret is nowhere" bash -c "! grep -rqaE 'zklock:[0-9a-f]{32}' $work $ZKLOCK_SANDBOX_DIR"
