# Sourced: what the scripts here share. From ctest: CC, CXX, CFLAGS_EXTRA (sanitizers), SOURCE (of the project).
# shellcheck shell=sh disable=SC2034
set -eu
here=$SOURCE/tests/consumer
strict="-pedantic -Wall -Wextra -Wshadow -Werror ${CFLAGS_EXTRA:-}"
scratch=$(mktemp -d "${TMPDIR:-/tmp}/zklock-consumer-XXXXXX")
trap 'rm -rf "$scratch"' EXIT

skip() {
    echo "skipped: $1" >&2
    exit 77
}

# flags PREFIX WHAT...: pkg-config for the zklock under PREFIX, and no other
flags() {
    PKG_CONFIG_PATH=$(dirname "$(find "$1" -name zklock.pc)")
    export PKG_CONFIG_PATH
    shift
    pkg-config "$@" zklock
}

# library_folder PREFIX
library_folder() {
    dirname "$(find "$1" -name libzklock.a)"
}

# run_shared PREFIX PROGRAM: runs it with the shared library of PREFIX, and sees to it that it is that one
run_shared() {
    LD_LIBRARY_PATH=$(library_folder "$1")
    export LD_LIBRARY_PATH
    ldd "$2" | grep -q "libzklock.so.[0-9]* => $LD_LIBRARY_PATH/" || {
        ldd "$2" >&2
        return 1
    }
    "$2"
}

# without_shared PROGRAM: it has the library in itself
without_shared() {
    if ldd "$1" | grep libzklock >&2; then
        return 1
    fi
}
