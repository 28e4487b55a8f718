/* zklock/queue.hpp - who holds and who waits. C++11. */
#ifndef ZKLOCK_QUEUE_HPP
#define ZKLOCK_QUEUE_HPP

#include <memory>
#include <string>
#include <vector>

#include <zklock/queue.h>
#include <zklock/session.hpp>

namespace zklock
{

/* zkl_queue_entry, kept. */
struct queue_entry {
    std::string name, data;
    zkl_kind kind;
    int64_t token, session_id, created_ms;
    bool readable, forged, holds;
};

/* zkl_queue, kept: in the order of the queue. */
struct queue {
    std::vector<queue_entry> entries;
    size_t foreign;
    int64_t server_ms;
};

template <class Rep, class Period>
queue queue_list(const session &with, const std::string &path,
                 const std::chrono::duration<Rep, Period> &timeout)
{
    zkl_queue *list = nullptr;
    detail::check([&](zkl_error *err) {
        return zkl_queue_list(&list, with.get(), path.c_str(), detail::to_ms(timeout), err);
    });
    std::unique_ptr<zkl_queue, void (*)(zkl_queue *)> owner(list, zkl_queue_free);
    queue all{{}, list->foreign, list->server_ms};
    for (size_t i = 0; i < list->count; i++) {
        const zkl_queue_entry &one = list->entries[i];
        all.entries.push_back({one.name, std::string(one.data ? one.data : "", one.data_size),
                               one.kind, one.token, one.session_id, one.created_ms, one.readable,
                               one.forged, one.holds});
    }
    return all;
}

/* The paths below prefix at which somebody queues. */
template <class Rep, class Period>
std::vector<std::string> queue_find(const session &with, const std::string &prefix,
                                    const std::chrono::duration<Rep, Period> &timeout)
{
    zkl_paths *found = nullptr;
    detail::check([&](zkl_error *err) {
        return zkl_queue_find(&found, with.get(), prefix.c_str(), detail::to_ms(timeout), err);
    });
    std::unique_ptr<zkl_paths, void (*)(zkl_paths *)> owner(found, zkl_paths_free);
    return std::vector<std::string>(found->paths, found->paths + found->count);
}

/* zkl_queue_remove: takes somebody's znode away. token 0: whatever its token is. */
template <class Rep, class Period>
void queue_remove(const session &with, const std::string &path, const std::string &node,
                  int64_t token, const std::chrono::duration<Rep, Period> &timeout)
{
    detail::check([&](zkl_error *err) {
        return zkl_queue_remove(with.get(), path.c_str(), node.c_str(), token,
                                detail::to_ms(timeout), err);
    });
}

/* zkl_queue_revoke: asks a holder to give way. */
template <class Rep, class Period>
void queue_revoke(const session &with, const std::string &path, const std::string &node,
                  const std::chrono::duration<Rep, Period> &timeout)
{
    detail::check([&](zkl_error *err) {
        return zkl_queue_revoke(with.get(), path.c_str(), node.c_str(), detail::to_ms(timeout),
                                err);
    });
}

} // namespace zklock

#endif
