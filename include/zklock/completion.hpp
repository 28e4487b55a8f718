/* zklock/completion.hpp - the end of calls without waiting. C++11.
 *
 * The last argument of each function of this library whose name begins with async_ is done. The
 * session calls done(std::exception_ptr, value) exactly once, as callbacks do (zklock/session.h),
 * with a zklock::error or the value; it may not throw. A call without a value calls
 * done(std::exception_ptr). A time that is up is an exception, also where the blocking call returns
 * false.
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

inline std::exception_ptr failure_of(int code, const zkl_error *details)
{
    return code == ZKL_OK ? std::exception_ptr() : std::make_exception_ptr(error(code, *details));
}

/* The completion of a call: calls the function, and deletes it. */
template <class Done> struct completion {
    Done done;

    static void call(int code, const zkl_error *details, void *payload) noexcept
    {
        std::unique_ptr<completion> self(static_cast<completion *>(payload));
        self->done(failure_of(code, details));
    }
};

/* Begins a call of C, whose last arguments are its completion, which deletes kept, the payload and
 * a zkl_error. */
template <class Kept, class Function, class... Args>
void begin_kept(Kept *made, Function function, Args... args)
{
    std::unique_ptr<Kept> kept(made);
    call(function, args..., Kept::call, made);
    kept.release(); /* the completion has it */
}
template <class Done, class Function, class... Args>
void begin(Done done, Function function, Args... args)
{
    begin_kept(new completion<Done>{std::move(done)}, function, args...);
}

/* A done for begin, of a call that C writes something for: convert makes the value of it. */
template <class Written, class Value, class Done> struct with_value {
    std::shared_ptr<Written> out;
    Value (*convert)(Written);
    Done done;

    void operator()(std::exception_ptr failure)
    {
        Value value = Value();
        if (!failure) {
            try {
                value = convert(std::move(*out));
            } catch (...) {
                failure = std::current_exception();
            }
        }
        done(failure, std::move(value));
    }
};

/* Begins a call of C that writes its value to the first argument. */
template <class Written, class Value, class Done, class Function, class... Args>
void begin_value(Value (*convert)(Written), Done done, Function function, Args... args)
{
    std::shared_ptr<Written> out = std::make_shared<Written>();
    with_value<Written, Value, Done> end{out, convert, std::move(done)};
    begin(std::move(end), function, out.get(), args...);
}

} // namespace detail

} // namespace zklock

#endif
