/* Every call that takes a timeout, with extreme ones, without a place for words, from a callback, in a child of fork; every object with
 * long paths and extreme options. Each works, or says by name what is wrong. */
#include "lock_kit.h"

#include <zklock/zookeeper.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define HOUR INT64_C(3600000)

/* --- one of each ----------------------------------------------------------------------------------------------------- */

struct things {
    zkl_session *session;
    const char *path;
    zkl_lock *lock, *job;
    zkl_lock *rwlock;
    zkl_lock *semaphore;
    zkl_lock *multilock;
    zkl_lock *election;
    zkl_group *group;
    zkl_double_barrier *barrier;
    zkl_partition *partition;
    char paths[8][ZKL_PATH_MAX + 8]; /* of each, below path */
};

static const char *below(struct things *t, int index, const char *name)
{
    snprintf(t->paths[index], sizeof t->paths[index], "%s/%s", t->path, name);
    return t->paths[index];
}

static void deaf_to_piece(zkl_partition *partition, const char *piece, int64_t token, void *payload)
{
    (void)partition, (void)piece, (void)token, (void)payload;
}

static void deaf_to_loss(zkl_partition *partition, const char *piece, bool lost, void *payload)
{
    (void)partition, (void)piece, (void)lost, (void)payload;
}

static int make_things(struct things *t, zkl_error *err)
{
    static const char *const pieces[] = {"piece"};
    zkl_partition_options parts = ZKL_PARTITION_OPTIONS_INIT;
    parts.assigned_fn = deaf_to_piece;
    parts.revoked_fn = deaf_to_loss;
    const char *paths[2] = {below(t, 0, "m1"), below(t, 1, "m2")};
    int rc = zkl_lock_new(&t->lock, t->session, below(t, 2, "lock"), NULL, err);
    rc = rc == ZKL_OK ? zkl_lock_new(&t->job, t->session, below(t, 3, "job"), NULL, err) : rc;
    rc = rc == ZKL_OK ? zkl_read_lock_new(&t->rwlock, t->session, below(t, 4, "rw"), NULL, err) : rc;
    rc = rc == ZKL_OK ? zkl_semaphore_new(&t->semaphore, t->session, below(t, 5, "sem"), 2, NULL, err) : rc;
    rc = rc == ZKL_OK ? zkl_multilock_new(&t->multilock, t->session, paths, 2, NULL, err) : rc;
    rc = rc == ZKL_OK ? zkl_election_new(&t->election, t->session, below(t, 6, "lead"), NULL, err) : rc;
    rc = rc == ZKL_OK ? zkl_group_new(&t->group, t->session, below(t, 7, "group"), "me", NULL, err) : rc;
    rc = rc == ZKL_OK ? zkl_partition_new(&t->partition, t->session, below(t, 1, "parts"), pieces, 1, &parts, err) : rc;
    return rc == ZKL_OK ? zkl_double_barrier_new(&t->barrier, t->session, below(t, 0, "both"), 1, err) : rc;
}

static void free_things(struct things *t)
{
    zkl_lock_free(t->lock);
    zkl_lock_free(t->job);
    zkl_lock_free(t->rwlock);
    zkl_lock_free(t->semaphore);
    zkl_lock_free(t->multilock);
    zkl_lock_free(t->election);
    zkl_group_free(t->group);
    zkl_double_barrier_free(t->barrier);
    zkl_partition_free(t->partition);
}

/* --- the calls ------------------------------------------------------------------------------------------------------- */

static int section(const zkl_cancel *cancel, int64_t token, void *payload)
{
    (void)cancel, (void)token, (void)payload;
    return 0;
}

static void acquired(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    (void)lock, (void)code, (void)grant, (void)err, (void)payload;
}

static int lock(struct things *t, int64_t ms, zkl_error *err)
{
    int rc = zkl_lock_acquire(t->lock, ms, NULL, err);
    return rc == ZKL_OK ? zkl_lock_release(t->lock, err) : rc;
}

static int lock_async(struct things *t, int64_t ms, zkl_error *err)
{
    int rc = zkl_lock_acquire_async(t->lock, ms, acquired, NULL, err);
    if (rc == ZKL_OK && zkl_lock_cancel(t->lock) == ZKL_ENOTWAITING && zkl_lock_is_held(t->lock)) {
        zkl_lock_release(t->lock, NULL);
    }
    return rc;
}

