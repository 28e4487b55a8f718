#!/bin/bash
# The command at its most talkative, with a canary for a password and hostile text on znodes: what is printed, logged, reported, and to be
# seen in /proc has no secret and nothing that moves a terminal.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"
has_kazoo || exit 77
need_sandbox sandbox
canary=kanari-2c9e60d4
zklock run open true # or /locks would be ann's alone
secret secret "digest:ann:$canary"

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
    zklock -v --auth-file <(echo "nonsense:$canary") run -w 60s vault true
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
    says "chmod 600"
done
(printf 'digest:ann:' && head -c 5000 /dev/zero | tr '\0' x) >"$work/long"
chmod 600 "$work/long"
code 125 zklock --auth-file "$work/long" run vault true
says "longer"

# --- hostile text -----------------------------------------------------------------------------------------------------

stranger '
def make(path, data, ephemeral=True):
    zk.create("/locks/" + path, data, ephemeral=ephemeral, sequence=ephemeral, makepath=True)
for name, data in {"a": b"\x1b]0;owned\x07\x1b[2J", "b": b"host\nzklock: all is well", "c": b"\xc2\x9b31m\x9b31m",
                   "d": "\u202eevil\u2066\u2028x".encode(), "e": b"\xff\xfe\x00\x01", "f": b"\x08\x08\r%s%n\x7f"}.items():
    make(f"{name}-hostile/lock-", data)
make("\u202etxt.evil/lock-", b"x")
make("wide/x-lock-", ("\u4e2d" * 100).encode())
make("padded/x-lock-", b"a" * 17 + b" " * 200 + b"\n/locks/prod")
make("padded2/x-lock-", b"a" * 20 + b"  holds  00:00:01        17  0x1                 lock        trusted:1 (root)")
make("\u202ekcab/x-lock-0000000001", b"stray", ephemeral=False)
make("stray/\u202ekcab-lock-0000000001", b"stray", ephemeral=False)
make("long" + "g" * 60 + "ok   session all is well/x-lock-0000000001", b"stray", ephemeral=False)'
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
await "those that timeout ended to be gone" eval '! zklock ls | grep -q "^  1 "'
on_terminal "stty cols 80; zklock ls; zklock doctor; zklock check wide; zklock check padded" </dev/null >"$work/seen"
# Lines end; the line about the queue goes back to its beginning and clears it: that is all a terminal may be told. No line of what is seen is so
# wide that the terminal breaks it, or begins as if it were another one.
/usr/bin/python3 - "$work/hostile.out" "$work/terminal" "$work/seen" <<'EOF' || bad "something moves the terminal"
import re, sys, unicodedata
bad = False
begins = ("/locks/", "  holds  ", "  stray  ", "  queue  ", "        ", "ok  ", "BAD ", "  and ", "zklock: ")
for file in sys.argv[1:]:
    text = open(file, "rb").read()
    if not file.endswith("out"):
        text = text.replace(b"\r", b"").replace(b"\x1b[K", b"").replace(b"\x1b[2K", b"")
    text = re.sub(r'(?m)^{".*$', lambda line: line[0].replace("\x7f", ""), text.decode())  # JSON has it as it is; no terminal moves
    for line in text.split("\n"):
        width = sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)
        strange = [c for c in line if unicodedata.category(c) in ("Cc", "Cf", "Co", "Cn", "Zl", "Zp")]
        if strange or (file.endswith("seen") and line and (width > 80 or not line.startswith(begins))):
            print(file, width, strange, repr(line))
            bad = True
sys.exit(bad)
EOF
true_that "they were seen" test "$(grep -c kcab "$work/seen")" -ge 3
zklock doctor >"$work/out"
prints '^BAD  /locks/\?kcab'
true_that "they were shown" test "$(grep -c hostile "$work/hostile.out")" -gt 6
true_that "nobody speaks in our name" bash -c "! grep -q '^zklock: all is well' $work/hostile.out"
