/* Each public function: with a NULL for each argument that may not be one, of a closed session, in the child of a fork, and without
 * memory. The rows are public_calls.h. */
#include "lock_kit.h"
#include "test_heap.h"

#include <limits.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <zklock/testing.h>
#include <zklock/zookeeper.h>

#include "public_calls.h"

enum { MS = 100, NULLS = 5, ANY = INT_MIN };
#define NODE "nobody-lock-0000000001"

struct things {
    zkl_session *session;
    zkl_lock *lock, *writer, *multilock, *semaphore, *election;
    zkl_group *group;
    zkl_double_barrier *barrier;
    zkl_partition *partition;
    const char *paths[2], *pieces[1];
    zkl_partition_options parts;
    const zkl_session_options *starved; /* of a session that is to be opened */
    bool closes;                        /* the session may be closed: it is not in use */
    struct {                            /* what calls make; none of them is to make any */
        zkl_session *session;
        zkl_lock *lock;
        zkl_group *group;
        zkl_group_observer *watcher;
        zkl_election_observer *observer;
        zkl_double_barrier *barrier;
        zkl_partition *partition;
        zkl_queue *queue;
        zkl_members *members;
        zkl_data *data;
    } made;
    zkl_stop stop, other_stop;
    zkl_stats stats;
    zkl_once_slot slot;
    zkl_op op;
    int64_t number;
    char text[64];
    int64_t raised, remaining, descriptor; /* as a section has seen them */
};

/* --- callbacks that do nothing ---------------------------------------------------------------------------------------- */

static void on_done(int code, const zkl_error *err, void *payload)
{
    (void)code, (void)err, (void)payload;
}

static void on_acquire(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    (void)lock, (void)code, (void)grant, (void)err, (void)payload;
}

static void on_path(const char *path, const zkl_contender_stats *stats, void *payload)
{
    (void)path, (void)stats, (void)payload;
}

static void on_lock(const char *path, zkl_state state, int64_t token, void *payload)
{
    (void)path, (void)state, (void)token, (void)payload;
}

static void on_stand(zkl_lock *lock, zkl_state state, int64_t token, const zkl_error *err, void *payload)
{
    (void)lock, (void)state, (void)token, (void)err, (void)payload;
}

static void on_leader(zkl_election_observer *observer, const zkl_leader *leader, void *payload)
{
    (void)observer, (void)leader, (void)payload;
}

static void on_members(zkl_group_observer *watcher, const char *const *ids, size_t count, void *payload)
{
    (void)watcher, (void)ids, (void)count, (void)payload;
}

static void on_assigned(zkl_partition *partition, const char *piece, int64_t token, void *payload)
{
    (void)partition, (void)piece, (void)token, (void)payload;
}

static void on_revoked(zkl_partition *partition, const char *piece, bool lost, void *payload)
{
    (void)partition, (void)piece, (void)lost, (void)payload;
}

/* The flag of a section lives in it alone: there its functions are called. */
static int section(const zkl_cancel *cancel, int64_t token, void *payload)
{
    struct things *t = payload;
    (void)token;
    t->raised = zkl_cancel_raised(cancel);
    t->remaining = zkl_cancel_remaining_ms(cancel);
    t->descriptor = zkl_cancel_fd(cancel);
    return 0;
}

/* --- the rows --------------------------------------------------------------------------------------------------------- */

#define P(number, value) (null == (number) ? NULL : (value))
#define AS_CODE(name, nulls, starved, call) DEFINE(name, call)
#define AS_IDLE(name, nulls, call) DEFINE(name, call)
#define AS_PURE(name, nulls, same, call) DEFINE(name, call)
#define AS_ODD(name, nulls, if_null, if_closed, if_forked, starved, call) DEFINE(name, call)
#define DEFINE(name, call)                                                 \
    static int64_t call_##name(struct things *t, int null, zkl_error *err) \
    {                                                                      \
        (void)t, (void)null, (void)err;                                    \
        return call;                                                       \
    }
PUBLIC_CALLS(AS_CODE, AS_IDLE, AS_PURE, AS_ODD)

