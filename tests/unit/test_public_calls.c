/* Each public function: with a NULL for each argument that may not be one, of a closed session, in the child of a fork, from a callback,
 * with every timeout, on servers that do not answer, and without memory. The rows are public_calls.h. */
#include "lock_kit.h"
#include "test_heap.h"

#include <limits.h>

#include "public_calls.h"

enum { NULLS = 5, ANY = INT_MIN };
#define MS t->ms
#define HOUR INT64_C(3600000)
#define NODE "nobody-lock-0000000001"

struct things {
    zkl_session *session;
    zkl_lock *lock, *writer, *multilock, *semaphore, *election;
    zkl_group *group;
    zkl_double_barrier *barrier;
    zkl_partition *partition;
    const char *paths[2], *pieces[1];
    zkl_partition_options parts;
    int64_t ms;                         /* the timeout of calls */
    const zkl_session_options *starved; /* of a session that is to be opened */
    bool closes;                        /* the session may be closed: it is not in use */
    struct {                            /* what calls make */
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
};

/* --- callbacks --------------------------------------------------------------------------------------------------------- */

static atomic_int completions, last_code;
static struct mailbox unread = MAILBOX_INIT;

static void on_done(int code, const zkl_error *err, void *payload)
{
    last_code = code;
    completions++;
}

static void on_acquire(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    on_done(code, err, payload);
}

static void on_path(const char *path, const zkl_contender_stats *stats, void *payload) {}

static void on_lock(const char *path, zkl_state state, int64_t token, void *payload) {}

static void on_stand(zkl_lock *lock, zkl_state state, int64_t token, const zkl_error *err, void *payload) {}

static void on_members(zkl_group_observer *watcher, const char *const *ids, size_t count, void *payload) {}

/* --- the rows --------------------------------------------------------------------------------------------------------- */

#define P(number, value) (null == (number) ? NULL : (value))
#define CODE(name, nulls, starved, call) DEFINE(name, call)
#define IDLE(name, nulls, call) DEFINE(name, call)
#define PURE(name, nulls, same, call) DEFINE(name, call)
#define ODD(name, nulls, if_null, if_closed, if_forked, starved, call) DEFINE(name, call)
#define DEFINE(name, call)                                                 \
    static int64_t call_##name(struct things *t, int null, zkl_error *err) \
    {                                                                      \
        return call;                                                       \
    }
PUBLIC_CALLS
#undef CODE
#undef IDLE
#undef PURE
#undef ODD

#define CODE(name, nulls, starved, call) ODD(name, nulls, ZKL_EINVAL, ZKL_ECLOSED, ZKL_EFORKED, starved, call)
#define IDLE(name, nulls, call) ODD(name, nulls, 0, 0, 0, ANY, call)
#define PURE(name, nulls, same, call) ODD(name, nulls, same, same, same, same, call)
#define ODD(name, nulls, if_null, if_closed, if_forked, starved, call) \
    {#name, call_##name, TEXT(call), nulls, if_null, if_closed, if_forked, starved},
#define TEXT(...) #__VA_ARGS__ /* with what macros stand for */
static const struct row {
    const char *name;
    int64_t (*call)(struct things *t, int null, zkl_error *err);
    const char *text;
    int nulls; /* arguments that may not be NULL */
    int64_t if_null, if_closed, if_forked, starved;
} rows[] = {PUBLIC_CALLS};
enum { ROWS = sizeof rows / sizeof *rows };

static bool returns_a_code(const struct row *row)
{
    return row->if_closed == ZKL_ECLOSED;
}

static bool is_async(const struct row *row)
{
    return strstr(row->name, "_async") != NULL;
}

static bool is_timed(const struct row *row)
{
    return strstr(row->text, "t->ms") != NULL;
}

/* Calls it, and tells whether that came to what the row says; words, where there are any, belong to it. */
static bool comes_to(const struct row *row, struct things *t, int null, int64_t wanted)
{
    zkl_error err = {.code = 0};
    int64_t got = row->call(t, null, &err);
    int state;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state); /* as before the call */
    bool worded = err.code == 0 || (err.code == got && err.text[0]);
    bool fine = worded && state == PTHREAD_CANCEL_ENABLE && (wanted == ANY || got == wanted);
    if (!fine) {
        printf("(%s, argument %d NULL: %lld, %s, not %lld) ", row->name, null, (long long)got,
               err.code ? err.text : "no words", (long long)wanted);
    }
    return fine;
}

/* --- the things ------------------------------------------------------------------------------------------------------- */

static const zkl_acl anyone = {1, &(zkl_acl_entry){ZKL_PERM_ALL, "world", "anyone"}};

static void make(struct things *t, const zkl_session_options *options)
{
    *t = (struct things){.session = kit_open(options),
                         .ms = 100,
                         .slot = {.round_ms = 1},
                         .paths = {"/n/a", "/n/b"},
                         .pieces = {"piece"},
                         .parts = ZKL_PARTITION_OPTIONS_INIT,
                         .stats = ZKL_STATS_INIT,
                         .op = {.kind = ZKL_OP_CREATE,
                                .path = "/n/data",
                                .data = "1",
                                .size = 1,
                                .mode = ZKL_CREATE_EPHEMERAL_SEQUENTIAL,
                                .acl = &anyone}};
    const zkl_lock_options *quick = LOCK_OPTIONS(.release_timeout_ms = 20); /* a release has a time of its own */
    const zkl_lock_options *revocable =
        LOCK_OPTIONS(.release_timeout_ms = 20, .revoke_fn = on_revoke, .payload = &unread);
    const zkl_group_options quick_group = {sizeof quick_group, NULL, 20, NULL, NULL, NULL};
    t->parts.assigned_fn = ignore_assigned;
    t->parts.revoked_fn = ignore_revoked;
    ASSERT_OK_FATAL(zkl_lock_new(&t->lock, t->session, "/n/lock", revocable, NULL));
    ASSERT_OK_FATAL(zkl_write_lock_new(&t->writer, t->session, "/n/rw", quick, NULL));
    ASSERT_OK_FATAL(zkl_multilock_new(&t->multilock, t->session, t->paths, 2, quick, NULL));
    ASSERT_OK_FATAL(zkl_semaphore_new(&t->semaphore, t->session, "/n/permits", 2, quick, NULL));
    ASSERT_OK_FATAL(zkl_election_new(&t->election, t->session, "/n/leader", quick, NULL));
    ASSERT_OK_FATAL(zkl_group_new(&t->group, t->session, "/n/group", "me", &quick_group, NULL));
    ASSERT_OK_FATAL(zkl_double_barrier_new(&t->barrier, t->session, "/n/double", 1, NULL));
    ASSERT_OK_FATAL(zkl_partition_new(&t->partition, t->session, "/n/parts", t->pieces, 1, &t->parts, NULL));
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

static void end(struct things *t)
{
    free_all(t);
    kit_close(t->session);
}

static bool made_nothing(const struct things *t)
{
    static const struct things none;
    return memcmp(&t->made, &none.made, sizeof t->made) == 0;
}

static void free_made(struct things *t)
{
    zkl_session_close(t->made.session, 10000);
    zkl_lock_free(t->made.lock);
    zkl_group_free(t->made.group);
    zkl_group_observer_free(t->made.watcher);
    zkl_election_observer_free(t->made.observer);
    zkl_double_barrier_free(t->made.barrier);
    zkl_partition_free(t->made.partition);
    zkl_queue_free(t->made.queue);
    zkl_members_free(t->made.members);
    zkl_data_free(t->made.data);
    memset(&t->made, 0, sizeof t->made);
}

/* What is refused for another reason while nothing is held is refused for this one then, and the other way round. */
static void hold_all(struct things *t)
{
    kit_acquire(t->lock);
    kit_acquire(t->writer);
    kit_acquire(t->semaphore);
    kit_acquire(t->election);
    ASSERT_OK(zkl_group_join(t->group, 10000, NULL));
    ASSERT_OK(zkl_double_barrier_enter(t->barrier, 10000, NULL));
    ASSERT_OK(zkl_barrier_set(t->session, "/n/barrier", 10000, NULL));
    ASSERT_OK(zkl_once_look(t->lock, 1000, 0, 10000, &t->slot, NULL));
}

static bool connected(zkl_session *session)
{
    zkl__memory_resume(zkl_session_id(session)); /* what suspended it may have kept it so */
    return zkl_session_state(session) == ZKL_SESSION_CONNECTED;
}

/* Calls it, waits for the completion if there is to be one, and returns the code of that. */
static int64_t call_to_its_end(const struct row *row, struct things *t, zkl_error *err)
{
    int before = completions;
    int64_t code = row->call(t, 0, err);
    if (code == ZKL_OK && is_async(row) && (t->closes || !strstr(row->name, "close"))) {
        ASSERT_EVENTUALLY(completions > before);
        code = last_code;
    }
    return code;
}

/* --- arguments, ends -------------------------------------------------------------------------------------------------- */

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
    EACH_ROW (i, rows) {
        for (int null = 1; null <= rows[i].nulls; null++) {
            int64_t code = rows[i].call(t, null, NULL);
            named[i][null - 1] = named[i][null - 1] || !is_other(code);
            CU_ASSERT_TRUE(is_other(code) || comes_to(&rows[i], t, null, rows[i].if_null));
        }
    }
}

TEST(test_null)
{
    static bool named[ROWS][NULLS];
    struct things t;
    memset(named, 0, sizeof named);
    make(&t, NULL);
    give_null(&t, is_refused_idle, named);
    hold_all(&t);
    give_null(&t, is_refused_held, named);
    EACH_ROW (i, rows) {
        for (int null = 1; null <= rows[i].nulls; null++) {
            CU_ASSERT_TRUE(named[i][null - 1]);
        }
    }
    CU_ASSERT_EQUAL(zkl_double_barrier_enter(t.barrier, 0, NULL), ZKL_EDEADLK); /* a leave was refused: it is in */
    CU_ASSERT_TRUE(made_nothing(&t));
    CU_ASSERT_EQUAL(zkl_session_state(t.session), ZKL_SESSION_CONNECTED);
    end(&t);
}

/* A caller that frees what it was given finds NULL there. */
TEST(test_closed)
{
    struct things t;
    make(&t, NULL);
    kit_close(t.session); /* its memory lasts as long as its objects do */
    t.closes = true;
    memset(&t.made, 0xff, sizeof t.made);
    t.made.session = NULL; /* not made here */
    EACH_ROW (i, rows) {
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
    EACH_ROW (i, rows) {
        fine = (rows[i].if_forked == ANY || comes_to(&rows[i], t, 0, rows[i].if_forked)) && fine;
    }
    fine = made_nothing(t) && fine;
    free_all(t);
    return fine ? 0 : 1;
}

TEST(test_forked)
{
    struct things t;
    make(&t, NULL);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int code = in_child(&t);
        fflush(stdout);
        _exit(code);
    }
    kit_await(child);
    kit_acquire(t.lock); /* the parent's session is as it was */
    end(&t);
}

/* The codes of all calls that wait, one behind the other. Whether a piece is assigned by then is not said. */
static void call_each(struct things *t, int64_t codes[ROWS])
{
    EACH_ROW (i, rows) {
        if (returns_a_code(&rows[i]) && !is_async(&rows[i])) {
            codes[i] = rows[i].call(t, 0, NULL);
            codes[i] = codes[i] == ZKL_ENOTHELD || codes[i] > 0 ? ZKL_OK : codes[i]; /* or a count */
            free_made(t);
        }
    }
}

static int64_t codes_inside[ROWS], codes_outside[ROWS];

static void call_inside(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    call_each(payload, codes_inside);
    on_acquire(lock, code, grant, err, NULL);
}

/* Of a thread's or in dispatch: a call waits there as anywhere. */
TEST(test_from_callbacks)
{
    struct things t;
    make(&t, NULL);
    t.ms = 30000;
    call_each(&t, codes_outside);
    end(&t);
    for (int dispatched = 0; dispatched < 2; dispatched++) {
        make(&t, SESSION_OPTIONS(.callbacks = dispatched ? ZKL_CALLBACKS_DISPATCH : ZKL_CALLBACKS_THREAD));
        t.ms = 30000;
        zkl_lock *trigger = kit_lock(t.session, "/trigger", NULL);
        memset(codes_inside, 0, sizeof codes_inside);
        int before = completions;
        kit_acquire_async(trigger, call_inside, &t);
        ASSERT_EVENTUALLY((zkl_session_dispatch(t.session), completions > before));
        EACH_ROW (i, rows) {
            if (codes_inside[i] != codes_outside[i]) {
                printf("(%s: %d, not %d) ", rows[i].name, (int)codes_inside[i], (int)codes_outside[i]);
                CU_FAIL("another code in a callback");
            }
        }
        kit_free(trigger);
        end(&t);
    }
}

/* --- numbers ----------------------------------------------------------------------------------------------------------- */

/* Refused, a close has not begun. */
TEST(test_wrong_timeouts)
{
    static const int64_t wrong[] = {INT64_MIN, -2};
    EACH_ROW (j, wrong) {
        struct things t;
        int timed = 0;
        make(&t, NULL);
        t.closes = true;
        t.ms = wrong[j];
        EACH_ROW (i, rows) {
            zkl_error err = {.text = ""};
            int64_t code = call_to_its_end(&rows[i], &t, &err);
            CU_ASSERT(!is_timed(&rows[i]) || code == ZKL_EINVAL);
            CU_ASSERT(!is_timed(&rows[i]) || err.code == 0 || strstr(err.text, "timeout_ms is -"));
            timed += is_timed(&rows[i]);
            free_made(&t);
        }
        CU_ASSERT(timed > 40);
        ASSERT_EVENTUALLY(connected(t.session)); /* the last rows cut it off */
        end(&t);
    }
    ASSERT_OK(zkl_session_close(NULL, -5));
}

/* None of them is over before it has begun. */
TEST(test_long_timeouts)
{
    static const int64_t right[] = {INT64_MAX, INT64_MAX - 1, INT64_MAX / 1000000, ZKL_WAIT_FOREVER};
    EACH_ROW (j, right) {
        struct things t;
        make(&t, NULL);
        t.ms = right[j];
        EACH_ROW (i, rows) {
            int64_t code = call_to_its_end(&rows[i], &t, NULL);
            CU_ASSERT(!is_timed(&rows[i]) || (code != ZKL_EINVAL && code != ZKL_ETIMEOUT && code != ZKL_EBUSY));
            free_made(&t);
        }
        free_all(&t);
        ASSERT_OK(zkl_session_close(t.session, right[j]));
    }
}

static void use_double_barrier(zkl_session *session, const char *path)
{
    zkl_double_barrier *pair;
    ASSERT_OK_FATAL(zkl_double_barrier_new(&pair, session, path, 1, NULL));
    ASSERT_OK(zkl_double_barrier_enter(pair, 10000, NULL));
    ASSERT_OK(zkl_double_barrier_leave(pair, 10000, NULL));
    zkl_double_barrier_free(pair);
}

/* Of that length, in components of 40. */
static void long_path(char *path, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        path[i] = i % 40 == 0 && i + 1 < length ? '/' : 'x';
    }
    path[length] = '\0';
}

