/* zklock/partition.hpp - pieces of work shared out among members. C++11. */
#ifndef ZKLOCK_PARTITION_HPP
#define ZKLOCK_PARTITION_HPP

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <zklock/partition.h>
#include <zklock/session.hpp>
#include <zklock/zookeeper.h>

namespace zklock
{

/* Options with callbacks in functions of C++: they run as callbacks do, and may not throw. c has
 * everything else; its callbacks and its payload are not used. A partition takes a copy of its own,
 * which is destroyed with it. */
class partition_options
{
  public:
    zkl_partition_options c = ZKL_PARTITION_OPTIONS_INIT;

    partition_options &
    on_assigned(std::function<void(const std::string &piece, int64_t token)> function)
    {
        assigned_ = std::move(function);
        return *this;
    }
    partition_options &on_revoked(std::function<void(const std::string &piece, bool lost)> function)
    {
        revoked_ = std::move(function);
        return *this;
    }
    partition_options &
    on_state(std::function<void(const std::string &piece, zkl_state state)> function)
    {
        state_ = std::move(function);
        return *this;
    }

  private:
    friend class partition;
    std::function<void(const std::string &, int64_t)> assigned_;
    std::function<void(const std::string &, bool)> revoked_;
    std::function<void(const std::string &, zkl_state)> state_;

    static void call_assigned(zkl_partition *, const char *piece, int64_t token, void *payload)
    {
        const auto own = detail::calls_of<partition_options>(payload);
        own->assigned_ ? own->assigned_(piece, token) : void();
    }
    static void call_revoked(zkl_partition *, const char *piece, bool lost, void *payload)
    {
        const auto own = detail::calls_of<partition_options>(payload);
        own->revoked_ ? own->revoked_(piece, lost) : void();
    }
    static void call_state(zkl_partition *, const char *piece, zkl_state state, void *payload)
    {
        const auto own = detail::calls_of<partition_options>(payload);
        own->state_ ? own->state_(piece, state) : void();
    }
    zkl_partition_options for_c(void *payload) const
    {
        zkl_partition_options made = c;
        made.assigned_fn = call_assigned;
        made.revoked_fn = call_revoked;
        made.state_fn = call_state;
        made.payload = payload;
        return made;
    }
};

/* One member of a partition (zklock/partition.h). Destroying it stops. */
class partition
{
  public:
    partition(const session &with, const std::string &path, const std::vector<std::string> &pieces,
              const partition_options &options)
    {
        std::vector<const char *> names;
        for (const std::string &piece : pieces) {
            names.push_back(detail::words(piece));
        }
        auto calls = detail::make_calls(options);
        const zkl_partition_options c = options.for_c(calls.get());
        partition_ = {detail::make<zkl_partition>(zkl_partition_new, with.get(),
                                                  detail::words(path), names.data(), names.size(),
                                                  &c),
                      {calls}};
    }

    void start() { detail::call(zkl_partition_start, get()); }
    void stop() { detail::call(zkl_partition_stop, get()); }
    template <class Done> void async_stop(Done done)
    {
        detail::begin(std::move(done), zkl_partition_stop_async, get());
    }
    /* The work on it has ended, which revoked has requested (with the option done_later). */
    void done(const std::string &piece)
    {
        detail::call(zkl_partition_done, get(), detail::words(piece));
    }
    bool owns(const std::string &piece) const noexcept
    {
        return zkl_partition_owns(get(), piece.c_str());
    }
    /* While there is work on it, also while that ends. */
    std::chrono::milliseconds remaining(const std::string &piece) const noexcept
    {
        return std::chrono::milliseconds(zkl_partition_remaining_ms(get(), piece.c_str()));
    }
    /* As mutex::commit, under the lock of this piece. */
    std::vector<zkl_op_result> commit(const std::string &piece, const std::vector<zkl_op> &ops,
                                      time_limit timeout)
    {
        std::vector<zkl_op_result> results(ops.size());
        detail::call(zkl_partition_commit, get(), detail::words(piece), ops.data(), ops.size(),
                     timeout.ms(), results.data());
        return results;
    }
    zkl_partition *get() const noexcept { return partition_.get(); }

  private:
    detail::owner<zkl_partition, zkl_partition_free> partition_;
};

} // namespace zklock

#endif