static int with_lock(struct things *t, int64_t ms, zkl_error *err)
{
    return zkl_with_lock(t->lock, ms, 0, section, NULL, NULL, err);
}

static int rwlock(struct things *t, int64_t ms, zkl_error *err)
{
    int rc = zkl_lock_acquire(t->rwlock, ms, NULL, err);
    return rc == ZKL_OK ? zkl_lock_release(t->rwlock, err) : rc;
}

static int semaphore(struct things *t, int64_t ms, zkl_error *err)
{
    int rc = zkl_semaphore_acquire(t->semaphore, 2, ms, NULL, err);
    return rc == ZKL_OK ? zkl_semaphore_release(t->semaphore, 0, err) : rc;
}

static int resize(struct things *t, int64_t ms, zkl_error *err)
{
    int rc = zkl_semaphore_resize(t->session, t->paths[5], 2, ms, err);
    return rc == ZKL_ENOENT || rc == ZKL_ECONFLICT ? ZKL_OK : rc;
}

static int multilock(struct things *t, int64_t ms, zkl_error *err)
{
    int rc = zkl_lock_acquire(t->multilock, ms, NULL, err);
    return rc == ZKL_OK ? zkl_lock_release(t->multilock, err) : rc;
}

static int campaign(struct things *t, int64_t ms, zkl_error *err)
{
    int rc = zkl_lock_acquire(t->election, ms, NULL, err);
    int published = rc == ZKL_OK ? zkl_election_publish(t->election, "", ms > 0 ? ms : 1000, err) : ZKL_OK;
    rc = rc == ZKL_OK ? zkl_lock_release(t->election, err) : rc;
    return rc == ZKL_OK ? published : rc;
}

static int publish(struct things *t, int64_t ms, zkl_error *err)
{
    int rc = zkl_election_publish(t->election, "x", ms, err);
    return rc == ZKL_ENOTHELD ? ZKL_OK : rc;
}

static int group(struct things *t, int64_t ms, zkl_error *err)
{
    int rc = zkl_group_join(t->group, ms, err);
    rc = rc == ZKL_OK ? zkl_group_update(t->group, "", ms, err) : rc;
    return rc == ZKL_OK ? zkl_group_leave(t->group, err) : rc;
}

static int group_list(struct things *t, int64_t ms, zkl_error *err)
{
    zkl_members *members = NULL;
    int rc = zkl_group_list(&members, t->session, t->paths[7], ms, err);
    zkl_members_free(members);
    return rc;
}

static int barrier(struct things *t, int64_t ms, zkl_error *err)
{
    char path[ZKL_PATH_MAX + 8];
    snprintf(path, sizeof path, "%s/bar", t->path);
    int rc = zkl_barrier_set(t->session, path, ms, err);
    rc = rc == ZKL_OK ? zkl_barrier_lift(t->session, path, ms, err) : rc;
    return rc == ZKL_OK ? zkl_barrier_wait(t->session, path, ms, err) : rc;
}

static int double_barrier(struct things *t, int64_t ms, zkl_error *err)
{
    int rc = zkl_double_barrier_enter(t->barrier, ms, err);
    return rc == ZKL_OK ? zkl_double_barrier_leave(t->barrier, ms, err) : rc;
}

static int once(struct things *t, int64_t ms, zkl_error *err)
{
    int rc = zkl_once_prepare(t->session, zkl_lock_path(t->job), ms, err);
    return rc == ZKL_OK ? zkl_once_run(t->job, HOUR, 0, ms, section, NULL, NULL, NULL, err) : rc;
}

static int once_look(struct things *t, int64_t ms, zkl_error *err)
{
    zkl_once_slot slot = {.round_ms = 1};
    int rc = zkl_once_look(t->job, HOUR, 0, ms, &slot, err);
    rc = rc == ZKL_ENOTHELD ? zkl_once_record(t->job, &slot, ms, err) : rc;
    return rc == ZKL_ENOTHELD ? ZKL_OK : rc;
}

static int once_last(struct things *t, int64_t ms, zkl_error *err)
{
    int64_t last_ms, recorded_ms;
    return zkl_once_last(t->session, zkl_lock_path(t->job), HOUR, ms, &last_ms, &recorded_ms, err);
}

