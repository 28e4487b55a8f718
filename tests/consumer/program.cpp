// The C++ wrapper on a lock without a server: guards, times, moves, exceptions. C++11.
#include <zklock/testing.h>
#include <zklock/zklock.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <future>
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
template <class Type> constexpr bool is_moved()
{
    return std::is_nothrow_move_constructible<Type>::value && std::is_nothrow_move_assignable<Type>::value &&
           !std::is_copy_constructible<Type>::value;
}
static_assert(is_moved<zklock::session>() && is_moved<zklock::group>() && is_moved<zklock::group_observer>(), "");
static_assert(is_moved<zklock::partition>() && is_moved<zklock::double_barrier>(), "");
static_assert(is_moved<zklock::election_observer>(), "");
static_assert(noexcept(std::declval<zklock::mutex &>().unlock()), "unlock runs in destructors");

// There is no form that returns a future: done is needed, which may be a promise's, or Asio's asio::use_future.
template <class Mutex> static auto has_future(int) -> decltype(std::declval<Mutex &>().async_acquire(minutes(1)), true)
{
    return true;
}
template <class> static constexpr bool has_future(...)
{
    return false;
}
static_assert(!has_future<zklock::mutex>(0), "futures are the caller's");

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

// A done that keeps a promise, as a program would write it that wants a future.
template <class Value> struct promised {
    using type = Value;
    std::shared_ptr<std::promise<Value>> promise = std::make_shared<std::promise<Value>>();

    void operator()(std::exception_ptr failure, Value value)
    {
        failure ? promise->set_exception(failure) : promise->set_value(std::move(value));
    }
};
template <> struct promised<void> {
    using type = void;
    std::shared_ptr<std::promise<void>> promise = std::make_shared<std::promise<void>>();

    void operator()(std::exception_ptr failure) { failure ? promise->set_exception(failure) : promise->set_value(); }
};
using ends = promised<void>;
using granted = promised<zkl_grant>;
using committed = promised<std::vector<zkl_op_result>>;
using has_read = promised<zklock::data>;
using listed = promised<zklock::queue>;
using grouped = promised<std::vector<zklock::member>>;

// begin(done) makes the call.
template <class Done, class Begin> static std::future<typename Done::type> begun(Begin begin)
{
    Done done;
    begin(done);
    return done.promise->get_future();
}

// call passes `done` on.
#define BEGUN(Done, call) begun<Done>([&](Done done) { call; })

static bool eventually(const std::function<bool()> &so)
{
    auto end = std::chrono::steady_clock::now() + minutes(2);
    while (std::chrono::steady_clock::now() < end) {
        if (so()) {
            return true;
        }
        std::this_thread::yield();
    }
    return false;
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
    using zklock::time_limit;
    CHECK(time_limit(std::chrono::microseconds(1)).ms() == 1 && time_limit(milliseconds(1500)).ms() == 1500);
    CHECK(time_limit(std::chrono::duration<double>(0.0005)).ms() == 1);
    CHECK(time_limit(std::chrono::seconds(-1)).ms() == 0);
    CHECK(time_limit(std::chrono::hours::max()).ms() == ZKL_WAIT_FOREVER);
    CHECK(time_limit(milliseconds::max()).ms() == ZKL_WAIT_FOREVER);
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
    other.unlock();
}

static void readers(const zklock::session &session)
{
    zklock::mutex writer = zklock::write_lock(session, "/cxx/rw"), reader = zklock::read_lock(session, "/cxx/rw");
    std::lock_guard<zklock::mutex> writes(writer);
    CHECK(writer.recipe() == ZKL_RECIPE_WRITE_LOCK && !reader.try_lock());
    writer.downgrade();
    reader.lock();
    CHECK(writer.is_held() && reader.is_held() && thrown([&] { reader.downgrade(); }) == ZKL_EINVAL);
    reader.unlock();
}

static void several(const zklock::session &session)
{
    zklock::mutex both = zklock::multilock(session, {"/cxx/a", "/cxx/b"}), one(session, "/cxx/b");
    std::lock_guard<zklock::mutex> guard(both);
    CHECK(both.is_held() && both.token() > 0 && !one.try_lock());
    CHECK(thrown([&] { zklock::multilock(session, {"/cxx/a", "/cxx/a"}); }) == ZKL_EINVAL);
}

