#!/bin/bash
# What others may make of the files that the command reads and writes: secrets, reports, counters.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"
need_sandbox sandbox
canary=kanari-71d3
zklock run open true # or /locks would be ann's alone
secret secret "digest:ann:$canary"

# --- the secret -------------------------------------------------------------------------------------------------------

# A descriptor that --auth-file names is not CMD's: neither of a file, which Linux opens again at its beginning, nor of a pipe.
# shellcheck disable=SC2016
look='for fd in /proc/self/fd/*; do [ "$fd" -ef "$1" ] && echo leaked; done; cat <&3; exit 0'
# shellcheck disable=SC2094 # only read
code 0 zklock --auth-file /dev/fd/3 run vault bash -c "$look" look "$work/secret" 3<"$work/secret"
prints_only ""
code 0 zklock --auth-file /dev/fd/3 run vault bash -c "$look" look "$work/secret" 3< <(cat "$work/secret")
prints_only ""
# shellcheck disable=SC2094 # only read
code 0 zklock --auth-file "$work/secret" run vault bash -c "$look" look "$work/secret" 3<"$work/secret"
prints_only ""
code 125 zklock --auth-file /dev/stdin run vault true <"$work/secret"
says 'descriptor 0, which CMD gets as well'
code 0 zklock --auth-file /dev/stdin ls vault <"$work/secret"

# Whoever owns the file chooses what it says. A NUL would end the secret before its end.
if [ "$(id -u)" = 0 ]; then
    chown 65534 "$work/secret"
    code 125 zklock --auth-file "$work/secret" run vault true
    says 'belongs to user 65534.*chown it to root'
    chown 0 "$work/secret"
fi
# systemd gives a credential to the user of a unit by an access list, whose mask stat shows as permissions of the group. Such a file
# is private when only we are listed. access_list FILE GROUP-PERMISSIONS [TAG ID]...; tags: 2 a user, 8 a group.
access_list() {
    /usr/bin/python3 - "$@" <<'EOF'
import os, struct, sys
file, group, *named = sys.argv[1:]
entries = [(1, 4, 0xffffffff), *((int(tag), 4, int(one)) for tag, one in zip(named[::2], named[1::2])),
           (4, int(group), 0xffffffff), (16, 4, 0xffffffff), (32, 0, 0xffffffff)]
os.chmod(file, 0o400)
os.setxattr(file, "system.posix_acl_access", struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in sorted(entries)))
EOF
}
me_id=$(id -u)
access_list "$work/secret" 0 2 "$me_id"
same "mode of a file with an access list" "$(stat -c %a "$work/secret")" 440
code 0 zklock --auth-file "$work/secret" run vault true
for listed in "4" "4 2 $me_id" "0 2 $((me_id + 1))" "0 2 $me_id 2 $((me_id + 1))" "0 2 $me_id 8 7"; do
    # shellcheck disable=SC2086 # words of an access list
    access_list "$work/secret" $listed
    code 125 zklock --auth-file "$work/secret" run vault true
    says "others can read it"
done
/usr/bin/python3 -c "import os, sys; os.removexattr(sys.argv[1], 'system.posix_acl_access')" "$work/secret"
chmod 600 "$work/secret"
printf 'digest:ann:%s\0more\n' $canary >"$work/nul"
chmod 600 "$work/nul"
code 125 zklock --auth-file "$work/nul" run vault true
says 'a NUL byte'

# No core dump has it, of zklock or its keeper, and no process of the same user reads their memory: what belongs to such a process is
# root's. CMD is as it was.
owner() { stat -c %u "/proc/$1/fd"; }
as=(env)
others=$(mktemp -d)
if [ "$(id -u)" = 0 ]; then
    as=("${nobody[@]}")
    cp "$work/secret" "$others/secret"
    access_list "$others/secret" 0 2 65534
    chown 65534:65534 "$others"
else
    cp -p "$work/secret" "$others/secret"
fi
for_others "$others/bin"
chmod 755 "$others"
background "${as[@]}" "$others/bin/zklock" --auth-file "$others/secret" run vault bash -c "echo \$PPID \$\$ >$others/cmd; exec sleep 600"
if await "CMD" lines "$others/cmd" 1; then
    read -r keeper command <"$others/cmd"
    same "the owner of zklock's descriptors" "$(owner "$pid")" 0
    same "the owner of the keeper's descriptors" "$(owner "$keeper")" 0
    same "the owner of CMD's descriptors" "$(owner "$command")" "$("${as[@]}" id -u)"
fi
kill -TERM "$pid"
wait "$pid"
rm -rf "$others"

# --- what it writes -----------------------------------------------------------------------------------------------------

for option in --report --metrics; do
    file=$work/out$option
    echo precious >"$work/precious"
    ln -s "$work/precious" "$file"
    code 125 zklock run $option "$file" x true
    says "it is a symbolic link: name the file itself"
    file_is "what the link leads to" precious precious
    rm "$file"
    (umask 0 && zklock run $option "$file" x true)
    same "mode of $option" "$(stat -c %a "$file")" 644
    (umask 077 && zklock run $option "$file" x true)
    same "mode of $option, again" "$(stat -c %a "$file")" 644
    # shellcheck disable=SC2012
    same "nothing is left beside it" "$(ls -d "$file"* | wc -l)" 1
    code 125 zklock run $option "$work" x true
    says 'Is a directory; name a file in it'
    code 0 zklock run $option /dev/null x true
    true_that "/dev/null is one" [ -c /dev/null ]
done
# Until the end the old report stands, and nobody reads half of the new one.
echo old >"$work/report"
code 0 zklock run --report "$work/report" x cat "$work/report"
prints_only old
file_matches "the report after it" report '"outcome":"ran"'
code 0 zklock run --report /dev/stderr x true
matches "a report to a pipe" "$(zklock run --report /proc/self/fd/1 x true 2>&1 | cat)" 'symbolic link'