static int queue_list(struct things *t, int64_t ms, zkl_error *err)
{
    zkl_queue *queue = NULL;
    int rc = zkl_queue_list(&queue, t->session, zkl_lock_path(t->lock), ms, err);
    zkl_queue_free(queue);
    return rc;
}

static int ask_to_release(struct things *t, int64_t ms, zkl_error *err)
{
    int rc = zkl_queue_revoke(t->session, zkl_lock_path(t->lock), NULL, ms, err);
    return rc == ZKL_ENOTHELD ? ZKL_OK : rc;
}

static int queue_remove(struct things *t, int64_t ms, zkl_error *err)
{
    int rc = zkl_queue_remove(t->session, zkl_lock_path(t->lock), "nobody-lock-0000000001", 1, ms, err);
    return rc == ZKL_ENOTHELD ? ZKL_OK : rc;
}

/* What they write for their caller goes with the completion. */
struct written {
    zkl_queue *queue;
    zkl_members *members;
    zkl_data *data;
    zkl_once_slot slot;
    int64_t last_ms, recorded_ms;
};

static void discard(int code, const zkl_error *err, void *payload)
{
    struct written *written = payload;
    (void)code, (void)err;
    zkl_queue_free(written->queue);
    zkl_members_free(written->members);
    zkl_data_free(written->data);
    free(written);
}

/* A call that was refused is not called back. */
static int begun(int rc, struct written *written)
{
    if (rc != ZKL_OK) {
        free(written);
    }
    return rc;
}

static int queue_async(struct things *t, int64_t ms, zkl_error *err)
{
    const char *path = zkl_lock_path(t->lock), *node = "nobody-lock-0000000001";
    int rc = ZKL_OK;
    for (int i = 0; i < 3 && rc == ZKL_OK; i++) {
        struct written *written = calloc(1, sizeof *written);
        rc = i == 0   ? zkl_queue_list_async(&written->queue, t->session, path, ms, discard, written, err)
             : i == 1 ? zkl_queue_revoke_async(t->session, path, NULL, ms, discard, written, err)
                      : zkl_queue_remove_async(t->session, path, node, 1, ms, discard, written, err);
        if (rc != ZKL_OK) {
            free(written);
        }
    }
    return rc;
}

static void swallow(int code, const zkl_error *err, void *payload)
{
    (void)code, (void)err, (void)payload;
}

static int group_async(struct things *t, int64_t ms, zkl_error *err)
{
    zkl_group_leave(t->group, NULL);
    int rc = zkl_group_join_async(t->group, ms, swallow, NULL, err);
    rc = rc == ZKL_OK ? zkl_group_update_async(t->group, "", ms, swallow, NULL, err) : rc;
    rc = rc == ZKL_OK ? zkl_group_leave_async(t->group, swallow, NULL, err) : rc;
    return ms == 0 && rc == ZKL_ENOTHELD ? ZKL_ETIMEOUT : rc;
}

static int group_list_async(struct things *t, int64_t ms, zkl_error *err)
{
    struct written *to = calloc(1, sizeof *to);
    return begun(zkl_group_list_async(&to->members, t->session, t->paths[7], ms, discard, to, err), to);
}

/* An object of its own each time: it cannot wait twice. */
static int semaphore_async(struct things *t, int64_t ms, zkl_error *err)
{
    zkl_lock *permits = NULL;
    int rc = zkl_semaphore_new(&permits, t->session, t->paths[5], 2, NULL, err);
    rc = rc == ZKL_OK ? zkl_semaphore_acquire_async(permits, 2, ms, acquired, NULL, err) : rc;
    zkl_lock_free(permits);
    return rc;
}

static int resize_async(struct things *t, int64_t ms, zkl_error *err)
{
    return zkl_semaphore_resize_async(t->session, t->paths[5], 2, ms, swallow, NULL, err);
}

static int unless_not_held(int rc)
{
    return rc == ZKL_ENOTHELD ? ZKL_OK : rc;
}

static int publish_async(struct things *t, int64_t ms, zkl_error *err)
{
    return unless_not_held(zkl_election_publish_async(t->election, "x", ms, swallow, NULL, err));
}