static void permits(const zklock::session &session)
{
    zklock::mutex first = zklock::semaphore(session, "/cxx/permits", 3);
    zklock::mutex second = zklock::semaphore(session, "/cxx/permits", 0);
    CHECK(first.take(2, minutes(5)) && first.permits() == 2 && !second.take(2, milliseconds(20)));
    CHECK(thrown([&] { first.take(4, minutes(5)); }) == ZKL_EINVAL);
    zklock::semaphore_resize(session, "/cxx/permits", 4, minutes(5));
    CHECK(second.take(2, minutes(5)));
    CHECK(thrown([&] { zklock::semaphore_resize(session, "/cxx/nothing", 4, minutes(5)); }) == ZKL_ENOENT);
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
    with.on_state([&](zkl_connection_state state) { closed += state == ZKL_SESSION_CLOSED; });
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

// Copies are independent, also of what was made with them; a callback of C keeps its payload beside one of C++.
static void options_are_own(const zklock::session &session)
{
    std::atomic<int> first(0), second(0), revoked(0);
    std::atomic<size_t> ahead_in_c(0), ahead(0);
    zklock::lock_options one;
    one.c.position_fn = [](zkl_lock *, size_t n, void *payload) { *static_cast<std::atomic<size_t> *>(payload) = n; };
    one.c.payload = &ahead_in_c;
    one.on_state([&](zkl_state state) { first += state == ZKL_STATE_HELD; });
    zklock::mutex mine(session, "/cxx/own", one);
    zklock::lock_options two = one;
    two.on_state([&](zkl_state state) { second += state == ZKL_STATE_HELD; }).on_revoke([&] { revoked++; });
    mine.lock();
    CHECK(eventually([&] { return first == 1; }) && second == 0);
    zklock::mutex waits(session, "/cxx/own", one);
    one.on_position([&](size_t n) { ahead = n; });
    zklock::mutex tells(session, "/cxx/own", one);
    std::future<zkl_grant> next = BEGUN(granted, waits.async_acquire(minutes(1), done));
    CHECK(eventually([&] { return ahead_in_c == 1; }));
    std::future<zkl_grant> last = BEGUN(granted, tells.async_acquire(minutes(1), done));
    CHECK(eventually([&] { return ahead == 2; }) && ahead_in_c == 1);
    mine.unlock();
    next.get();
    waits.unlock();
    last.get();
    CHECK(eventually([&] { return first >= 2; }) && second == 0 && revoked == 0); // tells holds it still
    tells.unlock();
    zklock::mutex other(session, "/cxx/own-too", two);
    other.lock();
    CHECK(eventually([&] { return second == 1; }));

    std::atomic<int> closed(0), never(0);
    zklock::session_options with;
    with.on_state([&](zkl_connection_state state) { closed += state == ZKL_SESSION_CLOSED; });
    zklock::session watched("memory:cxx", with);
    zklock::session_options copy = with;
    copy.on_state([&](zkl_connection_state) { never++; });
    watched.close(minutes(1));
    CHECK(closed == 1 && never == 0);
}

static void futures(const zklock::session &session)
{
    zklock::mutex mine(session, "/cxx/futures"), other(session, "/cxx/futures");
    std::future<zkl_grant> first = BEGUN(granted, mine.async_acquire(minutes(5), done));
    CHECK(first.get().token == mine.token());
    CHECK(thrown([&] { BEGUN(granted, other.async_acquire(milliseconds(20), done)).get(); }) == ZKL_ETIMEOUT);
    CHECK(thrown([&] { other.acquire(milliseconds(20)); }) == ZKL_ETIMEOUT);
    CHECK(thrown([&] { other.acquire(milliseconds(0)); }) == ZKL_EBUSY);
    CHECK(thrown([&] { BEGUN(granted, mine.async_acquire(milliseconds(20), done)); }) == ZKL_EDEADLK);
    std::future<zkl_grant> cancelled = BEGUN(granted, other.async_acquire(minutes(5), done));
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
    zklock::group_observer watcher(session, "/cxx/group",
                                   [&](const std::vector<std::string> &ids) { seen = ids.size(); });
    zklock::group first(session, "/cxx/group", "first", "data"), second(session, "/cxx/group", "second");
    first.join(minutes(1));
    second.join(minutes(1));
    first.update("other", minutes(1));
    CHECK(zklock::group_list(session, "/cxx/group", minutes(1)).at(1).data.find(':') != std::string::npos); // host:pid
    while (seen != 2) {
        std::this_thread::yield();
    }
    std::vector<zklock::member> members = zklock::group_list(session, "/cxx/group", minutes(1));
    CHECK(members.size() == 2 && members[0].id == "first" && members[0].data == "other" && members[1].token > 0);
    second.leave();
    CHECK(first.state() == ZKL_STATE_HELD && second.state() == ZKL_STATE_IDLE &&
          thrown([&] { second.leave(); }) == ZKL_ENOTHELD);
    while (seen != 1) {
        std::this_thread::yield();
    }
}

static void partitions(const zklock::session &session)
{
    std::atomic<int> owned(0), given_up(0);
    zklock::partition_options options;
    options.on_assigned([&](const std::string &, int64_t token) { owned += token > 0; });
    options.on_revoked([&](const std::string &, bool lost) { given_up += !lost; });
    zklock::partition partition(session, "/cxx/partition", {"a", "b", "c"}, options);
    options.on_assigned([](const std::string &, int64_t) { CHECK(!"the partition has a copy"); });
    partition.start();
    while (owned != 3) {
        std::this_thread::yield();
    }
    CHECK(partition.owns("b") && partition.remaining("b").count() > 0);
    partition.stop();
    CHECK(given_up == 3 && !partition.owns("b"));
}

static void answers_later(const zklock::session &session)
{
    std::atomic<int> owned(0), asked(0);
    zklock::partition_options options;
    options.c.done_later = true;
    options.c.margin_ms = 10;
    options.on_assigned([&](const std::string &, int64_t) { owned++; })
        .on_revoked([&](const std::string &, bool) { asked++; })
        .on_state([](const std::string &, zkl_state) {});
    zklock::partition partition(session, "/cxx/later", {"a", "b"}, options);
    partition.start();
    while (owned != 2) {
        std::this_thread::yield();
    }
    CHECK(partition.remaining("a").count() > 0);
    std::future<void> stopped = BEGUN(ends, partition.async_stop(done));
    while (asked != 2) {
        std::this_thread::yield();
    }
    CHECK(!partition.owns("a") && partition.remaining("a").count() > 0 &&
          partition.commit("a", {}, std::chrono::seconds(5)).empty());
    partition.done("a");
    CHECK(partition.remaining("a").count() == 0 && thrown([&] { partition.done("a"); }) == ZKL_ENOTHELD);
    partition.done("b");
    stopped.get();
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
    CHECK(zklock::queue_list(session, "/cxx", minutes(1)).foreign_names.size() > 0);
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

    BEGUN(ends, zklock::async_barrier_set(session, "/cxx/barrier", minutes(1), done)).get();
    CHECK(thrown([&] {
              BEGUN(ends, zklock::async_barrier_wait(session, "/cxx/barrier", milliseconds(20), done)).get();
          }) == ZKL_ETIMEOUT);
    std::future<void> down = BEGUN(ends, zklock::async_barrier_wait(session, "/cxx/barrier", minutes(1), done));
    BEGUN(ends, zklock::async_barrier_lift(session, "/cxx/barrier", minutes(1), done)).get();
    down.get();
    std::future<void> in = BEGUN(ends, first.async_enter(minutes(1), done));
    BEGUN(ends, second.async_enter(minutes(1), done)).get();
    in.get();
    std::future<void> out = BEGUN(ends, first.async_leave(minutes(1), done));
    BEGUN(ends, second.async_leave(minutes(1), done)).get();
    out.get();
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

    zkl_once_slot slot;
    zklock::once_record record;
    BEGUN(ends, zklock::async_once_prepare(session, "/cxx/steps", minutes(1), done)).get();
    zklock::mutex steps(session, "/cxx/steps");
    steps.lock();
    BEGUN(ends, zklock::async_once_look(steps, long_time, milliseconds(0), minutes(1), slot, done)).get();
    CHECK(!slot.done);
    BEGUN(ends, zklock::async_once_record(steps, slot, minutes(1), done)).get();
    BEGUN(ends, zklock::async_once_last(session, "/cxx/steps", long_time, minutes(1), record, done)).get();
    CHECK(record.last_ms == slot.round_ms && record.recorded_ms > 0);
    CHECK(zklock::once_last(session, "/cxx/steps", long_time, minutes(1)).last_ms == record.last_ms);
}

static void statistics(const zklock::session &session)
{
    CHECK(zklock::stats(session).contenders.grants > 0);
    CHECK(zklock::prometheus(session, "cxx").find("session=\"cxx\"") != std::string::npos);
    CHECK(zklock::prometheus(session).find("zklock_") != std::string::npos);
}

// Calls without waiting: their values, and what they throw at once or later.
static void later(const zklock::session &session)
{
    const std::string path = "/cxx/futures";
    zklock::mutex mutex(session, path);
    mutex.lock();
    zklock::queue queue = BEGUN(listed, zklock::async_queue_list(session, path, minutes(5), done)).get();
    CHECK(queue.entries.size() == 1 && queue.entries[0].token == mutex.token());
    CHECK(thrown([&] {
              BEGUN(ends, zklock::async_queue_revoke(session, path, queue.entries[0].name, minutes(5), done)).get();
          }) == ZKL_EAUTH);
    BEGUN(ends, zklock::async_queue_remove(session, path, queue.entries[0].name, mutex.token(), minutes(5), done))
        .get();
    CHECK(thrown([&] {
              BEGUN(ends,
                    zklock::async_queue_remove(session, path, queue.entries[0].name, mutex.token(), minutes(5), done))
                  .get();
          }) == ZKL_ENOTHELD);
    CHECK(thrown([&] { BEGUN(listed, zklock::async_queue_list(session, "no slash", minutes(5), done)); }) ==
          ZKL_EINVAL);
    CHECK(BEGUN(listed, zklock::async_queue_list(session, path, minutes(5), done)).get().entries.empty());

    zklock::group group(session, "/cxx/later", "me");
    CHECK(thrown([&] { BEGUN(ends, group.async_leave(done)); }) == ZKL_ENOTHELD);
    BEGUN(ends, group.async_join(minutes(5), done)).get();
    BEGUN(ends, group.async_update("changed", minutes(5), done)).get();
    CHECK(BEGUN(grouped, zklock::async_group_list(session, "/cxx/later", minutes(5), done)).get().at(0).data ==
          "changed");
    BEGUN(ends, group.async_leave(done)).get();
    CHECK(group.state() == ZKL_STATE_IDLE && zklock::group_list(session, "/cxx/later", minutes(5)).empty());
    zklock::partition partition(session, "/cxx/pieces", {"one"}, zklock::partition_options());
    partition.start();
    BEGUN(ends, partition.async_stop(done)).get();
    CHECK(!partition.owns("one"));
    std::promise<bool> joined;
    group.async_join(minutes(5), [&](std::exception_ptr failure) { joined.set_value(!failure); });
    CHECK(joined.get_future().get() && group.state() == ZKL_STATE_HELD);
}

// The verbs of a mutex without waiting, while nothing goes wrong.
static void verbs(const zklock::session &session)
{
    zklock::mutex mutex(session, "/cxx/verbs"), reader(session, "/cxx/verbs");
    CHECK(thrown([&] { BEGUN(ends, mutex.async_release(done)); }) == ZKL_ENOTHELD);
    mutex.lock();
    zkl_op create = zkl_op();
    create.kind = ZKL_OP_CREATE;
    create.path = "/cxx/written";
    create.data = "a\0b";
    create.size = 3;
    CHECK(BEGUN(committed, mutex.async_commit({create}, minutes(1), done)).get().at(0).path ==
          std::string("/cxx/written"));
    CHECK(thrown([&] { BEGUN(committed, mutex.async_commit({create}, minutes(1), done)).get(); }) == ZKL_ECONFLICT);
    CHECK(BEGUN(committed, mutex.async_commit({}, minutes(1), done)).get().empty()); // the check alone
    zklock::data read = BEGUN(has_read, mutex.async_read("/cxx/written", true, minutes(1), done)).get();
    CHECK(read.bytes == std::string("a\0b", 3) && read.version == 0 && read.mzxid > mutex.token());
    CHECK(mutex.read("/cxx/written", false, minutes(1)).mzxid == read.mzxid);
    CHECK(thrown([&] { BEGUN(has_read, mutex.async_read("/cxx/nothing", false, minutes(1), done)).get(); }) ==
          ZKL_ENOENT);
    CHECK(thrown([&] { BEGUN(has_read, mutex.async_read("no slash", false, minutes(1), done)); }) == ZKL_EINVAL);
    BEGUN(ends, mutex.async_release(done)).get();
    CHECK(!mutex.is_held() && thrown([&] {
                                  BEGUN(has_read, mutex.async_read("/cxx/written", false, minutes(1), done)).get();
                              }) == ZKL_ENOTHELD);
    CHECK(reader.try_lock());

    zklock::mutex permits = zklock::semaphore(session, "/cxx/verbs-permits", 2);
    zklock::mutex more = zklock::semaphore(session, "/cxx/verbs-permits", 0);
    CHECK(BEGUN(granted, permits.async_take(2, minutes(5), done)).get().token == permits.token() &&
          permits.permits() == 2);
    CHECK(thrown([&] { BEGUN(granted, more.async_take(1, milliseconds(20), done)).get(); }) == ZKL_ETIMEOUT);
    CHECK(thrown([&] { BEGUN(granted, reader.async_take(1, minutes(5), done)); }) == ZKL_EINVAL);
    std::future<zkl_grant> third = BEGUN(granted, more.async_take(1, minutes(5), done));
    BEGUN(ends, zklock::async_semaphore_resize(session, "/cxx/verbs-permits", 3, minutes(5), done)).get();
    CHECK(third.get().token > 0 && permits.permits() + more.permits() == 3);
    CHECK(thrown([&] {
              BEGUN(ends, zklock::async_semaphore_resize(session, "/cxx/nothing", 3, minutes(5), done)).get();
          }) == ZKL_ENOENT);
    CHECK(thrown([&] { BEGUN(ends, zklock::async_semaphore_resize(session, "/cxx/nothing", 0, minutes(5), done)); }) ==
          ZKL_EINVAL);
}

// A candidate that stands: what it is told, through a lost connection and an expired session, and how it ends.
static void standing()
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    options.session_timeout_ms = 2000;
    options.tick_ms = 100;
    options.leader_pause_ms = 20;
    zklock::session session("memory:cxx-standing", &options);
    std::atomic<int> held(0), lost(0), unexplained(0);
    auto changed = [&](zkl_state state, int64_t token, std::exception_ptr why) {
        held += state == ZKL_STATE_HELD;
        lost += state == ZKL_STATE_LOST;
        unexplained += (state == ZKL_STATE_HELD && token == 0) || (state == ZKL_STATE_LOST && !why);
    };
    zklock::mutex candidate = zklock::election(session, "/cxx/standing"), plain(session, "/cxx/standing-not");
    CHECK(thrown([&] { BEGUN(ends, plain.async_stand(changed, done)); }) == ZKL_EINVAL && !candidate.leave());
    CHECK(thrown([&] { BEGUN(ends, candidate.async_publish("early", minutes(1), done)).get(); }) == ZKL_ENOTHELD);
    std::future<void> ended = BEGUN(ends, candidate.async_stand(changed, done));
    CHECK(thrown([&] { BEGUN(ends, candidate.async_stand(changed, done)); }) == ZKL_EDEADLK);
    CHECK(eventually([&] { return held == 1; }));
    BEGUN(ends, candidate.async_publish("leads", minutes(1), done)).get();
    CHECK(zklock::queue_list(session, "/cxx/standing", minutes(1)).entries.at(0).data == "leads");
    CHECK(zkl_testing_expire(session.get(), nullptr) == ZKL_OK);
    CHECK(eventually([&] { return lost == 1 && held >= 2; }));
    CHECK(candidate.leave());
    ended.get();
    CHECK(!candidate.leave() && unexplained == 0);
    std::promise<std::error_code> closed;
    candidate = zklock::election(session, "/cxx/standing");
    candidate.async_stand(changed, [&](std::exception_ptr why) {
        closed.set_value(thrown([&] { why ? std::rethrow_exception(why) : void(); }));
    });
    session.close(minutes(1));
    CHECK(closed.get_future().get() == ZKL_ECLOSED);
}

