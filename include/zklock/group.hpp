/* zklock/group.hpp - membership of a group, and the list of its members. C++11. */
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

    /* data nullptr: "host:pid". on_state: as callbacks do; it may not throw. */
    group(const session &with, const std::string &path, const std::string &id,
          const char *data = nullptr, state_function on_state = nullptr,
          const zkl_acl *acl = nullptr)
    {
        auto calls = detail::make_calls(std::move(on_state));
        zkl_group_options options = ZKL_GROUP_OPTIONS_INIT;
        options.data = data;
        options.acl = acl;
        options.state_fn = **calls ? report : nullptr;
        options.payload = calls.get();
        group_ = {detail::make<zkl_group>(zkl_group_new, with.get(), detail::words(path),
                                          detail::words(id), &options),
                  {calls}};
    }

    void join(time_limit timeout) { detail::call(zkl_group_join, get(), timeout.ms()); }
    template <class Done> void async_join(time_limit timeout, Done done)
    {
        detail::begin(std::move(done), zkl_group_join_async, get(), timeout.ms());
    }
    void leave() { detail::call(zkl_group_leave, get()); }
    template <class Done> void async_leave(Done done)
    {
        detail::begin(std::move(done), zkl_group_leave_async, get());
    }
    void update(const std::string &data, time_limit timeout)
    {
        detail::call(zkl_group_update, get(), detail::words(data), timeout.ms());
    }
    template <class Done> void async_update(const std::string &data, time_limit timeout, Done done)
    {
        detail::begin(std::move(done), zkl_group_update_async, get(), detail::words(data),
                      timeout.ms());
    }
    zkl_state state() const noexcept { return zkl_group_state(get()); }
    zkl_group *get() const noexcept { return group_.get(); }

  private:
    detail::owner<zkl_group, zkl_group_free> group_;

    static void report(zkl_group *, zkl_state state, void *payload) noexcept
    {
        const auto own = detail::calls_of<state_function>(payload);
        (*own)(state);
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
    owner<zkl_members, zkl_members_free> freed(list);
    std::vector<member> members;
    for (size_t i = 0; i < list->count; i++) {
        const zkl_member &one = list->members[i];
        members.push_back({one.id, std::string(one.data ? one.data : "", one.data_size), one.token,
                           one.session_id, one.readable});
    }
    return members;
}

} // namespace detail

inline std::vector<member> group_list(const session &with, const std::string &path,
                                      time_limit timeout)
{
    return detail::members_of(
        detail::make<zkl_members>(zkl_group_list, with.get(), detail::words(path), timeout.ms()));
}
template <class Done>
void async_group_list(const session &with, const std::string &path, time_limit timeout, Done done)
{
    detail::begin_value(detail::members_of, std::move(done), zkl_group_list_async, with.get(),
                        detail::words(path), timeout.ms());
}

/* Calls changed(ids, sorted) for the members there are, and after each change. As callbacks do; it
 * may not throw. */
class group_observer
{
  public:
    using changed_function = std::function<void(const std::vector<std::string> &)>;

    group_observer(const session &with, const std::string &path, changed_function changed)
    {
        auto calls = detail::make_calls(std::move(changed));
        observer_ = {detail::make<zkl_group_observer>(zkl_group_observe, with.get(),
                                                      detail::words(path), report, calls.get()),
                     {calls}};
    }

  private:
    detail::owner<zkl_group_observer, zkl_group_observer_free> observer_;

    static void report(zkl_group_observer *, const char *const *ids, size_t count,
                       void *payload) noexcept
    {
        const auto own = detail::calls_of<changed_function>(payload);
        (*own)(std::vector<std::string>(ids, ids + count));
    }
};

} // namespace zklock

#endif
