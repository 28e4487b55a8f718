/* zklock/barrier.hpp - zklock/barrier.h for C++11. */
#ifndef ZKLOCK_BARRIER_HPP
#define ZKLOCK_BARRIER_HPP

#include <string>

#include <zklock/barrier.h>
#include <zklock/completion.hpp>
#include <zklock/session.hpp>

namespace zklock
{

/* The barrier at path, which is up while its znode exists. */
template <class Rep, class Period>
void barrier_set(const session &with, const std::string &path,
                 const std::chrono::duration<Rep, Period> &timeout)
{
    detail::check([&](zkl_error *err) {
        return zkl_barrier_set(with.get(), path.c_str(), detail::to_ms(timeout), err);
    });
}
template <class Rep, class Period>
void barrier_lift(const session &with, const std::string &path,
                  const std::chrono::duration<Rep, Period> &timeout)
{
    detail::check([&](zkl_error *err) {
        return zkl_barrier_lift(with.get(), path.c_str(), detail::to_ms(timeout), err);
    });
}
/* False: it was up all the time. */
template <class Rep, class Period>
bool barrier_wait(const session &with, const std::string &path,
                  const std::chrono::duration<Rep, Period> &timeout)
{
    return detail::check(
        [&](zkl_error *err) {
            return zkl_barrier_wait(with.get(), path.c_str(), detail::to_ms(timeout), err);
        },
        ZKL_ETIMEOUT);
}

/* The same without waiting (zklock/completion.hpp). A time that is up is an exception here. */
template <class Rep, class Period, class Done>
void async_barrier_set(const session &with, const std::string &path,
                       const std::chrono::duration<Rep, Period> &timeout, Done done)
{
    detail::async_at(zkl_barrier_set_async, with, path, timeout, std::move(done));
}
template <class Rep, class Period, class Done>
void async_barrier_lift(const session &with, const std::string &path,
                        const std::chrono::duration<Rep, Period> &timeout, Done done)
{
    detail::async_at(zkl_barrier_lift_async, with, path, timeout, std::move(done));
}
template <class Rep, class Period, class Done>
void async_barrier_wait(const session &with, const std::string &path,
                        const std::chrono::duration<Rep, Period> &timeout, Done done)
{
    detail::async_at(zkl_barrier_wait_async, with, path, timeout, std::move(done));
}

/* One member of a double barrier. */
class double_barrier
{
  public:
    double_barrier(const session &with, const std::string &path, size_t count)
    {
        detail::check([&](zkl_error *err) {
            zkl_double_barrier *made = nullptr;
            int code = zkl_double_barrier_new(&made, with.get(), path.c_str(), count, err);
            barrier_.reset(made);
            return code;
        });
    }
    /* False: too few came in time, and this one has left again. */
    template <class Rep, class Period> bool enter(const std::chrono::duration<Rep, Period> &timeout)
    {
        return detail::check(
            [&](zkl_error *err) {
                return zkl_double_barrier_enter(get(), detail::to_ms(timeout), err);
            },
            ZKL_ETIMEOUT);
    }
    /* False: some are still in; this one has left. */
    template <class Rep, class Period> bool leave(const std::chrono::duration<Rep, Period> &timeout)
    {
        return detail::check(
            [&](zkl_error *err) {
                return zkl_double_barrier_leave(get(), detail::to_ms(timeout), err);
            },
            ZKL_ETIMEOUT);
    }
    /* The same without waiting (zklock/completion.hpp). A time that is up is an exception here. */
    template <class Rep, class Period, class Done>
    void async_enter(const std::chrono::duration<Rep, Period> &timeout, Done done)
    {
        detail::async_begin(std::move(done), [&](zkl_done_fn call, void *payload, zkl_error *err) {
            return zkl_double_barrier_enter_async(get(), detail::to_ms(timeout), call, payload,
                                                  err);
        });
    }
    template <class Rep, class Period, class Done>
    void async_leave(const std::chrono::duration<Rep, Period> &timeout, Done done)
    {
        detail::async_begin(std::move(done), [&](zkl_done_fn call, void *payload, zkl_error *err) {
            return zkl_double_barrier_leave_async(get(), detail::to_ms(timeout), call, payload,
                                                  err);
        });
    }
    zkl_double_barrier *get() const noexcept { return barrier_.get(); }

  private:
    struct freer {
        void operator()(zkl_double_barrier *barrier) const noexcept
        {
            zkl_double_barrier_free(barrier);
        }
    };
    std::unique_ptr<zkl_double_barrier, freer> barrier_;
};

} // namespace zklock

#endif
