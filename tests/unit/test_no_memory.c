/* Every allocation of every scenario fails once, alone and with all behind it: a clean error or none, no znode and no byte left. */
#include "lock_kit.h"
#include "test_heap.h"

#include <string.h>

#include <zklock/zookeeper.h>

enum { MOST = 400 };

static int64_t wait_ms; /* for each call */

static zkl_session *keeper; /* with memory: it keeps the tree, holds what others wait for, and counts what is left */

/* While no memory comes a release cannot be answered: it goes on in the background. */
static zkl_lock_options quick = ZKL_LOCK_OPTIONS_INIT;
static zkl_group_options quick_group = ZKL_GROUP_OPTIONS_INIT;

static void release_quickly(void)
{
    quick.release_timeout_ms = quick_group.leave_timeout_ms = 20;
}

/* Goes on only while all is well. */
#define THEN(call) code = code == ZKL_OK ? (call) : code

/* --- locks --------------------------------------------------------------------------------------------------------- */

static int acquire_with(zkl_session *session, const zkl_lock_options *options)
{
    zkl_lock *lock = NULL;
    int code = zkl_lock_new(&lock, session, "/m/lock", options, NULL);
    THEN(zkl_lock_acquire(lock, wait_ms, NULL, NULL));
    THEN(zkl_lock_release(lock, NULL));
    zkl_lock_free(lock);
    return code;
}

static int acquire(zkl_session *session)
{
    return acquire_with(session, &quick);
}

static void deaf_to_state(zkl_lock *lock, zkl_state state, void *payload)
{
    (void)lock;
    (void)state;
    (void)payload;
}

static void deaf_to_request(zkl_lock *lock, void *payload)
{
    (void)lock;
    (void)payload;
}

static int acquire_with_all_options(zkl_session *session)
{
    static const zkl_acl_entry anyone = {ZKL_PERM_ALL, "world", "anyone"};
    static const zkl_acl open = {1, &anyone};
    zkl_lock_options options = quick;
    options.metadata = "who I am";
    options.recursive = true;
    options.recover = true;
    options.acl = &open;
    options.state_fn = deaf_to_state;
    options.revoke_fn = deaf_to_request;
    return acquire_with(session, &options);
}

static int acquire_twice(zkl_session *session)
{
    zkl_lock_options options = quick;
    options.recursive = true;
    zkl_lock *lock = NULL;
    int code = zkl_lock_new(&lock, session, "/m/lock", &options, NULL);
    THEN(zkl_lock_acquire(lock, wait_ms, NULL, NULL));
    THEN(zkl_lock_acquire(lock, wait_ms, NULL, NULL));
    THEN(zkl_lock_release(lock, NULL));
    zkl_lock_free(lock);
    return code;
}

/* While the keeper holds: a try, a wait that ends, one that is cancelled, one that is granted. */
static int behind_a_holder(zkl_session *session, int way)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_lock *held = kit_lock(keeper, "/m/lock", NULL), *lock = NULL;
    CU_ASSERT_EQUAL_FATAL(zkl_lock_acquire(held, 10000, NULL, NULL), ZKL_OK);
    int code = zkl_lock_new(&lock, session, "/m/lock", &quick, NULL);
    if (way == 0) {
        THEN(zkl_lock_acquire(lock, 0, NULL, NULL));
    } else if (way == 1) {
        THEN(zkl_lock_acquire(lock, 20, NULL, NULL));
    } else {
        THEN(zkl_lock_acquire_async(lock, wait_ms, on_acquired, &box, NULL));
        if (code == ZKL_OK && way == 2) {
            zkl_lock_cancel(lock);
        } else {
            zkl_lock_release(held, NULL);
        }
        if (code == ZKL_OK) {
            CU_ASSERT(mailbox_wait(&box, 1));
            code = mailbox_last(&box);
        }
    }
    zkl_lock_free(lock);
    zkl_lock_free(held);
    return code;
}

static int try_behind(zkl_session *session)
{
    return behind_a_holder(session, 0);
}

