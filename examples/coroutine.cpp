// coroutine - three workers take turns at a lock, as coroutines of Asio in one thread. C++20.
//   example_coroutine [SERVERS [PATH]]     "memory:" needs no server
#include <zklock/asio.hpp>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <iostream>

using namespace std::chrono_literals;

static asio::awaitable<void> work(zklock::session &session, std::string path, std::string name)
{
    zklock::lock_options options;
    options.c.release_timeout_ms = 0; // release() does not wait for the server
    zklock::mutex mutex(session, path, options);
    zkl_grant grant = co_await zklock::async_acquire(mutex, 30s, asio::use_awaitable);
    std::cout << name << " has it, with token " << grant.token << "\n";
    asio::steady_timer timer(co_await asio::this_coro::executor, 10ms);
    co_await timer.async_wait(asio::use_awaitable);
    mutex.release(); // throws when the lease did not cover all of it
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
