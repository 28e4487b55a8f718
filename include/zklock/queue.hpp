/* zklock/queue.hpp - the holders and waiters of a path, for operators and probes. C++11. */
#ifndef ZKLOCK_QUEUE_HPP
#define ZKLOCK_QUEUE_HPP

#include <memory>
#include <string>
#include <vector>

#include <zklock/queue.h>
#include <zklock/session.hpp>

namespace zklock
{

/* A copy of zkl_queue_entry: it does not depend on the list that it came from. */
struct queue_entry {
    std::string name, data;
    zkl_kind kind;
    int64_t token, session_id, created_ms;
    bool readable, forged, holds;
};

/* A copy of zkl_queue, in queue order. */
struct queue {
    std::vector<queue_entry> entries;
    size_t foreign;
    int64_t server_ms;
    std::vector<std::string> foreign_names;
};

namespace detail
{

/* Frees the list. */
inline queue queue_of(zkl_queue *list)
{
    owner<zkl_queue, zkl_queue_free> freed(list);
    queue all{{},
              list->foreign,
              list->server_ms,
              {list->foreign_names, list->foreign_names + list->foreign}};
    for (size_t i = 0; i < list->count; i++) {
        const zkl_queue_entry &one = list->entries[i];
        all.entries.push_back({one.name, std::string(one.data ? one.data : "", one.data_size),
                               one.kind, one.token, one.session_id, one.created_ms, one.readable,
                               one.forged, one.holds});
    }
    return all;
}

} // namespace detail

inline queue queue_list(const session &with, const std::string &path, time_limit timeout)
{
    return detail::queue_of(
        detail::make<zkl_queue>(zkl_queue_list, with.get(), detail::words(path), timeout.ms()));
}
template <class Done>
void async_queue_list(const session &with, const std::string &path, time_limit timeout, Done done)
{
    detail::begin_value(detail::queue_of, std::move(done), zkl_queue_list_async, with.get(),
                        detail::words(path), timeout.ms());
}

/* zkl_queue_remove: deletes the znode of a holder or waiter by force. token 0: of any token. */
inline void queue_remove(const session &with, const std::string &path, const std::string &node,
                         int64_t token, time_limit timeout)
{
    detail::call(zkl_queue_remove, with.get(), detail::words(path), detail::words(node), token,
                 timeout.ms());
}
template <class Done>
void async_queue_remove(const session &with, const std::string &path, const std::string &node,
                        int64_t token, time_limit timeout, Done done)
{
    detail::begin(std::move(done), zkl_queue_remove_async, with.get(), detail::words(path),
                  detail::words(node), token, timeout.ms());
}

/* zkl_queue_revoke: requests that a holder release. */
inline void queue_revoke(const session &with, const std::string &path, const std::string &node,
                         time_limit timeout)
{
    detail::call(zkl_queue_revoke, with.get(), detail::words(path), detail::words(node),
                 timeout.ms());
}
template <class Done>
void async_queue_revoke(const session &with, const std::string &path, const std::string &node,
                        time_limit timeout, Done done)
{
    detail::begin(std::move(done), zkl_queue_revoke_async, with.get(), detail::words(path),
                  detail::words(node), timeout.ms());
}

} // namespace zklock

#endif
