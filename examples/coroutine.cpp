// coroutine - three workers hold a lock one after the other, as coroutines of Asio in one thread.
// A lock that is in danger ends the work under it. C++20.
//   example_coroutine [SERVERS [PATH]]     "memory:" needs no server
#include <zklock/asio.hpp>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <iostream>

using namespace std::chrono_literals;

// By value: a coroutine outlives the call that began it.
// cppcheck-suppress passedByValue
static asio::awaitable<void> work(zklock::session &session, std::string path, std::string name)
{
    asio::steady_timer job(co_await asio::this_coro::executor);
    zklock::lock_options options;
    options.on_state([&](zkl_state state) {
        if (state != ZKL_STATE_HELD) {
            job.cancel(); // in jeopardy, or lost: the wait below throws operation_aborted
        }
    });
    zklock::mutex mutex(session, path, options); // declared after what its callback uses
    // throws zklock::error with ZKL_ETIMEOUT after 30 s
    zkl_grant grant = co_await zklock::async_acquire(mutex, 30s, asio::use_awaitable);
    std::cout << name << " has it, with token " << grant.token << "\n";
    job.expires_after(10ms);
    co_await job.async_wait(asio::use_awaitable);
    // throws when the lease did not cover all of it
    co_await zklock::async_release(mutex, asio::use_awaitable);
}

int main(int argc, char **argv)
{
    const char *servers = argc > 1 ? argv[1] : "memory:example";
    const char *path = argc > 2 ? argv[2] : "/examples/coroutine";
    int failed = 0, left = 3;
    try {
        asio::io_context io;
        zklock::session session(servers, zklock::dispatched());
        zklock::asio_dispatcher events(session, io.get_executor());
        for (const char *name : {"anna", "ben", "cleo"}) {
            asio::co_spawn(io, work(session, path, name), [&](std::exception_ptr failure) {
                try {
                    failure ? std::rethrow_exception(failure) : void();
                } catch (const std::exception &e) {
                    std::cerr << e.what() << "\n";
                    failed = 1;
                }
                if (--left == 0) {
                    io.stop();
                }
            });
        }
        io.run();
    } catch (const std::exception &e) {
        std::cerr << e.what() << "\n";
        failed = 1;
    }
    return failed;
}
