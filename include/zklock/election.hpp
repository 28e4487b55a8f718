/* zklock/election.hpp - who leads an election, for those who are no candidates. C++11. */
#ifndef ZKLOCK_ELECTION_HPP
#define ZKLOCK_ELECTION_HPP

#include <functional>
#include <memory>
#include <string>

#include <zklock/election.h>
#include <zklock/session.hpp>

namespace zklock
{

/* zkl_leader, kept. */
struct leader {
    std::string node, value;
    int64_t token, session_id;
    bool readable;
};

/* Calls told(const leader *) for the leader there is, and for each one after it; nullptr: there is
 * no candidate. As callbacks do; it may not throw. */
class election_observer
{
  public:
    election_observer(const session &with, const std::string &path,
                      std::function<void(const leader *)> told)
        : told_(new std::function<void(const leader *)>(std::move(told)))
    {
        detail::check([&](zkl_error *err) {
            zkl_election_observer *made = nullptr;
            int code =
                zkl_election_observe(&made, with.get(), path.c_str(), tell, told_.get(), err);
            observer_.reset(made);
            return code;
        });
    }
    election_observer(election_observer &&) = default;

  private:
    struct freer {
        void operator()(zkl_election_observer *observer) const noexcept
        {
            zkl_election_observer_free(observer);
        }
    };
    std::unique_ptr<std::function<void(const leader *)>> told_; /* freed after the observer */
    std::unique_ptr<zkl_election_observer, freer> observer_;

    static void tell(zkl_election_observer *, const zkl_leader *now, void *payload) noexcept
    {
        const auto &told = *static_cast<std::function<void(const leader *)> *>(payload);
        if (now) {
            const leader kept{now->node, std::string(now->value ? now->value : "", now->value_size),
                              now->token, now->session_id, now->readable};
            told(&kept);
        } else {
            told(nullptr);
        }
    }
};

} // namespace zklock

#endif
