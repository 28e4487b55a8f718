// zklock/asio.hpp on a lock without a server: coroutines, times, errors, cancellation, both ways of calling back. C++20.
// With the example in one program: what takes a compiler long is Asio.
#define main example
#include "../../examples/coroutine.cpp"
#undef main
#include <zklock/asio.hpp>
#include <zklock/queue.hpp>
#include <zklock/testing.h>

#include "check.hpp"

#include <asio/bind_executor.hpp>
#include <asio/co_spawn.hpp>
#include <asio/experimental/awaitable_operators.hpp>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/use_future.hpp>
#include <thread>

using namespace std::chrono_literals;
using namespace asio::experimental::awaitable_operators;

static constexpr auto token = asio::use_awaitable;

static void run_to_end(asio::io_context &io, asio::awaitable<void> coroutine)
{
    bool done = false;
    asio::co_spawn(io, std::move(coroutine), [&](std::exception_ptr failure) {
        CHECK(!failure);
        done = true;
    });
    io.run();
    CHECK(done);
}

static asio::awaitable<void> tick()
{
    asio::steady_timer timer(co_await asio::this_coro::executor, 1ms);
    co_await timer.async_wait(token);
}

template <class Value> static asio::awaitable<std::error_code> failure_of(asio::awaitable<Value> call)
{
    try {
        co_await std::move(call);
    } catch (const zklock::error &e) {
        CHECK(e.what()[0]);
        co_return e.code();
    }
    co_return std::error_code();
}

static asio::awaitable<void> use(zklock::session &session, std::thread::id home)
{
    zklock::mutex mine(session, "/asio/lock"), other(session, "/asio/lock");
    zkl_grant grant = co_await zklock::async_acquire(mine, 5min, token);
    CHECK(std::this_thread::get_id() == home && grant.token == mine.token());
    CHECK(co_await failure_of(zklock::async_acquire(other, 0ms, token)) == ZKL_EBUSY);
    CHECK(co_await failure_of(zklock::async_acquire(other, 20ms, token)) == std::errc::timed_out);
    // The timer is first, and cancels the acquire.
    asio::steady_timer timer(co_await asio::this_coro::executor, 20ms);
    auto first = co_await (zklock::async_acquire(other, 5min, token) || timer.async_wait(token));
    CHECK(first.index() == 1 && other.state() == ZKL_STATE_IDLE);
    // Plain handlers: they have no executor of their own.
    std::atomic<int> calls(0);
    bool dispatched = session.executor() && *session.executor();
    auto plain = [&](std::error_code expected) {
        return [&, expected](std::exception_ptr failure, auto) {
            std::error_code code;
            try {
                failure ? std::rethrow_exception(failure) : void();
            } catch (const zklock::error &e) {
                code = e.code();
            }
            CHECK(dispatched == (std::this_thread::get_id() == home) && code == expected);
            calls++;
        };
    };
    auto list = [&](auto done) { zklock::async_queue_list(session, "/asio/lock", 5min, done); };
    zklock::async_read(mine, "/asio", false, 5min, plain({}));
    zklock::async_call<zklock::queue>(session, list, plain({}));
    zklock::async_acquire(mine, 5min, plain(ZKL_EDEADLK)); // refused by the call itself
    while (calls < 3) {
        co_await tick();
    }
    auto queue = co_await zklock::async_call<zklock::queue>(session, list, token);
    CHECK(std::this_thread::get_id() == home && queue.entries.size() == 1 && queue.entries[0].token == grant.token);
    mine.release();
    CHECK((co_await zklock::async_acquire(other, 5min, token)).token > grant.token);
    CHECK(std::this_thread::get_id() == home);
}

static void run_in(const zklock::session_options &options, bool dispatched)
{
    asio::io_context io;
    zklock::session session("memory:asio", options);
    std::unique_ptr<zklock::asio_dispatcher> events;
    if (dispatched) {
        events.reset(new zklock::asio_dispatcher(session, io.get_executor()));
    }
    auto used = [&]() -> asio::awaitable<void> {
        co_await use(session, std::this_thread::get_id());
        events.reset(); // the loop ends, for nothing else keeps it
    };
    run_to_end(io, used());
}

