/* zklock/partition.hpp - pieces of work shared out among members. C++11. */
#ifndef ZKLOCK_PARTITION_HPP
#define ZKLOCK_PARTITION_HPP

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <zklock/completion.hpp>
#include <zklock/partition.h>
#include <zklock/session.hpp>
#include <zklock/zookeeper.h>

namespace zklock
{

/* One member of a partition (zklock/partition.h). Destroying it stops. */
class partition
{
  public:
    using assigned_function = std::function<void(const std::string &piece, int64_t token)>;
    using revoked_function = std::function<void(const std::string &piece, bool lost)>;
    using state_function = std::function<void(const std::string &piece, zkl_state state)>;

    /* Both run as callbacks do, and may not throw. cap: the most pieces to work on; 0: any number.
     */
    partition(const session &with, const std::string &path, const std::vector<std::string> &pieces,
              assigned_function assigned, revoked_function revoked, size_t cap = 0)
        : partition(with, path, pieces, std::move(assigned), std::move(revoked), cap, false, 0,
                    nullptr)
    {
    }
    /* Answers later: revoked only requests the end of the work, and done() passes the piece on.
     * margin: revoked is called when less than this is left of the lease; 0: when it has ended.
     * changed: jeopardy and loss while there is work on a piece; may be empty. */
    template <class Rep, class Period>
    partition(const session &with, const std::string &path, const std::vector<std::string> &pieces,
              assigned_function assigned, revoked_function revoked, size_t cap,
              const std::chrono::duration<Rep, Period> &margin, state_function changed = nullptr)
        : partition(with, path, pieces, std::move(assigned), std::move(revoked), cap, true,
                    detail::to_ms(margin), std::move(changed))
    {
    }
    partition(partition &&) = default;
    partition &operator=(partition &&other) noexcept
    {
        partition_ = std::move(other.partition_); /* ours stops before its functions are freed */
        calls_ = std::move(other.calls_);
        return *this;
    }

    void start()
    {
        detail::check([&](zkl_error *err) { return zkl_partition_start(get(), err); });
    }
    void stop()
    {
        detail::check([&](zkl_error *err) { return zkl_partition_stop(get(), err); });
    }
    /* The work on it has ended, which revoked has requested (made with a margin). */
    void done(const std::string &piece)
    {
        detail::check(
            [&](zkl_error *err) { return zkl_partition_done(get(), piece.c_str(), err); });
    }
    template <class Done> void async_stop(Done done)
    {
        detail::async_begin(std::move(done), [&](zkl_done_fn call, void *payload, zkl_error *err) {
            return zkl_partition_stop_async(get(), call, payload, err);
        });
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
    template <class Rep, class Period>
    std::vector<zkl_op_result> commit(const std::string &piece, const std::vector<zkl_op> &ops,
                                      const std::chrono::duration<Rep, Period> &timeout)
    {
        std::vector<zkl_op_result> results(ops.size());
        detail::check([&](zkl_error *err) {
            return zkl_partition_commit(get(), piece.c_str(), ops.data(), ops.size(),
                                        detail::to_ms(timeout), results.data(), err);
        });
        return results;
    }
    zkl_partition *get() const noexcept { return partition_.get(); }

  private:
    struct calls {
        assigned_function assigned;
        revoked_function revoked;
        state_function changed;
    };
    struct freer {
        void operator()(zkl_partition *partition) const noexcept { zkl_partition_free(partition); }
    };
    std::unique_ptr<calls> calls_; /* freed after the partition */
    std::unique_ptr<zkl_partition, freer> partition_;

    partition(const session &with, const std::string &path, const std::vector<std::string> &pieces,
              assigned_function assigned, revoked_function revoked, size_t cap, bool later,
              int64_t margin_ms, state_function changed)
        : calls_(new calls{std::move(assigned), std::move(revoked), std::move(changed)})
    {
        std::vector<const char *> names;
        for (const std::string &piece : pieces) {
            names.push_back(piece.c_str());
        }
        zkl_partition_options options = ZKL_PARTITION_OPTIONS_INIT;
        options.cap = cap;
        options.assigned_fn = tell_assigned;
        options.revoked_fn = tell_revoked;
        options.done_later = later;
        options.margin_ms = margin_ms;
        options.state_fn = calls_->changed ? tell_changed : nullptr;
        options.payload = calls_.get();
        detail::check([&](zkl_error *err) {
            zkl_partition *made = nullptr;
            int code = zkl_partition_new(&made, with.get(), path.c_str(), names.data(),
                                         names.size(), &options, err);
            partition_.reset(made);
            return code;
        });
    }
    static void tell_assigned(zkl_partition *, const char *piece, int64_t token,
                              void *payload) noexcept
    {
        const assigned_function &callback = static_cast<calls *>(payload)->assigned;
        if (callback) {
            callback(piece, token);
        }
    }
    static void tell_revoked(zkl_partition *, const char *piece, bool lost, void *payload) noexcept
    {
        const revoked_function &callback = static_cast<calls *>(payload)->revoked;
        if (callback) {
            callback(piece, lost);
        }
    }
    static void tell_changed(zkl_partition *, const char *piece, zkl_state state,
                             void *payload) noexcept
    {
        static_cast<calls *>(payload)->changed(piece, state);
    }
};

} // namespace zklock

#endif
