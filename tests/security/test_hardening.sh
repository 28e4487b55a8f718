#!/bin/bash
# What the compiler and the linker were asked for against exploits is in the command and the library.
#   test_hardening.sh COMMAND LIBRARY
set -u
failed=0
bad() {
    echo "FAILED: $*"
    failed=1
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
    ! [[ $dynamic =~ RPATH ]] || bad "$name: looks for libraries in a fixed place"
    # Debian's crt1.o carries no note of it, so the linker writes none: what counts is that our functions begin with the mark.
    if [ "$(uname -m)" = x86_64 ]; then
        objdump -d --no-show-raw-insn "$file" | grep -q endbr64 || bad "$name: no control-flow protection"
    fi
done
exit $failed