#define ROW_CODE(name, nulls, starved, call) {#name, call_##name, nulls, ZKL_EINVAL, ZKL_ECLOSED, ZKL_EFORKED, starved},
#define ROW_IDLE(name, nulls, call) {#name, call_##name, nulls, 0, 0, 0, ANY},
#define ROW_PURE(name, nulls, same, call) {#name, call_##name, nulls, same, same, same, same},
#define ROW_ODD(name, nulls, if_null, if_closed, if_forked, starved, call) \
    {#name, call_##name, nulls, if_null, if_closed, if_forked, starved},
static const struct row {
    const char *name;
    int64_t (*call)(struct things *t, int null, zkl_error *err);
    int nulls; /* arguments that may not be NULL */
    int64_t if_null, if_closed, if_forked, starved;
} rows[] = {PUBLIC_CALLS(ROW_CODE, ROW_IDLE, ROW_PURE, ROW_ODD)};
enum { ROWS = sizeof rows / sizeof *rows };

/* Calls it, and tells whether that came to what the row says; words, where there are any, belong to it. */
static bool comes_to(const struct row *row, struct things *t, int null, int64_t wanted)
{
    zkl_error err = {.code = 0};
    int64_t got = row->call(t, null, &err);
    bool worded = err.code == 0 || (err.code == got && err.text[0]);
    bool fine = worded && (wanted == ANY || got == wanted);
    if (!fine) {
        printf("(%s, argument %d NULL: %lld, %s, not %lld) ", row->name, null, (long long)got,
               err.code ? err.text : "no words", (long long)wanted);
    }
    return fine;
}

/* --- the things ------------------------------------------------------------------------------------------------------- */

static void make(struct things *t, const zkl_session_options *options)
{
    *t = (struct things){.session = kit_open(options),
                         .slot = {.round_ms = 1},
                         .paths = {"/n/a", "/n/b"},
                         .pieces = {"piece"},
                         .parts = ZKL_PARTITION_OPTIONS_INIT,
                         .stats = ZKL_STATS_INIT,
                         .op = {.kind = ZKL_OP_CHECK, .path = "/n", .version = ZKL_ANY_VERSION}};
    zkl_lock_options quick = ZKL_LOCK_OPTIONS_INIT;
    t->parts.assigned_fn = on_assigned;
    t->parts.revoked_fn = on_revoked;
    quick.release_timeout_ms = MS;
    CU_ASSERT_EQUAL_FATAL(zkl_lock_new(&t->lock, t->session, "/n/lock", &quick, NULL), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(zkl_write_lock_new(&t->writer, t->session, "/n/rw", NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(zkl_multilock_new(&t->multilock, t->session, t->paths, 2, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(zkl_semaphore_new(&t->semaphore, t->session, "/n/permits", 2, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(zkl_election_new(&t->election, t->session, "/n/leader", NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(zkl_group_new(&t->group, t->session, "/n/group", "me", NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(zkl_double_barrier_new(&t->barrier, t->session, "/n/double", 1, NULL), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(zkl_partition_new(&t->partition, t->session, "/n/parts", t->pieces, 1, &t->parts, NULL),
                          ZKL_OK);
}

/* Objects of any session: also of a closed one, and of the parent's. */
static void free_all(struct things *t)
{
    zkl_lock_free(t->lock);
    zkl_lock_free(t->writer);
    zkl_lock_free(t->multilock);
    zkl_lock_free(t->semaphore);
    zkl_lock_free(t->election);
    zkl_group_free(t->group);
    zkl_double_barrier_free(t->barrier);
    zkl_partition_free(t->partition);
}

static bool made_nothing(const struct things *t)
{
    static const struct things none;
    return memcmp(&t->made, &none.made, sizeof t->made) == 0;
}

/* --- tests ------------------------------------------------------------------------------------------------------------ */

/* What is refused for another reason while nothing is held is refused for this one then, and the other way round. */
static void hold_all(struct things *t)
{
    CU_ASSERT_EQUAL(zkl_lock_acquire(t->lock, 10000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(t->writer, 10000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(t->election, 10000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_group_join(t->group, 10000, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_double_barrier_enter(t->barrier, 10000, NULL), ZKL_OK);
}

static bool is_refused_idle(int64_t code)
{
    return code == ZKL_ENOTHELD || code == ZKL_ENOTWAITING;
}

static bool is_refused_held(int64_t code)
{
    return code == ZKL_EDEADLK;
}

/* Of each: is a NULL refused by its name, or another reason given? */
static void give_null(struct things *t, bool (*is_other)(int64_t code), bool named[ROWS][NULLS])
{
    for (int i = 0; i < ROWS; i++) {
        for (int null = 1; null <= rows[i].nulls; null++) {
            int64_t code = rows[i].call(t, null, NULL);
            named[i][null - 1] = named[i][null - 1] || !is_other(code);
            CU_ASSERT_TRUE(is_other(code) || comes_to(&rows[i], t, null, rows[i].if_null));
        }
    }
}

static void test_null(void)
{
    static bool named[ROWS][NULLS];
    struct things t;
    memset(named, 0, sizeof named);
    make(&t, NULL);
    give_null(&t, is_refused_idle, named);
    hold_all(&t);
    give_null(&t, is_refused_held, named);
    for (int i = 0; i < ROWS; i++) {
        for (int null = 1; null <= rows[i].nulls; null++) {
            CU_ASSERT_TRUE(named[i][null - 1]);
        }
    }
    CU_ASSERT_TRUE(made_nothing(&t));
    CU_ASSERT_EQUAL(zkl_session_state(t.session), ZKL_SESSION_CONNECTED);
    free_all(&t);
    kit_close(t.session);
}

static void test_closed(void)
{
    struct things t;
    make(&t, NULL);
    kit_close(t.session); /* its memory lasts as long as its objects do */
    t.closes = true;
    for (int i = 0; i < ROWS; i++) {
        if (rows[i].if_closed != ANY) {
            CU_ASSERT_TRUE(comes_to(&rows[i], &t, 0, rows[i].if_closed));
        }
    }
    CU_ASSERT_TRUE(made_nothing(&t));
    free_all(&t);
}

static int in_child(struct things *t)
{
    alarm(30); /* a child that waits for threads it does not have */
    t->closes = true;
    bool fine = true;
    for (int i = 0; i < ROWS; i++) {
        fine = (rows[i].if_forked == ANY || comes_to(&rows[i], t, 0, rows[i].if_forked)) && fine;
    }
    fine = made_nothing(t) && fine;
    free_all(t);
    return fine ? 0 : 1;
}

static void test_forked(void)
{
    struct things t;
    int status = -1;
    make(&t, NULL);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int code = in_child(&t);
        fflush(stdout);
        _exit(code);
    }
    CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
    CU_ASSERT_EQUAL(status, 0);
    CU_ASSERT_EQUAL(zkl_lock_acquire(t.lock, 10000, NULL, NULL), ZKL_OK); /* the parent's session is as it was */
    free_all(&t);
    kit_close(t.session);
}

/* Each with things of its own, and not one allocation that succeeds. What it has begun ends; nothing is kept. */
static void test_no_memory(void)
{
    for (int i = 0; i < ROWS; i++) {
        struct test_heap heap = TEST_HEAP_INIT;
        const zkl_heap functions = test_heap(&heap);
        zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
        struct things t;
        options.heap = &functions;
        make(&t, &options);
        t.starved = &options;
        test_heap_fail(&heap, 1, true);
        CU_ASSERT_TRUE(comes_to(&rows[i], &t, 0, rows[i].starved));
        test_heap_fail(&heap, 0, false);
        zkl_testing_heal(t.session, NULL);
        free_all(&t);
        CU_ASSERT_TRUE(EVENTUALLY(zkl_session_state(t.session) == ZKL_SESSION_CONNECTED));
        kit_close(t.session);
        CU_ASSERT_TRUE(made_nothing(&t));
        CU_ASSERT_EQUAL(test_heap_live(&heap), 0);
    }
}

TESTS("public calls", T(test_null), T(test_closed), T(test_forked), T(test_no_memory))
