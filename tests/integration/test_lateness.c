/* A wait ends when its time is up, whatever the servers do: late by no more than a plain timed wait of a thread is that starts with it,
 * and without a znode left behind. */
#include "one_server.h"

#define WAIT 500       /* ms */
#define MORE (20 * MS) /* than the control's */
#define ROUNDS 9

/* --- the control ----------------------------------------------------------------------------------------------------- */

/* A thread that nobody wakes. */
static void *run_control(void *took_ns)
{
    int64_t began = boot_ns();
    poll(NULL, 0, WAIT);
    *(int64_t *)took_ns = boot_ns() - began;
    return NULL;
}

/* --- rounds ------------------------------------------------------------------------------------------------------------ */

/* How much later than the control's this thread's wait for a lock that is not to be had returns; and that it does. */
static int64_t late_ns(zkl_lock *lock)
{
    pthread_t control;
    int64_t control_ns;
    pthread_create(&control, NULL, run_control, &control_ns);
    int64_t began = boot_ns();
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, WAIT, NULL, NULL), ZKL_ETIMEOUT);
    int64_t took = boot_ns() - began;
    CU_ASSERT(took >= (WAIT - 1) * MS);
    pthread_join(control, NULL);
    return took - control_ns;
}

static void judge(const char *what, int64_t late[ROUNDS])
{
    int64_t middle = median(late, ROUNDS);
    printf("%s: later than the control by %.2f ms (%.2f to %.2f); ", what, (double)middle / 1e6, (double)late[0] / 1e6,
           (double)late[ROUNDS - 1] / 1e6);
    CU_ASSERT(middle < MORE);
}

/* When the server is frozen: never; before it is asked, so that the create waits in a socket, and is done when the server is back; for all
 * rounds together, which is longer than connections and sessions last. */
enum freezing { NEVER, BEFORE, FOR_LONG };

static int64_t late_in_round(zkl_lock *lock, enum freezing when)
{
    if (when == BEFORE) {
        ensemble_freeze(server, 0);
    }
    int64_t late = late_ns(lock);
    if (when != FOR_LONG) {
        ensemble_thaw(server, 0);
        CU_ASSERT(queue_becomes(eye, zkl_lock_path(lock), 1));
    }
    return late;
}

TEST(test_waits_end)
{
    static const struct {
        const char *path;
        enum freezing when;
    } rows[] = {{"/queued", NEVER}, {"/frozen", BEFORE}, {"/frozen-for-long", FOR_LONG}};
    EACH_ROW (row, rows) {
        const char *path = rows[row].path;
        bool for_long = rows[row].when == FOR_LONG;
        zkl_session *other = contest_session(ensemble_servers(server), for_long ? 4000 : 60000, TICK);
        zkl_session *session = contest_session(ensemble_servers(server), for_long ? 4000 : 60000, TICK);
        zkl_lock *holder = contest_holder(other, path), *lock = contest_lock(session, path, NULL);
        int64_t late[ROUNDS];
        if (for_long) {
            ensemble_freeze(server, 0);
        }
        for (int i = 0; i < ROUNDS; i++) {
            late[i] = late_in_round(lock, rows[row].when);
        }
        ensemble_thaw(server, 0);
        if (for_long) {
            CU_ASSERT_EQUAL(zkl_lock_release(holder, NULL), ZKL_ELOST);
            CU_ASSERT(queue_becomes(eye, path, 0));
        }
        CU_ASSERT_EQUAL(zkl_lock_is_held(holder), !for_long);
        judge(path, late);
        zkl_lock_free(lock);
        zkl_lock_free(holder);
        kit_close(session);
        kit_close(other);
    }
}

/* A try asks nobody for longer than connect_timeout_ms. */
TEST(test_try_of_a_frozen_server)
{
    zkl_session_options options = contest_options(TIMEOUT, TICK);
    zkl_session *session;
    options.connect_timeout_ms = WAIT;
    ASSERT_OK_FATAL(zkl_session_open(&session, ensemble_servers(server), &options, NULL));
    zkl_lock *lock = contest_lock(session, "/try", NULL);
    int64_t late = INT64_MAX;
    for (int i = 0; i < ROUNDS && late >= 10 * MORE; i++) { /* who is late by itself is late each time */
        ASSERT_EVENTUALLY(zkl_session_state(session) == ZKL_SESSION_CONNECTED);
        ensemble_freeze(server, 0);
        int64_t began = boot_ns();
        CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 0, NULL, NULL), ZKL_ETIMEOUT);
        late = boot_ns() - began - WAIT * MS;
        ensemble_thaw(server, 0);
        CU_ASSERT(queue_becomes(eye, "/try", 0));
    }
    CU_ASSERT(late < 10 * MORE);
    zkl_lock_free(lock);
    kit_close(session);
}

TESTS_ON_ONE_SERVER("lateness")
