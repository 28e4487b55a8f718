// zklock/asio.hpp on a lock without a server: coroutines, times, errors, cancellation, both ways of calling back. C++20.
#include <zklock/asio.hpp>

#include <asio/bind_executor.hpp>
#include <asio/co_spawn.hpp>
#include <asio/experimental/awaitable_operators.hpp>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/use_future.hpp>
#include <cstdio>
#include <cstdlib>
#include <thread>

#define CHECK(what)                                                                 \
    do {                                                                            \
        if (!(what)) {                                                              \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what); \
            std::exit(1);                                                           \
        }                                                                           \
    } while (0)

using namespace std::chrono_literals;
using namespace asio::experimental::awaitable_operators;

static asio::awaitable<std::error_code> failure_of(zklock::mutex &mutex, std::chrono::milliseconds timeout)
{
    try {
        co_await zklock::async_acquire(mutex, timeout, asio::use_awaitable);
    } catch (const zklock::error &e) {
        CHECK(e.what()[0]);
        co_return e.code();
    }
    co_return std::error_code();
}

static asio::awaitable<void> use(zklock::session &session, std::thread::id home)
{
    zklock::mutex mine(session, "/asio/lock"), other(session, "/asio/lock");
    zkl_grant grant = co_await zklock::async_acquire(mine, 5min, asio::use_awaitable);
    CHECK(std::this_thread::get_id() == home && grant.token == mine.token());
    CHECK(co_await failure_of(other, 0ms) == ZKL_EBUSY);
    CHECK(co_await failure_of(other, 20ms) == std::errc::timed_out);
    CHECK(co_await failure_of(mine, 20ms) == ZKL_EDEADLK);
    // The timer is first, and cancels the acquire.
    asio::steady_timer timer(co_await asio::this_coro::executor, 20ms);
    auto first =
        co_await (zklock::async_acquire(other, 5min, asio::use_awaitable) || timer.async_wait(asio::use_awaitable));
    CHECK(first.index() == 1 && other.state() == ZKL_STATE_IDLE);
    mine.release();
    CHECK((co_await zklock::async_acquire(other, 5min, asio::use_awaitable)).token > grant.token);
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
    bool done = false;
    asio::co_spawn(io, use(session, std::this_thread::get_id()), [&](std::exception_ptr failure) {
        CHECK(!failure);
        done = true;
        events.reset(); // the loop ends, for nothing else keeps it
    });
    io.run();
    CHECK(done);
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

int main()
{
    run_in(zklock::dispatched(), true);
    run_in(zklock::session_options(), false);
    run_in_pool();
    return 0;
}