static int time_out_behind(zkl_session *session)
{
    return behind_a_holder(session, 1);
}

static int cancel_behind(zkl_session *session)
{
    return behind_a_holder(session, 2);
}

static int granted_behind(zkl_session *session)
{
    return behind_a_holder(session, 3);
}

static int in_a_section(const zkl_cancel *cancel, int64_t token, void *payload)
{
    (void)token;
    (void)payload;
    return zkl_cancel_raised(cancel);
}

static int with_lock(zkl_session *session)
{
    zkl_lock *lock = NULL;
    int result;
    int code = zkl_lock_new(&lock, session, "/m/lock", &quick, NULL);
    THEN(zkl_with_lock(lock, wait_ms, 100, in_a_section, NULL, &result, NULL));
    zkl_lock_free(lock);
    return code;
}

static int commit(zkl_session *session)
{
    const zkl_op ops[] = {
        {.kind = ZKL_OP_CREATE, .path = "/m/lock-data", .data = "1", .size = 1, .mode = ZKL_CREATE_EPHEMERAL},
        {.kind = ZKL_OP_DELETE, .path = "/m/lock-data", .version = ZKL_ANY_VERSION}};
    zkl_op_result results[2];
    zkl_lock *lock = NULL;
    int code = zkl_lock_new(&lock, session, "/m/lock", &quick, NULL);
    THEN(zkl_lock_acquire(lock, wait_ms, NULL, NULL));
    THEN(zkl_lock_commit(lock, ops, 2, ZKL_WAIT_FOREVER, results, NULL));
    THEN(zkl_lock_release(lock, NULL));
    zkl_lock_free(lock);
    return code;
}

static void on_done(int code, const zkl_error *err, void *payload)
{
    (void)err;
    mailbox_put(payload, (struct letter){.code = code});
}

/* The code of a call that was begun, once it is done. */
static int done(int begun, struct mailbox *box)
{
    if (begun == ZKL_OK) {
        CU_ASSERT_TRUE_FATAL(mailbox_wait(box, 1));
        begun = mailbox_last(box);
        mailbox_clear(box);
    }
    return begun;
}

static int without_waiting(zkl_session *session)
{
    static const zkl_acl_entry anyone = {ZKL_PERM_ALL, "world", "anyone"};
    static const zkl_acl open = {1, &anyone};
    const zkl_op op = {
        .kind = ZKL_OP_CREATE, .path = "/m/lock-data", .mode = ZKL_CREATE_EPHEMERAL_SEQUENTIAL, .acl = &open};
    struct mailbox box = MAILBOX_INIT;
    zkl_op_result result;
    zkl_data *data = NULL;
    zkl_lock *lock = NULL;
    int code = zkl_lock_new(&lock, session, "/m/lock", &quick, NULL);
    THEN(zkl_lock_acquire(lock, wait_ms, NULL, NULL));
    THEN(done(zkl_lock_commit_async(lock, &op, 1, wait_ms, &result, on_done, &box, NULL), &box));
    THEN(zkl_lock_read(&data, lock, "/m/lock", false, wait_ms, NULL));
    zkl_data_free(data);
    data = NULL;
    THEN(done(zkl_lock_read_async(&data, lock, "/m/lock", true, wait_ms, on_done, &box, NULL), &box));
    THEN(done(zkl_lock_release_async(lock, on_done, &box, NULL), &box));
    zkl_data_free(data);
    zkl_lock_free(lock);
    return code;
}

static void visit(const char *path, zkl_state state, int64_t token, void *payload)
{
    (void)path;
    (void)state;
    (void)token;
    (void)payload;
}

static int visit_all(zkl_session *session)
{
    zkl_lock *lock = NULL;
    int code = zkl_lock_new(&lock, session, "/m/lock", &quick, NULL);
    THEN(zkl_lock_acquire(lock, wait_ms, NULL, NULL));
    if (code == ZKL_OK) {
        zkl_session_locks(session, visit, NULL);
    }
    zkl_lock_free(lock);
    return code;
}

