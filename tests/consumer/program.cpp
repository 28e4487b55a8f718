// The C++ wrapper on a lock without a server: guards, times, moves, exceptions. C++11.
#include <zklock/zklock.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <type_traits>

#define CHECK(what)                                                                 \
    do {                                                                            \
        if (!(what)) {                                                              \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what); \
            std::exit(1);                                                           \
        }                                                                           \
    } while (0)

using std::chrono::milliseconds;
using std::chrono::minutes;

static_assert(!std::is_copy_constructible<zklock::session>::value, "one owner");
static_assert(!std::is_copy_constructible<zklock::mutex>::value && !std::is_copy_assignable<zklock::mutex>::value, "");
static_assert(std::is_nothrow_move_constructible<zklock::mutex>::value, "fits into containers");
static_assert(std::is_nothrow_move_assignable<zklock::mutex>::value, "");
static_assert(std::is_nothrow_copy_constructible<zklock::error>::value, "to copy an exception may not throw");
static_assert(noexcept(std::declval<zklock::mutex &>().unlock()), "unlock runs in destructors");

// What function throws as a zklock::error; ZKL_OK when nothing.
template <class Function> static std::error_code thrown(Function function)
{
    try {
        function();
    } catch (const zklock::error &e) {
        CHECK(e.what()[0]);
        return e.code();
    }
    return ZKL_OK;
}

static void guards(const zklock::session &session)
{
    zklock::mutex mine(session, "/cxx/guards"), other(session, "/cxx/guards");
    {
        std::lock_guard<zklock::mutex> guard(mine);
        CHECK(mine.is_held() && mine.token() > 0 && mine.remaining() > milliseconds(0));
        CHECK(mine.state() == ZKL_STATE_HELD);
        CHECK(!other.try_lock());
        CHECK(!other.try_lock_for(milliseconds(20)));
        CHECK(!other.try_lock_until(std::chrono::system_clock::now() + milliseconds(20)));
        CHECK(!other.try_lock_for(milliseconds(-20)));
        CHECK(!std::unique_lock<zklock::mutex>(other, std::try_to_lock));
    }
    CHECK(mine.covered() && !mine.is_held() && mine.token() == 0);
    std::unique_lock<zklock::mutex> guard(other, minutes(5));
    CHECK(guard.owns_lock() && other.is_held());
    CHECK(!std::unique_lock<zklock::mutex>(mine, std::chrono::steady_clock::now() + milliseconds(20)));
    guard.release()->release();
    CHECK(!other.is_held());

    // std::lock wants nothing else; multilock is better at it.
    zklock::mutex second(session, "/cxx/second");
    std::lock(mine, second);
    CHECK(mine.is_held() && second.is_held());
    mine.unlock();
    second.unlock();
}

static void times()
{
    using zklock::detail::to_ms;
    CHECK(to_ms(std::chrono::microseconds(1)) == 1 && to_ms(milliseconds(1500)) == 1500);
    CHECK(to_ms(std::chrono::duration<double>(0.0005)) == 1 && to_ms(std::chrono::seconds(-1)) == 0);
    CHECK(to_ms(std::chrono::hours::max()) == ZKL_WAIT_FOREVER && to_ms(milliseconds::max()) == ZKL_WAIT_FOREVER);
}

static void moves(zklock::session &&from)
{
    zklock::session session(std::move(from));
    zklock::mutex first(session, "/cxx/moves");
    first.lock();
    zklock::mutex second(std::move(first));
    CHECK(second.is_held() && !first.get());
    first = zklock::mutex(session, "/cxx/moves");
    CHECK(!first.try_lock());
    second = std::move(first); // what it held is released
    second.lock();
    std::vector<zklock::mutex> many;
    many.push_back(std::move(second));
    many.emplace_back(session, "/cxx/other");
    CHECK(many[0].is_held() && many[1].try_lock());
    from = std::move(session);
}

static void errors(const zklock::session &session)
{
    zklock::mutex mutex(session, "/cxx/errors");
    mutex.lock();
    CHECK(thrown([&] { mutex.lock(); }) == ZKL_EDEADLK);
    CHECK(thrown([&] { mutex.lock(); }) == std::errc::resource_deadlock_would_occur);
    mutex.unlock();
    CHECK(thrown([&] { mutex.release(); }) == ZKL_ENOTHELD);
    CHECK(!mutex.covered());
    CHECK(!mutex.cancel());
    CHECK(thrown([&] { zklock::session("nobody:here:at:all"); }) == ZKL_EINVAL);
    try {
        zklock::mutex(session, "no slash");
        CHECK(!"reached");
    } catch (const std::system_error &e) {
        CHECK(e.code() == ZKL_EINVAL && e.code() == std::errc::invalid_argument);
        CHECK(std::string(e.code().category().name()) == "zklock");
        CHECK(std::string(e.what()).find("no slash") != std::string::npos || e.what()[0]);
    }
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.recursive = true;
    zklock::mutex twice(session, "/cxx/errors", &options);
    twice.lock();
    twice.lock();
    twice.unlock();
    CHECK(twice.is_held());
}

