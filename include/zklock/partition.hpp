/* zklock/partition.hpp - pieces of work shared out among members. C++11. */
#ifndef ZKLOCK_PARTITION_HPP
#define ZKLOCK_PARTITION_HPP

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <zklock/partition.h>
#include <zklock/session.hpp>

namespace zklock
{

/* One member of a partition (zklock/partition.h). Destroying it stops. */
class partition
{
  public:
    using assigned_function = std::function<void(const std::string &piece, int64_t token)>;
    using revoked_function = std::function<void(const std::string &piece, bool lost)>;

    /* Both run as callbacks do, and may not throw. cap: the most pieces to own; 0: any number. */
    partition(const session &with, const std::string &path, const std::vector<std::string> &pieces,
              assigned_function assigned, revoked_function revoked, size_t cap = 0)
        : calls_(new calls{std::move(assigned), std::move(revoked)})
    {
        std::vector<const char *> names;
        for (const std::string &piece : pieces) {
            names.push_back(piece.c_str());
        }
        zkl_partition_options options = ZKL_PARTITION_OPTIONS_INIT;
        options.cap = cap;
        options.assigned_fn = tell_assigned;
        options.revoked_fn = tell_revoked;
        options.payload = calls_.get();
        detail::check([&](zkl_error *err) {
            zkl_partition *made = nullptr;
            int code = zkl_partition_new(&made, with.get(), path.c_str(), names.data(),
                                         names.size(), &options, err);
            partition_.reset(made);
            return code;
        });
    }
    partition(partition &&) = default;

    void start()
    {
        detail::check([&](zkl_error *err) { return zkl_partition_start(get(), err); });
    }
    void stop()
    {
        detail::check([&](zkl_error *err) { return zkl_partition_stop(get(), err); });
    }
    bool owns(const std::string &piece) const noexcept
    {
        return zkl_partition_owns(get(), piece.c_str());
    }
    int64_t token(const std::string &piece) const noexcept
    {
        return zkl_partition_token(get(), piece.c_str());
    }
    zkl_partition *get() const noexcept { return partition_.get(); }

  private:
    struct calls {
        assigned_function assigned;
        revoked_function revoked;
    };
    struct freer {
        void operator()(zkl_partition *partition) const noexcept { zkl_partition_free(partition); }
    };
    std::unique_ptr<calls> calls_; /* freed after the partition */
    std::unique_ptr<zkl_partition, freer> partition_;

    static void tell_assigned(zkl_partition *, const char *piece, int64_t token,
                              void *payload) noexcept
    {
        const assigned_function &told = static_cast<calls *>(payload)->assigned;
        if (told) {
            told(piece, token);
        }
    }
    static void tell_revoked(zkl_partition *, const char *piece, bool lost, void *payload) noexcept
    {
        const revoked_function &told = static_cast<calls *>(payload)->revoked;
        if (told) {
            told(piece, lost);
        }
    }
};

} // namespace zklock

#endif
