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
    election_observer(const session &with, const std::string &path,
                      std::function<void(const leader *)> changed)
        : changed_(new std::function<void(const leader *)>(std::move(changed)))
    {
        detail::check([&](zkl_error *err) {
            zkl_election_observer *made = nullptr;
            int code =
                zkl_election_observe(&made, with.get(), path.c_str(), report, changed_.get(), err);
            observer_.reset(made);
            return code;
        });
    }
    election_observer(election_observer &&) = default;
    election_observer &operator=(election_observer &&other) noexcept
    {
        observer_ = std::move(other.observer_); /* ours ends before its function is freed */
        changed_ = std::move(other.changed_);
        return *this;
    }

  private:
    struct freer {
        void operator()(zkl_election_observer *observer) const noexcept
        {
            zkl_election_observer_free(observer);
        }
    };
    std::unique_ptr<std::function<void(const leader *)>> changed_; /* freed after the observer */
    std::unique_ptr<zkl_election_observer, freer> observer_;

    static void report(zkl_election_observer *, const zkl_leader *now, void *payload) noexcept
    {
        const auto &changed = *static_cast<std::function<void(const leader *)> *>(payload);
        if (now) {
            const leader kept{now->node, std::string(now->value ? now->value : "", now->value_size),
                              now->token, now->session_id, now->readable};
            changed(&kept);
        } else {
            changed(nullptr);
        }
    }
};

} // namespace zklock

#endif
