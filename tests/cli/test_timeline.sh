#!/bin/bash
# watch: the time line on terminals of all kinds, and records: made, gone on with, shown again without a server.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need_sandbox sandbox

record=$work/record
one='' two='' three=''
mkfifo "$work/end"
# screen COLUMNS ROWS SETTING CMD: the last screen that CMD draws, one line each. TERM and NO_COLOR are named by SETTING.
screen() {
    on_terminal "stty cols $1 rows $2; env -u NO_COLOR TERM=xterm $3 $4; echo code \$?" </dev/null >"$work/raw"
    tr -d '\r' <"$work/raw" | awk '{ at = 0; while ((i = index($0, "\033[H")) > 0) { all = ""; $0 = substr($0, i + 3) } all = all $0 "\n" } END { printf "%s", all }' |
        sed 's/\x1b\[[0-9;?]*[A-Za-z]//g'
}
events() { grep -oE '"event":"[a-z]+"' "$record" | cut -d'"' -f4 | tr '\n' ' '; }

# Three that hold one after the other, recorded while a terminal shows them.
background zklock watch --record "$record" shop >"$work/stream"
watcher=$pid
await "the record" lines "$record" 2
for name in one two three; do
    zklock hold shop <>"$work/end" >"$work/$name.granted" &
    declare "$name=$!"
    await "$name in the queue" grep -q "\"pid\":$!" "$record"
done
await "all of them in a look" grep -qE "\"pid\":$one,.*\"pid\":$two,.*\"pid\":$three," "$record"
until_seen "  2 +00:00:.. +$me +.*\." "stty cols 90 rows 12; export TERM=xterm; zklock watch shop"
kill "$one"
wait "$one"
await "the second as holder" grep -qE '"contenders":\[\{"position":0,"holds":true,[^}]*"pid":'"$two" "$record"
kill "$two"
wait "$two"
await "the third as holder" grep -qE '"contenders":\[\{"position":0,"holds":true,[^}]*"pid":'"$three" "$record"
kill -INT "$watcher"
wait "$watcher"
same "exit code of a watch that records" $? 130
same "events of the record" "$(events)" "began ended "
same "what is recorded is what is printed" "$(grep '"path"' "$record" | sed -E 's/"(time|after)_ms":[0-9]+,//g')" "$(cat "$work/stream")"
matches "the state of a process of this host" "$(grep '"path"' "$record" | tail -1)" "\"pid\":$three,.*\"process\":\"runs\""

