// testing - a unit test of a C++ service: what does it do in jeopardy, and after a loss? It needs
// no server.
//   example_testing
#include <zklock/testing.h>
#include <zklock/zklock.hpp>

#include <atomic>
#include <iostream>
#include <thread>

// The service: bills customers one by one while it holds the lock; in jeopardy it begins no other.
class biller
{
  public:
    explicit biller(zklock::session &session)
        : options_(with_state(this)), mutex_(session, "/locks/billing", &options_)
    {
    }

    zklock::mutex &mutex() { return mutex_; }
    int billed() const { return billed_; }
    zkl_state state() const { return state_; }

    bool bill_one()
    {
        if (state_ != ZKL_STATE_HELD || !mutex_.is_held()) {
            return false;
        }
        billed_++; // the database would be given mutex_.token() here
        return true;
    }

  private:
    static zkl_lock_options with_state(biller *self)
    {
        zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
        options.state_fn = [](zkl_lock *, zkl_state state, void *payload) {
            static_cast<biller *>(payload)->state_ = state;
        };
        options.payload = self;
        return options;
    }

    std::atomic<zkl_state> state_{ZKL_STATE_IDLE};
    int billed_ = 0;
    zkl_lock_options options_;
    zklock::mutex mutex_;
};

static int failures;

static void expect(bool so, const char *what)
{
    std::cout << (so ? "ok: " : "FAILED: ") << what << "\n";
    failures += !so;
}

// Ten seconds at most, for a machine that is busy.
static bool becomes(const biller &service, zkl_state state)
{
    for (int i = 0; i < 10000 && service.state() != state; i++) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return service.state() == state;
}

int main()
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    options.session_timeout_ms =
        2000; // 300 would do, but not on a machine that is busy with other things
    options.tick_ms = 100;
    options.leader_pause_ms = 20;
    try {
        zklock::session session("memory:testing", &options);
        biller service(session);
        service.mutex().lock();
        expect(becomes(service, ZKL_STATE_HELD) && service.bill_one(), "bills while it holds");
        zkl_testing_cut(session.get(), nullptr);
        expect(becomes(service, ZKL_STATE_LOST), "told of the loss");
        expect(!service.bill_one() && service.billed() == 1, "bills nobody after a loss");
        zkl_testing_heal(session.get(), nullptr);
        service.mutex().unlock();
        expect(!service.mutex().covered(), "the lease did not cover the hold");
        zkl_testing_refuse(session.get(), ZKL_EAUTH, 1, nullptr);
        try {
            service.mutex().lock();
            expect(false, "an access list refuses");
        } catch (const zklock::error &e) {
            expect(e.code() == ZKL_EAUTH, "an access list refuses");
        }
    } catch (const zklock::error &e) {
        std::cerr << e.code() << ": " << e.what() << "\n";
        return 1;
    }
    return failures > 0;
}
