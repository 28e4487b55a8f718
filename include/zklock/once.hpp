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
template <class Function>
bool once(const mutex &job, std::chrono::milliseconds length, std::chrono::milliseconds phase,
          time_limit timeout, Function &&function)
{
    detail::section<Function> section{function, nullptr};
    bool ran = false;
    detail::check([&](zkl_error *err) {
        return section.result(zkl_once_run(job.get(), length.count(), phase.count(), timeout.ms(),
                                           section.call, &section, &ran, nullptr, err));
    });
    return ran;
}

/* The steps of it without waiting (zklock/completion.hpp). slot lives until done is called. */
template <class Done>
void async_once_prepare(const session &with, const std::string &path, time_limit timeout, Done done)
{
    detail::begin(std::move(done), zkl_once_prepare_async, with.get(), detail::words(path),
                  timeout.ms());
}
template <class Done>
void async_once_look(const mutex &job, std::chrono::milliseconds length,
                     std::chrono::milliseconds phase, time_limit timeout, zkl_once_slot &slot,
                     Done done)
{
    detail::begin(std::move(done), zkl_once_look_async, job.get(), length.count(), phase.count(),
                  timeout.ms(), &slot);
}
template <class Done>
void async_once_record(const mutex &job, const zkl_once_slot &slot, time_limit timeout, Done done)
{
    detail::begin(std::move(done), zkl_once_record_async, job.get(), &slot, timeout.ms());
}

/* zkl_once_last. */
struct once_record {
    int64_t last_ms, recorded_ms;
};
inline once_record once_last(const session &with, const std::string &path,
                             std::chrono::milliseconds length, time_limit timeout)
{
    once_record record = {};
    detail::call(zkl_once_last, with.get(), detail::words(path), length.count(), timeout.ms(),
                 &record.last_ms, &record.recorded_ms);
    return record;
}
/* The same without waiting; record lives until done is called. */
template <class Done>
void async_once_last(const session &with, const std::string &path, std::chrono::milliseconds length,
                     time_limit timeout, once_record &record, Done done)
{
    detail::begin(std::move(done), zkl_once_last_async, with.get(), detail::words(path),
                  length.count(), timeout.ms(), &record.last_ms, &record.recorded_ms);
}

} // namespace zklock

#endif
