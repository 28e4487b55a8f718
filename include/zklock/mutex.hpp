/* zklock/mutex.hpp - zklock::mutex, which is a zkl_lock of any recipe. C++11. */
#ifndef ZKLOCK_MUTEX_HPP
#define ZKLOCK_MUTEX_HPP

#include <exception>
#include <functional>
#include <utility>
#include <vector>

#include <zklock/session.hpp>
#include <zklock/zookeeper.h>

namespace zklock
{

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

/* True when function, whose last argument is a zkl_error, returns a grant; false when it ended
 * because of its timeout, or because of max_ahead. Without a timeout it throws then, too: lock()
 * has no other way to say that it has not locked. */
template <class Function, class... Args>
bool granted(time_limit timeout, Function function, Args... args)
{
    const bool ends = timeout.ms() != ZKL_WAIT_FOREVER;
    return check([&](zkl_error *details) { return function(args..., details); },
                 ends ? ZKL_EBUSY : ZKL_OK, ends ? ZKL_ETIMEOUT : ZKL_OK);
}

/* The completion of an acquire: calls the function, and deletes it. */
template <class Done> struct acquired {
    Done done;

    static void call(zkl_lock *, int code, const zkl_grant *grant, const zkl_error *err,
                     void *payload) noexcept
    {
        std::unique_ptr<acquired> self(static_cast<acquired *>(payload));
        self->done(failure_of(code, err), grant ? *grant : zkl_grant());
    }
};

/* A candidate that campaigns, until the last call: that reports the end to done. */
template <class Changed, class Done> struct standing {
    Changed changed;
    Done done;

    static void call(zkl_lock *, zkl_state state, int64_t token, const zkl_error *err,
                     void *payload) noexcept
    {
        standing *self = static_cast<standing *>(payload);
        std::exception_ptr why = failure_of(err ? err->code : ZKL_OK, err);
        if (state != ZKL_STATE_IDLE) {
            self->changed(state, token, why);
            return;
        }
        std::unique_ptr<standing> last(self);
        last->done(why);
    }
};

/* A function that C calls. Its exception is kept, and rethrown when C has returned. */
template <class Function> struct section {
    Function &function;
    std::exception_ptr thrown;

    static int call(const zkl_cancel *flag, int64_t token, void *payload) noexcept
    {
        section *self = static_cast<section *>(payload);
        try {
            self->function(cancel_flag(flag), token);
        } catch (...) {
            self->thrown = std::current_exception();
        }
        return self->thrown ? 1 : 0;
    }
    /* code: what C has returned. */
    int result(int code) const
    {
        if (thrown) {
            std::rethrow_exception(thrown);
        }
        return code;
    }
};

} // namespace detail

/* Options whose callbacks may be functions of C++. They may not throw. c has everything else; a
 * callback of c is called with c.payload, unless there is a function in its place. A mutex takes a
 * copy of its own, which is destroyed with it. */
class lock_options
{
  public:
    zkl_lock_options c = ZKL_LOCK_OPTIONS_INIT;

    /* From the C struct; nullptr: all defaults. */
    lock_options(const zkl_lock_options *options = nullptr) { detail::take(c, options); }
    /* In place of c.state_fn. */
    lock_options &on_state(std::function<void(zkl_state)> function)
    {
        state_ = std::move(function);
        return *this;
    }
    /* In place of c.revoke_fn. */
    lock_options &on_revoke(std::function<void()> function)
    {
        revoke_ = std::move(function);
        return *this;
    }
    /* In place of c.position_fn: how many contenders are ahead. */
    lock_options &on_position(std::function<void(size_t)> function)
    {
        position_ = std::move(function);
        return *this;
    }

  private:
    friend class mutex;
    std::function<void(zkl_state)> state_;
    std::function<void()> revoke_;
    std::function<void(size_t)> position_;

