// The C++ wrapper on a lock without a server: guards, times, moves, exceptions. C++11.
#include <zklock/testing.h>
#include <zklock/zklock.hpp>

#include "check.hpp"

#include <atomic>
#include <future>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <type_traits>

using std::chrono::milliseconds;
using std::chrono::minutes;

static_assert(std::is_nothrow_copy_constructible<zklock::error>::value, "to copy an exception may not throw");
static_assert(std::is_base_of<std::system_error, zklock::error>::value, "so it is caught");
template <class Type> constexpr bool is_moved() // has one owner, and fits into containers
{
    return std::is_nothrow_move_constructible<Type>::value && std::is_nothrow_move_assignable<Type>::value &&
           !std::is_copy_constructible<Type>::value && !std::is_copy_assignable<Type>::value;
}
static_assert(is_moved<zklock::session>() && is_moved<zklock::mutex>() && is_moved<zklock::group>(), "");
static_assert(is_moved<zklock::group_observer>() && is_moved<zklock::election_observer>(), "");
static_assert(is_moved<zklock::partition>() && is_moved<zklock::double_barrier>(), "");
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

// A function that runs under a grant, and whether its exception is passed on by what runs it.
static void fail(zklock::cancel_flag, int64_t)
{
    throw std::out_of_range("of the function");
}
template <class Run> static bool passes_on(Run run)
{
    try {
        run();
    } catch (const std::out_of_range &) {
        return true;
    } catch (...) {
        return false;
    }
    return false;
}

// A done that keeps a promise, as a program would write it that wants a future. Values: the call's value, or none.
template <class Type, class... Values> struct promised {
    using type = Type;
    std::shared_ptr<std::promise<Type>> promise = std::make_shared<std::promise<Type>>();

    void operator()(std::exception_ptr failure, Values... values)
    {
        failure ? promise->set_exception(failure) : promise->set_value(std::move(values)...);
    }
};
template <class Value> using gives = promised<Value, Value>;
using ends = promised<void>;
using granted = gives<zkl_grant>;
using committed = gives<std::vector<zkl_op_result>>;
using has_read = gives<zklock::data>;
using grouped = gives<std::vector<zklock::member>>;

// begin(done) makes the call.
template <class Done, class Begin> static std::future<typename Done::type> begun(Begin begin)
{
    Done done;
    begin(done);
    return done.promise->get_future();
}

// call passes `done` on.
#define BEGUN(Done, call) begun<Done>([&](Done done) { call; })
#define ENDED(Done, call) BEGUN(Done, call).get()
#define THROWS(code, call) CHECK(thrown([&] { call; }) == code)
#define EVENTUALLY(so) CHECK(eventually([&] { return so; }))

static const minutes patience(2); // nothing that is waited for takes so long
static const milliseconds brief(20);

static bool eventually(const std::function<bool()> &so)
{
    auto end = std::chrono::steady_clock::now() + patience;
    while (!so() && std::chrono::steady_clock::now() < end) {
        std::this_thread::yield();
    }
    return so();
}

static void guards(const zklock::session &session)
{
    using guard = std::unique_lock<zklock::mutex>;
    zklock::mutex mine(session, "/cxx/guards"), other(session, "/cxx/guards");
    {
        std::lock_guard<zklock::mutex> held(mine);
        CHECK(mine.is_held() && mine.state() == ZKL_STATE_HELD);
        CHECK(mine.token() > 0 && mine.remaining() > milliseconds(0));
        CHECK(!guard(other, std::try_to_lock) && !guard(other, brief));
        CHECK(!guard(other, std::chrono::system_clock::now() + brief));
    }
    CHECK(mine.covered() && !mine.is_held() && mine.token() == 0);
    mine.lock();
    CHECK(!guard(other, std::chrono::steady_clock::time_point::min())); // long ago
    mine.unlock();
    guard waited(other, patience);
    CHECK(waited.owns_lock() && other.is_held());
    waited.release()->release();
    CHECK(!other.is_held());
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
    THROWS(ZKL_EDEADLK, mutex.lock());
    THROWS(std::errc::resource_deadlock_would_occur, mutex.lock());
    zklock::lock_options next_only;
    next_only.c.max_ahead = 1;
    zklock::mutex next(session, "/cxx/errors"), third(session, "/cxx/errors", next_only);
    next.async_acquire(patience, [](std::exception_ptr, zkl_grant) {});
    THROWS(ZKL_EBUSY, third.lock());
    THROWS(ZKL_EBUSY, third.run(fail));
    CHECK(!third.try_lock_for(patience));
    mutex.unlock();
    THROWS(ZKL_ENOTHELD, mutex.release());
    CHECK(!mutex.covered() && !mutex.cancel());
    THROWS(ZKL_EINVAL, zklock::session("nobody:here:at:all"));
    THROWS(std::errc::invalid_argument, zklock::mutex(session, "no slash"));
    CHECK(std::string(zklock::category().name()) == "zklock");
}