// The verbs of a mutex: their values, and as exceptions what they refuse at once and later.
static asio::awaitable<void> verbs(zklock::session &session)
{
    zklock::mutex mutex(session, "/asio/verbs"), permits = zklock::semaphore(session, "/asio/permits", 2);
    CHECK((co_await zklock::async_take(permits, 2, 5min, token)).token == permits.token());
    asio::steady_timer timer(co_await asio::this_coro::executor, 20ms);
    zklock::mutex more = zklock::semaphore(session, "/asio/permits", 2);
    auto first = co_await (zklock::async_take(more, 1, 5min, token) || timer.async_wait(token));
    CHECK(first.index() == 1 && more.state() == ZKL_STATE_IDLE); // the timer has cancelled it

    zkl_op create = zkl_op();
    create.kind = ZKL_OP_CREATE;
    create.path = "/asio/written";
    create.data = "text";
    create.size = 4;
    std::vector<zkl_op> ops(1, create);
    CHECK(co_await failure_of(zklock::async_commit(mutex, ops, 5min, token)) == ZKL_ENOTHELD);
    co_await zklock::async_acquire(mutex, 5min, token);
    auto results = co_await zklock::async_commit(mutex, ops, 5min, token);
    CHECK(results.at(0).path == std::string("/asio/written"));
    CHECK((co_await zklock::async_read(mutex, "/asio/written", true, 5min, token)).bytes == "text");
    create.kind = ZKL_OP_DELETE;
    create.version = ZKL_ANY_VERSION;
    CHECK((co_await zklock::async_commit(mutex, {create}, 5min, token)).size() == 1);
    zkl_op again = ops[0], away = create;
    CHECK((co_await zklock::async_commit(mutex, {again, away}, 5min, token)).size() == 2);
    CHECK((co_await zklock::async_commit(mutex, {}, 5min, token)).empty());
    co_await zklock::async_release(mutex, token);
    CHECK(!mutex.is_held());
    CHECK(co_await failure_of(zklock::async_release(mutex, token)) == ZKL_ENOTHELD);
}

// Opened in the loop that dispatches the session: usable at once, connected when it completes. A candidate stands, also
// when its session is lost, until the operation is cancelled. Closed in that loop.
static asio::awaitable<void> stand(zklock::session &session, zklock::asio_dispatcher &events, std::thread::id home)
{
    co_await zklock::async_open(session, events, "memory:asio", zklock::dispatched(), token);
    CHECK(session.state() == ZKL_SESSION_CONNECTED);
    co_await verbs(session);
    zklock::mutex candidate = zklock::election(session, "/asio/leader");
    int held = 0, lost = 0;
    auto changed = [&](zkl_state state, int64_t, std::exception_ptr) {
        CHECK(std::this_thread::get_id() == home);
        held += state == ZKL_STATE_HELD;
        lost += state == ZKL_STATE_LOST;
        if (state == ZKL_STATE_HELD && held == 1) {
            zkl_testing_expire(session.get(), nullptr);
        }
    };
    auto until = [&]() -> asio::awaitable<void> {
        while (held < 2) {
            co_await tick();
        }
        co_await zklock::async_publish(candidate, "leads", 5min, token);
    };
    auto first = co_await (zklock::async_stand(candidate, changed, token) || until());
    CHECK(first.index() == 1 && held == 2 && lost == 1 && !candidate.is_held());
    co_await zklock::async_close(session, events, 5min, token);
}

static void open_in_loop()
{
    asio::io_context io;
    zklock::session session;
    zklock::asio_dispatcher events(io.get_executor());
    run_to_end(io, stand(session, events, std::this_thread::get_id()));
    CHECK(!session.get());
}

// By threads of the session; and what is refused at once.
static void open_in_threads()
{
    zklock::session session, refused;
    asio::io_context io;
    bool told = false;
    auto opened = [&]() -> asio::awaitable<void> {
        co_await zklock::async_open(session, "memory:asio", nullptr, token);
        co_await verbs(session);
        auto open = zklock::async_open(refused, "nobody:here:at:all", nullptr, token);
        CHECK(co_await failure_of(std::move(open)) == ZKL_EINVAL && !refused.get());
        try {
            zklock::asio_dispatcher none(session, io.get_executor());
        } catch (const zklock::error &e) {
            told = e.code() == ZKL_EINVAL;
        }
    };
    run_to_end(io, opened());
    CHECK(told);
    session.close(1min);
}

// Handlers of other kinds, in the threads of a pool.
static void run_in_pool()
{
    asio::thread_pool pool(2);
    zklock::session session("memory:asio");
    zklock::mutex mutex(session, "/asio/pool");
    zklock::mutex other(session, "/asio/pool");
    CHECK(zklock::async_acquire(mutex, 5min, asio::bind_executor(pool, asio::use_future)).get().token == mutex.token());
    std::atomic<bool> told(false);
    zklock::async_acquire(other, 5min, asio::bind_executor(pool, [&](std::exception_ptr failure, zkl_grant grant) {
                              CHECK(!failure && grant.token > 0);
                              told = true;
                          }));
    mutex.release();
    pool.join();
    CHECK(told && other.is_held());
}

// While another thread runs the loop. ZKLOCK_ROUNDS: how often.
static void destroy_under_way()
{
    for (int i = std::atoi(std::getenv("ZKLOCK_ROUNDS")); i > 0; i--) {
        asio::io_context io;
        auto work = asio::make_work_guard(io);
        std::thread loop([&] { io.run(); });
        {
            zklock::session session("memory:asio", zklock::dispatched());
            zklock::asio_dispatcher events(session, io.get_executor());
            zklock::mutex mutex(session, "/asio/destroyed");
            mutex.lock();
            mutex.async_release([](std::exception_ptr) {});
        }
        work.reset();
        loop.join();
    }
}

int main()
{
    destroy_under_way();
    run_in(zklock::dispatched(), true);
    run_in(zklock::session_options(), false);
    run_in_pool();
    open_in_loop();
    open_in_threads();
    return example(0, nullptr);
}
