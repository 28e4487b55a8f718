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
    /* None yet: async_open opens it. */
    session() noexcept = default;
    explicit session(const std::string &servers, const zkl_session_options *options = nullptr)
        : session(servers, options, nullptr)
    {
    }
    session(const std::string &servers, const session_options &options)
        : session(servers, &options.c, options.calls_)
    {
    }
    /* zkl_session_open_async: opens this session without waiting for a server. When it returns,
     * locks may be made from it, and the state callback reports every change.
     * done(std::exception_ptr) is called once: when the session is connected, or with why it is
     * closed for good. It may be called before this returns, in another thread: it must not use
     * this object before that. Throws ZKL_EINVAL when there is a session already. options: a
     * session_options, a pointer to the C struct, or nullptr. */
    template <class Options, class Done>
    void async_open(const std::string &servers, const Options &options, Done done)
    {
        const options_of taken(options);
        zkl_session *made = nullptr;
        detail::async_begin(last_call<Done>{std::move(done), taken.calls},
                            [&](zkl_done_fn call, void *payload, zkl_error *err) {
                                return get() ? has_one(err)
                                             : zkl_session_open_async(&made, servers.c_str(),
                                                                      taken.c, call, payload, err);
                            });
        session_ = std::unique_ptr<zkl_session, closer>(made, closer{taken.calls});
    }
    /* As zkl_session_close: throws ZKL_ETIMEOUT when the servers did not confirm in time; it is
     * closed all the same. */
    template <class Rep, class Period> void close(const std::chrono::duration<Rep, Period> &timeout)
    {
        zkl_session *closing = session_.release();
        detail::check(
            [&](zkl_error *) { return zkl_session_close(closing, detail::to_ms(timeout)); });
    }
    /* zkl_session_close_async: done(std::exception_ptr) is called once, with what close would
     * throw. The session is closed from the return on; what is returned is for
     * zkl_session_dispatch, until done is called. Throws, and nothing has happened, when it is
     * refused. Of a session with an asio_dispatcher: zklock::async_close. */
    template <class Rep, class Period, class Done>
    zkl_session *async_close(const std::chrono::duration<Rep, Period> &timeout, Done done)
    {
        zkl_session *closing = get();
        detail::async_begin(last_call<Done>{std::move(done), session_.get_deleter().calls},
                            [&](zkl_done_fn call, void *payload, zkl_error *err) {
                                return zkl_session_close_async(closing, detail::to_ms(timeout),
                                                               call, payload, err);
                            });
        return session_.release();
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
    template <class Done> struct last_call {
        Done done;
        std::shared_ptr<void> calls; /* go when it was called */
        void operator()(std::exception_ptr failure) { done(failure); }
    };
    struct options_of {
        const zkl_session_options *c;
        std::shared_ptr<void> calls;

        explicit options_of(const zkl_session_options *options) : c(options) {}
        explicit options_of(const session_options &options) : c(&options.c), calls(options.calls_)
        {
        }
    };
    std::unique_ptr<zkl_session, closer> session_;

    static int has_one(zkl_error *err)
    {
        std::string("this object has a session: close it first").copy(err->text, sizeof err->text);
        return ZKL_EINVAL;
    }
    session(const std::string &servers, const zkl_session_options *options,
            std::shared_ptr<void> calls)
    {
        zkl_session *made = nullptr;
        detail::check(
            [&](zkl_error *err) { return zkl_session_open(&made, servers.c_str(), options, err); });
        session_ = std::unique_ptr<zkl_session, closer>(made, closer{std::move(calls)});
    }
};

namespace detail
{

/* A call of C for a path, with a timeout. */
template <class Rep, class Period, class Done>
void async_at(int (*begin)(zkl_session *, const char *, int64_t, zkl_done_fn, void *, zkl_error *),
              const session &with, const std::string &path,
              const std::chrono::duration<Rep, Period> &timeout, Done done)
{
    async_begin(std::move(done), [&](zkl_done_fn call, void *payload, zkl_error *err) {
        return begin(with.get(), path.c_str(), to_ms(timeout), call, payload, err);
    });
}

/* The same for one that writes a value, which convert takes. */
template <class Written, class Value, class Rep, class Period, class Done>
void async_at(Value (*convert)(Written *),
              int (*begin)(Written **, zkl_session *, const char *, int64_t, zkl_done_fn, void *,
                           zkl_error *),
              const session &with, const std::string &path,
              const std::chrono::duration<Rep, Period> &timeout, Done done)
{
    async_begin(convert, std::move(done),
                [&](Written **out, zkl_done_fn call, void *payload, zkl_error *err) {
                    return begin(out, with.get(), path.c_str(), to_ms(timeout), call, payload, err);
                });
}

} // namespace detail

} // namespace zklock

#endif