static void loss()
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    zklock::session session("memory:cxx-loss", &options);
    zkl_lock_options short_hold = ZKL_LOCK_OPTIONS_INIT;
    short_hold.max_hold_ms = 50;
    zklock::mutex mutex(session, "/cxx/loss", &short_hold);
    mutex.lock();
    EVENTUALLY(!mutex.is_held());
    THROWS(ZKL_ELOST, mutex.release());
    bool raised = false;
    auto hang = [&](const zklock::cancel_flag &flag, int64_t) {
        EVENTUALLY(flag.raised() && !mutex.is_held());
        raised = flag.remaining() >= milliseconds(0) && flag.fd() >= 0;
    };
    THROWS(ZKL_ELOST, mutex.run(hang));
    CHECK(raised);
    THROWS(ZKL_EINVAL, zklock::mutex(session, {"/cxx/loss\0", 10}));
    session.close(patience);
    THROWS(ZKL_EINVAL, zklock::mutex(session, "/cxx/loss"));
}

static void sections(const zklock::session &session)
{
    zklock::mutex mine(session, "/cxx/section"), other(session, "/cxx/section");
    auto nothing = [](zklock::cancel_flag, int64_t) {};
    int64_t seen = 0;
    mine.run([&](const zklock::cancel_flag &flag, int64_t token) {
        CHECK(!flag.raised() && flag.remaining() > milliseconds(0));
        CHECK(!other.run(milliseconds(0), nothing) && !other.run(brief, nothing));
        seen = token;
    });
    CHECK(seen > 0 && !mine.is_held());
    CHECK(passes_on([&] { mine.run(patience, fail); }) && !mine.is_held());
}

static void recipes(const zklock::session &session)
{
    zklock::mutex writer = zklock::write_lock(session, "/cxx/rw"), reader = zklock::read_lock(session, "/cxx/rw");
    std::lock_guard<zklock::mutex> writes(writer);
    CHECK(writer.recipe() == ZKL_RECIPE_WRITE_LOCK && !reader.try_lock());
    writer.downgrade();
    reader.lock();
    CHECK(writer.is_held() && reader.is_held());

    zklock::mutex both = zklock::multilock(session, {"/cxx/a", "/cxx/b"}), one(session, "/cxx/b");
    std::lock_guard<zklock::mutex> guard(both);
    CHECK(both.is_held() && both.token() > 0 && !one.try_lock());
}

static void permits(const zklock::session &session)
{
    zklock::mutex first = zklock::semaphore(session, "/cxx/permits", 2);
    zklock::mutex second = zklock::semaphore(session, "/cxx/permits", 0);
    CHECK(first.take(2, patience) && first.permits() == 2 && !second.take(1, brief));
    auto third = BEGUN(granted, second.async_take(1, patience, done));
    ENDED(ends, zklock::async_semaphore_resize(session, "/cxx/permits", 3, patience, done));
    CHECK(third.get().token == second.token() && second.permits() == 1);
    zklock::semaphore_resize(session, "/cxx/permits", 4, patience);
    zklock::mutex last = zklock::semaphore(session, "/cxx/permits", 4);
    CHECK(last.take(1, patience));
}

static void callbacks()
{
    std::atomic<int> held(0), closed(0), never(0), logged(0);
    zklock::session_options with;
    with.on_state([&](zkl_connection_state state) { closed += state == ZKL_SESSION_CLOSED; });
    with.on_log([&](const zkl_log_record &) { logged++; });
    with.c.log_level = ZKL_LOG_DEBUG;
    zklock::session session("memory:cxx-callbacks", with);
    with.on_state([&](zkl_connection_state) { never++; }); // the session has a copy
    zklock::lock_options options;
    options.c.recursive = true;
    options.on_state([&](zkl_state state) { held += state == ZKL_STATE_HELD; }).on_revoke([] {});
    {
        zklock::mutex mutex(session, "/cxx/callbacks", options), moved(std::move(mutex));
        moved.lock();
        moved.lock();
        EVENTUALLY(held == 1);
        mutex = std::move(moved);
        CHECK(mutex.is_held());
    }
    session.close(patience);
    CHECK(held == 1 && closed == 1 && never == 0 && logged > 0);
}