/* Each name of a znode below it has 50 bytes or so more: those are no longer the user's business. What is longer: unit_text. */
TEST_WITH_SESSIONS(test_long_paths)
{
    static const size_t lengths[] = {990, 1000, 1014, 1015, 1018, 1020, ZKL_PATH_MAX};
    char path[ZKL_PATH_MAX + 1];
    EACH_ROW (i, lengths) {
        long_path(path, lengths[i]);
        zkl_lock *lock = kit_hold(one, path, NULL);
        const zkl_op op = {.path = path, .mode = ZKL_CREATE_PERSISTENT_SEQUENTIAL};
        CU_ASSERT_EQUAL(zkl_lock_commit(lock, &op, 1, 1000, NULL, NULL), lengths[i] > 1014 ? ZKL_EINVAL : ZKL_OK);
    }
    long_path(path, 1000);
    EACH_ROW (i, handle_recipes) {
        path[999] = (char)('a' + i);
        zkl_lock *lock = kit_make((zkl_recipe)i, one, path, NULL);
        kit_acquire(lock);
    }
    path[999] = 'y';
    use_double_barrier(one, path);
}

/* Of a section and of a slot, whoever asks for one. */
TEST(test_margins_and_slots)
{
    static const int64_t extremes[] = {INT64_MIN, -1, INT64_MAX};
    struct things t;
    make(&t, NULL);
    EACH_ROW (i, extremes) {
        zkl_error err;
        int64_t value = extremes[i];
        CU_ASSERT_EQUAL(zkl_with_lock(t.lock, 1000, value, run_nothing, &t, NULL, &err), ZKL_EINVAL);
        ASSERT_SAYS(err, "margin_ms");
        CU_ASSERT_EQUAL(zkl_once_look(t.lock, value, 0, 1000, &t.slot, NULL), ZKL_EINVAL);
        CU_ASSERT_EQUAL(zkl_once_look(t.lock, HOUR, value, 1000, &t.slot, NULL), ZKL_EINVAL);
    }
    end(&t);
}

