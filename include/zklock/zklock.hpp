/* zklock/zklock.hpp - the locks for C++11 and later: RAII, std::chrono, exceptions. Headers only,
 * over zklock/zklock.h.
 *
 *     zklock::session session("host:2181,host:2181,host:2181");
 *     zklock::mutex mutex(session, "/locks/report");
 *     std::unique_lock<zklock::mutex> guard(mutex, std::chrono::seconds(30));
 *     if (guard) write(mutex.token(), ...);      // storage refuses lower tokens than it has seen
 *
 * One object is one contender. A std::mutex is shared by the threads that compete for it; here each
 * of them has an object of its own, at the same path. An object that waits or holds already throws
 * ZKL_EDEADLK. All types can be moved, none copied; one that was moved from may be destroyed or
 * assigned to. Destroying one cancels or releases. Objects may outlive their session; then they
 * throw ZKL_ECLOSED.
 *
 * Errors. A call that fails throws zklock::error, a std::system_error: code() == ZKL_ELOST and so
 * on, code() == std::errc::timed_out where the standard has a name for it; what() is the text of
 * the zkl_error. A try that finds another contender, and a timeout, return false. A std::string
 * with a NUL in it is ZKL_EINVAL: C would cut it there.
 *
 * Loss. A guard's destructor cannot throw, so unlock() does not report that the lease did not cover
 * the section. Call covered() after it, or end the section with release(), which throws ZKL_ELOST,
 * or run it with run(), which throws, too. Leases, threads and callbacks are as in
 * zklock/session.h, zklock/lock.h and the other headers; get() returns the handle that their
 * functions take.
 *
 * Options are the C structs (zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT; options.recursive =
 * true; zklock::mutex mutex(session, path, &options)), or lock_options with callbacks of C++. The
 * callbacks in them must not throw. */
#ifndef ZKLOCK_ZKLOCK_HPP
#define ZKLOCK_ZKLOCK_HPP

#include <zklock/barrier.hpp>
#include <zklock/election.hpp>
#include <zklock/group.hpp>
#include <zklock/mutex.hpp>
#include <zklock/once.hpp>
#include <zklock/partition.hpp>
#include <zklock/queue.hpp>
#include <zklock/stats.hpp>

#endif
