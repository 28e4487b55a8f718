#!/bin/bash
# What ls, check, doctor and release say where others made znodes by hand, or forbid to look.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
has_kazoo || exit 77
need_sandbox sandbox
code 0 zklock run first true # or /locks would be somebody's alone

# A place with a lower number, made later: it holds nothing, and removing the holder does not mean it.
zklock run other true
for _ in 1 2 3 4 5 6; do zklock run forged true; done
run_as holder forged
holder=$pid
up holder
real=$(token_of forged)
name="b'$(hostname):4711 ($(id -un))'"
stranger "zk.create('/locks/forged/x-lock--000000003', $name, ephemeral=True)"
code 0 zklock ls forged
prints '^  stray .*:4711 '
prints "^  holds .* $real "
code 0 zklock check forged
prints "held by .*:$holder "
code 1 zklock doctor
prints '^BAD  /locks/forged: x-lock--000000003 was made by hand'
code 0 zklock --json ls forged
prints '"holds":false,"stray":true,"name":"x-lock--000000003"'
code 0 zklock --json release --force --yes forged
prints "\"token\":$real,"
ends "the holder's exit code" 120 "$holder"

# --is-me: a place with our name is not us, when somebody else holds.
stranger "zk.create('/locks/theirs', makepath=True)
for number in 1, 0:
    zk.create(f'/locks/theirs/x-lock-000000000{number}', b'elsewhere:1 (eve)' if number else $name, ephemeral=True)
zk.create('/locks/fleeting', ephemeral=True)"
code 1 zklock check --is-me theirs
prints 'held by elsewhere:1'
code 125 zklock run fleeting/below true
says 'an ephemeral znode, which has no children .*; name another LOCK$'

# What may not be listed is said, and the rest is shown.
stranger '
closed = [make_acl("digest", "eve:nobodyhasthatone", all=True)]
for name in "priv", "open", "hidden":
    zk.create(f"/locks/{name}/x-lock-", b"in the " + name.encode(), ephemeral=True, sequence=True, makepath=True)
zk.create("/only/locks/secret", makepath=True)
for path in "/locks/priv", "/locks/hidden/x-lock-0000000000", "/only/locks/secret":
    zk.set_acls(path, closed)'
code 121 zklock ls
says '^zklock: /locks/priv: its children may not be listed'
prints 'in the open'
code 121 zklock ls priv open
prints 'in the open'
says '/locks/priv'
code 121 zklock check priv
code 1 zklock doctor
prints '^BAD  /locks/priv: its children may not be listed'
prints 'as far as they may be listed'
code 0 zklock ls hidden
prints '^  holds .* lock  *\(not readable\)$'
hidden='"readable":false,"identity":null'
code 0 zklock --json ls hidden
prints "$hidden"
matches "watch, a znode that is not readable" "$(zklock watch hidden | head -n 1)" "$hidden"
matches "doctor, a znode that is not readable" "$(zklock doctor)" '^BAD  /locks/hidden: x-lock-0000000000 is not readable'

# Nothing but what may not be listed: not "nobody".
code 121 zklock -s "$ZKLOCK_SERVERS/only" ls
same "it is not said that nobody holds" "$(grep -c 'no lock below' "$work/err")" 0

# One whose name leaves no room for a request does not stop the others.
stranger 'zk.create("/locks/long/" + "A" * 5000 + "-lock--000000001", makepath=True)'
code 121 zklock ls
prints '^/locks/open$'
code 0 zklock ls long
# What is cut within a character is shown to the one before.
stranger 'zk.create("/locks/cut/x-lock-0000000001", ("x" + "\u00e9" * 9999).encode(), makepath=True)'
code 0 zklock --json ls cut
prints '"identity":"x'
same "bytes on a terminal that is not UTF-8" "$(LC_ALL=C on_terminal "zklock ls cut; zklock check cut" | tr -d '\0-\177')" ""
# Such a name is longer than any library makes, has a contender's end, and is before everybody: nobody's place, and none to ask about.
stranger '
zk.create("/locks/long/" + "A" * 900000 + "-lock--000000001")
zk.create("/locks/few/locks/" + "A" * 5000 + "-lock--000000001", makepath=True)'
code 0 zklock run -w 20s long true
code 0 zklock run -w 20s -j 1 few true
