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
 * session takes a copy of its own, which goes with it. */
class session_options
{
  public:
    zkl_session_options c = ZKL_SESSION_OPTIONS_INIT;

    /* In place of c.state_fn. */
    session_options &on_state(std::function<void(zkl_session_state)> function)
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
    std::function<void(zkl_session_state)> state_;
    std::function<void(const zkl_log_record &)> log_;

    zkl_session_options for_c()
    {
        zkl_session_options made = c;
        if (state_) {
            made.state_fn = [](zkl_session *, zkl_session_state state, void *payload) {
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

} // namespace detail

/* One per process is the usual thing. Its destructor closes it, for at most five seconds: not in a
 * callback of it. */
class session
{
  public:
    /* None yet: async_open opens it. */
    session() noexcept = default;
    explicit session(const std::string &servers, const zkl_session_options *options = nullptr)
        : session(servers, options_of(options))
    {
    }
    session(const std::string &servers, const session_options &options)
        : session(servers, options_of(options))
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
        session_ = std::unique_ptr<zkl_session, closer>(
            made, closer{taken.calls, std::make_shared<std::shared_ptr<void>>()});
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
    /* For <zklock/asio.hpp>. */
    const detail::shared_executor &executor() const noexcept
    {
        return session_.get_deleter().executor;
    }

  private:
    struct closer {
        std::shared_ptr<void> calls; /* go when it is closed */
        detail::shared_executor executor;
        void operator()(zkl_session *closing) const noexcept { zkl_session_close(closing, 5000); }
    };
    template <class Done> struct last_call {
        Done done;
        std::shared_ptr<void> calls; /* go when it was called */
        void operator()(std::exception_ptr failure) { done(failure); }
    };
    /* What C takes, and the functions that it calls. */
    struct options_of {
        const zkl_session_options *c;
        std::shared_ptr<session_options> calls;
        zkl_session_options taken;

        explicit options_of(const zkl_session_options *options) : c(options), taken() {}
        explicit options_of(const session_options &options)
            : c(&taken), calls(std::make_shared<session_options>(options)), taken(calls->for_c())
        {
        }
        options_of(const options_of &) = delete;
    };
    std::unique_ptr<zkl_session, closer> session_;

    static int has_one(zkl_error *err)
    {
        std::string("this object has a session: close it first").copy(err->text, sizeof err->text);
        return ZKL_EINVAL;
    }
    session(const std::string &servers, const options_of &options)
    {
        zkl_session *made = nullptr;
        detail::check([&](zkl_error *err) {
            return zkl_session_open(&made, servers.c_str(), options.c, err);
        });
        session_ = std::unique_ptr<zkl_session, closer>(
            made, closer{options.calls, std::make_shared<std::shared_ptr<void>>()});
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
