/* zklock/asio.hpp - the locks in coroutines and handlers of Asio (1.22 or later). C++14; with
 * coroutines C++20.
 *
 *     zklock::session session(servers, zklock::dispatched());
 *     zklock::asio_dispatcher events(session, io.get_executor());
 *     zklock::mutex mutex(session, "/locks/report");
 *     zkl_grant grant = co_await zklock::async_acquire(mutex, 30s, asio::use_awaitable);
 *
 * Each async_ function of the other headers has a form with a completion token: those of a
 * zklock::mutex and of a session, which are below, and by async_call all others. A token gets every
 * error, including those that the other forms throw.
 *
 * A session with the options of zklock::dispatched() and an asio_dispatcher calls back in the
 * threads of the executor alone. Without them callbacks come from a thread of the session, and
 * handlers are posted to their executor from there. A handler without an associated executor, as a
 * plain lambda, runs in the executor of the session's asio_dispatcher, as with Asio's own objects.
 * Without a dispatcher it runs in Asio's system thread pool: asio::bind_executor gives it one.
 *
 * Declare the io_context, the session and the dispatcher in this order. Without a dispatcher, close
 * the session before the io_context is destroyed. */
#ifndef ZKLOCK_ASIO_HPP
#define ZKLOCK_ASIO_HPP

#include <memory>
#include <mutex>

#include <asio/any_io_executor.hpp>
#include <asio/associated_cancellation_slot.hpp>
#include <asio/associated_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/system_executor.hpp>
#include <fcntl.h>

#include <zklock/mutex.hpp>

namespace zklock
{

/* Options of a session whose callbacks run where asio_dispatcher does. */
inline session_options dispatched()
{
    session_options options;
    options.c.callbacks = ZKL_CALLBACKS_DISPATCH;
    return options;
}

/* Calls zkl_session_dispatch whenever there is something to do. It has to go before its session,
 * unless that is closed by async_close, and waits for a callback that another thread is in. */
class asio_dispatcher
{
  public:
    /* For async_open. */
    explicit asio_dispatcher(const asio::any_io_executor &executor)
        : loop_(std::make_shared<loop>(executor))
    {
    }
    asio_dispatcher(const session &of, const asio::any_io_executor &executor)
        : asio_dispatcher(executor)
    {
        loop::begin(loop_, of);
    }
    ~asio_dispatcher()
    {
        std::lock_guard<std::recursive_mutex> alone(loop_->running);
        loop_->session = nullptr;
        loop_->descriptor.close();
        if (loop_->shared) {
            loop_->shared->reset();
        }
    }
    asio_dispatcher(const asio_dispatcher &) = delete;
    asio_dispatcher &operator=(const asio_dispatcher &) = delete;

  private:
    template <class Token>
    friend auto async_close(session &closing, asio_dispatcher &events, time_limit timeout,
                            Token &&token);
    template <class Token>
    friend auto async_open(session &opening, asio_dispatcher &events, const std::string &servers,
                           const session_options &options, Token &&token);
    struct loop {
        zkl_session *session = nullptr;
        asio::posix::stream_descriptor descriptor;
        detail::shared_executor shared;
        /* Held while it dispatches, in a thread of the executor; recursive, for a callback may
         * destroy the dispatcher. */
        std::recursive_mutex running;