static int guarded(struct things *t, int64_t ms, zkl_error *err)
{
    zkl_data *data = NULL;
    int rc = unless_not_held(zkl_lock_read(&data, t->rwlock, t->path, true, ms, err));
    zkl_data_free(data);
    return rc == ZKL_OK ? unless_not_held(zkl_lock_commit(t->rwlock, NULL, 0, ms, NULL, err)) : rc;
}

static int guarded_async(struct things *t, int64_t ms, zkl_error *err)
{
    struct written *to = calloc(1, sizeof *to);
    int rc = begun(zkl_lock_read_async(&to->data, t->rwlock, t->path, true, ms, discard, to, err), to);
    rc = unless_not_held(rc);
    return rc == ZKL_OK ? unless_not_held(zkl_lock_commit_async(t->rwlock, NULL, 0, ms, NULL, swallow, NULL, err)) : rc;
}

static int piece(struct things *t, int64_t ms, zkl_error *err)
{
    return unless_not_held(zkl_partition_commit(t->partition, "piece", NULL, 0, ms, NULL, err));
}

static int piece_async(struct things *t, int64_t ms, zkl_error *err)
{
    return unless_not_held(zkl_partition_commit_async(t->partition, "piece", NULL, 0, ms, NULL, swallow, NULL, err));
}

/* Not at the path of the blocking calls: nobody waits for this set, and it may be sent when the next one of those has lifted its
 * barrier and waits for it. */
static int barrier_async(struct things *t, int64_t ms, zkl_error *err)
{
    char path[ZKL_PATH_MAX + 8];
    snprintf(path, sizeof path, "%s/own", t->path);
    int rc = zkl_barrier_set_async(t->session, path, ms, swallow, NULL, err);
    rc = rc == ZKL_OK ? zkl_barrier_lift_async(t->session, path, ms, swallow, NULL, err) : rc;
    return rc == ZKL_OK ? zkl_barrier_wait_async(t->session, path, ms, swallow, NULL, err) : rc;
}

static int double_barrier_async(struct things *t, int64_t ms, zkl_error *err)
{
    zkl_double_barrier *pair = NULL;
    int rc = zkl_double_barrier_new(&pair, t->session, t->paths[0], 1, err);
    rc = rc == ZKL_OK ? zkl_double_barrier_enter_async(pair, ms, swallow, NULL, err) : rc;
    rc = rc == ZKL_OK ? unless_not_held(zkl_double_barrier_leave_async(pair, ms, swallow, NULL, err)) : rc;
    zkl_double_barrier_free(pair);
    return rc;
}

static int once_async(struct things *t, int64_t ms, zkl_error *err)
{
    const char *path = zkl_lock_path(t->job);
    int rc = ZKL_OK;
    for (int i = 0; i < 4 && rc == ZKL_OK; i++) {
        struct written *to = calloc(1, sizeof *to);
        to->slot.round_ms = 1;
        rc = i == 0   ? zkl_once_prepare_async(t->session, path, ms, discard, to, err)
             : i == 1 ? zkl_once_look_async(t->job, HOUR, 0, ms, &to->slot, discard, to, err)
             : i == 2
                 ? zkl_once_record_async(t->job, &to->slot, ms, discard, to, err)
                 : zkl_once_last_async(t->session, path, HOUR, ms, &to->last_ms, &to->recorded_ms, discard, to, err);
        rc = unless_not_held(begun(rc, to));
    }
    return rc;
}

static const struct call {
    const char *name;
    int (*make)(struct things *t, int64_t ms, zkl_error *err);
} calls[] = {
    {"lock", lock},
    {"lock_async", lock_async},
    {"with_lock", with_lock},
    {"rwlock", rwlock},
    {"semaphore", semaphore},
    {"semaphore_resize", resize},
    {"multilock", multilock},
    {"campaign", campaign},
    {"publish", publish},
    {"group", group},
    {"barrier", barrier},
    {"double_barrier", double_barrier},
    {"once", once},
    {"once_look", once_look},
    {"once_last", once_last},
    {"queue_list", queue_list},
    {"group_list", group_list},
    {"revoke", ask_to_release},
    {"queue_remove", queue_remove},
    {"queue_async", queue_async},
    {"group_async", group_async},
    {"group_list_async", group_list_async},
    {"semaphore_async", semaphore_async},
    {"resize_async", resize_async},
    {"publish_async", publish_async},
    {"guarded", guarded},
    {"guarded_async", guarded_async},
    {"piece", piece},
    {"piece_async", piece_async},
    {"barrier_async", barrier_async},
    {"double_barrier_async", double_barrier_async},
    {"once_async", once_async},
};
#define CALLS (sizeof calls / sizeof *calls)

