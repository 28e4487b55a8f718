/* zklock/session.hpp - the session. C++11. */
#ifndef ZKLOCK_SESSION_HPP
#define ZKLOCK_SESSION_HPP

#include <functional>
#include <memory>
#include <string>

#include <zklock/error.hpp>

namespace zklock
{

/* Options whose callbacks are functions of C++, and which the session keeps. They may not throw. c
 * has everything else. */
class session_options
{
  public:
    zkl_session_options c = ZKL_SESSION_OPTIONS_INIT;

    session_options &on_state(std::function<void(zkl_session_state)> function)
    {
        calls_->state = std::move(function);
        c.state_fn = [](zkl_session *, zkl_session_state state, void *payload) {
            static_cast<calls *>(payload)->state(state);
        };
        c.state_payload = calls_.get();
        return *this;
    }
    session_options &on_log(std::function<void(const zkl_log_record &)> function)
    {
        calls_->log = std::move(function);
        c.log_fn = [](const zkl_log_record *record, void *payload) {
            static_cast<calls *>(payload)->log(*record);
        };
        c.log_payload = calls_.get();
        return *this;
    }

  private:
    friend class session;
    struct calls {
        std::function<void(zkl_session_state)> state;
        std::function<void(const zkl_log_record &)> log;
    };
    std::shared_ptr<calls> calls_ = std::make_shared<calls>();
};

/* One per process is the usual thing. Its destructor closes it, for at most five seconds: not in a
 * callback of it. */
class session
{
  public:
    explicit session(const std::string &servers, const zkl_session_options *options = nullptr)
        : session(servers, options, nullptr)
    {
    }
    session(const std::string &servers, const session_options &options)
        : session(servers, &options.c, options.calls_)
    {
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
        std::shared_ptr<void> calls; /* go when it is closed */
        void operator()(zkl_session *closing) const noexcept { zkl_session_close(closing, 5000); }
    };
    std::unique_ptr<zkl_session, closer> session_;

    session(const std::string &servers, const zkl_session_options *options,
            std::shared_ptr<void> calls)
    {
        zkl_session *made = nullptr;
        detail::check(
            [&](zkl_error *err) { return zkl_session_open(&made, servers.c_str(), options, err); });
        session_ = std::unique_ptr<zkl_session, closer>(made, closer{std::move(calls)});
    }
};

} // namespace zklock

#endif
