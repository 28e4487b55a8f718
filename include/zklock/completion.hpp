/* zklock/completion.hpp - the end of calls without waiting. C++11.
 *
 * The last argument of each function of this library whose name begins with async_ is done. The
 * session calls done(std::exception_ptr, value) exactly once, as callbacks do (zklock/session.h),
 * with a zklock::error or the value; it may not throw. A call without a value calls
 * done(std::exception_ptr).
 *
 * A function that refuses its arguments or the state of the object throws zklock::error, and does
 * not call done. It reports every later error by done. */
#ifndef ZKLOCK_COMPLETION_HPP
#define ZKLOCK_COMPLETION_HPP

#include <exception>
#include <memory>
#include <utility>

#include <zklock/error.hpp>

namespace zklock
{

namespace detail
{

inline std::exception_ptr failure_of(int code, const zkl_error *words)
{
    return code == ZKL_OK ? std::exception_ptr() : std::make_exception_ptr(error(code, *words));
}

/* Of a call without a value: calls the function, and deletes it. */
template <class Done> struct finished {
    Done done;

    static void call(int code, const zkl_error *words, void *payload) noexcept
    {
        std::unique_ptr<finished> self(static_cast<finished *>(payload));
        self->done(failure_of(code, words));
    }
};

/* begin(zkl_done_fn, void *payload, zkl_error *) is the call of C. */
template <class Done, class Begin> void async_begin(Done done, Begin begin)
{
    std::unique_ptr<finished<Done>> kept(new finished<Done>{std::move(done)});
    check([&](zkl_error *words) { return begin(finished<Done>::call, kept.get(), words); });
    kept.release(); /* the completion has it */
}

/* Of a call that C writes something for, which becomes the value. */
template <class Written, class Value, class Done> struct written {
    Written *out;
    Value (*convert)(Written *);
    Done done;

    static void call(int code, const zkl_error *words, void *payload) noexcept
    {
        std::unique_ptr<written> self(static_cast<written *>(payload));
        std::exception_ptr failure = failure_of(code, words);
        Value value = Value();
        if (!failure) {
            try {
                value = self->convert(self->out);
            } catch (...) {
                failure = std::current_exception();
            }
        }
        self->done(failure, std::move(value));
    }
};

/* begin(Written **out, zkl_done_fn, void *payload, zkl_error *) is the call of C. */
template <class Written, class Value, class Done, class Begin>
void async_begin(Value (*convert)(Written *), Done done, Begin begin)
{
    using completion = written<Written, Value, Done>;
    std::unique_ptr<completion> kept(new completion{nullptr, convert, std::move(done)});
    check([&](zkl_error *words) { return begin(&kept->out, completion::call, kept.get(), words); });
    kept.release();
}

/* Of a call that C writes an array or a struct for, which is the value as it stands. */
template <class Value, class Done> struct filled {
    Value value;
    Done done;

    static void call(int code, const zkl_error *words, void *payload) noexcept
    {
        std::unique_ptr<filled> self(static_cast<filled *>(payload));
        std::exception_ptr failure = failure_of(code, words);
        self->done(failure, failure ? Value() : std::move(self->value));
    }
};

/* begin(Value &value, zkl_done_fn, void *payload, zkl_error *) is the call of C. */
template <class Value, class Done, class Begin>
void async_begin_filling(Value value, Done done, Begin begin)
{
    using completion = filled<Value, Done>;
    std::unique_ptr<completion> kept(new completion{std::move(value), std::move(done)});
    check(
        [&](zkl_error *words) { return begin(kept->value, completion::call, kept.get(), words); });
    kept.release();
}

} // namespace detail

} // namespace zklock

#endif