/* --- deadlines ---------------------------------------------------------------------------------------------------------- */

enum {
    WAIT = 60, /* ms */
    TRIES = 40 /* the best of them counts: others run on this machine too */
};

enum world { SUSPENDED, HUNG, LOST /* behind so many answers: LOST + 1, ... */ };

static void *wait_plainly(void *took_ms)
{
    int64_t began = now_ms();
    clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){0, WAIT * 1000000L}, NULL);
    *(int64_t *)took_ms = now_ms() - began;
    return NULL;
}

/* How much longer the call takes than a plain wait of a thread that begins with it, in ms. */
static int64_t excess(const struct row *row, bool held, int world)
{
    pthread_t control;
    int64_t plain_ms = 0;
    struct things t;
    make(&t, NULL);
    if (held) {
        hold_all(&t);
    }
    t.ms = WAIT;
    int64_t id = zkl_session_id(t.session);
    ASSERT_OK(world == SUSPENDED ? zkl__memory_suspend(id)
              : world == HUNG    ? zkl__memory_hold(id, true)
                                 : zkl__memory_break(id, (size_t)(world - LOST), 1, 0));
    kit_start_thread(&control, wait_plainly, &plain_ms);
    int64_t began = now_ms();
    row->call(&t, 0, NULL);
    int64_t took_ms = now_ms() - began;
    pthread_join(control, NULL);
    zkl__memory_hold(id, false);
    zkl__memory_break(id, 0, 0, 0);
    ASSERT_EVENTUALLY(connected(t.session));
    free_made(&t);
    end(&t);
    return took_ms - plain_ms;
}

