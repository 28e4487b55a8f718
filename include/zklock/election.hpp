/* zklock/election.hpp - observers of an election, who need not be candidates. C++11. */
#ifndef ZKLOCK_ELECTION_HPP
#define ZKLOCK_ELECTION_HPP

#include <functional>
#include <memory>
#include <string>

#include <zklock/election.h>
#include <zklock/session.hpp>

namespace zklock
{

/* A copy of zkl_leader. */
struct leader {
    std::string node, value;
    int64_t token, session_id;
    bool readable;
};

/* Calls changed(const leader *) for the leader there is, and for each one after it; nullptr: there
 * is no candidate. As callbacks do; it may not throw. */
class election_observer
{
  public:
    using changed_function = std::function<void(const leader *)>;

    election_observer(const session &with, const std::string &path, changed_function changed)
    {
        auto calls = detail::make_calls(std::move(changed));
        observer_ = {detail::make<zkl_election_observer>(zkl_election_observe, with.get(),
                                                         detail::words(path), report, calls.get()),
                     {calls}};
    }

  private:
    detail::owner<zkl_election_observer, zkl_election_observer_free> observer_;

    static void report(zkl_election_observer *, const zkl_leader *now, void *payload) noexcept
    {
        const auto own = detail::calls_of<changed_function>(payload);
        if (now) {
            const leader kept{now->node, std::string(now->value ? now->value : "", now->value_size),
                              now->token, now->session_id, now->readable};
            (*own)(&kept);
        } else {
            (*own)(nullptr);
        }
    }
};

} // namespace zklock

#endif