/* Says which one it was. */
static void expect(const struct call *call, int64_t ms, int rc, int wanted)
{
    if (rc != wanted) {
        printf("(%s with %lld: %s) ", call->name, (long long)ms, zkl_error_name(rc));
    }
    CU_ASSERT_EQUAL(rc, wanted);
}

/* --- tests ----------------------------------------------------------------------------------------------------------- */

static void begin(struct things *t, const char *path)
{
    zkl_error err;
    *t = (struct things){.session = kit_open(NULL), .path = path};
    CU_ASSERT_EQUAL_FATAL(make_things(t, &err), ZKL_OK);
}

static void end(struct things *t)
{
    free_things(t);
    kit_close(t->session);
}

static void test_timeouts(void)
{
    static const int64_t wrong[] = {INT64_MIN, INT64_MIN + 1, -2};
    static const int64_t right[] = {INT64_MAX, INT64_MAX - 1, INT64_MAX / 1000000, ZKL_WAIT_FOREVER};
    struct things t;
    zkl_error err = {.text = ""};
    begin(&t, "/every");
    for (size_t i = 0; i < CALLS; i++) {
        for (size_t j = 0; j < sizeof right / sizeof *right; j++) {
            expect(&calls[i], right[j], calls[i].make(&t, right[j], &err), ZKL_OK);
            expect(&calls[i], right[j], calls[i].make(&t, right[j], NULL), ZKL_OK);
        }
        for (size_t j = 0; j < sizeof wrong / sizeof *wrong; j++) {
            expect(&calls[i], wrong[j], calls[i].make(&t, wrong[j], &err), ZKL_EINVAL);
            CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "timeout_ms is -"));
            expect(&calls[i], wrong[j], calls[i].make(&t, wrong[j], NULL), ZKL_EINVAL);
        }
        int rc = calls[i].make(&t, 0, NULL); /* a try, or no time at all */
        CU_ASSERT(rc == ZKL_OK || rc == ZKL_ETIMEOUT);
    }
    end(&t);
}

/* Refused, a close has not begun. */
static void test_timeouts_of_a_close(void)
{
    static const int64_t wrong[] = {INT64_MIN, INT64_MIN + 1, -5, -2};
    zkl_session *session = kit_open(NULL);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        zkl_error err = {.text = ""};
        CU_ASSERT_EQUAL(zkl_session_close(session, wrong[i]), ZKL_EINVAL);
        CU_ASSERT_EQUAL(zkl_session_close_async(session, wrong[i], swallow, NULL, &err), ZKL_EINVAL);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "timeout_ms is -"));
        CU_ASSERT_EQUAL(zkl_session_state(session), ZKL_SESSION_CONNECTED);
    }
    CU_ASSERT_EQUAL(zkl_session_close(NULL, -5), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_session_close(session, ZKL_WAIT_FOREVER), ZKL_OK);
}

static atomic_int callback_failures, callback_done;

static void from_a_callback(zkl_lock *from, int code, const zkl_grant *grant, const zkl_error *last, void *payload)
{
    zkl_session *other;
    (void)from, (void)code, (void)grant, (void)last;
    for (size_t i = 0; i < CALLS; i++) {
        if (calls[i].make != lock_async) { /* its end would have to come before this one's */
            atomic_fetch_add(&callback_failures, calls[i].make(payload, 30000, NULL) != ZKL_OK);
        }
    }
    int rc = zkl_session_open(&other, PLACE, NULL, NULL);
    rc = rc == ZKL_OK ? zkl_session_close(other, 30000) : rc;
    atomic_fetch_add(&callback_failures, rc != ZKL_OK);
    atomic_store(&callback_done, 1);
}

