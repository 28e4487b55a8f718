/* zklock/stats.hpp - counts and times of a session. C++11. */
#ifndef ZKLOCK_STATS_HPP
#define ZKLOCK_STATS_HPP

#include <string>

#include <zklock/session.hpp>
#include <zklock/stats.h>

namespace zklock
{

inline zkl_stats stats(const session &of)
{
    zkl_stats now = ZKL_STATS_INIT;
    detail::check([&](zkl_error *) { return zkl_session_stats(of.get(), &now); });
    return now;
}

/* zkl_stats_write_prometheus, as a string. */
inline std::string prometheus(const session &of, const std::string &name = "")
{
    std::string text;
    const char *label = name.empty() ? nullptr : detail::words(name);
    int64_t size = zkl_stats_write_prometheus(of.get(), label, nullptr, 0);
    while (size >= 0 && static_cast<size_t>(size) >= text.size()) { /* it may grow meanwhile */
        text.resize(static_cast<size_t>(size) + 1);
        size = zkl_stats_write_prometheus(of.get(), label, &text[0], text.size());
    }
    detail::check([&](zkl_error *) { return size < 0 ? static_cast<int>(size) : ZKL_OK; });
    text.resize(static_cast<size_t>(size));
    return text;
}

} // namespace zklock

#endif