static void opened_later()
{
    std::atomic<int> connected(0);
    zklock::session_options options;
    options.on_state([&](zkl_connection_state state) { connected += state == ZKL_SESSION_CONNECTED; });
    zklock::session session;
    CHECK(!session.get() && session.state() == ZKL_SESSION_CLOSED);
    CHECK(thrown([&] { BEGUN(ends, session.async_open("nobody:here:at:all", nullptr, done)); }) == ZKL_EINVAL &&
          !session.get());
    std::future<void> open = BEGUN(ends, session.async_open("memory:cxx-later", options, done));
    zklock::mutex mutex(session, "/cxx/opened");
    mutex.lock();
    open.get();
    CHECK(eventually([&] { return connected == 1; }) && session.state() == ZKL_SESSION_CONNECTED);
    CHECK(thrown([&] { BEGUN(ends, session.async_open("memory:cxx-later", nullptr, done)); }) == ZKL_EINVAL);
    std::promise<bool> fine;
    zkl_session_options plain = ZKL_SESSION_OPTIONS_INIT;
    zklock::session other;
    other.async_open("memory:cxx-later", &plain, [&](std::exception_ptr failure) { fine.set_value(!failure); });
    CHECK(fine.get_future().get());
    zklock::session never; // nobody is there
    open = BEGUN(ends, never.async_open("127.0.0.1:1", nullptr, done));
    never = zklock::session();
    CHECK(thrown([&] { open.get(); }) == ZKL_ECLOSED);
}

