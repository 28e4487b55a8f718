/* zklock/group.hpp - memberships, and who is a member. C++11. */
#ifndef ZKLOCK_GROUP_HPP
#define ZKLOCK_GROUP_HPP

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <zklock/group.h>
#include <zklock/session.hpp>

namespace zklock
{

/* One membership (zklock/group.h). Destroying it leaves. */
class group
{
  public:
    using state_function = std::function<void(zkl_state)>;

    /* on_state: as callbacks do; it may not throw. */
    group(const session &with, const std::string &path, const std::string &id,
          const std::string &data = "", state_function on_state = nullptr,
          const zkl_acl *acl = nullptr)
        : on_state_(new state_function(std::move(on_state)))
    {
        zkl_group_options options = ZKL_GROUP_OPTIONS_INIT;
        options.data = data.c_str();
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
    group(group &&) = default;

    template <class Rep, class Period> void join(const std::chrono::duration<Rep, Period> &timeout)
    {
        detail::check(
            [&](zkl_error *err) { return zkl_group_join(get(), detail::to_ms(timeout), err); });
    }
    void leave()
    {
        detail::check([&](zkl_error *err) { return zkl_group_leave(get(), err); });
    }
    template <class Rep, class Period>
    void update(const std::string &data, const std::chrono::duration<Rep, Period> &timeout)
    {
        detail::check([&](zkl_error *err) {
            return zkl_group_update(get(), data.c_str(), detail::to_ms(timeout), err);
        });
    }
    bool is_member() const noexcept { return zkl_group_is_member(get()); }
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

/* zkl_member, kept. */
struct member {
    std::string id, data;
    int64_t token, session_id;
    bool readable;
};

template <class Rep, class Period>
std::vector<member> group_list(const session &with, const std::string &path,
                               const std::chrono::duration<Rep, Period> &timeout)
{
    zkl_members *list = nullptr;
    detail::check([&](zkl_error *err) {
        return zkl_group_list(&list, with.get(), path.c_str(), detail::to_ms(timeout), err);
    });
    std::unique_ptr<zkl_members, void (*)(zkl_members *)> owner(list, zkl_members_free);
    std::vector<member> members;
    for (size_t i = 0; i < list->count; i++) {
        const zkl_member &one = list->members[i];
        members.push_back({one.id, std::string(one.data ? one.data : "", one.data_size), one.token,
                           one.session_id, one.readable});
    }
    return members;
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
