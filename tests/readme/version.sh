#!/bin/sh
# version.sh SOURCE: the version of include/zklock/version.h, from which CMake and Conan take theirs, is the same wherever else it stands.
set -eu
cd "$1"
version=$(sed -n 's/^#define ZKL_VERSION "\(.*\)"$/\1/p' include/zklock/version.h)
test -n "$version"

# is_in FILE LINE: where LINE is one with the version
is_in() {
    grep -qF -- "$2" "$1" || {
        echo "$1 is of another version than $version in include/zklock/version.h: it lacks '$2'" >&2
        exit 1
    }
}
minor=${version%.*}
is_in include/zklock/version.h "#define ZKL_VERSION_MAJOR ${minor%.*}"
is_in include/zklock/version.h "#define ZKL_VERSION_MINOR ${minor#*.}"
is_in include/zklock/version.h "#define ZKL_VERSION_PATCH ${version##*.}"
is_in packaging/vcpkg/vcpkg.json "\"$version\""
is_in debian/changelog "zklock ($version-"
is_in CHANGELOG.md "## $version "
is_in README.md "Version $minor"
is_in docs/packaging.md "find_package(zklock $minor "