        explicit loop(const asio::any_io_executor &executor) : descriptor(executor) {}
        static void begin(const std::shared_ptr<loop> &self, const zklock::session &with)
        {
            std::lock_guard<std::recursive_mutex> alone(self->running);
            int fd = zkl_session_fd(with.get());
            detail::check([&](zkl_error *details) {
                std::string("the session has no descriptor: open it with zklock::dispatched()")
                    .copy(details->text, sizeof details->text - 1);
                return fd < 0 ? ZKL_EINVAL : ZKL_OK;
            });
            /* A copy, for Asio closes its descriptors. */
            self->descriptor.assign(fcntl(fd, F_DUPFD_CLOEXEC, 0));
            self->session = with.get();
            self->shared = with.executor();
            *self->shared =
                std::make_shared<asio::any_io_executor>(self->descriptor.get_executor());
            wait(self);
        }
        static void wait(const std::shared_ptr<loop> &self)
        {
            self->descriptor.async_wait(
                asio::posix::stream_descriptor::wait_read, [self](const asio::error_code &failed) {
                    std::lock_guard<std::recursive_mutex> alone(self->running);
                    if (!failed && self->session) {
                        zkl_session_dispatch(self->session);
                        if (self->session) {
                            wait(self);
                        }
                    }
                });
        }
    };
    std::shared_ptr<loop> loop_;
};

namespace detail
{

/* Of the dispatcher there, or the system's. */
inline asio::any_io_executor executor_at(const shared_executor &shared)
{
    if (!shared || !*shared) {
        return asio::system_executor();
    }
    return *std::static_pointer_cast<asio::any_io_executor>(*shared);
}

/* Brings a completion to the handler's executor, which has work until then. */
template <class Handler> struct asio_completion {
    using executor_type = asio::associated_executor_t<Handler, asio::any_io_executor>;

    Handler handler;
    asio::executor_work_guard<executor_type> work;

    asio_completion(Handler &&to, const asio::any_io_executor &otherwise)
        : handler(std::move(to)), work(asio::get_associated_executor(handler, otherwise))
    {
    }
    template <class... Values>
    static void complete(std::unique_ptr<asio_completion> self, std::exception_ptr failure,
                         Values... values)
    {
        executor_type executor = self->work.get_executor();
        std::shared_ptr<asio_completion> kept(std::move(self));
        asio::post(executor, [kept, failure, values...]() mutable {
            asio::get_associated_cancellation_slot(kept->handler).clear();
            Handler handler(std::move(kept->handler));
            kept->work.reset();
            std::move(handler)(failure, std::move(values)...);
        });
    }
};

/* A call of zklock/completion.hpp that cancelling the operation in Asio's way ends, by cancel(). A
 * handler without an executor runs in the other one. */
template <class... Values, class Begin, class Cancel, class Token>
auto async_until(const asio::any_io_executor &otherwise, Begin begin, Cancel cancel, Token &&token)
{
    auto initiate = [otherwise, begin, cancel](auto handler) {
        using completion = asio_completion<decltype(handler)>;
        auto slot = asio::get_associated_cancellation_slot(handler);
        auto kept = std::make_shared<std::unique_ptr<completion>>(
            new completion(std::move(handler), otherwise));
        if (slot.is_connected()) {
            slot.assign([cancel](asio::cancellation_type) { cancel(); });
        }
        try {
            begin([kept](std::exception_ptr failure, Values... values) {
                completion::complete(std::move(*kept), failure, std::move(values)...);
            });
        } catch (...) {
            completion::complete(std::move(*kept), std::current_exception(), Values()...);
        }
    };
    return asio::async_initiate<Token, void(std::exception_ptr, Values...)>(initiate, token);
}

} // namespace detail

/* Any call of zklock/completion.hpp on a session or a mutex, which begin makes with the function
 * that it is given:
 *
 *     auto begin = [&](auto done) { zklock::async_queue_list(session, path, 5s, done); };
 *     auto now = co_await zklock::async_call<zklock::queue>(session, begin, asio::use_awaitable);
 *
 * Completes with (std::exception_ptr, Values...), also when begin throws; Values: the call's value,
 * or nothing. Cancelling the operation in Asio's way does not end it: its timeout does, and what C
 * has for it (zkl_done_fn in zklock/types.h). */
template <class... Values, class With, class Begin, class Token>
auto async_call(const With &with, Begin begin, Token &&token)
{
    return detail::async_until<Values...>(
        detail::executor_at(with.executor()), begin, [] {}, std::forward<Token>(token));
}

/* Opens a session (session::async_open), whose callbacks come from a thread of its own. Completes
 * with (std::exception_ptr) when it is connected. Locks can be made from it once this was called:
 * with asio::use_awaitable, once it is awaited. */
template <class Token>
auto async_open(session &opening, const std::string &servers, const session_options &options,
                Token &&token)
{
    auto begin = [&opening, servers, options](auto done) {
        /* What done resumes may use the session, which has it when this call has returned. */
        auto begun = std::make_shared<std::mutex>();
        std::lock_guard<std::mutex> first(*begun);
        opening.async_open(servers, options, [begun, done](std::exception_ptr failure) mutable {
            {
                std::lock_guard<std::mutex> then(*begun);
            }
            done(failure);
        });
    };
    return async_call<>(opening, begin, std::forward<Token>(token));
}

/* The same with the options of zklock::dispatched(), and a dispatcher that was made with the
 * executor alone: from here on it is this session's. */
template <class Token>
auto async_open(session &opening, asio_dispatcher &events, const std::string &servers,
                const session_options &options, Token &&token)
{
    auto loop = events.loop_;
    auto begin = [&opening, loop, servers, options](auto done) {
        auto failed = std::make_shared<std::exception_ptr>();
        opening.async_open(servers, options, [failed, done](std::exception_ptr failure) mutable {
            done(*failed ? *failed : failure);
        });
        try {
            asio_dispatcher::loop::begin(loop, opening);
        } catch (...) {
            *failed = std::current_exception();
            opening = session(); /* nobody would dispatch it: the close calls done */
        }
    };
    return detail::async_until<>(
        loop->descriptor.get_executor(), begin, [] {}, std::forward<Token>(token));
}

/* Closes the session of a dispatcher, which then has nothing to do any more (session::async_close).
 * The dispatcher has to live until then. Completes with (std::exception_ptr). */
template <class Token>
auto async_close(session &closing, asio_dispatcher &events, time_limit timeout, Token &&token)
{
    auto loop = events.loop_;
    auto begin = [&closing, loop, timeout](auto done) {
        closing.async_close(timeout, [loop, done](std::exception_ptr failure) mutable {
            loop->session = nullptr; /* it is closed, and nobody waits for its descriptor */
            loop->descriptor.close();
            done(failure);
        });
    };
    return detail::async_until<>(
        loop->descriptor.get_executor(), begin, [] {}, std::forward<Token>(token));
}

namespace detail
{

template <class Begin, class Token> auto async_grant(mutex &lock, Begin begin, Token &&token)
{
    auto cancel = [&lock] { zkl_lock_cancel(lock.get()); };
    return async_until<zkl_grant>(executor_at(lock.executor()), begin, cancel,
                                  std::forward<Token>(token));
}

} // namespace detail

/* Completes with (std::exception_ptr, zkl_grant): in a coroutine it returns the grant, or throws
 * zklock::error, ZKL_ETIMEOUT and ZKL_EBUSY included. The mutex has to live until then. Cancelling
 * the operation in Asio's way ends it with ZKL_ECANCELED (std::errc::operation_canceled, not
 * asio::error::operation_aborted), unless it has been granted already: then it completes with the
 * grant. */
template <class Token> auto async_acquire(mutex &lock, time_limit timeout, Token &&token)
{
    auto begin = [&lock, timeout](auto done) { lock.async_acquire(timeout, done); };
    return detail::async_grant(lock, begin, std::forward<Token>(token));
}

/* The same for count permits of a semaphore. */
template <class Token> auto async_take(mutex &lock, int count, time_limit timeout, Token &&token)
{
    auto begin = [&lock, count, timeout](auto done) { lock.async_take(count, timeout, done); };
    return detail::async_grant(lock, begin, std::forward<Token>(token));
}

/* mutex::async_release. Completes with (std::exception_ptr): ZKL_ELOST when the lease did not cover
 * the hold. */
template <class Token> auto async_release(mutex &lock, Token &&token)
{
    auto begin = [&lock](auto done) { lock.async_release(done); };
    return async_call<>(lock, begin, std::forward<Token>(token));
}

/* mutex::async_publish. Completes with (std::exception_ptr). */
template <class Token>
auto async_publish(mutex &lock, const std::string &value, time_limit timeout, Token &&token)
{
    auto begin = [&lock, value, timeout](auto done) { lock.async_publish(value, timeout, done); };
    return async_call<>(lock, begin, std::forward<Token>(token));
}

/* What async_commit takes: a vector, or operations in braces. No std::initializer_list, which GCC
 * 12 does not compile in a co_await. */
class op_list
{
  public:
    op_list() = default;
    op_list(std::vector<zkl_op> ops) : ops_(std::move(ops)) {}
    template <class... More>
    op_list(const zkl_op &first, const More &...more) : ops_{first, more...}
    {
    }
    const std::vector<zkl_op> &get() const noexcept { return ops_; }

