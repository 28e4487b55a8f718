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
 * the zkl_error. A try that finds another contender, and a timeout, return false.
 *
 * Loss. A guard's destructor cannot throw, so unlock() does not report that the lease did not cover
 * the section. Call covered() after it, or end the section with release(), which throws ZKL_ELOST,
 * or run it with run(), which throws, too. Leases, threads and callbacks are as in
 * zklock/session.h, zklock/lock.h and the other headers; get() returns the handle that their
 * functions take.
 *
 * Options are the C structs: zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT; options.recursive =
 * true; zklock::mutex mutex(session, path, &options). The callbacks in them must not throw. */
#ifndef ZKLOCK_ZKLOCK_HPP
#define ZKLOCK_ZKLOCK_HPP

#include <chrono>
#include <cmath>
#include <exception>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <zklock/zklock.h>

namespace std
{
template <> struct is_error_code_enum<zkl_result> : true_type {
};
} // namespace std

namespace zklock
{

/* --- errors ---------------------------------------------------------------------------------- */

namespace detail
{

class zklock_category final : public std::error_category
{
  public:
    const char *name() const noexcept override { return "zklock"; }
    std::string message(int code) const override { return zkl_strerror(code); }
    /* Codes that the standard has a name for. */
    std::error_condition default_error_condition(int code) const noexcept override
    {
        switch (code) {
        case ZKL_ETIMEOUT:
            return std::errc::timed_out;
        case ZKL_EBUSY:
            return std::errc::device_or_resource_busy;
        case ZKL_ECANCELED:
            return std::errc::operation_canceled;
        case ZKL_EDEADLK:
            return std::errc::resource_deadlock_would_occur;
        case ZKL_ENOTHELD:
            return std::errc::operation_not_permitted;
        case ZKL_EAUTH:
            return std::errc::permission_denied;
        case ZKL_ENOENT:
            return std::errc::no_such_file_or_directory;
        case ZKL_EINVAL:
            return std::errc::invalid_argument;
        case ZKL_ENOMEM:
            return std::errc::not_enough_memory;
        case ZKL_EUNSUPPORTED:
            return std::errc::not_supported;
        default:
            return std::error_condition(code, *this);
        }
    }
};

} // namespace detail

inline const std::error_category &category() noexcept
{
    static const detail::zklock_category only;
    return only;
}

class error : public std::system_error
{
  public:
    error(int code, const zkl_error &words)
        : std::system_error(code, category()),
          text_(std::make_shared<const std::string>(words.text)),
          path_(std::make_shared<const std::string>(words.path)), zk_code_(words.zk_code)
    {
    }
    const char *what() const noexcept override { return text_->c_str(); }
    /* The znode concerned; empty when none is. */
    const std::string &path() const noexcept { return *path_; }
    /* ZooKeeper's own code, 0 when ZooKeeper reported none. */
    int zk_code() const noexcept { return zk_code_; }

  private:
    std::shared_ptr<const std::string> text_,
        path_; /* shared: to copy an exception may not throw */
    int zk_code_;
};

namespace detail
{

/* Calls `call` with a zkl_error to fill. Throws the code it returns, unless that is ZKL_OK (true)
 * or one of the two that mean false. */
template <class Call> bool check(Call call, int no = ZKL_OK, int no_either = ZKL_OK)
{
    zkl_error words = zkl_error();
    int code = call(&words);
    if (code == ZKL_OK) {
        return true;
    }
    if (code == no || code == no_either) {
        return false;
    }
    if (!words.text[0]) {
        std::string(zkl_strerror(code)).copy(words.text, sizeof words.text - 1);
    }
    throw error(code, words);
}

/* Rounded up to whole ms. A time that has passed is a try, one that is too long to count is for
 * ever. */
template <class Rep, class Period> int64_t to_ms(const std::chrono::duration<Rep, Period> &time)
{
    double ms = std::ceil(std::chrono::duration<double, std::milli>(time).count());
    return !(ms > 0) ? 0 : ms < 9e15 ? static_cast<int64_t>(ms) : ZKL_WAIT_FOREVER;
}

/* True when call returns a grant; false when it ended because of its timeout_ms. */
template <class Call> bool granted(int64_t timeout_ms, Call call)
{
    return check(call, ZKL_EBUSY, timeout_ms == ZKL_WAIT_FOREVER ? ZKL_EBUSY : ZKL_ETIMEOUT);
}

} // namespace detail

/* Given to a function that runs under a grant: raised before the lease ends. */
class cancel_flag
{
  public:
    explicit cancel_flag(const zkl_cancel *flag) noexcept : flag_(flag) {}
    /* True once the function must end. Any thread, while the function runs. */
    bool raised() const noexcept { return zkl_cancel_raised(flag_); }
    /* Lease left. */
    std::chrono::milliseconds remaining() const noexcept
    {
        return std::chrono::milliseconds(zkl_cancel_remaining_ms(flag_));
    }
    /* Becomes readable when the flag is raised. */
    int fd() const noexcept { return zkl_cancel_fd(flag_); }