/* Less than half of the wait over the control's, in one of the tries. */
static void in_time(int world)
{
    for (int i = 0; i < 2 * ROWS; i++) {
        const struct row *row = &rows[i / 2];
        int64_t least = INT64_MAX;
        bool waits = is_timed(row) && !is_async(row);
        for (int try = 0; waits && try < TRIES && least > WAIT / 2; try++) {
            int64_t late = excess(row, i % 2, world);
            least = late < least ? late : least;
        }
        if (waits && least > WAIT / 2) {
            printf("(%s, world %d: %lld ms more) ", row->name, world, (long long)least);
            CU_FAIL("late");
        }
    }
}

TEST(test_without_a_server)
{
    in_time(SUSPENDED);
}

TEST(test_with_a_server_that_hangs)
{
    in_time(HUNG);
}

TEST(test_lost_in_the_middle)
{
    for (int answers = 0; answers < 4; answers++) {
        in_time(LOST + answers);
    }
}

/* --- without waiting ------------------------------------------------------------------------------------------------------ */

static zkl_session *keeper; /* keeps the tree, holds what others wait for, and counts what is left */

static bool nothing_left(void)
{
    static const char *const paths[] = {
        "/n/lock",  "/n/rw",     "/n/permits/locks", "/n/permits/leases",     "/n/a",   "/n/b", "/n/leader",
        "/n/group", "/n/double", "/n/parts/members", "/n/parts/pieces/piece", "/n/once"};
    EACH_ROW (i, paths) {
        if (kit_children(keeper, paths[i]) != 0) {
            return false;
        }
    }
    return true;
}

