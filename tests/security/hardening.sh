#!/bin/bash
# What the compiler and the linker were asked for against exploits is in the command and the library.
#   hardening.sh COMMAND LIBRARY
set -u
failed=0
bad() {
    echo "FAILED: $*"
    failed=1
}

# DT_RPATH and DT_RUNPATH: below where the file itself is, and nowhere else. An empty component would be the current directory: CMake
# ends what it will replace at the installation with one, so it is looked at in what is installed.
check_library_paths() { # NAME DYNAMIC FOLDER
    local paths path
    paths=$(sed -n 's/.*(\(RPATH\|RUNPATH\)) *Library [a-z]*path: \[\(.*\)\]$/\2/p' <<<"$2")
    [ -n "$paths" ] || return 0
    while IFS= read -r -d : path; do
        [[ $path == "\$ORIGIN"/* || $path == "$3" ]] || bad "$1: looks for libraries in '$path'"
    done <<<"${paths%"${3:+:}"}:"
}

for file in "$@"; do
    name=$(basename "$file")
    segments=$(readelf -lW "$file")
    dynamic=$(readelf -dW "$file")
    names=$(nm -D --undefined-only "$file")
    [[ $(readelf -hW "$file") =~ Type:\ +DYN ]] || bad "$name does not move in memory (no PIE)"
    [[ $segments =~ GNU_RELRO ]] || bad "$name: relocations stay writable"
    [[ $dynamic =~ BIND_NOW|FLAGS.*NOW ]] || bad "$name: functions are bound late"
    [[ $segments =~ GNU_STACK[^$'\n']*\ RW\  ]] || bad "$name: the stack is executable"
    [[ $names =~ __stack_chk_fail ]] || bad "$name: no stack protector"
    [[ $names =~ __[a-z]+_chk ]] || bad "$name: no fortified calls"
    check_library_paths "$name" "$dynamic" "$(dirname "$file")"
    # Debian's crt1.o carries no note of it, so the linker writes none: what counts is that our functions begin with the mark.
    if [ "$(uname -m)" = x86_64 ]; then
        objdump -d --no-show-raw-insn "$file" | grep -q endbr64 || bad "$name: no control-flow protection"
    fi
done

# As it is installed.
if [ -n "${INSTALL_COMMAND:-}" ]; then
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    DESTDIR=$folder cmake -DCMAKE_INSTALL_COMPONENT=tools -P "$INSTALL_COMMAND" >/dev/null || bad "cannot be installed"
    installed=$(find "$folder" -type f -name zklock -path '*/bin/*')
    [ -n "$installed" ] || bad "nothing was installed"
    check_library_paths "installed zklock" "$(readelf -dW "$installed")" ""
fi
exit $failed