// A lock has a copy of its options; a callback of C keeps its payload beside one of C++.
static void options_are_own(const zklock::session &session)
{
    const std::string path = "/cxx/own";
    std::atomic<int> held(0), revoked(0);
    std::atomic<size_t> ahead_in_c(0), ahead(0);
    zklock::lock_options options;
    options.c.position_fn = [](zkl_lock *, size_t n, void *payload) {
        *static_cast<std::atomic<size_t> *>(payload) = n;
    };
    options.c.payload = &ahead_in_c;
    options.on_state([&](zkl_state state) { held += state == ZKL_STATE_HELD; });
    zklock::mutex mine(session, path, options), waits(session, path, options);
    mine.lock();
    EVENTUALLY(held == 1);
    options.on_position([&](size_t n) { ahead = n; }).on_revoke([&] { revoked++; });
    zklock::mutex tells(session, path, options);
    auto next = BEGUN(granted, waits.async_acquire(patience, done));
    EVENTUALLY(ahead_in_c == 1);
    auto last = BEGUN(granted, tells.async_acquire(patience, done));
    EVENTUALLY(ahead == 2);
    CHECK(ahead_in_c == 1);
    mine.unlock();
    next.get();
    waits.unlock();
    last.get();
    EVENTUALLY(held >= 2); // of a hold that ends soon nothing may be reported
    zklock::queue_revoke(session, path, zklock::queue_list(session, path, patience).entries.at(0).name, patience);
    EVENTUALLY(revoked == 1);
}

static void futures(const zklock::session &session)
{
    zklock::mutex mine(session, "/cxx/futures"), other(session, "/cxx/futures");
    CHECK(ENDED(granted, mine.async_acquire(patience, done)).token == mine.token());
    THROWS(ZKL_EBUSY, other.acquire(milliseconds(0)));
    THROWS(ZKL_EDEADLK, BEGUN(granted, mine.async_acquire(brief, done)));
    auto cancelled = BEGUN(granted, other.async_acquire(patience, done));
    CHECK(other.cancel());
    THROWS(ZKL_ECANCELED, cancelled.get());
    ENDED(ends, mine.async_release(done));
    CHECK(other.acquire(patience).token == other.token());
}

static void data(const zklock::session &session)
{
    zklock::mutex mutex(session, "/cxx/data");
    zkl_op create = zkl_op();
    create.kind = ZKL_OP_CREATE;
    create.path = "/cxx/written";
    create.data = "a\0b";
    create.size = 3;
    mutex.lock();
    CHECK(mutex.commit({create}, patience).at(0).path == std::string("/cxx/written"));
    THROWS(ZKL_ECONFLICT, ENDED(committed, mutex.async_commit({create}, patience, done)));
    zklock::data read = ENDED(has_read, mutex.async_read("/cxx/written", true, patience, done));
    CHECK(read.bytes == std::string("a\0b", 3) && read.version == 0 && read.mzxid > mutex.token());
    CHECK(mutex.read("/cxx/written", false, patience).mzxid == read.mzxid);
    THROWS(ZKL_EINVAL, BEGUN(has_read, mutex.async_read("no slash", false, patience, done)));
}

static void groups(const zklock::session &session)
{
    std::atomic<size_t> seen(99);
    zklock::group_observer watcher(session, "/cxx/group",
                                   [&](const std::vector<std::string> &ids) { seen = ids.size(); });
    zklock::group first(session, "/cxx/group", "first", "data"), second(session, "/cxx/group", "second");
    first.join(patience);
    ENDED(ends, second.async_join(patience, done));
    CHECK(zklock::group_list(session, "/cxx/group", patience).at(1).data.find(':') != std::string::npos); // host:pid
    first.update("other", patience);
    ENDED(ends, second.async_update("changed", patience, done));
    EVENTUALLY(seen == 2);
    auto members = ENDED(grouped, zklock::async_group_list(session, "/cxx/group", patience, done));
    CHECK(members.size() == 2 && members[0].id == "first" && members[0].data == "other");
    CHECK(members[1].data == "changed" && members[1].token > 0);
    second.leave();
    CHECK(first.state() == ZKL_STATE_HELD && second.state() == ZKL_STATE_IDLE);
    EVENTUALLY(seen == 1);
    ENDED(ends, first.async_leave(done));
    CHECK(first.state() == ZKL_STATE_IDLE);
}

