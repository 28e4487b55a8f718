/* zklock/barrier.hpp - zklock/barrier.h for C++11. */
#ifndef ZKLOCK_BARRIER_HPP
#define ZKLOCK_BARRIER_HPP

#include <string>

#include <zklock/barrier.h>
#include <zklock/session.hpp>

namespace zklock
{

/* The barrier at path, which is up while its znode exists. */
inline void barrier_set(const session &with, const std::string &path, time_limit timeout)
{
    detail::call(zkl_barrier_set, with.get(), detail::words(path), timeout.ms());
}
inline void barrier_lift(const session &with, const std::string &path, time_limit timeout)
{
    detail::call(zkl_barrier_lift, with.get(), detail::words(path), timeout.ms());
}
/* False: it was up all the time. */
inline bool barrier_wait(const session &with, const std::string &path, time_limit timeout)
{
    return detail::call_unless(ZKL_ETIMEOUT, zkl_barrier_wait, with.get(), detail::words(path),
                               timeout.ms());
}

/* The same without waiting (zklock/completion.hpp). */
template <class Done>
void async_barrier_set(const session &with, const std::string &path, time_limit timeout, Done done)
{
    detail::begin(std::move(done), zkl_barrier_set_async, with.get(), detail::words(path),
                  timeout.ms());
}
template <class Done>
void async_barrier_lift(const session &with, const std::string &path, time_limit timeout, Done done)
{
    detail::begin(std::move(done), zkl_barrier_lift_async, with.get(), detail::words(path),
                  timeout.ms());
}
template <class Done>
void async_barrier_wait(const session &with, const std::string &path, time_limit timeout, Done done)
{
    detail::begin(std::move(done), zkl_barrier_wait_async, with.get(), detail::words(path),
                  timeout.ms());
}

/* One member of a double barrier. */
class double_barrier
{
  public:
    double_barrier(const session &with, const std::string &path, size_t count)
        : barrier_(detail::make<zkl_double_barrier>(zkl_double_barrier_new, with.get(),
                                                    detail::words(path), count))
    {
    }
    /* False: too few came in time, and this one has left again. */
    bool enter(time_limit timeout)
    {
        return detail::call_unless(ZKL_ETIMEOUT, zkl_double_barrier_enter, get(), timeout.ms());
    }
    /* False: some are still in; this one has left. */
    bool leave(time_limit timeout)
    {
        return detail::call_unless(ZKL_ETIMEOUT, zkl_double_barrier_leave, get(), timeout.ms());
    }
    /* The same without waiting (zklock/completion.hpp). */
    template <class Done> void async_enter(time_limit timeout, Done done)
    {
        detail::begin(std::move(done), zkl_double_barrier_enter_async, get(), timeout.ms());
    }
    template <class Done> void async_leave(time_limit timeout, Done done)
    {
        detail::begin(std::move(done), zkl_double_barrier_leave_async, get(), timeout.ms());
    }
    zkl_double_barrier *get() const noexcept { return barrier_.get(); }

  private:
    detail::owner<zkl_double_barrier, zkl_double_barrier_free> barrier_;
};

} // namespace zklock

#endif
