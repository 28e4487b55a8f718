#!/bin/sh
# version.sh SOURCE: the version is the same wherever it stands (RELEASING.md).
set -eu
cd "$1"
version=$(sed -n 's/^project(zklock VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
test -n "$version"

# is_in FILE LINE: where LINE is one with the version
is_in() {
    grep -qF -- "$2" "$1" || {
        echo "$1 is of another version than $version in CMakeLists.txt" >&2
        exit 1
    }
}
is_in include/zklock/version.h "#define ZKL_VERSION \"$version\""
is_in packaging/vcpkg/vcpkg.json "\"$version\""
is_in packaging/conan/conanfile.py "version = \"$version\""
is_in CHANGELOG.md "## $version "