/* Of a thread's or in dispatch: a call waits there as anywhere. */
static void test_from_callbacks(void)
{
    for (int dispatched = 0; dispatched < 2; dispatched++) {
        zkl_session_options options = dispatched ? kit_dispatched() : (zkl_session_options)ZKL_SESSION_OPTIONS_INIT;
        struct things t = {.session = kit_open(&options), .path = "/every"};
        zkl_lock *trigger = kit_lock(t.session, "/trigger", NULL);
        CU_ASSERT_EQUAL_FATAL(make_things(&t, NULL), ZKL_OK);
        atomic_store(&callback_failures, 0);
        atomic_store(&callback_done, 0);
        CU_ASSERT_EQUAL(zkl_lock_acquire_async(trigger, 10000, from_a_callback, &t, NULL), ZKL_OK);
        CU_ASSERT(EVENTUALLY((zkl_session_dispatch(t.session), atomic_load(&callback_done))));
        CU_ASSERT_EQUAL(atomic_load(&callback_failures), 0);
        zkl_lock_free(trigger);
        end(&t);
    }
}

static int in_child(struct things *t)
{
    struct things more = {.session = t->session, .path = t->path};
    alarm(30); /* a child that waits for threads it does not have */
    for (size_t i = 0; i < CALLS; i++) {
        zkl_error err = {.code = 0};
        if (calls[i].make(t, 1000, &err) != ZKL_EFORKED || err.code != ZKL_EFORKED ||
            calls[i].make(t, 1000, NULL) != ZKL_EFORKED) {
            printf("(%s in a child) ", calls[i].name);
            return 1;
        }
    }
    bool fine = make_things(&more, NULL) == ZKL_EFORKED && zkl_session_close(t->session, 1000) == ZKL_EFORKED;
    free_things(t);
    return fine ? 0 : 1;
}

static void test_in_a_child(void)
{
    struct things t;
    int status = -1;
    begin(&t, "/every");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int code = in_child(&t);
        fflush(stdout);
        _exit(code);
    }
    CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
    CU_ASSERT_EQUAL(status, 0);
    CU_ASSERT_EQUAL(lock(&t, 10000, NULL), ZKL_OK);
    end(&t);
}

/* Of that length, in components of 40. */
static void long_path(char *path, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        path[i] = i % 40 == 0 && i + 1 < length ? '/' : 'x';
    }
    path[length] = '\0';
}

/* Each name of a znode below it has 50 bytes or so more: those are no longer the user's business. */
static void test_long_paths(void)
{
    static const size_t lengths[] = {990, 1000, 1014, 1015, 1018, 1020, 1024, 1025, 1026, 5000, 70000};
    static char path[70001];
    zkl_session *session = kit_open(NULL);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        zkl_error err = {.text = ""};
        zkl_lock *made = NULL;
        long_path(path, lengths[i]);
        bool fits = lengths[i] <= ZKL_PATH_MAX;
        CU_ASSERT_EQUAL(zkl_lock_new(&made, session, path, NULL, &err), fits ? ZKL_OK : ZKL_EINVAL);
        CU_ASSERT(fits || (!made && strstr(err.text, "1024")));
        CU_ASSERT(!fits || zkl_lock_acquire(made, 10000, NULL, &err) == ZKL_OK);
        zkl_lock_free(made);
        if (fits) {
            path[lengths[i] > 1000 ? 1000 : lengths[i]] = '\0';
            struct things t = {.session = session, .path = path};
            int rc = make_things(&t, &err);
            for (size_t j = 0; rc == ZKL_OK && j < CALLS; j++) {
                expect(&calls[j], 10000, calls[j].make(&t, 10000, &err), ZKL_OK);
            }
            free_things(&t);
        }
    }
    kit_close(session);
}