/* A barrier stays up as it was left, and a slot recorded, where it lasts; the sign of a double one, that all are in, is taken down by
 * whoever leaves next. */
static void clean_up(void)
{
    kit_write(ZKL__OP_SET, "/n/lock", NULL, "");
    kit_write(ZKL__OP_DELETE, "/n/lock", "keeps-the-record", NULL);
    zkl_semaphore_resize(keeper, "/n/permits", 2, 10000, NULL); /* if there is one */
    ASSERT_OK(zkl_barrier_lift(keeper, "/n/barrier", 10000, NULL));
    use_double_barrier(keeper, "/n/double");
}

/* Ends something: no stop token ends it, and what it has begun goes on when nobody waits for it any more. */
static bool ends_something(const struct row *row)
{
    static const char *const names[] = {"_lift", "_leave", "_record", "_release", "_stop"};
    bool does = false;
    EACH_ROW (i, names) {
        does = does || strstr(row->name, names[i]);
    }
    return does;
}

/* Begins it in a session that gets no response, with all that it needs held. False when there is nothing that it could wait for. */
static bool begin_delayed(const struct row *row, struct things *t, zkl_stop *stop, int64_t ms)
{
    int64_t code = ZKL_ENOTHELD;
    for (int held = 0; held < 2 && code == ZKL_ENOTHELD; held++) {
        if (held) {
            end(t);
        }
        make(t, SESSION_OPTIONS(.stop = stop));
        if (held) {
            hold_all(t);
        }
        kit_delay(t->session, true);
        t->ms = ms;
        code = row->call(t, 0, NULL);
    }
    return code == ZKL_OK;
}