  private:
    std::vector<zkl_op> ops_;
};

/* mutex::async_commit. Completes with (std::exception_ptr, std::vector<zkl_op_result>). What ops
 * point to has to live until the call begins: with asio::use_awaitable, until it is awaited. */
template <class Token>
auto async_commit(mutex &lock, const op_list &ops, time_limit timeout, Token &&token)
{
    auto begin = [&lock, ops, timeout](auto done) { lock.async_commit(ops.get(), timeout, done); };
    return async_call<std::vector<zkl_op_result>>(lock, begin, std::forward<Token>(token));
}

/* mutex::async_read. Completes with (std::exception_ptr, zklock::data). */
template <class Token>
auto async_read(mutex &lock, const std::string &path, bool fresh, time_limit timeout, Token &&token)
{
    auto begin = [&lock, path, fresh, timeout](auto done) {
        lock.async_read(path, fresh, timeout, done);
    };
    return async_call<data>(lock, begin, std::forward<Token>(token));
}

/* mutex::async_stand. Completes with (std::exception_ptr) when the candidate stands no longer.
 * Cancelling the operation in Asio's way is mutex::leave(). changed runs where callbacks do: with
 * an asio_dispatcher in the threads of its executor. */
template <class Changed, class Token>
auto async_stand(mutex &candidate, Changed changed, Token &&token)
{
    auto begin = [&candidate, changed](auto done) { candidate.async_stand(changed, done); };
    auto cancel = [&candidate] { zkl_election_leave(candidate.get(), nullptr); };
    return detail::async_until<>(detail::executor_at(candidate.executor()), begin, cancel,
                                 std::forward<Token>(token));
}

} // namespace zklock

#endif