/* No elements, or no room for what is written. */
static void test_nothing_given(void)
{
    struct things t;
    zkl_error err = {.text = ""};
    zkl_lock *none = NULL;
    zkl_double_barrier *nobody = NULL;
    const zkl_acl empty = {.count = 0, .entries = NULL};
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    zkl_lock *closed = NULL;
    const char *hole[2] = {"/a", NULL};
    begin(&t, "/every");
    CU_ASSERT_EQUAL(zkl_multilock_new(&none, t.session, NULL, 0, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_multilock_new(&none, t.session, hole, 0, NULL, NULL), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_multilock_new(&none, t.session, hole, 2, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_multilock_new(&none, t.session, hole, SIZE_MAX, NULL, &err), ZKL_ELIMIT);
    CU_ASSERT_EQUAL(zkl_double_barrier_new(&nobody, t.session, "/b", 0, &err), ZKL_EINVAL);
    options.acl = &empty;
    CU_ASSERT_EQUAL(zkl_lock_new(&closed, t.session, "/a", &options, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_lock_acquire(t.lock, 10000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_commit(t.lock, NULL, 0, ZKL_WAIT_FOREVER, NULL, &err),
                    ZKL_OK); /* the servers say that it is held */
    CU_ASSERT_EQUAL(zkl_lock_commit(t.lock, NULL, 1, ZKL_WAIT_FOREVER, NULL, NULL), ZKL_EINVAL);
    CU_ASSERT(zkl_lock_node(t.lock, NULL, 0) > 0);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(t.semaphore, 1, 10000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_semaphore_tokens(t.semaphore, NULL, 0), 1);
    CU_ASSERT(zkl_stats_write_prometheus(t.session, NULL, NULL, 0) > 0);
    CU_ASSERT_PTR_NULL(zkl_multilock_path(t.multilock, SIZE_MAX));
    end(&t);
}

/* Who cleans up after a failure frees what out says. */
static void changed(zkl_group_observer *watcher, const char *const *ids, size_t count, void *payload)
{
    (void)watcher, (void)ids, (void)count, (void)payload;
}

static void led(zkl_election_observer *observer, const zkl_leader *leader, void *payload)
{
    (void)observer, (void)leader, (void)payload;
}

/* payload: a mailbox */
static void closed(int code, const zkl_error *err, void *payload)
{
    (void)err;
    mailbox_put(payload, (struct letter){.code = code});
}

#define GARBAGE(type) type *out = (type *)(uintptr_t)16
#define NULLED(type, call)                 \
    do {                                   \
        GARBAGE(type);                     \
        CU_ASSERT_NOT_EQUAL(call, ZKL_OK); \
        CU_ASSERT_PTR_NULL(out);           \
    } while (0)

static void test_nothing_made_is_null(void)
{
    zkl_session *session = kit_open(NULL);
    const char *paths[1] = {"no/path"}, *pieces[1] = {"a/b"};
    zkl_partition_options partition = ZKL_PARTITION_OPTIONS_INIT;
    NULLED(zkl_session, zkl_session_open(&out, "no servers at all", NULL, NULL));
    NULLED(zkl_session, zkl_session_open(&out, NULL, NULL, NULL));
    NULLED(zkl_lock, zkl_lock_new(&out, session, "no/path", NULL, NULL));
    NULLED(zkl_lock, zkl_lock_new(&out, NULL, "/path", NULL, NULL));
    NULLED(zkl_lock, zkl_read_lock_new(&out, session, "no/path", NULL, NULL));
    NULLED(zkl_lock, zkl_semaphore_new(&out, session, "no/path", 1, NULL, NULL));
    NULLED(zkl_lock, zkl_semaphore_new(&out, session, "/path", -1, NULL, NULL));
    NULLED(zkl_lock, zkl_multilock_new(&out, session, paths, 1, NULL, NULL));
    NULLED(zkl_lock, zkl_election_new(&out, session, "no/path", NULL, NULL));
    NULLED(zkl_election_observer, zkl_election_observe(&out, session, "no/path", led, NULL, NULL));
    NULLED(zkl_group, zkl_group_new(&out, session, "/path", "a/b", NULL, NULL));
    NULLED(zkl_group_observer, zkl_group_observe(&out, session, "no/path", changed, NULL, NULL));
    NULLED(zkl_partition, zkl_partition_new(&out, session, "/path", pieces, 1, &partition, NULL));
    NULLED(zkl_double_barrier, zkl_double_barrier_new(&out, session, "/path", 0, NULL));
    NULLED(zkl_queue, zkl_queue_list(&out, session, "no/path", 100, NULL));
    NULLED(zkl_members, zkl_group_list(&out, session, "no/path", 100, NULL));
    kit_close(session);
}

static void test_close_timeouts(void)
{
    static const int64_t wrong[] = {INT64_MIN, -2}, right[] = {0, INT64_MAX};
    for (size_t i = 0; i < 2; i++) {
        struct mailbox box = MAILBOX_INIT;
        zkl_error err = {.text = ""};
        zkl_session *session = kit_open(NULL);
        CU_ASSERT_EQUAL(zkl_session_close_async(session, wrong[i], closed, &box, &err), ZKL_EINVAL);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "timeout_ms is -"));
        CU_ASSERT_EQUAL(zkl_session_close_async(session, right[i], closed, &box, NULL), ZKL_OK);
        CU_ASSERT_TRUE(mailbox_wait(&box, 1));
    }
}

/* Numbers of options: as they are, or refused by the name of the option. */
static void test_options(void)
{
    static const int64_t extremes[] = {INT64_MIN, -1, 0, INT64_MAX};
    for (size_t i = 0; i < 4 * (sizeof extremes / sizeof *extremes); i++) {
        zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
        int64_t *const numbers[] = {&options.session_timeout_ms, &options.tick_ms, &options.leader_pause_ms,
                                    &options.connect_timeout_ms};
        static const char *const names[] = {"session_timeout_ms", "tick_ms", "leader_pause_ms", "connect_timeout_ms"};
        zkl_error err = {.text = ""};
        *numbers[i % 4] = extremes[i / 4];
        zkl_session *session = NULL;
        int rc = zkl_session_open(&session, PLACE, &options, &err);
        CU_ASSERT(rc == ZKL_OK || rc == ZKL_ECONNECT || (rc == ZKL_EINVAL && strstr(err.text, names[i % 4])));
        CU_ASSERT_EQUAL(zkl_session_close(session, i / 4 == 3 ? INT64_MAX : ZKL_WAIT_FOREVER), ZKL_OK);
    }
    zkl_session *session = kit_open(NULL);
    for (size_t i = 0; i < 2 * (sizeof extremes / sizeof *extremes); i++) {
        zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
        zkl_error err = {.text = ""};
        zkl_lock *made = NULL;
        *(i % 2 ? &options.max_hold_ms : &options.release_timeout_ms) = extremes[i / 2];
        int rc = zkl_lock_new(&made, session, "/options", &options, &err);
        CU_ASSERT_EQUAL(rc, extremes[i / 2] == 0 ? ZKL_OK : ZKL_EINVAL);
        CU_ASSERT(rc == ZKL_OK || strstr(err.text, i % 2 ? "max_hold_ms" : "release_timeout_ms"));
        zkl_lock_free(made);
    }
    kit_close(session);
}

static void test_margins_and_slots(void)
{
    static const int64_t extremes[] = {INT64_MIN, -1, INT64_MAX};
    struct things t;
    begin(&t, "/every");
    for (size_t i = 0; i < sizeof extremes / sizeof *extremes; i++) {
        zkl_error err = {.text = ""};
        zkl_once_slot slot;
        int64_t value = extremes[i];
        CU_ASSERT_EQUAL(zkl_with_lock(t.lock, 1000, value, section, NULL, NULL, &err), ZKL_EINVAL);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "margin_ms"));
        CU_ASSERT_EQUAL(zkl_election_run(t.election, value, section, NULL, NULL, NULL), ZKL_EINVAL);
        CU_ASSERT_EQUAL(zkl_once_look(t.job, value, 0, 1000, &slot, &err), ZKL_EINVAL);
        CU_ASSERT_EQUAL(zkl_once_look(t.job, HOUR, value, 1000, &slot, NULL), ZKL_EINVAL);
        CU_ASSERT_EQUAL(zkl_once_run(t.job, value, 0, 1000, section, NULL, NULL, NULL, NULL), ZKL_EINVAL);
        CU_ASSERT_EQUAL(zkl_once_run(t.job, HOUR, value, 1000, section, NULL, NULL, NULL, &err), ZKL_EINVAL);
    }
    end(&t);
}

TESTS("every_call", T(test_timeouts), T(test_timeouts_of_a_close), T(test_from_callbacks), T(test_in_a_child),
      T(test_long_paths), T(test_nothing_given), T(test_nothing_made_is_null), T(test_close_timeouts), T(test_options),
      T(test_margins_and_slots))
