#!/bin/bash
# The command at its most talkative, with a canary for a password and hostile text on znodes: what is printed, logged, reported, and to be
# seen in /proc has no secret and nothing that moves a terminal.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"
/usr/bin/python3 -c "import kazoo" 2>/dev/null || exit 77
need_sandbox sandbox
canary=kanari-2c9e60d4
zklock run open true # or /locks would be ann's alone
printf 'digest:ann:%s\n' $canary >"$work/secret"
chmod 600 "$work/secret"

# --- a password -------------------------------------------------------------------------------------------------------

# What other users of the machine may see of every process of the command: a file for each.
cat >"$work/look" <<'EOF'
for process in $(ps -eo pid=,comm= | awk '$2 == "zklock" { print $1 }') $$; do
    cat "/proc/$process/environ" "/proc/$process/cmdline" "/proc/$process/comm" 2>/dev/null
done
EOF
with() { zklock -v --auth-file "$work/secret" "$@"; }
all() {
    with run --report "$work/report" vault bash "$work/look"
    with --json run vault env
    with hold --for 100ms vault
    with ls vault
    with --json ls vault
    with check vault
    with doctor
    with once --slot 1h vault-once true
    timeout 2 zklock -v --auth-file "$work/secret" watch vault
    zklock -v run -w 1s vault true # without the password
    zklock -v --auth-file <(echo "nonsense:$canary") run -w 5s vault true
    zklock -v --auth-file <(echo "$canary") run vault true
} >"$work/all" 2>&1 </dev/null
all
said=$(wc -c <"$work/all")
true_that "much was said: $said bytes" [ "$said" -gt 2000 ]
true_that "a descriptor is as good as a file" grep -qa nonsense "$work/all"
true_that "who may look" grep -qa ZKLOCK_TOKEN "$work/all"
for file in all report; do
    true_that "no password in $file" bash -c "! grep -qa $canary $work/$file"
done
true_that "nor in the servers' log" bash -c "! grep -rqa $canary $ZKLOCK_SANDBOX_DIR --include='*.log' --include='*.out'"

# A secret that others can read, or write, is none; what is cut is none either.
for mode in 640 604 620 602 644; do
    chmod $mode "$work/secret"
    code 125 zklock --auth-file "$work/secret" run vault true
    matches "mode $mode" "$(cat "$work/err")" "chmod 600"
done
(printf 'digest:ann:' && head -c 5000 /dev/zero | tr '\0' x) >"$work/long"
chmod 600 "$work/long"
code 125 zklock --auth-file "$work/long" run vault true
matches "too long a secret" "$(cat "$work/err")" "longer"

# --- hostile text -----------------------------------------------------------------------------------------------------

cat >"$work/hostile" <<'EOF'
import os, sys
from kazoo.client import KazooClient
client = KazooClient(os.environ["ZKLOCK_SERVERS"])
client.start()
nodes = {"a": b"\x1b]0;owned\x07\x1b[2J", "b": b"host\nzklock: all is well", "c": b"\xc2\x9b31m\x9b31m",
         "d": "\u202eevil\u2066\u2028x".encode(), "e": b"\xff\xfe\x00\x01", "f": b"\x08\x08\r%s%n\x7f"}
for name, data in nodes.items():
    client.create(f"/locks/{name}-hostile/lock-", data, ephemeral=True, sequence=True, makepath=True)
client.create("/locks/\u202etxt.evil/lock-", b"x", ephemeral=True, sequence=True, makepath=True)
open(sys.argv[1], "w").close()
sys.stdin.read()
EOF
mkfifo "$work/end"
/usr/bin/python3 "$work/hostile" "$work/ready" <"$work/end" 2>/dev/null &
exec 8>"$work/end"
await "hostile nodes" test -e "$work/ready"
hostile() {
    zklock -v ls
    zklock -v --json ls
    zklock -v doctor
    timeout 2 zklock -v watch a-hostile
    for name in a b c d e f; do
        zklock -v run -w 200ms $name-hostile true
        zklock -v check $name-hostile
        zklock --json ls $name-hostile
        script -qec "stty -onlcr; timeout 3 zklock run -w 1500ms $name-hostile true" "$work/typescript" >>"$work/terminal"
    done
} >"$work/hostile.out" 2>&1
hostile
# Lines end; the line about the queue goes back to its beginning and clears it: that is all a terminal may be told.
/usr/bin/python3 - "$work/hostile.out" "$work/terminal" <<'EOF' || bad "something moves the terminal"
import re, sys
bad = False
for file in sys.argv[1:]:
    text = open(file, "rb").read()
    if file.endswith("terminal"):
        text = text.replace(b"\r", b"").replace(b"\x1b[K", b"").replace(b"\x1b[2K", b"")
    try:
        text = text.decode()
    except UnicodeDecodeError as error:
        print(f"{file}: {error}: {text[max(0, error.start - 40):error.end + 10]}")
        bad = True
        text = text.decode(errors="replace")
    text = re.sub(r'(?m)^{".*$', lambda line: line[0].replace("\x7f", ""), text)  # JSON has it as it is; no terminal moves
    for match in re.finditer("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", text):
        print(f"{file}: {match[0]!r} in {text[max(0, match.start() - 40):match.end() + 10]!r}")
        bad = True
sys.exit(bad)
EOF
true_that "they were shown" test "$(grep -c hostile "$work/hostile.out")" -gt 6
true_that "nobody speaks in our name" bash -c "! grep -q '^zklock: all is well' $work/hostile.out"
exec 8>&-
wait