# The last screen of a replay shows who held before whom.
seen=$(ZKLOCK_SERVERS=127.0.0.1:1 screen 200 12 A=1 "zklock watch --replay $record --speed 50")
matches "exit code of a replay" "$seen" '^code 0$'
matches "hand-overs" "$seen" '^/locks/shop: 2 hand-overs$'
matches "titles: the time at both ends" "$seen" '^  queue  for       who +[0-9]{2}:[0-9]{2}:[0-9]{2} +[0-9]{2}:[0-9]{2}:[0-9]{2}$'
matches "the holder waited, and holds" "$seen" "^  holds  00:00:[0-9]{2}  $me +\.+#+ *\$"
matches "the first one held, and ended" "$seen" "^  ended  00:00:[0-9]{2}  $me +#+ +\$"
same "order of the rows" "$(grep -E '^  (holds|ended)' <<<"$seen" | grep -oE ":[0-9]+ \(" | tr -d ': (' | tr '\n' ' ')" "$three $two $one "
true_that "colours" grep -q $'\e\[0;32m#' "$work/raw"
true_that "the holder is bold" grep -q $'\e\[1m  holds' "$work/raw"
# Without colours, without a cursor, in narrow and low windows.
screen 100 12 NO_COLOR=1 "zklock watch --replay $record --speed 50" >"$work/seen"
same "no colour" "$(grep -cE $'\e\\[[0-9;]*m' "$work/raw")" 0
screen 100 12 TERM=dumb "zklock watch --replay $record" >"$work/seen"
matches "an empty queue where TERM is dumb" "$(cat "$work/seen")" '^[0-9:]{8}  /locks/shop  nobody$'
same "nothing but text where TERM is dumb" "$(grep -c $'\e' "$work/raw")" 0
same "a line for each change" "$(grep -E "$me, token [0-9]+" "$work/seen" | awk '{ print $3 }' | tr '\n' ' ')" \
    "queues holds queues queues ended holds ended holds "
for size in "20 5" "30 24" "44 8" "60 4" "200 3"; do
    # shellcheck disable=SC2086
    seen=$(screen $size A=1 "zklock watch --replay $record --speed 50")
    same "lines that are too long at $size" "$(awk -v most="${size% *}" 'length > most' <<<"$seen")" ""
    # shellcheck disable=SC2001
    true_that "lines that are too many at $size" [ "$(grep -vc '^code' <<<"$seen")" -le "${size#* }" ]
    matches "the lock at $size" "$seen" '^/locks/shop'
done
matches "a time line in 44 columns" "$(screen 44 8 A=1 "zklock watch --replay $record --speed 50")" '^  holds  00:00:[0-9]{2}  .{10}  [ .#]{12}#$'
# Only what is asked for; a span that shows the last seconds.
same "another lock" "$(zklock watch --replay "$record" other)" ""
true_that "the lock itself" [ "$(zklock watch --replay "$record" shop | wc -l)" -ge 5 ]
matches "a narrow span" "$(screen 100 12 A=1 "zklock watch --span 1s --replay $record --speed 50")" "^  holds .*  \.*#+\$"
# A pace is kept where it is asked for: ten times the speed takes at least a tenth.
ms() { sed -nE 's/.*"time_ms":([0-9]+).*/\1/p' "$record" | sed -n "$1p"; }
begin=$(now_ms)
zklock watch --replay "$record" --speed 10 >"$work/out"
true_that "--speed into a pipe" [ $((10 * ($(now_ms) - begin))) -ge $(($(ms \$) - $(ms 1))) ]

# A record goes on; what was cut off by a full disk or a kill is skipped, and said.
background zklock watch --record "$record" shop >"$work/stream"
await "its second beginning" grep -q . "$work/stream"
kill -9 "$pid"
wait "$pid" 2>/dev/null
same "events of a record that was cut off" "$(events)" "began ended began "
printf '{"v":1,"time_ms":17' >>"$record"
background zklock watch --record "$record" shop >"$work/stream"
await "its third beginning" grep -q . "$work/stream"
kill -TERM "$pid"
wait "$pid"
same "events of a record that was gone on with" "$(events)" "began ended began began ended "
code 0 zklock watch --replay "$record"
same "what is said of the rest of a line" "$(cat "$work/err")" "zklock: $record: 1 lines are no part of a record and were skipped"
ln -s "$record" "$work/link"
code 125 zklock watch --record "$work/link" shop
matches "a link" "$(cat "$work/err")" 'it is a symbolic link: name the file itself'
echo precious >"$work/precious"
code 125 zklock watch --record "$work/precious" shop
matches "another file" "$(cat "$work/err")" 'there is something else in it; name another file'
same "another file stays" "$(cat "$work/precious")" precious
code 125 timeout 30 zklock watch --record /dev/full shop
matches "a full disk" "$(cat "$work/err")" '^zklock: --record /dev/full: No space left on device; make room there, or name another file$'
kill "$three"
wait "$three"

# Names that a neighbour chose: they neither steer the terminal nor move a column.
evil=$work/evil
now=$(now_ms)
python3 - "$evil" "$now" <<'PY'
import json, sys
names = ["\x1b[2J\x1b[31mred", "\u202egnp.exe", "日本語日本語日本語日本語日本語日本語", "a\u0301\u0301\u0301e", "new\nline", "x" * 3000, "  holds", "\x01####"]
with open(sys.argv[1], "w") as out:
    for second in range(3):
        contenders = [{"name": "_c_%d-lock-%010d" % (i, i), "holds": i == 0, "identity": name, "token": i + 1, "created_ms": int(sys.argv[2])} for i, name in enumerate(names)]
        print(json.dumps({"v": 1, "time_ms": int(sys.argv[2]) + 1000 * second, "path": "/locks/\x1b]0;evil\x07", "contenders": contenders[second:], "foreign": 0}), file=out)
PY
seen=$(screen 80 24 A=1 "zklock watch --replay $evil --speed 1000")
same "nothing of a name steers" "$(sed -E 's/\x1b\[(H|J|K|2J|0m|1m|0;3[123]m)//g' "$work/raw" | grep -c $'\e\|\a\|\xe2\x80\xae')" 0
true_that "wide characters move no column" python3 - 3<<<"$seen" <<'PY'
import os, re, sys, unicodedata
width = lambda text: sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
rows = [line for line in os.fdopen(3, encoding="utf-8") if re.match(r"  [0-9]+ ", line)]
ends = {width(re.sub(r" *$", "", line.rstrip("\n"))) for line in rows if line.rstrip().endswith(("#", "."))}
print(rows) if len(ends) != 1 or len(rows) < 5 else None
sys.exit(len(ends) != 1 or len(rows) < 5)
PY
# What is no queue is refused by name, whatever it has in it.
for bad in '{"v":1,"time_ms":5,"path":"/x"}' '{"v":1,"time_ms":5,"path":"/x","contenders":[{"name":5}]}' '{"v":1,"time_ms":5,"path":"/x","contenders":{"a":1}}'; do
    echo "$bad" >"$work/bad"
    code 125 zklock watch --replay "$work/bad"
    matches "what $bad is" "$(cat "$work/err")" '/x: this is no queue'
done
printf '{"v":1,"time_ms":%s,"event":"began"}\n' 1000 1001 900000000000 >"$work/days" # of thirty years nobody waits for one
code 0 timeout 60 zklock watch --replay "$work/days" --speed 1
echo '{"v":1,"time_ms":9223372036854775807,"path":"/x","contenders":[]}' >"$work/bad"
code 125 zklock watch --replay "$work/bad"
matches "a time that no calendar has" "$(cat "$work/err")" 'no record'
for odd in '{"v":1,"time_ms":1795357761331,"path":"/x","contenders":[{"name":"a","identity":[]},{"name":"a"}]}' '{"v":1,"time_ms":1,"event":"what"}'; do
    echo "$odd" >"$work/odd"
    code 0 zklock watch --replay "$work/odd"
done
# Contenders that ended are forgotten, also where nothing is drawn: a hundred times as many need no more memory.
cat >"$work/memory.py" <<'PY'
import json, os, resource, subprocess, sys

def peak(count):
    with open(sys.argv[1], "w") as record:
        for i in range(count):
            contender = {"name": "_c_%032d-lock-%010d" % (i, i % 2**31), "holds": True, "identity": "host:%d (user)" % i}
            print(json.dumps({"v": 1, "time_ms": 1000 * (i + 1), "path": "/locks/x", "contenders": [contender]}), file=record)
    command = ["zklock", "watch", "--span", "5s", "--speed", "1000000", "--replay", sys.argv[1]]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    status, usage = os.wait4(child.pid, 0)[1:]
    assert status == 0, status
    return usage.ru_maxrss

few, many = peak(1000), peak(100000)
print(few, many)
sys.exit(many > 1.3 * few)
PY
code 0 python3 "$work/memory.py" "$work/many"