static void loss()
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    zklock::session session("memory:cxx-loss", &options);
    zkl_lock_options short_hold = ZKL_LOCK_OPTIONS_INIT;
    short_hold.max_hold_ms = 50;
    zklock::mutex mutex(session, "/cxx/loss", &short_hold);
    mutex.lock();
    while (mutex.is_held()) {
        std::this_thread::yield();
    }
    CHECK(thrown([&] { mutex.release(); }) == ZKL_ELOST);
    {
        std::lock_guard<zklock::mutex> guard(mutex);
        while (mutex.is_held()) {
            std::this_thread::yield();
        }
    }
    CHECK(!mutex.covered());
    bool raised = false;
    auto hang = [&](const zklock::cancel_flag &flag, int64_t) {
        while (!flag.raised() || mutex.is_held()) {
            std::this_thread::yield();
        }
        raised = flag.remaining() >= milliseconds(0) && flag.fd() >= 0;
    };
    CHECK(thrown([&] { mutex.run(hang); }) == ZKL_ELOST && raised);
    zkl_stats stats = ZKL_STATS_INIT;
    CHECK(stats.size == sizeof stats && stats.lease_slack_min_us == 0);
    session.close(minutes(1));
    CHECK(session.state() == ZKL_SESSION_CLOSED);
    CHECK(thrown([&] { mutex.lock(); }) == ZKL_ECLOSED);
    CHECK(thrown([&] { zklock::mutex(session, "/cxx/loss"); }) == ZKL_EINVAL);
}

static void cancelled(const zklock::session &session)
{
    zklock::mutex mine(session, "/cxx/cancel"), other(session, "/cxx/cancel");
    mine.lock();
    std::error_code code;
    std::thread waiter([&] { code = thrown([&] { other.lock(); }); });
    while (!other.cancel()) {
        std::this_thread::yield();
    }
    waiter.join();
    CHECK(code == ZKL_ECANCELED && code == std::errc::operation_canceled);
    mine.unlock();
}

static void sections(const zklock::session &session)
{
    zklock::mutex mine(session, "/cxx/section"), other(session, "/cxx/section");
    int64_t seen = 0;
    mine.run([&](const zklock::cancel_flag &flag, int64_t token) {
        CHECK(!flag.raised() && flag.remaining() > milliseconds(0));
        CHECK(!other.run(milliseconds(0), [](zklock::cancel_flag, int64_t) {}));
        CHECK(!other.run(milliseconds(20), [](zklock::cancel_flag, int64_t) {}));
        seen = token;
    });
    CHECK(seen > 0 && !mine.is_held());
    try {
        mine.run(minutes(5), [](zklock::cancel_flag, int64_t) { throw std::runtime_error("of the section"); });
        CHECK(!"reached");
    } catch (const std::runtime_error &e) {
        CHECK(std::string(e.what()) == "of the section");
    }
    CHECK(!mine.is_held() && other.try_lock());
}

static void readers(const zklock::session &session)
{
    zklock::mutex writer = zklock::write_lock(session, "/cxx/rw"), first = zklock::read_lock(session, "/cxx/rw");
    zklock::mutex second = zklock::read_lock(session, "/cxx/rw");
    {
        std::unique_lock<zklock::mutex> writes(writer);
        CHECK(!first.try_lock() && !first.try_lock_for(milliseconds(20)));
        writer.downgrade();
        first.lock();
        CHECK(writer.is_held() && first.is_held() && writer.recipe() == ZKL_RECIPE_WRITE_LOCK);
        first.unlock();
    }
    CHECK(writer.covered() && first.covered());
    std::unique_lock<zklock::mutex> reads(first), reads_too(second, minutes(5));
    CHECK(reads_too.owns_lock() && first.is_held() && second.is_held() && !writer.try_lock());
    CHECK(thrown([&] { first.downgrade(); }) == ZKL_EINVAL);
}

static void several(const zklock::session &session)
{
    zklock::mutex both = zklock::multilock(session, {"/cxx/a", "/cxx/b"}), one(session, "/cxx/b");
    {
        std::lock_guard<zklock::mutex> guard(both);
        CHECK(both.is_held() && both.token() > 0 && !one.try_lock());
    }
    std::lock_guard<zklock::mutex> guard(one);
    CHECK(!both.try_lock_for(milliseconds(20)) && !both.try_lock());
    CHECK(thrown([&] { zklock::multilock(session, {"/cxx/a", "/cxx/a"}); }) == ZKL_EINVAL);
}

