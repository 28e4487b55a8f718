/* zklock/once.hpp - a function that runs once per time slot. C++11. */
#ifndef ZKLOCK_ONCE_HPP
#define ZKLOCK_ONCE_HPP

#include <zklock/mutex.hpp>
#include <zklock/once.h>

namespace zklock
{

/* zkl_once_run: runs function(zklock::cancel_flag, int64_t token) unless the slot is done; when it
 * returns, the slot is recorded. False: it was done already. Throws what function throws, and
 * records nothing then; else what zkl_once_run reports. */
template <class Rep, class Period, class Function>
bool once(const mutex &job, std::chrono::milliseconds length, std::chrono::milliseconds phase,
          const std::chrono::duration<Rep, Period> &timeout, Function &&function)
{
    detail::section<Function> section{function, false, nullptr};
    zkl_error words = zkl_error();
    bool ran = false;
    int code = zkl_once_run(job.get(), length.count(), phase.count(), detail::to_ms(timeout),
                            section.call, &section, &ran, nullptr, &words);
    if (section.thrown) {
        std::rethrow_exception(section.thrown);
    }
    detail::check([&](zkl_error *err) { return *err = words, code; });
    return ran;
}

} // namespace zklock

#endif