static void partitions(const zklock::session &session)
{
    std::atomic<int> owned(0), revoked(0);
    zklock::partition_options options;
    options.on_assigned([&](const std::string &, int64_t token) { owned += token > 0; })
        .on_revoked([&](const std::string &, bool lost) { revoked += !lost; })
        .on_state([](const std::string &, zkl_state) {});
    zklock::partition partition(session, "/cxx/partition", {"a", "b", "c"}, options);
    options.on_assigned([](const std::string &, int64_t) { CHECK(!"the partition has a copy"); });
    partition.start();
    EVENTUALLY(owned == 3);
    CHECK(partition.owns("b") && partition.remaining("b").count() > 0);
    partition.stop();
    CHECK(revoked == 3 && !partition.owns("b"));

    options.c.done_later = true;
    options.c.margin_ms = 10;
    options.on_assigned([&](const std::string &, int64_t) { owned++; });
    zklock::partition later(session, "/cxx/later", {"a"}, options);
    later.start();
    EVENTUALLY(owned == 4);
    auto stopped = BEGUN(ends, later.async_stop(done));
    EVENTUALLY(revoked == 4);
    CHECK(!later.owns("a") && later.remaining("a").count() > 0 && later.commit("a", {}, patience).empty());
    later.done("a");
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
    auto is = [&](const std::string &wanted) {
        std::lock_guard<std::mutex> hold(guard);
        return value == wanted;
    };
    auto seen = [&](const std::string &wanted) { EVENTUALLY(is(wanted)); };
    seen("");
    zklock::lock_options options;
    options.c.metadata = "first value";
    zklock::mutex leader = zklock::election(session, "/cxx/observed", options);
    leader.lock();
    seen("first value");
    leader.publish("second value", patience);
    seen("second value");
    leader.release();
    seen("");
}

static void queues(const zklock::session &session)
{
    const std::string path = "/cxx/queue";
    for (int later = 0; later < 2; later++) {
        zklock::mutex mutex(session, path);
        mutex.lock();
        zklock::queue queue = zklock::queue_list(session, path, patience);
        CHECK(queue.entries.size() == 1 && queue.entries[0].holds && queue.entries[0].token == mutex.token());
        const std::string node = queue.entries[0].name;
        if (later) { // no callback for that
            THROWS(ZKL_EAUTH, ENDED(ends, zklock::async_queue_revoke(session, path, node, patience, done)));
            ENDED(ends, zklock::async_queue_remove(session, path, node, mutex.token(), patience, done));
        } else {
            zklock::queue_remove(session, path, node, mutex.token(), patience);
        }
        EVENTUALLY(!mutex.is_held());
    }
    CHECK(zklock::queue_list(session, "/cxx", patience).foreign_names.size() > 0);
}

static void barriers(const zklock::session &session)
{
    zklock::barrier_set(session, "/cxx/barrier", patience);
    CHECK(!zklock::barrier_wait(session, "/cxx/barrier", brief));
    zklock::barrier_lift(session, "/cxx/barrier", patience);
    CHECK(zklock::barrier_wait(session, "/cxx/barrier", patience));
    ENDED(ends, zklock::async_barrier_set(session, "/cxx/barrier", patience, done));
    THROWS(ZKL_ETIMEOUT, ENDED(ends, zklock::async_barrier_wait(session, "/cxx/barrier", brief, done)));
    auto down = BEGUN(ends, zklock::async_barrier_wait(session, "/cxx/barrier", patience, done));
    ENDED(ends, zklock::async_barrier_lift(session, "/cxx/barrier", patience, done));
    down.get();

    zklock::double_barrier first(session, "/cxx/double", 2), second(session, "/cxx/double", 2);
    CHECK(!first.enter(brief));
    auto in = BEGUN(ends, first.async_enter(patience, done));
    CHECK(second.enter(patience));
    in.get();
    auto out = BEGUN(ends, first.async_leave(patience, done));
    CHECK(second.leave(patience));
    out.get();
}