static void permits(const zklock::session &session)
{
    zklock::mutex first = zklock::semaphore(session, "/cxx/permits", 3);
    zklock::mutex second = zklock::semaphore(session, "/cxx/permits", 3);
    zklock::mutex third = zklock::semaphore(session, "/cxx/permits", 3);
    CHECK(first.take(2, minutes(5)) && first.permits() == 2 && second.try_lock_for(minutes(5)));
    CHECK(!third.try_lock() && !third.take(1, milliseconds(20)));
    first.release();
    CHECK(first.permits() == 0 && third.take(2, minutes(5)));
    CHECK(thrown([&] { first.take(4, minutes(5)); }) == ZKL_EINVAL);
}

static void leaders(const zklock::session &session)
{
    zklock::mutex first = zklock::election(session, "/cxx/leader"), second = zklock::election(session, "/cxx/leader");
    first.lock();
    first.publish("here", minutes(1));
    CHECK(first.is_held() && !second.try_lock_for(milliseconds(20)));
    first.release();
    int terms = 0;
    second.run([&](const zklock::cancel_flag &flag, int64_t token) {
        CHECK(!flag.raised() && token > 0 && second.is_held());
        terms++;
    });
    CHECK(terms == 1 && !second.is_held() && first.try_lock_for(minutes(5)));
}

static void callbacks()
{
    std::atomic<int> held(0), closed(0);
    zklock::session_options with;
    with.on_state([&](zkl_session_state state) { closed += state == ZKL_SESSION_CLOSED; });
    with.on_log([](const zkl_log_record &) {});
    zklock::session session("memory:cxx-callbacks", with);
    zklock::lock_options options;
    options.c.recursive = true;
    options.on_state([&](zkl_state state) { held += state == ZKL_STATE_HELD; }).on_revoke([] {});
    {
        zklock::mutex mutex(session, "/cxx/callbacks", options), moved(std::move(mutex));
        moved.lock();
        moved.lock();
        while (held == 0) {
            std::this_thread::yield();
        }
        mutex = std::move(moved);
        CHECK(mutex.is_held());
    }
    session.close(minutes(1));
    CHECK(held == 1 && closed == 1);
}

static void futures(const zklock::session &session)
{
    zklock::mutex mine(session, "/cxx/futures"), other(session, "/cxx/futures");
    std::future<zkl_grant> first = mine.async_acquire(minutes(5));
    CHECK(first.get().token == mine.token());
    CHECK(thrown([&] { other.async_acquire(milliseconds(20)).get(); }) == ZKL_ETIMEOUT);
    CHECK(thrown([&] { other.acquire(milliseconds(20)); }) == ZKL_ETIMEOUT);
    CHECK(thrown([&] { other.acquire(milliseconds(0)); }) == ZKL_EBUSY);
    CHECK(thrown([&] { mine.async_acquire(milliseconds(20)); }) == ZKL_EDEADLK);
    std::future<zkl_grant> cancelled = other.async_acquire(minutes(5));
    CHECK(other.cancel() && thrown([&] { cancelled.get(); }) == ZKL_ECANCELED);
    mine.unlock();
    CHECK(other.acquire(minutes(5)).token > 0);
}

static void commits(const zklock::session &session)
{
    zklock::mutex mutex(session, "/cxx/commit");
    zkl_op create = zkl_op();
    create.kind = ZKL_OP_CREATE;
    create.path = "/cxx/committed";
    CHECK(thrown([&] { mutex.commit({create}, minutes(1)); }) == ZKL_ENOTHELD);
    std::lock_guard<zklock::mutex> guard(mutex);
    CHECK(mutex.commit({create}, minutes(1)).at(0).path == std::string("/cxx/committed"));
    CHECK(thrown([&] { mutex.commit({create}, minutes(1)); }) == ZKL_ECONFLICT);
}

static void groups(const zklock::session &session)
{
    std::atomic<size_t> seen(99);
    zklock::group_watcher watcher(session, "/cxx/group",
                                  [&](const std::vector<std::string> &ids) { seen = ids.size(); });
    zklock::group first(session, "/cxx/group", "first", "data"), second(session, "/cxx/group", "second");
    first.join(minutes(1));
    second.join(minutes(1));
    first.update("other", minutes(1));
    while (seen != 2) {
        std::this_thread::yield();
    }
    std::vector<zklock::member> members = zklock::group_list(session, "/cxx/group", minutes(1));
    CHECK(members.size() == 2 && members[0].id == "first" && members[0].data == "other" && members[1].token > 0);
    second.leave();
    CHECK(first.is_member() && !second.is_member() && thrown([&] { second.leave(); }) == ZKL_ENOTHELD);
    while (seen != 1) {
        std::this_thread::yield();
    }
}