static bool cut_later; /* the hook had no memory: a reply was lost, and the connection is still to follow */

/* The connection is lost with the create applied, and comes again. */
static int lost_create(zkl_session *session)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_lock *lock = NULL;
    int64_t id = zkl_session_id(session);
    int code = zkl_lock_new(&lock, session, "/m/lock", &quick, NULL);
    if (code == ZKL_OK && zkl__memory_break(id, 0, 1, 1) == ZKL_OK) {
        THEN(zkl_lock_acquire_async(lock, wait_ms, on_acquired, &box, NULL));
        zkl__memory_break(id, 0, 0, 0); /* if it was not sent at all */
        cut_later = zkl__memory_suspend(id) == ZKL_ENOMEM;
        zkl__memory_resume(id);
        if (code == ZKL_OK) {
            CU_ASSERT(mailbox_wait(&box, 1));
            code = mailbox_last(&box);
        }
    }
    zkl_lock_free(lock);
    return code;
}

static int expiry_while_holding(zkl_session *session)
{
    zkl_lock *lock = NULL;
    int code = zkl_lock_new(&lock, session, "/m/lock", &quick, NULL);
    THEN(zkl_lock_acquire(lock, wait_ms, NULL, NULL));
    if (code == ZKL_OK && zkl__memory_expire(zkl_session_id(session)) == ZKL_OK) {
        CU_ASSERT(EVENTUALLY(zkl_lock_state(lock) == ZKL_STATE_LOST)); /* the notice of a loss needs no memory */
        CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_ELOST);
    }
    zkl_lock_free(lock);
    return code;
}

/* --- the other recipes --------------------------------------------------------------------------------------------- */

static int read_lock(zkl_session *session)
{
    zkl_lock *lock = NULL;
    int code = zkl_read_lock_new(&lock, session, "/m/rw", &quick, NULL);
    THEN(zkl_lock_acquire(lock, wait_ms, NULL, NULL));
    THEN(zkl_lock_release(lock, NULL));
    zkl_lock_free(lock);
    return code;
}

static int write_lock_and_downgrade(zkl_session *session)
{
    zkl_lock *lock = NULL;
    int code = zkl_write_lock_new(&lock, session, "/m/rw", &quick, NULL);
    THEN(zkl_lock_acquire(lock, wait_ms, NULL, NULL));
    THEN(zkl_write_lock_downgrade(lock, NULL));
    THEN(zkl_lock_release(lock, NULL));
    zkl_lock_free(lock);
    return code;
}

static int semaphore(zkl_session *session)
{
    zkl_lock *permits = NULL;
    int code = zkl_semaphore_new(&permits, session, "/m/pool", 3, &quick, NULL);
    THEN(zkl_semaphore_acquire(permits, 2, wait_ms, NULL, NULL));
    THEN(zkl_semaphore_release(permits, 2, NULL));
    zkl_lock_free(permits);
    return code;
}

static int semaphore_later(zkl_session *session)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_lock *permits = NULL;
    int code = zkl_semaphore_new(&permits, session, "/m/pool", 3, &quick, NULL);
    int begun = code == ZKL_OK ? zkl_semaphore_acquire_async(permits, 2, wait_ms, on_acquired, &box, NULL) : code;
    code = done(begun, &box);
    THEN(zkl_semaphore_release(permits, 2, NULL));
    zkl_lock_free(permits);
    return code;
}