    static void call_state(zkl_lock *lock, zkl_state state, void *payload)
    {
        const auto own = detail::calls_of<lock_options>(payload);
        own->state_ ? own->state_(state) : own->c.state_fn(lock, state, own->c.payload);
    }
    static void call_revoke(zkl_lock *lock, void *payload)
    {
        const auto own = detail::calls_of<lock_options>(payload);
        own->revoke_ ? own->revoke_() : own->c.revoke_fn(lock, own->c.payload);
    }
    static void call_position(zkl_lock *lock, size_t ahead, void *payload)
    {
        const auto own = detail::calls_of<lock_options>(payload);
        own->position_ ? own->position_(ahead) : own->c.position_fn(lock, ahead, own->c.payload);
    }
    /* For C, which has one payload for all three. */
    zkl_lock_options for_c(void *payload) const
    {
        zkl_lock_options made = c;
        made.state_fn = state_ || c.state_fn ? call_state : nullptr;
        made.revoke_fn = revoke_ || c.revoke_fn ? call_revoke : nullptr;
        made.position_fn = position_ || c.position_fn ? call_position : nullptr;
        made.payload = payload;
        return made;
    }
};

/* What zkl_lock_read has read. */
struct data {
    std::string bytes;
    int32_t version; /* for the set, the delete or the check of a transaction */
    int64_t mzxid;   /* of the transaction that wrote it last */
};

namespace detail
{

/* Frees what was read. */
inline data data_of(zkl_data *read)
{
    owner<zkl_data, zkl_data_free> freed(read);
    return data{std::string(static_cast<const char *>(read->data), read->size), read->version,
                read->mzxid};
}

inline std::vector<zkl_op_result> as_it_is(std::vector<zkl_op_result> results)
{
    return results;
}

} // namespace detail

/* Lockable and TimedLockable: for std::unique_lock and std::lock_guard. It is a lock
 * (zklock/lock.h) unless one of the functions below made it. A function of another recipe throws
 * ZKL_EINVAL. Of a semaphore lock() takes one permit, of an election it waits until this candidate
 * leads. unlock() and release() end whatever hold the object has, and so do guards: these know no
 * grant. Where another thread may release the object meanwhile, use run(), which ends its own grant
 * and no other. */
class mutex
{
  public:
    mutex(const session &with, const std::string &path, const lock_options &options = {})
        : mutex(with, options, zkl_lock_new, detail::words(path))
    {
    }
    /* constructor: one of the zkl_..._new; args: its arguments between session and options. */
    template <class Constructor, class... Args>
    mutex(const session &with, const lock_options &options, Constructor constructor, Args... args)
        : executor_(with.executor())
    {
        auto calls = detail::make_calls(options);
        const zkl_lock_options c = options.for_c(calls.get());
        lock_ = {detail::make<zkl_lock>(constructor, with.get(), args..., &c), {calls}};
    }