static void partitions(const zklock::session &session)
{
    std::atomic<int> owned(0), given_up(0);
    zklock::partition partition(
        session, "/cxx/partition", {"a", "b", "c"}, [&](const std::string &, int64_t token) { owned += token > 0; },
        [&](const std::string &, bool lost) { given_up += !lost; });
    partition.start();
    while (owned != 3) {
        std::this_thread::yield();
    }
    CHECK(partition.owns("b") && partition.token("b") > 0);
    partition.stop();
    CHECK(given_up == 3 && !partition.owns("b"));
}

static void observers(const zklock::session &session)
{
    std::mutex guard;
    std::string value = "nobody asked yet";
    zklock::election_observer observer(session, "/cxx/observed", [&](const zklock::leader *leader) {
        std::lock_guard<std::mutex> hold(guard);
        value = leader ? leader->value : "";
    });
    auto seen = [&](const std::string &wanted) {
        for (bool same = false; !same; std::this_thread::yield()) {
            std::lock_guard<std::mutex> hold(guard);
            same = value == wanted;
        }
    };
    seen("");
    zklock::lock_options options;
    options.c.metadata = "first value";
    zklock::mutex leader = zklock::election(session, "/cxx/observed", options);
    leader.lock();
    seen("first value");
    leader.publish("second value", minutes(1));
    seen("second value");
    leader.release();
    seen("");
}

static void queues(const zklock::session &session)
{
    zklock::mutex mutex(session, "/cxx/queue"), gone(session, "/cxx/queue");
    CHECK(thrown([&] { zklock::queue_list(session, "/cxx/no/queue", minutes(1)); }) == ZKL_OK);
    mutex.lock();
    zklock::queue queue = zklock::queue_list(session, "/cxx/queue", minutes(1));
    CHECK(queue.entries.size() == 1 && queue.entries[0].holds && queue.entries[0].token == mutex.token());
    CHECK(zklock::queue_find(session, "/cxx/queue", minutes(1)).size() == 1);
    CHECK(thrown([&] { zklock::queue_revoke(session, "/cxx/queue", queue.entries[0].name, minutes(1)); }) == ZKL_EAUTH);
    zklock::queue_remove(session, "/cxx/queue", queue.entries[0].name, mutex.token(), minutes(1));
    while (mutex.is_held()) {
        std::this_thread::yield();
    }
    CHECK(thrown([&] { mutex.release(); }) == ZKL_ELOST && gone.try_lock_for(minutes(1)));
}

static void barriers(const zklock::session &session)
{
    zklock::barrier_set(session, "/cxx/barrier", minutes(1));
    CHECK(!zklock::barrier_wait(session, "/cxx/barrier", milliseconds(20)));
    zklock::barrier_lift(session, "/cxx/barrier", minutes(1));
    CHECK(zklock::barrier_wait(session, "/cxx/barrier", minutes(1)));
    zklock::double_barrier first(session, "/cxx/double", 2), second(session, "/cxx/double", 2);
    CHECK(!first.enter(milliseconds(20)));
    std::thread other([&] { CHECK(second.enter(minutes(1)) && second.leave(minutes(1))); });
    CHECK(first.enter(minutes(1)) && first.leave(minutes(1)));
    other.join();
}

static void slots(const zklock::session &session)
{
    zklock::mutex job(session, "/cxx/once");
    const std::chrono::hours long_time(24 * 3650);
    int runs = 0;
    auto work = [&](const zklock::cancel_flag &flag, int64_t token) { runs += !flag.raised() && token > 0; };
    auto fail = [](zklock::cancel_flag, int64_t) { throw std::runtime_error("of the work"); };
    try {
        zklock::once(job, long_time, milliseconds(0), minutes(1), fail);
        CHECK(!"reached");
    } catch (const std::runtime_error &e) {
        CHECK(std::string(e.what()) == "of the work");
    }
    CHECK(zklock::once(job, long_time, milliseconds(0), minutes(1), work));
    CHECK(!zklock::once(job, long_time, milliseconds(0), minutes(1), work) && runs == 1);
}

static void statistics(const zklock::session &session)
{
    CHECK(zklock::stats(session).contenders.grants > 0);
    CHECK(zklock::prometheus(session, "cxx").find("session=\"cxx\"") != std::string::npos);
    CHECK(zklock::prometheus(session).find("zklock_") != std::string::npos);
}

int main()
{
    zklock::session session("memory:cxx");
    CHECK(session.state() == ZKL_SESSION_CONNECTED && session.get());
    times();
    guards(session);
    moves(std::move(session));
    errors(session);
    loss();
    cancelled(session);
    sections(session);
    readers(session);
    several(session);
    permits(session);
    leaders(session);
    callbacks();
    futures(session);
    commits(session);
    groups(session);
    partitions(session);
    observers(session);
    queues(session);
    barriers(session);
    slots(session);
    statistics(session);
    return 0;
}