static int resize(zkl_session *session)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_lock *permits = NULL;
    CU_ASSERT_EQUAL_FATAL(zkl_semaphore_new(&permits, keeper, "/m/pool", 0, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(zkl_semaphore_acquire(permits, 1, 10000, NULL, NULL), ZKL_OK);
    int code = zkl_semaphore_resize(session, "/m/pool", 2, wait_ms, NULL);
    THEN(done(zkl_semaphore_resize_async(session, "/m/pool", 3, wait_ms, on_done, &box, NULL), &box));
    zkl_lock_free(permits);
    return code;
}

/* The limit stays behind: as the others know it. */
static void size_again(void)
{
    CU_ASSERT_EQUAL(zkl_semaphore_resize(keeper, "/m/pool", 3, 10000, NULL), ZKL_OK);
}

static int multilock(zkl_session *session)
{
    static const char *const paths[] = {"/m/a", "/m/b", "/m/c"};
    zkl_lock *lock = NULL;
    int code = zkl_multilock_new(&lock, session, paths, 3, NULL, NULL);
    THEN(zkl_lock_acquire(lock, wait_ms, NULL, NULL));
    THEN(zkl_lock_release(lock, NULL));
    zkl_lock_free(lock);
    return code;
}

static void deaf_to_leader(zkl_election_observer *observer, const zkl_leader *leader, void *payload)
{
    (void)observer;
    (void)leader;
    (void)payload;
}

static int election(zkl_session *session)
{
    zkl_lock *candidate = NULL;
    zkl_election_observer *observer = NULL;
    int code = zkl_election_observe(&observer, session, "/m/leader", deaf_to_leader, NULL, NULL);
    THEN(zkl_election_new(&candidate, session, "/m/leader", &quick, NULL));
    THEN(zkl_lock_acquire(candidate, wait_ms, NULL, NULL));
    THEN(zkl_election_publish(candidate, "here", wait_ms, NULL));
    THEN(zkl_lock_release(candidate, NULL));
    zkl_lock_free(candidate);
    zkl_election_observer_free(observer);
    return code;
}

static int lead_for_a_moment(const zkl_cancel *cancel, int64_t token, void *payload)
{
    (void)token;
    (void)payload;
    return 1 + zkl_cancel_raised(cancel);
}

static int election_run(zkl_session *session)
{
    zkl_lock *candidate = NULL;
    zkl_lock_options options = quick;
    zkl_stop stop = ZKL_STOP_INIT;
    options.on_expiry = ZKL_ON_EXPIRY_FAIL;
    int result = 0;
    int code = zkl_election_new(&candidate, session, "/m/leader", &options, NULL);
    THEN(zkl_lock_set_stop(candidate, &stop, NULL));
    THEN(zkl_election_run(candidate, 0, lead_for_a_moment, NULL, &result, NULL));
    zkl_lock_free(candidate);
    return code;
}

/* payload: a mailbox */
static void on_stand(zkl_lock *lock, zkl_state state, int64_t token, const zkl_error *err, void *payload)
{
    (void)token;
    mailbox_put(payload, (struct letter){.from = lock, .code = state == ZKL_STATE_IDLE ? err->code : 1 + (int)state});
}

/* A campaign without memory is repeated until there is some, so here it waits for none. */
static int stand(zkl_session *session)
{
    struct mailbox box = MAILBOX_INIT, published = MAILBOX_INIT;
    zkl_lock *candidate = NULL;
    int code = zkl_election_new(&candidate, session, "/m/leader", &quick, NULL);
    THEN(zkl_election_stand(candidate, on_stand, &box, NULL));
    if (code == ZKL_OK) {
        struct patience patience = {.until = now_ms() + wait_ms};
        while (mailbox_count(&box) == 0 && patience_left(&patience)) {
        }
        code = zkl_lock_is_held(candidate) ? ZKL_OK : ZKL_ETIMEOUT;
        THEN(done(zkl_election_publish_async(candidate, "later", wait_ms, on_done, &published, NULL), &published));
        zkl_election_leave(candidate, NULL);
    }
    zkl_lock_free(candidate);
    CU_ASSERT(mailbox_count(&box) == 0 || mailbox_last(&box) <= ZKL_OK); /* the last call is the end */
    return code;
}

static void deaf_to_members(zkl_group_observer *watcher, const char *const *ids, size_t count, void *payload)
{
    (void)watcher;
    (void)ids;
    (void)count;
    (void)payload;
}

static int group(zkl_session *session)
{
    zkl_group *member = NULL;
    zkl_group_observer *watcher = NULL;
    zkl_members *members = NULL;
    int code = zkl_group_observe(&watcher, session, "/m/group", deaf_to_members, NULL, NULL);
    THEN(zkl_group_new(&member, session, "/m/group", "me", &quick_group, NULL));
    THEN(zkl_group_join(member, wait_ms, NULL));
    THEN(zkl_group_update(member, "more", wait_ms, NULL));
    THEN(zkl_group_list(&members, session, "/m/group", wait_ms, NULL));
    THEN(zkl_group_leave(member, NULL));
    zkl_members_free(members);
    zkl_group_free(member);
    zkl_group_observer_free(watcher);
    return code;
}

static int barrier(zkl_session *session)
{
    int code = zkl_barrier_set(session, "/m/barrier", wait_ms, NULL);
    THEN(zkl_barrier_wait(session, "/m/barrier", 20, NULL) == ZKL_ENOMEM ? ZKL_ENOMEM : ZKL_OK);
    THEN(zkl_barrier_lift(session, "/m/barrier", wait_ms, NULL));
    return code;
}

static int barrier_later(zkl_session *session)
{
    struct mailbox box = MAILBOX_INIT;
    int code = done(zkl_barrier_set_async(session, "/m/barrier", wait_ms, on_done, &box, NULL), &box);
    THEN(done(zkl_barrier_lift_async(session, "/m/barrier", wait_ms, on_done, &box, NULL), &box));
    THEN(done(zkl_barrier_wait_async(session, "/m/barrier", wait_ms, on_done, &box, NULL), &box));
    return code;
}

static void lift_barrier(void)
{
    CU_ASSERT_EQUAL(zkl_barrier_lift(keeper, "/m/barrier", 10000, NULL), ZKL_OK);
}

static int double_barrier(zkl_session *session)
{
    zkl_double_barrier *pair = NULL;
    int code = zkl_double_barrier_new(&pair, session, "/m/double", 1, NULL);
    THEN(zkl_double_barrier_enter(pair, wait_ms, NULL));
    THEN(zkl_double_barrier_leave(pair, wait_ms, NULL));
    zkl_double_barrier_free(pair);
    return code;
}

static int double_barrier_later(zkl_session *session)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_double_barrier *pair = NULL;
    int code = zkl_double_barrier_new(&pair, session, "/m/double", 1, NULL);
    THEN(done(zkl_double_barrier_enter_async(pair, wait_ms, on_done, &box, NULL), &box));
    THEN(done(zkl_double_barrier_leave_async(pair, wait_ms, on_done, &box, NULL), &box));
    zkl_double_barrier_free(pair);
    return code;
}

