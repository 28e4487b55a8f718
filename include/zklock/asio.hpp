/* zklock/asio.hpp - the locks in coroutines and handlers of Asio (1.22 or later). C++14; with
 * coroutines C++20.
 *
 *     zklock::session session(servers, zklock::dispatched());
 *     zklock::asio_dispatcher events(session, io.get_executor());
 *     zklock::mutex mutex(session, "/locks/report");
 *     zkl_grant grant = co_await zklock::async_acquire(mutex, 30s, asio::use_awaitable);
 *
 * A session with the options of zklock::dispatched() and an asio_dispatcher calls back in the
 * threads of the executor alone. Without them callbacks come from a thread of the session, and
 * handlers are posted to their executor from there. */
#ifndef ZKLOCK_ASIO_HPP
#define ZKLOCK_ASIO_HPP

#include <memory>

#include <asio/any_io_executor.hpp>
#include <asio/associated_cancellation_slot.hpp>
#include <asio/associated_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
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

/* Calls zkl_session_dispatch whenever there is something to do. It has to go before its session. A
 * handler that runs already may still do so once after that; it does nothing then. */
class asio_dispatcher
{
  public:
    asio_dispatcher(const session &of, const asio::any_io_executor &executor)
        : loop_(std::make_shared<loop>(of.get(), executor))
    {
        loop::wait(loop_);
    }
    ~asio_dispatcher()
    {
        loop_->session = nullptr;
        loop_->descriptor.close();
    }
    asio_dispatcher(const asio_dispatcher &) = delete;
    asio_dispatcher &operator=(const asio_dispatcher &) = delete;

  private:
    struct loop {
        zkl_session *session;
        asio::posix::stream_descriptor descriptor;

        loop(zkl_session *of, const asio::any_io_executor &executor)
            : session(of), descriptor(executor)
        {
            int fd = -1;
            detail::check([&](zkl_error *) { /* a copy, for a descriptor of Asio's is closed */
                                             fd = zkl_session_fd(session);
                                             return fd < 0 ? fd : ZKL_OK;
            });
            descriptor.assign(fcntl(fd, F_DUPFD_CLOEXEC, 0));
        }
        static void wait(const std::shared_ptr<loop> &self)
        {
            self->descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                                        [self](const asio::error_code &failed) {
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

/* Brings a completion to the handler's executor, which has work until then. */
template <class Handler> struct asio_completion {
    using executor_type = asio::associated_executor_t<Handler>;

    Handler handler;
    asio::executor_work_guard<executor_type> work;

    explicit asio_completion(Handler &&to)
        : handler(std::move(to)), work(asio::get_associated_executor(handler))
    {
    }
    static void complete(std::unique_ptr<asio_completion> self, std::exception_ptr failure,
                         const zkl_grant &grant)
    {
        executor_type executor = self->work.get_executor();
        std::shared_ptr<asio_completion> kept(std::move(self));
        asio::post(executor, [kept, failure, grant]() {
            asio::get_associated_cancellation_slot(kept->handler).clear();
            Handler handler(std::move(kept->handler));
            kept->work.reset();
            std::move(handler)(failure, grant);
        });
    }
};

} // namespace detail

/* Completes with (std::exception_ptr, zkl_grant): in a coroutine it returns the grant, or throws
 * zklock::error, ZKL_ETIMEOUT and ZKL_EBUSY included. The mutex has to live until then. Cancelling
 * the operation in Asio's way ends it with ZKL_ECANCELED. */
template <class Rep, class Period, class Token>
auto async_acquire(mutex &lock, const std::chrono::duration<Rep, Period> &timeout, Token &&token)
{
    auto begin = [&lock, timeout](auto handler) {
        using completion = detail::asio_completion<decltype(handler)>;
        auto slot = asio::get_associated_cancellation_slot(handler);
        auto kept =
            std::make_shared<std::unique_ptr<completion>>(new completion(std::move(handler)));
        if (slot.is_connected()) {
            slot.assign([&lock](asio::cancellation_type) { zkl_lock_cancel(lock.get()); });
        }
        try {
            lock.async_acquire(timeout, [kept](std::exception_ptr failure, const zkl_grant &grant) {
                completion::complete(std::move(*kept), failure, grant);
            });
        } catch (...) {
            completion::complete(std::move(*kept), std::current_exception(), zkl_grant());
        }
    };
    return asio::async_initiate<Token, void(std::exception_ptr, zkl_grant)>(begin, token);
}

} // namespace zklock

#endif