    /* Throws ZKL_EBUSY when more are queued than max_ahead. */
    void lock() { try_lock_for(std::chrono::hours::max()); }
    bool try_lock() { return try_lock_for(std::chrono::hours(0)); }
    bool try_lock_for(time_limit timeout)
    {
        return detail::granted(timeout, zkl_lock_acquire, get(), timeout.ms(), nullptr);
    }
    template <class Clock, class Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration> &deadline)
    {
        using ms = std::chrono::duration<double, std::milli>; /* no time is too long for it */
        return try_lock_for(ms(deadline.time_since_epoch()) - ms(Clock::now().time_since_epoch()));
    }
    /* The same, and throws where these return false: ZKL_EBUSY, ZKL_ETIMEOUT. */
    zkl_grant acquire(time_limit timeout)
    {
        zkl_grant grant = zkl_grant();
        detail::call(zkl_lock_acquire, get(), timeout.ms(), &grant);
        return grant;
    }
    /* The same without waiting (zklock/completion.hpp): done(std::exception_ptr, zkl_grant). */
    template <class Done> void async_acquire(time_limit timeout, Done done)
    {
        detail::begin_kept(new detail::acquired<Done>{std::move(done)}, zkl_lock_acquire_async,
                           get(), timeout.ms());
    }
    void unlock() noexcept { released_ = zkl_lock_release(get(), nullptr); }
    /* The same, and throws ZKL_ELOST when the lease did not cover the hold. Of a std::unique_lock:
     * guard.release()->release(). */
    void release()
    {
        detail::check([&](zkl_error *err) { return released_ = zkl_lock_release(get(), err); });
    }
    /* The same without waiting (zklock/completion.hpp): the mutex is idle when this returns.
     * ZKL_ELOST comes by done alone, not by covered(). */
    template <class Done> void async_release(Done done)
    {
        detail::begin(std::move(done), zkl_lock_release_async, get());
    }
    /* Did the lease cover the hold that the last unlock() or release() ended? False also when that
     * did not hold, and behind a close of the session. */
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
    /* For <zklock/asio.hpp>. */
    const detail::shared_executor &executor() const noexcept { return executor_; }

    /* Locks, calls function(zklock::cancel_flag, int64_t token) in this thread, unlocks. False: not
     * granted in time. The flag is raised when less than margin of lease is left (0: a third of
     * it). Throws the exception of function, else ZKL_ELOST when the lease did not cover it. */
    template <class Function>
    bool run(time_limit timeout, Function &&function,
             std::chrono::milliseconds margin = std::chrono::milliseconds(0))
    {
        detail::section<Function> section{function, nullptr};
        return detail::granted(timeout, [&](zkl_error *err) {
            return section.result(zkl_with_lock(get(), timeout.ms(), margin.count(), section.call,
                                                &section, nullptr, err));
        });
    }
    /* The same, waiting for ever, or throws ZKL_EBUSY as lock() does. */
    template <class Function> void run(Function &&function)
    {
        run(std::chrono::hours::max(), std::forward<Function>(function));
    }

    /* A writer becomes a reader without letting any writer in between. Its guard stays valid. */
    void downgrade() { detail::call(zkl_write_lock_downgrade, get()); }
    /* Takes count permits of a semaphore, all or none; false: not within that time. unlock()
     * releases all. */
    bool take(int count, time_limit timeout)
    {
        return detail::granted(timeout, zkl_semaphore_acquire, get(), count, timeout.ms(), nullptr);
    }
    /* The same without waiting (zklock/completion.hpp): done(std::exception_ptr, zkl_grant). */
    template <class Done> void async_take(int count, time_limit timeout, Done done)
    {
        detail::begin_kept(new detail::acquired<Done>{std::move(done)}, zkl_semaphore_acquire_async,
                           get(), count, timeout.ms());
    }
    /* How many permits are held; 0 also when they are lost, or it is no semaphore. */
    int permits() const noexcept { return zkl_semaphore_tokens(get(), nullptr, 0); }
    /* Publishes another value; only the leader of an election may. */
    void publish(const std::string &value, time_limit timeout)
    {
        detail::call(zkl_election_publish, get(), detail::words(value), timeout.ms());
    }
    /* The same without waiting (zklock/completion.hpp). */
    template <class Done>
    void async_publish(const std::string &value, time_limit timeout, Done done)
    {
        detail::begin(std::move(done), zkl_election_publish_async, get(), detail::words(value),
                      timeout.ms());
    }
    /* zkl_election_stand: this candidate campaigns, leads, and campaigns again after a loss, until
     * leave(). changed(zkl_state, int64_t token, std::exception_ptr why) follows for
     * ZKL_STATE_HELD, _JEOPARDY and _LOST, as callbacks do; it may not throw. The end comes by done
     * (zklock/completion.hpp): without an exception after leave() and when the mutex is destroyed.
     * Until done has returned the mutex may not stand again (ZKL_EDEADLK). */
    template <class Changed, class Done> void async_stand(Changed changed, Done done)
    {
        using stand = detail::standing<Changed, Done>;
        detail::begin_kept(new stand{std::move(changed), std::move(done)}, zkl_election_stand,
                           get());
    }
    /* Ends async_stand: withdraws from the queue, or resigns. False: it does not stand. */
    bool leave() { return detail::call_unless(ZKL_ENOTWAITING, zkl_election_leave, get()); }

    /* ops in one transaction with the proof that this is still held (zklock/zookeeper.h). Throws
     * ZKL_ELOST and applies nothing when it is not. */
    std::vector<zkl_op_result> commit(const std::vector<zkl_op> &ops, time_limit timeout)
    {
        std::vector<zkl_op_result> results(ops.size());
        detail::call(zkl_lock_commit, get(), ops.data(), ops.size(), timeout.ms(), results.data());
        return results;
    }
    /* The same without waiting (zklock/completion.hpp):
     * done(std::exception_ptr, std::vector<zkl_op_result>). ops and all they point to are copied.
     */
    template <class Done>
    void async_commit(const std::vector<zkl_op> &ops, time_limit timeout, Done done)
    {
        using results = std::vector<zkl_op_result>;
        auto out = std::make_shared<results>(ops.size());
        detail::with_value<results, results, Done> end{out, detail::as_it_is, std::move(done)};
        detail::begin(std::move(end), zkl_lock_commit_async, get(), ops.data(), ops.size(),
                      timeout.ms(), out->data());
    }
    /* Reads a znode under the lock, so that every guarded transaction of earlier holders shows;
     * fresh: also what others had written before the call (zklock/zookeeper.h). */
    data read(const std::string &path, bool fresh, time_limit timeout)
    {
        return detail::data_of(
            detail::make<zkl_data>(zkl_lock_read, get(), detail::words(path), fresh, timeout.ms()));
    }
    /* The same without waiting (zklock/completion.hpp): done(std::exception_ptr, data). */
    template <class Done>
    void async_read(const std::string &path, bool fresh, time_limit timeout, Done done)
    {
        detail::begin_value(detail::data_of, std::move(done), zkl_lock_read_async, get(),
                            detail::words(path), fresh, timeout.ms());
    }

  private:
    detail::owner<zkl_lock, zkl_lock_free> lock_;
    detail::shared_executor executor_;
    int released_ = ZKL_OK;
};