  private:
    const zkl_cancel *flag_;
};

namespace detail
{

/* A function that C calls. Its exception is kept, and rethrown when C has returned. */
template <class Function> struct section {
    Function &function;
    bool ran;
    std::exception_ptr thrown;

    static int call(const zkl_cancel *flag, int64_t token, void *payload) noexcept
    {
        section *self = static_cast<section *>(payload);
        self->ran = true;
        try {
            self->function(cancel_flag(flag), token);
        } catch (...) {
            self->thrown = std::current_exception();
        }
        return 0;
    }
};

} // namespace detail

/* --- session --------------------------------------------------------------------------------- */

/* One per process is the usual thing. Its destructor closes it, for at most five seconds: not in a
 * callback of it. */
class session
{
  public:
    explicit session(const std::string &servers, const zkl_session_options *options = nullptr)
    {
        detail::check([&](zkl_error *err) {
            zkl_session *made = nullptr;
            int code = zkl_session_open(&made, servers.c_str(), options, err);
            session_.reset(made);
            return code;
        });
    }

    /* As zkl_session_close: throws ZKL_ETIMEOUT when the servers did not confirm in time; it is
     * closed all the same. */
    template <class Rep, class Period> void close(const std::chrono::duration<Rep, Period> &timeout)
    {
        zkl_session *closing = session_.release();
        detail::check(
            [&](zkl_error *) { return zkl_session_close(closing, detail::to_ms(timeout)); });
    }

    zkl_session_state state() const noexcept
    {
        return get() ? zkl_session_get_state(get()) : ZKL_SESSION_CLOSED;
    }
    /* nullptr once closed, or moved from. */
    zkl_session *get() const noexcept { return session_.get(); }

  private:
    struct closer {
        void operator()(zkl_session *closing) const noexcept { zkl_session_close(closing, 5000); }
    };
    std::unique_ptr<zkl_session, closer> session_;
};

/* --- mutex: a zkl_lock of any recipe --------------------------------------------------------- */

/* Lockable and TimedLockable: for std::unique_lock and std::lock_guard. It is a lock
 * (zklock/lock.h) unless one of the functions below made it. A function of another recipe throws
 * ZKL_EINVAL. Of a semaphore lock() takes one permit, of an election it waits until this candidate
 * leads. */
class mutex
{
  public:
    mutex(const session &with, const std::string &path, const zkl_lock_options *options = nullptr)
        : mutex([&](zkl_lock **made, zkl_error *err) {
              return zkl_lock_new(made, with.get(), path.c_str(), options, err);
          })
    {
    }
    /* make(zkl_lock **out, zkl_error *err) calls one of the zkl_..._new. */
    template <class Make, class = decltype(std::declval<Make>()(nullptr, nullptr))>
    explicit mutex(Make make)
    {
        detail::check([&](zkl_error *err) {
            zkl_lock *made = nullptr;
            int code = make(&made, err);
            lock_.reset(made);
            return code;
        });
    }