// What one has is ended before its functions are, when another one is moved there.
static void assigned()
{
    zklock::session session("memory:cxx-assigned");
    std::atomic<int> first(0), second(0);
    auto count = [](std::atomic<int> &calls) { return [&](const std::vector<std::string> &) { calls++; }; };
    zklock::group_observer watcher(session, "/cxx/assigned", count(first));
    CHECK(eventually([&] { return first == 1; }));
    watcher = zklock::group_observer(session, "/cxx/assigned", count(second));
    CHECK(eventually([&] { return second == 1; })); // its first list, in which nobody is yet
    zklock::group group(session, "/cxx/assigned", "one");
    group.join(minutes(1));
    CHECK(eventually([&] { return second >= 2; }) && first == 1);
    group = zklock::group(session, "/cxx/assigned", "two", "of two", [&](zkl_state) {});
    CHECK(group.state() == ZKL_STATE_IDLE);
    group.join(minutes(1));
    group = zklock::group(session, "/cxx/assigned", "three", "", [&](zkl_state) {});
    group.join(minutes(1));
    CHECK(eventually([&] { return zklock::group_list(session, "/cxx/assigned", minutes(1)).size() == 1; }));
    CHECK(zklock::group_list(session, "/cxx/assigned", minutes(1)).at(0).data.empty());

    std::atomic<int> seen(0);
    zklock::election_observer observer(session, "/cxx/assigned-leader", [&](const zklock::leader *) {});
    observer = zklock::election_observer(session, "/cxx/assigned-leader", [&](const zklock::leader *) { seen++; });
    CHECK(eventually([&] { return seen == 1; }));
    int given_up = 0;
    zklock::partition_options options;
    options.on_assigned([&](const std::string &, int64_t) { seen++; });
    options.on_revoked([&](const std::string &, bool) { given_up++; });
    zklock::partition partition(session, "/cxx/assigned-pieces", {"a"}, options);
    partition.start();
    CHECK(eventually([&] { return seen == 2; }));
    partition = zklock::partition(session, "/cxx/assigned-pieces", {"a"}, zklock::partition_options());
    CHECK(given_up == 1 && !partition.owns("a"));
}

// The options' functions go when the last callback was made.
static void closed_later()
{
    int closed = 0;
    zklock::session_options options;
    options.on_state([&](zkl_connection_state state) { closed += state == ZKL_SESSION_CLOSED; });
    zklock::session session("memory:cxx", options);
    std::future<void> gone = BEGUN(ends, session.async_close(minutes(5), done));
    CHECK(session.get() == nullptr && session.state() == ZKL_SESSION_CLOSED);
    gone.get();
    CHECK(closed == 1);
    CHECK(thrown([&] { BEGUN(ends, session.async_close(minutes(5), done)); }) == ZKL_EINVAL);
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
    sections(session);
    readers(session);
    several(session);
    permits(session);
    leaders(session);
    callbacks();
    options_are_own(session);
    futures(session);
    commits(session);
    groups(session);
    partitions(session);
    answers_later(session);
    observers(session);
    queues(session);
    barriers(session);
    slots(session);
    statistics(session);
    later(session);
    verbs(session);
    standing();
    opened_later();
    assigned();
    closed_later();
    return 0;
}
