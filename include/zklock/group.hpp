/* zklock/group.hpp - membership of a group, and the list of its members. C++11. */
#ifndef ZKLOCK_GROUP_HPP
#define ZKLOCK_GROUP_HPP

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <zklock/completion.hpp>
#include <zklock/group.h>
#include <zklock/session.hpp>

namespace zklock
{

/* One membership (zklock/group.h). Destroying it leaves. */
class group
{
  public:
    using state_function = std::function<void(zkl_state)>;

    /* data nullptr: "host:pid". on_state: as callbacks do; it may not throw. */
    group(const session &with, const std::string &path, const std::string &id,
          const char *data = nullptr, state_function on_state = nullptr,
          const zkl_acl *acl = nullptr)
        : on_state_(new state_function(std::move(on_state)))
    {
        zkl_group_options options = ZKL_GROUP_OPTIONS_INIT;
        options.data = data;
        options.acl = acl;
        options.state_fn = *on_state_ ? tell : nullptr;
        options.state_payload = on_state_.get();
        detail::check([&](zkl_error *err) {
            zkl_group *made = nullptr;
            int code = zkl_group_new(&made, with.get(), path.c_str(), id.c_str(), &options, err);
            group_.reset(made);
            return code;
        });
    }
    group(const session &with, const std::string &path, const std::string &id,
          const std::string &data, state_function on_state = nullptr, const zkl_acl *acl = nullptr)
        : group(with, path, id, data.c_str(), std::move(on_state), acl)
    {
    }
    group(group &&) = default;
    group &operator=(group &&other) noexcept
    {
        group_ = std::move(other.group_); /* ours leaves before its function is freed */
        on_state_ = std::move(other.on_state_);
        return *this;
    }

    template <class Rep, class Period> void join(const std::chrono::duration<Rep, Period> &timeout)
    {
        detail::check(
            [&](zkl_error *err) { return zkl_group_join(get(), detail::to_ms(timeout), err); });
    }
    template <class Rep, class Period, class Done>
    void async_join(const std::chrono::duration<Rep, Period> &timeout, Done done)
    {
        detail::async_begin(std::move(done), [&](zkl_done_fn call, void *payload, zkl_error *err) {
            return zkl_group_join_async(get(), detail::to_ms(timeout), call, payload, err);
        });
    }
    void leave()
    {
        detail::check([&](zkl_error *err) { return zkl_group_leave(get(), err); });
    }
    template <class Done> void async_leave(Done done)
    {
        detail::async_begin(std::move(done), [&](zkl_done_fn call, void *payload, zkl_error *err) {
            return zkl_group_leave_async(get(), call, payload, err);
        });
    }
    template <class Rep, class Period>
    void update(const std::string &data, const std::chrono::duration<Rep, Period> &timeout)
    {
        detail::check([&](zkl_error *err) {
            return zkl_group_update(get(), data.c_str(), detail::to_ms(timeout), err);
        });
    }
    template <class Rep, class Period, class Done>
    void async_update(const std::string &data, const std::chrono::duration<Rep, Period> &timeout,
                      Done done)
    {
        detail::async_begin(std::move(done), [&](zkl_done_fn call, void *payload, zkl_error *err) {
            return zkl_group_update_async(get(), data.c_str(), detail::to_ms(timeout), call,
                                          payload, err);
        });
    }
    bool is_member() const noexcept { return state() == ZKL_STATE_HELD; }
    zkl_state state() const noexcept { return zkl_group_state(get()); }
    zkl_group *get() const noexcept { return group_.get(); }

  private:
    struct freer {
        void operator()(zkl_group *group) const noexcept { zkl_group_free(group); }
    };
    std::unique_ptr<state_function> on_state_; /* freed after the group */
    std::unique_ptr<zkl_group, freer> group_;

    static void tell(zkl_group *, zkl_state state, void *payload) noexcept
    {
        (*static_cast<state_function *>(payload))(state);
    }
};

/* A copy of zkl_member. */
struct member {
    std::string id, data;
    int64_t token, session_id;
    bool readable;
};

namespace detail
{

/* Frees the list. */
inline std::vector<member> members_of(zkl_members *list)
{
    std::unique_ptr<zkl_members, void (*)(zkl_members *)> owner(list, zkl_members_free);
    std::vector<member> members;
    for (size_t i = 0; i < list->count; i++) {
        const zkl_member &one = list->members[i];
        members.push_back({one.id, std::string(one.data ? one.data : "", one.data_size), one.token,
                           one.session_id, one.readable});
    }
    return members;
}

} // namespace detail

template <class Rep, class Period>
std::vector<member> group_list(const session &with, const std::string &path,
                               const std::chrono::duration<Rep, Period> &timeout)
{
    zkl_members *list = nullptr;
    detail::check([&](zkl_error *err) {
        return zkl_group_list(&list, with.get(), path.c_str(), detail::to_ms(timeout), err);
    });
    return detail::members_of(list);
}
template <class Rep, class Period, class Done>
void async_group_list(const session &with, const std::string &path,
                      const std::chrono::duration<Rep, Period> &timeout, Done done)
{
    detail::async_at(detail::members_of, zkl_group_list_async, with, path, timeout,
                     std::move(done));
}

/* Calls changed(ids, sorted) for the members there are, and after each change. As callbacks do; it
 * may not throw. */
class group_watcher
{
  public:
    using changed_function = std::function<void(const std::vector<std::string> &)>;

    group_watcher(const session &with, const std::string &path, changed_function changed)
        : changed_(new changed_function(std::move(changed)))
    {
        detail::check([&](zkl_error *err) {
            zkl_group_watcher *made = nullptr;
            int code = zkl_group_watch(&made, with.get(), path.c_str(), tell, changed_.get(), err);
            watcher_.reset(made);
            return code;
        });
    }
    group_watcher(group_watcher &&) = default;
    group_watcher &operator=(group_watcher &&other) noexcept
    {
        watcher_ = std::move(other.watcher_); /* ours ends before its function is freed */
        changed_ = std::move(other.changed_);
        return *this;
    }

  private:
    struct freer {
        void operator()(zkl_group_watcher *watcher) const noexcept
        {
            zkl_group_watcher_free(watcher);
        }
    };
    std::unique_ptr<changed_function> changed_; /* freed after the watcher */
    std::unique_ptr<zkl_group_watcher, freer> watcher_;

    static void tell(zkl_group_watcher *, const char *const *ids, size_t count,
                     void *payload) noexcept
    {
        (*static_cast<changed_function *>(payload))(std::vector<std::string>(ids, ids + count));
    }
};

} // namespace zklock

#endif
