/* zklock/session.hpp - the session. C++11. */
#ifndef ZKLOCK_SESSION_HPP
#define ZKLOCK_SESSION_HPP

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <zklock/completion.hpp>

namespace zklock
{

/* Options whose callbacks may be functions of C++. They may not throw. c has everything else. A
 * session takes a copy of its own, which is destroyed with it. */
class session_options
{
  public:
    zkl_session_options c = ZKL_SESSION_OPTIONS_INIT;

    /* From the C struct; nullptr: all defaults. */
    session_options(const zkl_session_options *options = nullptr) { detail::take(c, options); }
    /* In place of c.state_fn. */
    session_options &on_state(std::function<void(zkl_connection_state)> function)
    {
        state_ = std::move(function);
        return *this;
    }
    /* In place of c.log_fn. */
    session_options &on_log(std::function<void(const zkl_log_record &)> function)
    {
        log_ = std::move(function);
        return *this;
    }

  private:
    friend class session;
    std::function<void(zkl_connection_state)> state_;
    std::function<void(const zkl_log_record &)> log_;

    zkl_session_options for_c()
    {
        zkl_session_options made = c;
        if (state_) {
            made.state_fn = [](zkl_session *, zkl_connection_state state, void *payload) {
                static_cast<session_options *>(payload)->state_(state);
            };
            made.state_payload = this;
        }
        if (log_) {
            made.log_fn = [](const zkl_log_record *record, void *payload) {
                static_cast<session_options *>(payload)->log_(*record);
            };
            made.log_payload = this;
        }
        return made;
    }
};

namespace detail
{

/* The executor of a session's asio_dispatcher (zklock/asio.hpp), shared with all that is made from
 * the session. It is empty while there is no dispatcher. */
using shared_executor = std::shared_ptr<std::shared_ptr<void>>;

inline void close_in_five_seconds(zkl_session *session)
{
    zkl_session_close(session, 5000);
}

} // namespace detail

/* One per process is the usual thing. Its destructor closes it, for at most five seconds: not in a
 * callback of it, nor in a function under a grant of it (mutex::run, once). */
class session
{
  public:
    /* None yet: async_open opens it. */
    session() noexcept = default;
    explicit session(const std::string &servers, const session_options &options = {})
    {
        auto calls = std::make_shared<session_options>(options);
        const zkl_session_options c = calls->for_c();
        keep(detail::make<zkl_session>(zkl_session_open, detail::words(servers), &c), calls);
    }
    /* zkl_session_open_async: opens this session without waiting for a server. When it returns,
     * locks may be made from it, and the state callback reports every change.
     * done(std::exception_ptr) is called once: when the session is connected, or with why it is
     * closed for good. It may be called before this returns, in another thread: it must not use
     * this object before that. Throws ZKL_EINVAL when there is a session already. */
    template <class Done>
    void async_open(const std::string &servers, const session_options &options, Done done)
    {
        if (get()) {
            detail::call(has_one);
        }
        auto calls = std::make_shared<session_options>(options);
        const zkl_session_options c = calls->for_c();
        zkl_session *made = nullptr;
        detail::begin(last_call<Done>{std::move(done), calls}, zkl_session_open_async, &made,
                      detail::words(servers), &c);
        keep(made, calls);
    }
    /* As zkl_session_close: throws ZKL_ETIMEOUT when the servers did not confirm in time; it is
     * closed all the same. Throws ZKL_EDEADLK, and nothing has happened, when it is refused. */
    void close(time_limit timeout)
    {
        int code = zkl_session_close(get(), timeout.ms());
        if (code != ZKL_EDEADLK) {
            session_.release();
        }
        detail::check([&](zkl_error *) { return code; });
    }
    /* zkl_session_close_async: done(std::exception_ptr) is called once, with what close would
     * throw. The session is closed from the return on; what is returned is for
     * zkl_session_dispatch, until done is called. Throws, and nothing has happened, when it is
     * refused. Of a session with an asio_dispatcher: zklock::async_close. */
    template <class Done> zkl_session *async_close(time_limit timeout, Done done)
    {
        auto closing = std::move(session_); /* done may end this object before this returns */
        try {
            detail::begin(last_call<Done>{std::move(done), closing.get_deleter().calls},
                          zkl_session_close_async, closing.get(), timeout.ms());
        } catch (...) {
            session_ = std::move(closing);
            throw;
        }
        return closing.release();
    }

    zkl_connection_state state() const noexcept
    {
        return get() ? zkl_session_state(get()) : ZKL_SESSION_CLOSED;
    }
    /* nullptr once closed, or moved from. */
    zkl_session *get() const noexcept { return session_.get(); }
    /* For <zklock/asio.hpp>. */
    const detail::shared_executor &executor() const noexcept { return executor_; }

  private:
    /* The options' functions go with it, when it was called. */
    template <class Done> struct last_call {
        Done done;
        std::shared_ptr<void> calls;
        void operator()(std::exception_ptr failure) { done(failure); }
    };
    detail::owner<zkl_session, detail::close_in_five_seconds> session_;
    detail::shared_executor executor_;

    static int has_one(zkl_error *err)
    {
        std::string("this object has a session: close it first").copy(err->text, sizeof err->text);
        return ZKL_EINVAL;
    }
    void keep(zkl_session *made, const std::shared_ptr<void> &calls)
    {
        session_ = {made, {calls}};
        executor_ = std::make_shared<std::shared_ptr<void>>();
    }
};

} // namespace zklock

#endif