    void lock() { acquire(ZKL_WAIT_FOREVER); }
    bool try_lock() { return acquire(0); }
    template <class Rep, class Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period> &timeout)
    {
        return acquire(detail::to_ms(timeout));
    }
    template <class Clock, class Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration> &deadline)
    {
        return acquire(detail::to_ms(deadline - Clock::now()));
    }
    void unlock() noexcept { released_ = zkl_lock_release(get(), nullptr); }
    /* The same, and throws ZKL_ELOST when the lease did not cover the hold. Of a std::unique_lock:
     * guard.release()->release(). */
    void release()
    {
        detail::check([&](zkl_error *err) { return released_ = zkl_lock_release(get(), err); });
    }
    /* Did the lease cover the hold that the last unlock() or release() ended? */
    bool covered() const noexcept { return released_ == ZKL_OK; }
    /* From any thread: the thread that waits with this object gets an exception, ZKL_ECANCELED.
     * False: none waits. */
    bool cancel()
    {
        return detail::check([&](zkl_error *) { return zkl_lock_cancel(get()); }, ZKL_ENOTWAITING);
    }

    /* By the lease clock: false from the lease end on, before any event says so. */
    bool is_held() const noexcept { return zkl_lock_is_held(get()); }
    zkl_state state() const noexcept { return zkl_lock_state(get()); }
    /* Lease left; zero when not held. */
    std::chrono::milliseconds remaining() const noexcept
    {
        return std::chrono::milliseconds(zkl_lock_remaining_ms(get()));
    }
    /* Fencing token of the grant; 0 when not held. */
    int64_t token() const noexcept { return zkl_lock_token(get()); }
    zkl_recipe recipe() const noexcept { return zkl_lock_recipe(get()); }
    zkl_lock *get() const noexcept { return lock_.get(); }

    /* Locks, calls function(zklock::cancel_flag, int64_t token) in this thread, unlocks. False: not
     * granted in time. The flag is raised when less than margin of lease is left (0: a third of
     * it). Throws the exception of function, else ZKL_ELOST when the lease did not cover it. */
    template <class Rep, class Period, class Function>
    bool run(const std::chrono::duration<Rep, Period> &timeout, Function &&function,
             std::chrono::milliseconds margin = std::chrono::milliseconds(0))
    {
        detail::section<Function> section{function, false, nullptr};
        zkl_error words = zkl_error();
        int64_t timeout_ms = detail::to_ms(timeout);
        int code = zkl_with_lock(get(), timeout_ms, margin.count(), section.call, &section, nullptr,
                                 &words);
        if (section.thrown) {
            std::rethrow_exception(section.thrown);
        }
        auto outcome = [&](zkl_error *err) { return *err = words, code; };
        return section.ran ? detail::check(outcome) : detail::granted(timeout_ms, outcome);
    }
    /* The same, waiting for ever. */
    template <class Function> void run(Function &&function)
    {
        run(std::chrono::hours::max(), std::forward<Function>(function));
    }

    /* A writer becomes a reader without letting any writer in between. Its guard stays valid. */
    void downgrade()
    {
        detail::check([&](zkl_error *err) { return zkl_write_lock_downgrade(get(), err); });
    }
    /* Takes count permits of a semaphore, all or none; false: not within that time. unlock()
     * releases all. */
    template <class Rep, class Period>
    bool take(int count, const std::chrono::duration<Rep, Period> &timeout)
    {
        int64_t ms = detail::to_ms(timeout);
        return detail::granted(ms, [&](zkl_error *err) {
            return zkl_semaphore_acquire(get(), count, ms, nullptr, err);
        });
    }
    /* How many permits are held; 0 also when they are lost, or it is no semaphore. */
    int permits() const noexcept { return zkl_semaphore_tokens(get(), nullptr, 0); }
    /* Publishes another value; only the leader of an election may. */
    template <class Rep, class Period>
    void publish(const std::string &value, const std::chrono::duration<Rep, Period> &timeout)
    {
        detail::check([&](zkl_error *err) {
            return zkl_election_publish(get(), value.c_str(), detail::to_ms(timeout), err);
        });
    }

  private:
    struct freer {
        void operator()(zkl_lock *lock) const noexcept { zkl_lock_free(lock); }
    };
    std::unique_ptr<zkl_lock, freer> lock_;
    int released_ = ZKL_OK;

    bool acquire(int64_t timeout_ms)
    {
        return detail::granted(timeout_ms, [&](zkl_error *err) {
            return zkl_lock_acquire(get(), timeout_ms, nullptr, err);
        });
    }
};

/* Many readers or one writer (zklock/rwlock.h). */
inline mutex read_lock(const session &with, const std::string &path,
                       const zkl_lock_options *options = nullptr)
{
    return mutex([&](zkl_lock **made, zkl_error *err) {
        return zkl_read_lock_new(made, with.get(), path.c_str(), options, err);
    });
}
inline mutex write_lock(const session &with, const std::string &path,
                        const zkl_lock_options *options = nullptr)
{
    return mutex([&](zkl_lock **made, zkl_error *err) {
        return zkl_write_lock_new(made, with.get(), path.c_str(), options, err);
    });
}

/* Several locks, all or none (zklock/multilock.h): one transaction queues everywhere, so no order
 * of paths can deadlock. Use this instead of std::lock. */
inline mutex multilock(const session &with, const std::vector<std::string> &paths,
                       const zkl_lock_options *options = nullptr)
{
    return mutex([&](zkl_lock **made, zkl_error *err) {
        std::vector<const char *> names;
        for (const std::string &path : paths) {
            names.push_back(path.c_str());
        }
        return zkl_multilock_new(made, with.get(), names.data(), names.size(), options, err);
    });
}

/* A contender for permits of a semaphore with that limit (zklock/semaphore.h). */
inline mutex semaphore(const session &with, const std::string &path, int limit,
                       const zkl_lock_options *options = nullptr)
{
    return mutex([&](zkl_lock **made, zkl_error *err) {
        return zkl_semaphore_new(made, with.get(), path.c_str(), limit, options, err);
    });
}

/* A candidate (zklock/election.h), which leads while it holds; options->metadata is what it
 * publishes. */
inline mutex election(const session &with, const std::string &path,
                      const zkl_lock_options *options = nullptr)
{
    return mutex([&](zkl_lock **made, zkl_error *err) {
        return zkl_election_new(made, with.get(), path.c_str(), options, err);
    });
}

} // namespace zklock

/* Found by the type of its argument, which stands in no namespace: code() == ZKL_ELOST. */
inline std::error_code make_error_code(zkl_result code) noexcept
{
    return std::error_code(code, zklock::category());
}

#endif