/* Frees all that a call has made and used: no znode is left of it. The session lives: its end would hide what is forgotten. */
static void leave_nothing(struct things *t)
{
    free_made(t);
    free_all(t);
    clean_up();
    ASSERT_EVENTUALLY(nothing_left());
    kit_close(t->session);
}

enum way { TIMEOUT, STOP, FREE, CLOSE, WAYS };

/* How a call ends that way. What ends something by a time of its own is done then. */
static bool is_right(const struct row *row, enum way way, int code)
{
    static const int codes[WAYS] = {ZKL_ETIMEOUT, ZKL_ECANCELED, ZKL_ECANCELED, ZKL_ECLOSED};
    return code == codes[way] || (ends_something(row) && code == ZKL_OK) || (way == STOP && code == ZKL_ETIMEOUT);
}

static void on_stopped(int code, const zkl_error *err, void *payload)
{
    CU_ASSERT_EQUAL(code, ZKL_ECANCELED);
    *(atomic_bool *)payload = true;
}

static void end_in(const struct row *row, enum way way)
{
    struct things t;
    zkl_stop stop = ZKL_STOP_INIT;
    atomic_bool stopped = false;
    keeper = kit_open(NULL);
    int before = completions, code;
    bool begun = begin_delayed(row, &t, &stop, way == TIMEOUT ? 20 : 60000);
    if (begun) {
        bool goes_on = way == STOP && ends_something(row);
        if (goes_on) { /* a wait beside it shows when the token has had its effect */
            ASSERT_OK(zkl_barrier_wait_async(t.session, "/n/wait", 60000, on_stopped, &stopped, NULL));
        }
        if (way == STOP) {
            zkl_stop_raise(&stop);
            CU_ASSERT(goes_on || row->call(&t, 0, NULL) != ZKL_OK); /* sticky */
        } else if (way == FREE) {
            free_all(&t);
        } else if (way == CLOSE) {
            zkl_session_close(t.session, 10);
        }
        bool over = completions > before;
        CU_ASSERT(way != CLOSE || over); /* before the close returned */
        if (goes_on) {
            ASSERT_EVENTUALLY(stopped);
        }
        if (goes_on || (way == FREE && !over)) { /* the session's own goes on */
            kit_delay(t.session, false);
            ASSERT_EVENTUALLY(completions > before);
            code = last_code;
            CU_ASSERT(code == ZKL_OK || (way == FREE && (code == ZKL_ENOENT || is_refused_idle(code))));
        } else {
            ASSERT_EVENTUALLY(completions > before);
            if (!is_right(row, way, last_code)) {
                printf("(%s, way %d: %d) ", row->name, (int)way, last_code);
                CU_FAIL("another code");
            }
        }
    }
    if (way != CLOSE || !begun) {
        kit_delay(t.session, false);
    }
    if (way != FREE || !begun) {
        free_all(&t);
    }
    clean_up();
    ASSERT_EVENTUALLY(nothing_left());
    CU_ASSERT(completions <= before + 1);
    if (way != CLOSE || !begun) {
        kit_close(t.session);
    }
    free_made(&t);
    kit_close(keeper);
}

