#!/bin/bash
# classes.sh DIRECTORY: compiles the programs that use Curator. Exit 77: what that needs is not installed.
set -u
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=tests/interop/others.sh
. "$here/others.sh"
compile_classes "$1"
