/* zklock/mutex.hpp - zklock::mutex, which is a zkl_lock of any recipe. C++11. */
#ifndef ZKLOCK_MUTEX_HPP
#define ZKLOCK_MUTEX_HPP

#include <atomic>
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

/* True when call returns a grant; false when it ended because of its timeout_ms. */
template <class Call> bool granted(int64_t timeout_ms, Call call)
{
    return check(call, ZKL_EBUSY, timeout_ms == ZKL_WAIT_FOREVER ? ZKL_EBUSY : ZKL_ETIMEOUT);
}

/* The serial of a mutex's last grant. Shared: the mutex may be moved while an acquire is pending.
 */
using last_serial = std::shared_ptr<std::atomic<int64_t>>;

/* The completion of an acquire: calls the function, and deletes it. */
template <class Done> struct granted_later {
    Done done;
    last_serial serial;

    static void call(zkl_lock *, int code, const zkl_grant *grant, const zkl_error *err,
                     void *payload) noexcept
    {
        std::unique_ptr<granted_later> self(static_cast<granted_later *>(payload));
        if (grant) {
            *self->serial = grant->serial;
        }
        self->done(failure_of(code, err), grant ? *grant : zkl_grant());
    }
};

/* begin(zkl_acquired_fn, void *payload, zkl_error *) is the call of C. */
template <class Done, class Begin>
void async_begin_acquire(const last_serial &serial, Done done, Begin begin)
{
    using completion = granted_later<Done>;
    std::unique_ptr<completion> kept(new completion{std::move(done), serial});
    check([&](zkl_error *err) { return begin(completion::call, kept.get(), err); });
    kept.release(); /* the completion has it */
}

/* A candidate that stands, until the last call: that is the end, which goes to done. */
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
        return self->thrown ? 1 : 0;
    }
};

} // namespace detail

/* Options whose callbacks may be functions of C++. They may not throw. c has everything else; a
 * callback of c is called with c.payload, unless there is a function in its place. A mutex takes a
 * copy of its own, which goes with it. */
class lock_options
{
  public:
    zkl_lock_options c = ZKL_LOCK_OPTIONS_INIT;

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
    friend class options_of;
    std::function<void(zkl_state)> state_;
    std::function<void()> revoke_;
    std::function<void(size_t)> position_;

    static void call_state(zkl_lock *lock, zkl_state state, void *payload)
    {
        const lock_options &own = *static_cast<lock_options *>(payload);
        own.state_ ? own.state_(state) : own.c.state_fn(lock, state, own.c.payload);
    }
    static void call_revoke(zkl_lock *lock, void *payload)
    {
        const lock_options &own = *static_cast<lock_options *>(payload);
        own.revoke_ ? own.revoke_() : own.c.revoke_fn(lock, own.c.payload);
    }
    static void call_position(zkl_lock *lock, size_t ahead, void *payload)
    {
        const lock_options &own = *static_cast<lock_options *>(payload);
        own.position_ ? own.position_(ahead) : own.c.position_fn(lock, ahead, own.c.payload);
    }
    /* For C, which has one payload for all three. */
    zkl_lock_options for_c()
    {
        zkl_lock_options made = c;
        made.state_fn = state_ || c.state_fn ? call_state : nullptr;
        made.revoke_fn = revoke_ || c.revoke_fn ? call_revoke : nullptr;
        made.position_fn = position_ || c.position_fn ? call_position : nullptr;
        made.payload = this;
        return made;
    }
};

/* What the makers below take: nothing, a pointer to the C struct, or lock_options. */
class options_of
{
  public:
    options_of(const zkl_lock_options *options = nullptr) : options_(options) {}
    options_of(const lock_options &options) : own_(std::make_shared<lock_options>(options)) {}

  private:
    friend class mutex;
    const zkl_lock_options *options_ = nullptr;
    std::shared_ptr<lock_options> own_;