/* The time, a stop token, the free of the object, the close of the session: each ends a call once. */
TEST(test_ways_to_end)
{
    EACH_ROW (i, rows) {
        for (enum way way = 0; is_async(&rows[i]) && !strstr(rows[i].name, "session") && way < WAYS; way++) {
            end_in(&rows[i], way);
        }
    }
}

/* The connection goes after so many requests, before the next is applied or behind it: the call goes on when it is back. What must not be
 * done twice says that nobody knows whether it was. */
static void cut_at(const struct row *row, bool held, size_t whole, bool applied)
{
    struct things t;
    keeper = kit_open(NULL);
    make(&t, NULL);
    if (held) {
        hold_all(&t);
    }
    t.ms = 10000;
    int before = completions;
    ASSERT_OK(zkl__memory_break(zkl_session_id(t.session), whole, applied, !applied));
    int64_t code = row->call(&t, 0, NULL);
    if (code == ZKL_OK) {
        ASSERT_OK(zkl_barrier_lift(keeper, "/n/barrier", 10000, NULL)); /* somebody may wait for that */
        ASSERT_EVENTUALLY(connected(t.session) && completions > before);
        code = last_code;
        bool once = strstr(row->name, "commit") || strstr(row->name, "revoke");
        if (code != ZKL_OK && code != ZKL_ENOENT && !is_refused_idle(code) && !is_refused_held(code) &&
            !(once && code == ZKL_ECONNECT)) {
            printf("(%s, cut at %zu: %d) ", row->name, whole, (int)code);
            CU_FAIL("another code");
        }
    }
    zkl__memory_suspend(zkl_session_id(t.session)); /* what is left of the plan goes with the connection */
    ASSERT_EVENTUALLY(connected(t.session));
    leave_nothing(&t);
    kit_close(keeper);
}

TEST(test_cut_at_each_request)
{
    EACH_ROW (i, rows) {
        for (size_t at = 0; is_async(&rows[i]) && !strstr(rows[i].name, "session") && at < 24; at++) {
            cut_at(&rows[i], at % 2, at / 4, at / 2 % 2);
        }
    }
}

/* --- memory ------------------------------------------------------------------------------------------------------------- */

/* What no single call shows. All of it is freed again. */
static int with_every_option(struct things *t)
{
    int code = zkl_lock_new(&t->made.lock, t->session, "/n/lock",
                            LOCK_OPTIONS(.release_timeout_ms = 20, .metadata = "who I am", .recursive = true,
                                         .recover = true, .acl = &anyone, .state_fn = on_lock_state,
                                         .revoke_fn = on_revoke, .payload = &unread),
                            NULL);
    code = code == ZKL_OK ? zkl_lock_acquire(t->made.lock, t->ms, NULL, NULL) : code;
    code = code == ZKL_OK ? zkl_lock_acquire(t->made.lock, t->ms, NULL, NULL) : code;
    return code == ZKL_OK ? zkl_lock_release(t->made.lock, NULL) : code;
}

static int granted_behind(struct things *t)
{
    zkl_lock *held = kit_hold(keeper, "/n/lock", NULL);
    int before = completions;
    int code = zkl_lock_acquire_async(t->lock, t->ms, on_acquire, NULL, NULL);
    zkl_lock_release(held, NULL);
    if (code == ZKL_OK) {
        ASSERT_EVENTUALLY(completions > before);
        code = last_code;
    }
    kit_free(held);
    return code;
}

static int expiry_while_holding(struct things *t)
{
    int code = zkl_lock_acquire(t->lock, t->ms, NULL, NULL);
    if (code == ZKL_OK && zkl__memory_expire(zkl_session_id(t->session)) == ZKL_OK) {
        ASSERT_EVENTUALLY(zkl_lock_state(t->lock) == ZKL_STATE_LOST); /* the notice of a loss needs no memory */
        CU_ASSERT_EQUAL(zkl_lock_release(t->lock, NULL), ZKL_ELOST);
    }
    return code;
}

