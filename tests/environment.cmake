# Read by ctest before it starts a test: tests see none of the caller's environment but what stands here. Servers or a sandbox of the
# user's would lead them astray; so would a language with a comma in its numbers, a start-up file of the shell, an older library.
cmake_policy(VERSION 3.18)
set(kept PATH HOME TMPDIR XDG_CACHE_HOME ASAN_OPTIONS LSAN_OPTIONS TSAN_OPTIONS UBSAN_OPTIONS GCOV_PREFIX GCOV_PREFIX_STRIP
  # what a developer asks the tests themselves for
  ZKLOCK_CALM ZKLOCK_CHAOS_KEEP ZKLOCK_FATE ZKLOCK_LOCKS ZKLOCK_NTH ZKLOCK_ROUNDS ZKLOCK_SECONDS ZKLOCK_SEED ZKLOCK_TEST_JARS ZKLOCK_TEST_LOG
  ZKL_TRACE)
execute_process(COMMAND env OUTPUT_VARIABLE lines)
string(REGEX MATCHALL "(^|\n)[^=\n]+" lines "${lines}")
foreach(line IN LISTS lines)
  string(STRIP "${line}" name)
  if(NOT name IN_LIST kept)
    unset(ENV{${name}})
  endif()
endforeach()
set(ENV{LC_ALL} C.UTF-8)
# The system's programs, before those of the same names: a python3 that pyenv finds takes half a second to start.
set(ENV{PATH} "/usr/sbin:/usr/bin:/sbin:/bin:$ENV{PATH}")
# Servers and clients live for seconds: they compile later. A server reads and writes in the thread that selects, since each request costs less
# than a hand-over to another thread; those of other versions (with_server) do that as ever. They start with the classes that scripts/test has
# archived, which are those of Debian's jars.
set(ENV{JAVA_TOOL_OPTIONS} "-XX:CompileThresholdScaling=5 -Dzookeeper.nio.numWorkerThreads=0")
set(archive ${CMAKE_CURRENT_LIST_DIR}/../build/server.jsa)
if(EXISTS ${archive} AND NOT DEFINED ENV{ZKLOCK_TEST_JARS})
  string(APPEND ENV{JAVA_TOOL_OPTIONS} " -XX:SharedArchiveFile=${archive} -Xlog:disable")
endif()
# A name that a script would take apart, or with which that of a socket gets too long.
string(LENGTH "$ENV{TMPDIR}" length)
if(NOT "$ENV{TMPDIR}" MATCHES "^/[A-Za-z0-9_./-]*$" OR length GREATER 40 OR NOT IS_DIRECTORY "$ENV{TMPDIR}")
  unset(ENV{TMPDIR})
endif()