static void slots(const zklock::session &session)
{
    zklock::mutex job(session, "/cxx/once");
    const std::chrono::hours long_time(24 * 3650);
    int runs = 0;
    auto work = [&](const zklock::cancel_flag &flag, int64_t token) { runs += !flag.raised() && token > 0; };
    CHECK(passes_on([&] { zklock::once(job, long_time, milliseconds(0), patience, fail); }));
    CHECK(zklock::once(job, long_time, milliseconds(0), patience, work));
    CHECK(!zklock::once(job, long_time, milliseconds(0), patience, work) && runs == 1);

    zkl_once_slot slot;
    zklock::once_record record;
    ENDED(ends, zklock::async_once_prepare(session, "/cxx/steps", patience, done));
    zklock::mutex steps(session, "/cxx/steps");
    steps.lock();
    ENDED(ends, zklock::async_once_look(steps, long_time, milliseconds(0), patience, slot, done));
    CHECK(!slot.done);
    ENDED(ends, zklock::async_once_record(steps, slot, patience, done));
    ENDED(ends, zklock::async_once_last(session, "/cxx/steps", long_time, patience, record, done));
    CHECK(record.last_ms == slot.round_ms && record.recorded_ms > 0);
    CHECK(zklock::once_last(session, "/cxx/steps", long_time, patience).last_ms == record.last_ms);
}

static void statistics(const zklock::session &session)
{
    CHECK(zklock::stats(session).contenders.grants > 0);
    CHECK(zklock::prometheus(session, "cxx").find("session=\"cxx\"") != std::string::npos);
    CHECK(zklock::prometheus(session).find("zklock_") != std::string::npos);
}

// A candidate that stands: what it is told, through a lost connection and an expired session, and how it ends.
static void standing()
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    options.session_timeout_ms = 60000;
    zklock::session session("memory:cxx-standing", &options);
    std::atomic<int> held(0), lost(0), unexplained(0);
    auto changed = [&](zkl_state state, int64_t token, std::exception_ptr why) {
        held += state == ZKL_STATE_HELD;
        lost += state == ZKL_STATE_LOST;
        unexplained += (state == ZKL_STATE_HELD && token == 0) || (state == ZKL_STATE_LOST && !why);
    };
    zklock::mutex candidate = zklock::election(session, "/cxx/standing"), plain(session, "/cxx/standing-not");
    THROWS(ZKL_EINVAL, BEGUN(ends, plain.async_stand(changed, done)));
    auto ended = BEGUN(ends, candidate.async_stand(changed, done));
    EVENTUALLY(held == 1);
    ENDED(ends, candidate.async_publish("leads", patience, done));
    CHECK(zklock::queue_list(session, "/cxx/standing", patience).entries.at(0).data == "leads");
    CHECK(zkl_testing_expire(session.get(), nullptr) == ZKL_OK);
    EVENTUALLY(lost == 1 && held >= 2);
    CHECK(candidate.leave());
    ended.get();
    CHECK(!candidate.leave() && unexplained == 0);
    std::promise<std::error_code> closed;
    candidate = zklock::election(session, "/cxx/standing");
    candidate.async_stand(changed, [&](std::exception_ptr why) {
        closed.set_value(thrown([&] { why ? std::rethrow_exception(why) : void(); }));
    });
    session.close(patience);
    CHECK(closed.get_future().get() == ZKL_ECLOSED);
}

static void opened_later()
{
    std::atomic<int> connected(0);
    zklock::session_options options;
    options.on_state([&](zkl_connection_state state) { connected += state == ZKL_SESSION_CONNECTED; });
    zklock::session session;
    CHECK(!session.get() && session.state() == ZKL_SESSION_CLOSED);
    THROWS(ZKL_EINVAL, BEGUN(ends, session.async_open("nobody:here:at:all", nullptr, done)));
    CHECK(!session.get());
    auto open = BEGUN(ends, session.async_open("memory:cxx-later", options, done));
    zklock::mutex mutex(session, "/cxx/opened");
    mutex.lock();
    open.get();
    EVENTUALLY(connected == 1);
    CHECK(session.state() == ZKL_SESSION_CONNECTED);
    THROWS(ZKL_EINVAL, BEGUN(ends, session.async_open("memory:cxx-later", nullptr, done)));
    zklock::session never; // nobody is there
    open = BEGUN(ends, never.async_open("127.0.0.1:1", nullptr, done));
    never = zklock::session();
    THROWS(ZKL_ECLOSED, open.get());
}