/* A piece may be assigned by then, or not. */
static int partition(struct things *t)
{
    int code = zkl_partition_start(t->partition, NULL);
    int commit = code == ZKL_OK ? zkl_partition_commit(t->partition, "piece", &t->op, 1, t->ms, NULL, NULL) : code;
    code = commit == ZKL_ENOTHELD ? ZKL_OK : commit;
    code = code == ZKL_OK ? zkl_partition_stop(t->partition, NULL) : code;
    return code == ZKL_OK ? zkl_partition_start(t->partition, NULL) : code;
}

/* With memory enough each is ZKL_OK. */
DEFINE(with_every_option, with_every_option(t))
DEFINE(granted_behind, granted_behind(t))
DEFINE(expiry_while_holding, expiry_while_holding(t))
DEFINE(partition, partition(t))
#define SCENARIO(name) ODD(name, 0, ANY, ANY, ANY, ANY, )
static const struct row scenarios[] = {SCENARIO(with_every_option) SCENARIO(granted_behind)
                                           SCENARIO(expiry_while_holding) SCENARIO(partition)};

static bool is_named(int64_t code, int64_t wanted)
{
    return code == wanted || code == ZKL_ENOMEM || code == ZKL_ETIMEOUT || code == ZKL_ECONNECT || code == ZKL_ELOST;
}

static bool made; /* by the last call: something is the caller's */

/* Its nth allocation fails (0: none), with sticky all behind it; nothing is held then, or all. Returns its code; failed: one did. */
static int64_t fail_at(const struct row *row, bool held, long nth, bool sticky, bool *failed)
{
    struct test_heap heap = TEST_HEAP_INIT;
    const zkl_heap functions = test_heap(&heap);
    const zkl_session_options *options = SESSION_OPTIONS(.heap = &functions);
    struct things t;
    make(&t, options);
    if (held) {
        hold_all(&t);
    }
    t.starved = options;
    t.ms = sticky ? 40 : 5000; /* without any memory most calls end by the time */
    test_heap_fail(&heap, nth, sticky);
    int64_t code = call_to_its_end(row, &t, NULL);
    made = !made_nothing(&t);
    *failed = test_heap_failures(&heap) > 0;
    test_heap_fail(&heap, 0, false);
    ASSERT_EVENTUALLY(connected(t.session));
    leave_nothing(&t);
    CU_ASSERT_EQUAL(test_heap_live(&heap), 0);
    return code;
}

/* Every allocation of it fails once: a clean error or none, no znode and no byte left. Returns its code with memory enough. */
static int64_t starve(const struct row *row, bool held, bool sticky)
{
    enum { MOST = 400 };
    unsigned before = CU_get_number_of_failures();
    bool failed;
    int64_t wanted = fail_at(row, held, 0, false, &failed);
    bool makes = made;
    failed = true;
    for (long nth = 1; failed && CU_get_number_of_failures() == before; nth++) {
        int64_t code = fail_at(row, held, nth, sticky, &failed);
        CU_ASSERT(failed ? is_named(code, wanted) : code == wanted || (sticky && code == ZKL_ETIMEOUT));
        CU_ASSERT(made || !makes || code != wanted);
        CU_ASSERT(nth < MOST);
        if (sticky && nth == 1 && !held && row->starved != ANY) {
            CU_ASSERT_EQUAL(code, row->starved);
        }
        if (CU_get_number_of_failures() != before) {
            fprintf(stderr, "\n    %s%s, allocation %ld%s: %d\n", row->name, held ? " while held" : "", nth,
                    sticky ? " and all behind it" : "", (int)code);
        }
    }
    return wanted;
}

static void starve_each(bool sticky)
{
    keeper = kit_open(NULL);
    EACH_ROW (i, rows) {
        bool may_fail = returns_a_code(&rows[i]) || rows[i].starved != ANY;
        if (may_fail && starve(&rows[i], false, sticky) == ZKL_ENOTHELD) {
            starve(&rows[i], true, sticky);
        }
    }
    EACH_ROW (i, scenarios) {
        ASSERT_OK(starve(&scenarios[i], false, sticky));
    }
    kit_close(keeper);
}

TEST(test_one_allocation_fails)
{
    starve_each(false);
}

TEST(test_all_fail_from_one_on)
{
    starve_each(true);
}

TESTS("public calls")