/* The sign that all are in may stay up: whoever leaves next takes it down. */
static void leave_once_more(void)
{
    zkl_double_barrier *pair = NULL;
    CU_ASSERT_EQUAL_FATAL(zkl_double_barrier_new(&pair, keeper, "/m/double", 1, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_double_barrier_enter(pair, 10000, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_double_barrier_leave(pair, 10000, NULL), ZKL_OK);
    zkl_double_barrier_free(pair);
}

static void deaf_to_piece(zkl_partition *partition, const char *piece, int64_t token, void *payload)
{
    (void)partition;
    (void)piece;
    (void)token;
    (void)payload;
}

static void deaf_to_loss(zkl_partition *partition, const char *piece, bool lost, void *payload)
{
    (void)partition;
    (void)piece;
    (void)lost;
    (void)payload;
}

/* Whether the piece is assigned by then is not said. */
static int unless_not_held(int code)
{
    return code == ZKL_ENOTHELD ? ZKL_OK : code;
}

static int partition(zkl_session *session)
{
    static const char *const pieces[] = {"p1", "p2"};
    const zkl_op op = {.kind = ZKL_OP_CREATE, .path = "/m/piece-data", .mode = ZKL_CREATE_EPHEMERAL_SEQUENTIAL};
    zkl_partition_options options = ZKL_PARTITION_OPTIONS_INIT;
    zkl_partition *member = NULL;
    struct mailbox box = MAILBOX_INIT;
    options.assigned_fn = deaf_to_piece;
    options.revoked_fn = deaf_to_loss;
    options.done_later = true;
    options.margin_ms = 1;
    int code = zkl_partition_new(&member, session, "/m/parts", pieces, 2, &options, NULL);
    THEN(zkl_partition_start(member, NULL));
    THEN(unless_not_held(zkl_partition_commit(member, "p1", &op, 1, wait_ms, NULL, NULL)));
    THEN(unless_not_held(
        done(zkl_partition_commit_async(member, "p2", &op, 1, wait_ms, NULL, on_done, &box, NULL), &box)));
    THEN(zkl_partition_stop(member, NULL));
    THEN(zkl_partition_start(member, NULL));
    THEN(done(zkl_partition_stop_async(member, on_done, &box, NULL), &box));
    zkl_partition_free(member);
    return code;
}

static int once(zkl_session *session)
{
    zkl_lock *lock = NULL;
    bool ran;
    int result;
    int code = zkl_lock_new(&lock, session, "/m/once", &quick, NULL);
    THEN(zkl_once_run(lock, 3600000, 0, wait_ms, in_a_section, NULL, &ran, &result, NULL));
    zkl_lock_free(lock);
    return code;
}

static char job[32] = "/m/job"; /* another one each time: what is recorded stays recorded */

static void name_job(void)
{
    static int count;
    snprintf(job, sizeof job, "/m/job-%d", ++count);
}

/* The steps of it. */
static int once_in_steps(zkl_session *session)
{
    zkl_lock *lock = NULL;
    zkl_once_slot slot;
    int64_t last_ms, recorded_ms;
    name_job();
    int code = zkl_once_prepare(session, job, wait_ms, NULL);
    THEN(zkl_lock_new(&lock, session, job, &quick, NULL));
    THEN(zkl_lock_acquire(lock, wait_ms, NULL, NULL));
    THEN(zkl_once_look(lock, 3600000, 0, wait_ms, &slot, NULL));
    THEN(zkl_once_record(lock, &slot, wait_ms, NULL));
    THEN(zkl_once_last(session, job, 3600000, wait_ms, &last_ms, &recorded_ms, NULL));
    THEN(zkl_lock_release(lock, NULL));
    zkl_lock_free(lock);
    return code;
}

static int once_later(zkl_session *session)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_lock *lock = NULL;
    zkl_once_slot slot;
    int64_t last_ms, recorded_ms;
    name_job();
    int code = done(zkl_once_prepare_async(session, job, wait_ms, on_done, &box, NULL), &box);
    THEN(zkl_lock_new(&lock, session, job, &quick, NULL));
    THEN(zkl_lock_acquire(lock, wait_ms, NULL, NULL));
    THEN(done(zkl_once_look_async(lock, 3600000, 0, wait_ms, &slot, on_done, &box, NULL), &box));
    THEN(done(zkl_once_record_async(lock, &slot, wait_ms, on_done, &box, NULL), &box));
    THEN(done(zkl_once_last_async(session, job, 3600000, wait_ms, &last_ms, &recorded_ms, on_done, &box, NULL), &box));
    THEN(zkl_lock_release(lock, NULL));
    zkl_lock_free(lock);
    return code;
}

static int lists(zkl_session *session)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.revoke_fn = deaf_to_request;
    zkl_lock *held = kit_lock(keeper, "/m/lock", &options);
    zkl_queue *queue = NULL;
    CU_ASSERT_EQUAL_FATAL(zkl_lock_acquire(held, 10000, NULL, NULL), ZKL_OK);
    int code = zkl_queue_list(&queue, session, "/m/lock", wait_ms, NULL);
    THEN(zkl_queue_revoke(session, "/m/lock", queue->entries[0].name, wait_ms, NULL));
    THEN(zkl_queue_remove(session, "/m/lock", queue->entries[0].name, queue->entries[0].token, wait_ms, NULL));
    zkl_queue_free(queue);
    zkl_lock_free(held);
    return code;
}