/* Many readers or one writer (zklock/rwlock.h). */
inline mutex read_lock(const session &with, const std::string &path,
                       const lock_options &options = {})
{
    return mutex(with, options, zkl_read_lock_new, detail::words(path));
}
inline mutex write_lock(const session &with, const std::string &path,
                        const lock_options &options = {})
{
    return mutex(with, options, zkl_write_lock_new, detail::words(path));
}

/* Several locks, all or none (zklock/multilock.h): one transaction queues everywhere, so no order
 * of paths can deadlock. Use this instead of std::lock. */
inline mutex multilock(const session &with, const std::vector<std::string> &paths,
                       const lock_options &options = {})
{
    std::vector<const char *> names;
    for (const std::string &path : paths) {
        names.push_back(detail::words(path));
    }
    return mutex(with, options, zkl_multilock_new, names.data(), names.size());
}

/* A contender for permits of a semaphore with that limit, 0: the path's (zklock/semaphore.h). */
inline mutex semaphore(const session &with, const std::string &path, int limit,
                       const lock_options &options = {})
{
    return mutex(with, options, zkl_semaphore_new, detail::words(path), limit);
}

/* zkl_semaphore_resize. */
inline void semaphore_resize(const session &with, const std::string &path, int limit,
                             time_limit timeout)
{
    detail::call(zkl_semaphore_resize, with.get(), detail::words(path), limit, timeout.ms());
}

/* The same without waiting (zklock/completion.hpp). */
template <class Done>
void async_semaphore_resize(const session &with, const std::string &path, int limit,
                            time_limit timeout, Done done)
{
    detail::begin(std::move(done), zkl_semaphore_resize_async, with.get(), detail::words(path),
                  limit, timeout.ms());
}

/* A candidate (zklock/election.h), which leads while it holds; options.c.metadata is what it
 * publishes. */
inline mutex election(const session &with, const std::string &path,
                      const lock_options &options = {})
{
    return mutex(with, options, zkl_election_new, detail::words(path));
}

} // namespace zklock

#endif
