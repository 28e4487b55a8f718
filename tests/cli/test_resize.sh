#!/bin/bash
# resize: another limit while it is used; run -j 0 goes by what the path says.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need_sandbox sandbox

end_of() { # NAME PID
    let_go "$1"
    ends "exit code of $1" 0 "$2"
}

code 1 zklock resize builds 2
says '"builds": there is no semaphore: .*; the first .zklock run -j K. sets a limit, where nobody uses LOCK without -j$'
code 125 zklock run -j 0 builds true
says 'nobody has set a limit: .*; name another LOCK, or use this one as the others do'

# Growing: the waiters are granted immediately.
start first -j 1 builds
first=$pid
await "the first" said "in first"
start second -j 0 builds
second=$pid
start third -j 0 builds
third=$pid
await "the waiters" queued builds/locks 2
code 0 zklock resize builds 3
says_only 'zklock: "builds": 3 at a time from now on'
prints_only ""
await "the second" said "in second"
await "the third" said "in third"

# Shrinking: holders finish, and a waiter is granted when few enough are left.
code 0 zklock --json resize /locks/builds 2
prints_only '{"v":1,"event":"resized","path":"/locks/builds","limit":2}'
start fourth -j 0 builds
fourth=$pid
await "the waiter" queued builds/locks 1
code 125 zklock run -j 3 builds true
says 'limit is 3, the path is in use with 2 .*; name another LOCK, or use this one as the others do'
end_of first "$first"
code 124 zklock run -n -j 0 builds true
said "in fourth" && bad "the fourth runs beside two others"
end_of second "$second"
await "the fourth" said "in fourth"
end_of third "$third"
end_of fourth "$fourth"

# What is no limit stays what it is.
code 0 zklock run plain true
code 1 zklock resize plain 2
says '"plain": nobody has set a limit: '