static int lists_later(zkl_session *session)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.revoke_fn = deaf_to_request;
    zkl_lock *held = kit_lock(keeper, "/m/lock", &options);
    zkl_queue *queue = NULL;
    int code = ZKL_OK;
    CU_ASSERT_EQUAL_FATAL(zkl_lock_acquire(held, 10000, NULL, NULL), ZKL_OK);
    THEN(done(zkl_queue_list_async(&queue, session, "/m/lock", wait_ms, on_done, &box, NULL), &box));
    THEN(done(zkl_queue_revoke_async(session, "/m/lock", NULL, wait_ms, on_done, &box, NULL), &box));
    THEN(done(zkl_queue_remove_async(session, "/m/lock", queue->entries[0].name, 0, wait_ms, on_done, &box, NULL),
              &box));
    zkl_queue_free(queue);
    zkl_lock_free(held);
    return code;
}

static int group_later(zkl_session *session)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_group *member = NULL;
    zkl_members *members = NULL;
    int code = zkl_group_new(&member, session, "/m/group", "me", &quick_group, NULL);
    THEN(done(zkl_group_join_async(member, wait_ms, on_done, &box, NULL), &box));
    THEN(done(zkl_group_update_async(member, "more", wait_ms, on_done, &box, NULL), &box));
    THEN(done(zkl_group_list_async(&members, session, "/m/group", wait_ms, on_done, &box, NULL), &box));
    THEN(done(zkl_group_leave_async(member, on_done, &box, NULL), &box));
    zkl_members_free(members);
    zkl_group_free(member);
    return code;
}