// What one has is ended before its functions are, when another one is moved there. All classes own so: detail::owner.
static void assigned()
{
    zklock::session session("memory:cxx-assigned");
    std::atomic<int> assigned(0), given_up(0);
    zklock::partition_options options;
    options.on_assigned([&](const std::string &, int64_t) { assigned++; });
    options.on_revoked([&](const std::string &, bool) { given_up++; });
    zklock::partition partition(session, "/cxx/assigned-pieces", {"a"}, options);
    partition.start();
    EVENTUALLY(assigned == 1);
    partition = zklock::partition(session, "/cxx/assigned-pieces", {"a"}, zklock::partition_options());
    CHECK(given_up == 1 && !partition.owns("a"));
}

// A function that destroys the object it belongs to, and then sees whether it is still there itself.
template <class Object> struct destroyer {
    std::unique_ptr<Object> &object;
    std::shared_ptr<int> mine; // while one of the copies lives

    template <class... Args> void operator()(Args &&...) const
    {
        std::weak_ptr<int> copies = mine;
        object.reset();
        CHECK(!copies.expired());
    }
};

// What a function belongs to may be destroyed by it.
static void destroyed_inside()
{
    zklock::session_options dispatched;
    dispatched.c.callbacks = ZKL_CALLBACKS_DISPATCH;
    zklock::session session("memory:cxx-inside", dispatched);
    auto destroyed = [&](const std::function<bool()> &so) { EVENTUALLY((zkl_session_dispatch(session.get()), so())); };
    auto one = [] { return std::make_shared<int>(1); };

    std::unique_ptr<zklock::mutex> mutex;
    mutex.reset(new zklock::mutex(session, "/cxx/inside",
                                  zklock::lock_options().on_state(destroyer<zklock::mutex>{mutex, one()})));
    mutex->lock();
    destroyed([&] { return !mutex; });
    mutex.reset(new zklock::mutex(zklock::election(session, "/cxx/inside")));
    auto ended = BEGUN(ends, mutex->async_stand(destroyer<zklock::mutex>{mutex, one()}, done));
    destroyed([&] { return !mutex; });
    ended.get();

    std::unique_ptr<zklock::partition> partition;
    partition.reset(
        new zklock::partition(session, "/cxx/inside-pieces", {"a", "b"},
                              zklock::partition_options().on_assigned(destroyer<zklock::partition>{partition, one()})));
    partition->start();
    destroyed([&] { return !partition; });

    std::unique_ptr<zklock::group> group;
    group.reset(new zklock::group(session, "/cxx/inside-group", "id", "", destroyer<zklock::group>{group, one()}));
    group->join(patience);
    destroyed([&] { return !group; });

    std::unique_ptr<zklock::group_observer> members;
    members.reset(
        new zklock::group_observer(session, "/cxx/inside-group", destroyer<zklock::group_observer>{members, one()}));
    destroyed([&] { return !members; });

    std::unique_ptr<zklock::election_observer> leaders;
    leaders.reset(
        new zklock::election_observer(session, "/cxx/inside", destroyer<zklock::election_observer>{leaders, one()}));
    destroyed([&] { return !leaders; });
}

// Refused in a function under a grant, a close changes nothing.
static void close_refused()
{
    zklock::session session("memory:cxx");
    zklock::mutex mutex(session, "/cxx/close-refused");
    mutex.run([&](const zklock::cancel_flag &, int64_t) { THROWS(ZKL_EDEADLK, session.close(patience)); });
    CHECK(session.state() == ZKL_SESSION_CONNECTED);
    session.close(patience);
    CHECK(!session.get());
}

// The options' functions go when the last callback was made.
static void closed_later()
{
    int closed = 0;
    zklock::session_options options;
    options.on_state([&](zkl_connection_state state) { closed += state == ZKL_SESSION_CLOSED; });
    zklock::session session("memory:cxx", options);
    auto gone = BEGUN(ends, session.async_close(patience, done));
    CHECK(session.get() == nullptr && session.state() == ZKL_SESSION_CLOSED);
    gone.get();
    CHECK(closed == 1);
    THROWS(ZKL_EINVAL, BEGUN(ends, session.async_close(patience, done)));
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
    recipes(session);
    permits(session);
    callbacks();
    options_are_own(session);
    futures(session);
    data(session);
    groups(session);
    partitions(session);
    observers(session);
    queues(session);
    barriers(session);
    slots(session);
    statistics(session);
    standing();
    opened_later();
    assigned();
    destroyed_inside();
    close_refused();
    closed_later();
    return 0;
}
