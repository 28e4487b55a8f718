// mutex - a lock in C++: a guard with a deadline, and a section whose flag is raised in time.
//   example_mutex [SERVERS [PATH]]     "memory:" needs no server
#include <zklock/zklock.hpp>

#include <iostream>
#include <mutex>

int main(int argc, char **argv)
{
    const char *servers = argc > 1 ? argv[1] : "memory:example";
    const char *path = argc > 2 ? argv[2] : "/examples/mutex";
    try {
        zklock::session session(servers);
        zklock::mutex mutex(session, path);
        {
            std::unique_lock<zklock::mutex> guard(mutex, std::chrono::seconds(30));
            if (!guard) {
                std::cerr << "somebody else has it\n";
                return 1;
            }
            std::cout << "ours, with token " << mutex.token()
                      << "\n"; // storage refuses lower ones than it has seen
        }
        if (!mutex.covered()) {
            std::cerr << "the lease did not cover all of it\n";
            return 1;
        }
        // Long work looks at the flag, which is raised while there is still time to stop.
        int pieces = 3;
        mutex.run([&](const zklock::cancel_flag &flag, int64_t token) {
            while (pieces > 0 && !flag.raised()) {
                std::cout << "token " << token << ": a piece of work, " << --pieces << " to go\n";
            }
        });
    } catch (const zklock::error &e) {
        std::cerr << e.code() << ": " << e.what() << "\n";
        return 1;
    }
}