/* --- all of them --------------------------------------------------------------------------------------------------- */

static const struct scenario {
    const char *name;
    int (*run)(zkl_session *session);
    int code;            /* with memory enough */
    void (*clean)(void); /* of what is nobody's */
} scenarios[] = {
    {"acquire and release", acquire, ZKL_OK, NULL},
    {"with every option", acquire_with_all_options, ZKL_OK, NULL},
    {"acquire twice", acquire_twice, ZKL_OK, NULL},
    {"try behind a holder", try_behind, ZKL_EBUSY, NULL},
    {"time out behind a holder", time_out_behind, ZKL_ETIMEOUT, NULL},
    {"cancel behind a holder", cancel_behind, ZKL_ECANCELED, NULL},
    {"granted when the holder goes", granted_behind, ZKL_OK, NULL},
    {"a function under a lock", with_lock, ZKL_OK, NULL},
    {"commit", commit, ZKL_OK, NULL},
    {"commit, read and release without waiting", without_waiting, ZKL_OK, NULL},
    {"visit", visit_all, ZKL_OK, NULL},
    {"lost reply of the create", lost_create, ZKL_OK, NULL},
    {"expiry while holding", expiry_while_holding, ZKL_OK, NULL},
    {"read lock", read_lock, ZKL_OK, NULL},
    {"write lock, downgraded", write_lock_and_downgrade, ZKL_OK, NULL},
    {"semaphore", semaphore, ZKL_OK, NULL},
    {"semaphore without waiting", semaphore_later, ZKL_OK, NULL},
    {"resize of a semaphore, waited for and not", resize, ZKL_OK, size_again},
    {"multi-lock", multilock, ZKL_OK, NULL},
    {"election, publish, observe", election, ZKL_OK, NULL},
    {"run for election", election_run, ZKL_OK, NULL},
    {"stand for election, publish, leave", stand, ZKL_OK, NULL},
    {"group: join, update, list, watch", group, ZKL_OK, NULL},
    {"group without waiting", group_later, ZKL_OK, NULL},
    {"barrier", barrier, ZKL_OK, lift_barrier},
    {"barrier without waiting", barrier_later, ZKL_OK, lift_barrier},
    {"double barrier", double_barrier, ZKL_OK, leave_once_more},
    {"double barrier without waiting", double_barrier_later, ZKL_OK, leave_once_more},
    {"partition", partition, ZKL_OK, NULL},
    {"once per slot", once, ZKL_OK, NULL},
    {"once per slot, in steps", once_in_steps, ZKL_OK, NULL},
    {"once per slot, in steps without waiting", once_later, ZKL_OK, NULL},
    {"list, find, revoke, remove", lists, ZKL_OK, NULL},
    {"list, find, revoke, remove without waiting", lists_later, ZKL_OK, NULL},
};