    /* make(const zkl_lock_options *) */
    template <class Make> int made_with(Make make) const
    {
        if (!own_) {
            return make(options_);
        }
        const zkl_lock_options taken = own_->for_c();
        return make(&taken);
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
    std::unique_ptr<zkl_data, void (*)(zkl_data *)> owner(read, zkl_data_free);
    return data{std::string(static_cast<const char *>(read->data), read->size), read->version,
                read->mzxid};
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
    mutex(const session &with, const std::string &path, const options_of &options = {})
        : mutex(
              with,
              [&](zkl_lock **made, const zkl_lock_options *c, zkl_error *err) {
                  return zkl_lock_new(made, with.get(), path.c_str(), c, err);
              },
              options)
    {
    }
    /* make(zkl_lock **out, const zkl_lock_options *, zkl_error *) calls one of the zkl_..._new,
     * with this session. */
    template <class Make, class = decltype(std::declval<Make>()(nullptr, nullptr, nullptr))>
    mutex(const session &with, Make make, const options_of &options = {})
    {
        zkl_lock *made = nullptr;
        detail::check([&](zkl_error *err) {
            return options.made_with(
                [&](const zkl_lock_options *c) { return make(&made, c, err); });
        });
        lock_ = std::unique_ptr<zkl_lock, freer>(made, freer{options.own_, with.executor()});
    }

    void lock() { take_within(ZKL_WAIT_FOREVER); }
    bool try_lock() { return take_within(0); }
    template <class Rep, class Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period> &timeout)
    {
        return take_within(detail::to_ms(timeout));
    }
    template <class Clock, class Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration> &deadline)
    {
        return take_within(detail::to_ms(deadline - Clock::now()));
    }
    /* The same, and throws where these return false: ZKL_EBUSY, ZKL_ETIMEOUT. */
    template <class Rep, class Period>
    zkl_grant acquire(const std::chrono::duration<Rep, Period> &timeout)
    {
        zkl_grant grant = zkl_grant();
        int64_t ms = detail::to_ms(timeout);
        detail::check([&](zkl_error *err) { return acquire_within(ms, &grant, err); });
        return grant;
    }
    /* The same without waiting (zklock/completion.hpp): done(std::exception_ptr, zkl_grant). */
    template <class Rep, class Period, class Done>
    void async_acquire(const std::chrono::duration<Rep, Period> &timeout, Done done)
    {
        detail::async_begin_acquire(
            serial_, std::move(done), [&](zkl_acquired_fn call, void *payload, zkl_error *err) {
                return zkl_lock_acquire_async(get(), detail::to_ms(timeout), call, payload, err);
            });
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
        detail::async_begin(std::move(done), [&](zkl_done_fn call, void *payload, zkl_error *err) {
            return zkl_lock_release_async(get(), call, payload, err);
        });
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
    /* zkl_grant.serial of the grant: which one under this token it is, from 1. 0 when not held, in
     * run(), and of a candidate that stands. */
    int64_t serial() const noexcept { return is_held() ? serial_->load() : 0; }
    zkl_recipe recipe() const noexcept { return zkl_lock_recipe(get()); }
    zkl_lock *get() const noexcept { return lock_.get(); }
    /* For <zklock/asio.hpp>. */
    const detail::shared_executor &executor() const noexcept
    {
        return lock_.get_deleter().executor;
    }

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
        forget_serial();
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
            zkl_grant grant = zkl_grant();
            int code = zkl_semaphore_acquire(get(), count, ms, &grant, err);
            return note(code, grant);
        });
    }
    /* The same without waiting (zklock/completion.hpp): done(std::exception_ptr, zkl_grant). A time
     * that is up is an exception here. */
    template <class Rep, class Period, class Done>
    void async_take(int count, const std::chrono::duration<Rep, Period> &timeout, Done done)
    {
        detail::async_begin_acquire(
            serial_, std::move(done), [&](zkl_acquired_fn call, void *payload, zkl_error *err) {
                return zkl_semaphore_acquire_async(get(), count, detail::to_ms(timeout), call,
                                                   payload, err);
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
    /* The same without waiting (zklock/completion.hpp). */
    template <class Rep, class Period, class Done>
    void async_publish(const std::string &value, const std::chrono::duration<Rep, Period> &timeout,
                       Done done)
    {
        detail::async_begin(std::move(done), [&](zkl_done_fn call, void *payload, zkl_error *err) {
            return zkl_election_publish_async(get(), value.c_str(), detail::to_ms(timeout), call,
                                              payload, err);
        });
    }
    /* zkl_election_stand: this candidate campaigns, leads, and campaigns again after a loss, until
     * leave(). changed(zkl_state, int64_t token, std::exception_ptr why) follows for
     * ZKL_STATE_HELD, _JEOPARDY and _LOST, as callbacks do; it may not throw. The end comes by done
     * (zklock/completion.hpp): without an exception after leave() and when the mutex is destroyed.
     * Until done has returned the mutex may not stand again (ZKL_EDEADLK). */
    template <class Changed, class Done> void async_stand(Changed changed, Done done)
    {
        using stand = detail::standing<Changed, Done>;
        std::unique_ptr<stand> kept(new stand{std::move(changed), std::move(done)});
        forget_serial();
        detail::check([&](zkl_error *err) {
            return zkl_election_stand(get(), stand::call, kept.get(), err);
        });
        kept.release(); /* the last call has it */
    }
    /* Ends async_stand: withdraws from the queue, or resigns. False: it does not stand. */
    bool leave()
    {
        return detail::check([&](zkl_error *err) { return zkl_election_leave(get(), err); },
                             ZKL_ENOTWAITING);
    }

    /* ops in one transaction with the proof that this is still held (zklock/zookeeper.h). Throws
     * ZKL_ELOST and applies nothing when it is not. */
    template <class Rep, class Period>
    std::vector<zkl_op_result> commit(const std::vector<zkl_op> &ops,
                                      const std::chrono::duration<Rep, Period> &timeout)
    {
        std::vector<zkl_op_result> results(ops.size());
        detail::check([&](zkl_error *err) {
            return zkl_lock_commit(get(), ops.data(), ops.size(), detail::to_ms(timeout),
                                   results.data(), err);
        });
        return results;
    }
    /* The same without waiting (zklock/completion.hpp):
     * done(std::exception_ptr, std::vector<zkl_op_result>). ops and all they point to are copied.
     */
    template <class Rep, class Period, class Done>
    void async_commit(const std::vector<zkl_op> &ops,
                      const std::chrono::duration<Rep, Period> &timeout, Done done)
    {
        using results = std::vector<zkl_op_result>;
        detail::async_begin_filling(
            results(ops.size()), std::move(done),
            [&](results &out, zkl_done_fn call, void *payload, zkl_error *err) {
                return zkl_lock_commit_async(get(), ops.data(), ops.size(), detail::to_ms(timeout),
                                             out.data(), call, payload, err);
            });
    }
    /* Reads a znode under the lock, so that every guarded transaction of earlier holders shows;
     * fresh: also what others had written before the call (zklock/zookeeper.h). */
    template <class Rep, class Period>
    data read(const std::string &path, bool fresh,
              const std::chrono::duration<Rep, Period> &timeout)
    {
        zkl_data *out = nullptr;
        detail::check([&](zkl_error *err) {
            return zkl_lock_read(&out, get(), path.c_str(), fresh, detail::to_ms(timeout), err);
        });
        return detail::data_of(out);
    }
    /* The same without waiting (zklock/completion.hpp): done(std::exception_ptr, data). */
    template <class Rep, class Period, class Done>
    void async_read(const std::string &path, bool fresh,
                    const std::chrono::duration<Rep, Period> &timeout, Done done)
    {
        detail::async_begin(detail::data_of, std::move(done),
                            [&](zkl_data **out, zkl_done_fn call, void *payload, zkl_error *err) {
                                return zkl_lock_read_async(out, get(), path.c_str(), fresh,
                                                           detail::to_ms(timeout), call, payload,
                                                           err);
                            });
    }

  private:
    struct freer {
        std::shared_ptr<void> calls; /* go when it is freed */
        detail::shared_executor executor;
        void operator()(zkl_lock *lock) const noexcept { zkl_lock_free(lock); }
    };
    std::unique_ptr<zkl_lock, freer> lock_;
    int released_ = ZKL_OK;
    detail::last_serial serial_ = std::make_shared<std::atomic<int64_t>>(0);

    int note(int code, const zkl_grant &grant) noexcept
    {
        if (code == ZKL_OK) {
            *serial_ = grant.serial;
        }
        return code;
    }
    int acquire_within(int64_t timeout_ms, zkl_grant *grant, zkl_error *err)
    {
        return note(zkl_lock_acquire(get(), timeout_ms, grant, err), *grant);
    }
    bool take_within(int64_t timeout_ms)
    {
        zkl_grant grant = zkl_grant();
        return detail::granted(
            timeout_ms, [&](zkl_error *err) { return acquire_within(timeout_ms, &grant, err); });
    }
    void forget_serial() noexcept
    {
        if (serial_) { /* not moved from */
            *serial_ = 0;
        }
    }
};

/* Many readers or one writer (zklock/rwlock.h). */
inline mutex read_lock(const session &with, const std::string &path, const options_of &options = {})
{
    return mutex(
        with,
        [&](zkl_lock **made, const zkl_lock_options *c, zkl_error *err) {
            return zkl_read_lock_new(made, with.get(), path.c_str(), c, err);
        },
        options);
}
inline mutex write_lock(const session &with, const std::string &path,
                        const options_of &options = {})
{
    return mutex(
        with,
        [&](zkl_lock **made, const zkl_lock_options *c, zkl_error *err) {
            return zkl_write_lock_new(made, with.get(), path.c_str(), c, err);
        },
        options);
}

/* Several locks, all or none (zklock/multilock.h): one transaction queues everywhere, so no order
 * of paths can deadlock. Use this instead of std::lock. */
inline mutex multilock(const session &with, const std::vector<std::string> &paths,
                       const options_of &options = {})
{
    return mutex(
        with,
        [&](zkl_lock **made, const zkl_lock_options *c, zkl_error *err) {
            std::vector<const char *> names;
            for (const std::string &path : paths) {
                names.push_back(path.c_str());
            }
            return zkl_multilock_new(made, with.get(), names.data(), names.size(), c, err);
        },
        options);
}

/* A contender for permits of a semaphore with that limit, 0: the path's (zklock/semaphore.h). */
inline mutex semaphore(const session &with, const std::string &path, int limit,
                       const options_of &options = {})
{
    return mutex(
        with,
        [&](zkl_lock **made, const zkl_lock_options *c, zkl_error *err) {
            return zkl_semaphore_new(made, with.get(), path.c_str(), limit, c, err);
        },
        options);
}

/* zkl_semaphore_resize. */
template <class Rep, class Period>
void semaphore_resize(const session &with, const std::string &path, int limit,
                      const std::chrono::duration<Rep, Period> &timeout)
{
    detail::check([&](zkl_error *err) {
        return zkl_semaphore_resize(with.get(), path.c_str(), limit, detail::to_ms(timeout), err);
    });
}

/* The same without waiting (zklock/completion.hpp). */
template <class Rep, class Period, class Done>
void async_semaphore_resize(const session &with, const std::string &path, int limit,
                            const std::chrono::duration<Rep, Period> &timeout, Done done)
{
    detail::async_begin(std::move(done), [&](zkl_done_fn call, void *payload, zkl_error *err) {
        return zkl_semaphore_resize_async(with.get(), path.c_str(), limit, detail::to_ms(timeout),
                                          call, payload, err);
    });
}

/* A candidate (zklock/election.h), which leads while it holds; options->metadata is what it
 * publishes. */
inline mutex election(const session &with, const std::string &path, const options_of &options = {})
{
    return mutex(
        with,
        [&](zkl_lock **made, const zkl_lock_options *c, zkl_error *err) {
            return zkl_election_new(made, with.get(), path.c_str(), c, err);
        },
        options);
}

} // namespace zklock

#endif
