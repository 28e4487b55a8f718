/* zklock/once.hpp - a function that runs once per time slot. C++11. */
#ifndef ZKLOCK_ONCE_HPP
#define ZKLOCK_ONCE_HPP

#include <zklock/completion.hpp>
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

/* The steps of it without waiting (zklock/completion.hpp). slot lives until done is called. */
template <class Rep, class Period, class Done>
void async_once_prepare(const session &with, const std::string &path,
                        const std::chrono::duration<Rep, Period> &timeout, Done done)
{
    detail::async_at(zkl_once_prepare_async, with, path, timeout, std::move(done));
}
template <class Rep, class Period, class Done>
void async_once_look(const mutex &job, std::chrono::milliseconds length,
                     std::chrono::milliseconds phase,
                     const std::chrono::duration<Rep, Period> &timeout, zkl_once_slot &slot,
                     Done done)
{
    detail::async_begin(std::move(done), [&](zkl_done_fn call, void *payload, zkl_error *err) {
        return zkl_once_look_async(job.get(), length.count(), phase.count(), detail::to_ms(timeout),
                                   &slot, call, payload, err);
    });
}
template <class Rep, class Period, class Done>
void async_once_record(const mutex &job, const zkl_once_slot &slot,
                       const std::chrono::duration<Rep, Period> &timeout, Done done)
{
    detail::async_begin(std::move(done), [&](zkl_done_fn call, void *payload, zkl_error *err) {
        return zkl_once_record_async(job.get(), &slot, detail::to_ms(timeout), call, payload, err);
    });
}

/* zkl_once_last. */
struct once_record {
    int64_t last_ms, recorded_ms;
};
template <class Rep, class Period>
once_record once_last(const session &with, const std::string &path,
                      std::chrono::milliseconds length,
                      const std::chrono::duration<Rep, Period> &timeout)
{
    once_record record = {};
    detail::check([&](zkl_error *err) {
        return zkl_once_last(with.get(), path.c_str(), length.count(), detail::to_ms(timeout),
                             &record.last_ms, &record.recorded_ms, err);
    });
    return record;
}
/* The same without waiting; record lives until done is called. */
template <class Rep, class Period, class Done>
void async_once_last(const session &with, const std::string &path, std::chrono::milliseconds length,
                     const std::chrono::duration<Rep, Period> &timeout, once_record &record,
                     Done done)
{
    detail::async_begin(std::move(done), [&](zkl_done_fn call, void *payload, zkl_error *err) {
        return zkl_once_last_async(with.get(), path.c_str(), length.count(), detail::to_ms(timeout),
                                   &record.last_ms, &record.recorded_ms, call, payload, err);
    });
}

} // namespace zklock

#endif