static size_t children(const char *path)
{
    zkl_queue *queue = NULL;
    if (zkl_queue_list(&queue, keeper, path, 10000, NULL) != ZKL_OK) {
        return SIZE_MAX;
    }
    size_t count = queue->count + queue->foreign;
    zkl_queue_free(queue);
    return count;
}

static bool nothing_left(void)
{
    const char *const paths[] = {"/m/lock",
                                 "/m/rw",
                                 "/m/pool/locks",
                                 "/m/pool/leases",
                                 "/m/a",
                                 "/m/b",
                                 "/m/c",
                                 "/m/leader",
                                 "/m/group",
                                 "/m/double",
                                 "/m/parts/members",
                                 "/m/parts/pieces/p1",
                                 "/m/parts/pieces/p2",
                                 "/m/once",
                                 job};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        if (children(paths[i]) != 0) {
            return false;
        }
    }
    return true;
}

static bool connected(zkl_session *session)
{
    zkl__memory_resume(zkl_session_id(session)); /* what suspended it may have kept it so */
    return zkl_session_state(session) == ZKL_SESSION_CONNECTED;
}

static bool is_named(int code, int wanted)
{
    return code == wanted || code == ZKL_ENOMEM || code == ZKL_ETIMEOUT || code == ZKL_ECONNECT || code == ZKL_ELOST;
}

/* True when an allocation failed. */
static bool fail_once(const struct scenario *scenario, long nth, bool sticky)
{
    wait_ms = sticky ? 300 : 5000; /* without any memory most calls end by the time */
    struct test_heap heap = TEST_HEAP_INIT;
    const zkl_heap functions = test_heap(&heap);
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    unsigned before = CU_get_number_of_failures();
    options.heap = &functions;
    zkl_session *session = kit_open(&options);
    test_heap_fail(&heap, nth, sticky);
    int code = scenario->run(session);
    bool failed = test_heap_failures(&heap) > 0;
    while (sticky && !failed && code == ZKL_ETIMEOUT && scenario->code != ZKL_ETIMEOUT && wait_ms < 20000) {
        wait_ms *= 4; /* all memory was there: the machine is slow */
        code = scenario->run(session);
        failed = test_heap_failures(&heap) > 0;
    }
    test_heap_fail(&heap, 0, false);
    if (cut_later) {
        zkl__memory_suspend(zkl_session_id(session));
        cut_later = false;
    }
    CU_ASSERT(EVENTUALLY(connected(session)));
    CU_ASSERT(failed ? is_named(code, scenario->code) : code == scenario->code);
    if (scenario->clean) {
        scenario->clean();
    }
    CU_ASSERT(EVENTUALLY(nothing_left())); /* while the session lives: its end would hide what is forgotten */
    kit_close(session);
    CU_ASSERT_EQUAL(test_heap_live(&heap), 0);
    if (CU_get_number_of_failures() != before) {
        fprintf(stderr, "\n    %s, allocation %ld%s: %s\n", scenario->name, nth, sticky ? " and all behind it" : "",
                zkl_error_name(code));
    }
    return failed;
}

static void fail_each(bool sticky)
{
    keeper = kit_open(NULL);
    release_quickly();
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        long nth = 0;
        unsigned before = CU_get_number_of_failures();
        while (nth < MOST && CU_get_number_of_failures() == before && fail_once(&scenarios[i], nth + 1, sticky)) {
            nth++;
        }
        CU_ASSERT(nth > 0 && nth < MOST);
    }
    kit_close(keeper);
}

static void test_one_allocation_fails(void)
{
    fail_each(false);
}

static void test_all_fail_from_one_on(void)
{
    fail_each(true);
}

TESTS("no memory", T(test_one_allocation_fails), T(test_all_fail_from_one_on))
