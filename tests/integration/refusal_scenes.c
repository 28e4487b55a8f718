#include "refusal_scenes.h"

#include <stdio.h>
#include <string.h>

#include "check.h"
#include "contest.h"

static const char *below(const struct stage *stage, const char *path)
{
    static __thread char whole[256];
    snprintf(whole, sizeof whole, "%s%s", stage->root, path);
    return whole;
}

static const zkl_acl_entry open_entry = {ZKL_PERM_ALL, "world", "anyone"};
const zkl_acl open_acl = {1, &open_entry};

void create(const char *path)
{
    int64_t end = now_ms() + SOON;
    int rc;
    do {
        rc = zoo_create(operator, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
    } while (rc == ZTHROTTLEDOP && look_again(end));
    CU_ASSERT_EQUAL_FATAL(rc, ZOK);
}

static void wait_for_children(const struct stage *stage, const char *path, int count)
{
    struct String_vector names = {0};
    int64_t end = now_ms() + SOON;
    do {
        deallocate_String_vector(&names);
        names = (struct String_vector){0};
        (void)zoo_get_children(operator, below(stage, path), 0, &names);
    } while (names.count != count && look_again(end));
    CU_ASSERT_EQUAL_FATAL(names.count, count);
    deallocate_String_vector(&names);
}

/* --- of each kind that is acquired --- */

static void make_held(struct stage *stage)
{
    stage->object = stage->kind->make(stage->session, stage->kind->path, NULL);
    CU_ASSERT_EQUAL(zkl_lock_acquire(stage->object, SOON, NULL, NULL), ZKL_OK);
}

/* All directories are there, with something to refuse. */
static void make_one(struct stage *stage)
{
    make_held(stage);
    CU_ASSERT_EQUAL(zkl_lock_release(stage->object, NULL), ZKL_OK);
}

static void *run_behind(void *arg)
{
    struct stage *stage = arg;
    (void)zkl_lock_acquire(stage->object, 3 * SECOND, NULL, NULL);
    return NULL;
}

static void make_waiting(struct stage *stage)
{
    bool elsewhere = strcmp(stage->kind->path, stage->kind->queue) != 0; /* permits */
    stage->rival = stage->kind->make(others, below(stage, stage->kind->path), NULL);
    CU_ASSERT_EQUAL_FATAL(zkl_lock_acquire(stage->rival, SOON, NULL, NULL), ZKL_OK);
    stage->object = stage->kind->make(stage->session, stage->kind->path, NULL);
    pthread_create(&stage->thread, NULL, run_behind, stage);
    wait_for_children(stage, stage->kind->queue, elsewhere ? 1 : 2);
}

static int acquire_one(struct stage *stage)
{
    return zkl_lock_acquire(stage->object, SECOND, NULL, NULL);
}

static int release_one(struct stage *stage)
{
    return zkl_lock_release(stage->object, NULL);
}

static int keep_one(struct stage *stage)
{
    (void)stage;
    return ZKL_OK;
}

static int release_rival(struct stage *stage)
{
    (void)zkl_lock_release(stage->rival, NULL);
    return ZKL_OK;
}

static void free_one(struct stage *stage)
{
    zkl_lock_free(stage->object);
    if (stage->rival) {
        zkl_lock_free(stage->rival);
    }
}

static void free_waiting(struct stage *stage)
{
    pthread_join(stage->thread, NULL);
    free_one(stage);
}

const struct scene kind_scenes[] = {{"acquire", make_one, acquire_one, free_one},
                                    {"hold", make_held, keep_one, free_one},
                                    {"release", make_held, release_one, free_one},
                                    {"wait", make_waiting, release_rival, free_waiting}};
const int kind_scene_count = sizeof kind_scenes / sizeof *kind_scenes;

static void make_recovering(struct stage *stage)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.recover = true;
    stage->object = contest_lock(stage->session, "/lock", &options);
    CU_ASSERT_EQUAL(zkl_lock_acquire(stage->object, SOON, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_release(stage->object, NULL), ZKL_OK);
}

static void make_recovering_held(struct stage *stage)
{
    make_recovering(stage);
    CU_ASSERT_EQUAL(zkl_lock_acquire(stage->object, SOON, NULL, NULL), ZKL_OK);
}

static void make_rival(struct stage *stage)
{
    stage->rival = contest_holder(others, below(stage, "/lock"));
}

static int lock_acquire(struct stage *stage)
{
    return zkl_lock_acquire(stage->object, SECOND, NULL, NULL);
}

static int lock_release(struct stage *stage)
{
    return zkl_lock_release(stage->object, NULL);
}

static int lock_revoke(struct stage *stage)
{
    return zkl_queue_revoke(stage->session, "/lock", NULL, SECOND, NULL);
}

static int queue_list_it(struct stage *stage)
{
    zkl_queue *queue;
    int code = zkl_queue_list(&queue, stage->session, "/lock", SECOND, NULL);
    zkl_queue_free(queue);
    return code;
}

static int queue_remove_it(struct stage *stage)
{
    char node[256];
    zkl_lock_node(stage->rival, node, sizeof node);
    return zkl_queue_remove(stage->session, "/lock", node, 0, SECOND, NULL);
}

static void free_lock(struct stage *stage)
{
    zkl_lock_free(stage->object);
    zkl_lock_free(stage->rival);
}

static void make_writer(struct stage *stage)
{
    zkl_lock *lock;
    CU_ASSERT_EQUAL_FATAL(zkl_write_lock_new(&lock, stage->session, "/rw", NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, SOON, NULL, NULL), ZKL_OK);
    stage->object = lock;
}

static int rwlock_downgrade(struct stage *stage)
{
    return zkl_write_lock_downgrade(stage->object, NULL);
}

static void free_rwlock(struct stage *stage)
{
    zkl_lock_free(stage->object);
}

/* --- elections --- */

static void on_leader(zkl_election_observer *observer, const zkl_leader *leader, void *payload)
{
    (void)observer;
    atomic_fetch_add((atomic_int *)payload, leader != NULL);
}

static atomic_int leaders;

static zkl_lock *leader_of(zkl_session *session, const char *path)
{
    zkl_lock *election;
    CU_ASSERT_EQUAL_FATAL(zkl_election_new(&election, session, path, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(election, SOON, NULL, NULL), ZKL_OK);
    return election;
}

static void make_leader(struct stage *stage)
{
    stage->object = leader_of(stage->session, "/election");
}

static void make_other_leader(struct stage *stage)
{
    stage->rival = leader_of(others, below(stage, "/election"));
}

static int election_observe(struct stage *stage)
{
    zkl_election_observer *observer;
    int code = zkl_election_observe(&observer, stage->session, "/election", on_leader, &leaders, NULL);
    stage->object = observer;
    return code;
}

static void make_observed(struct stage *stage)
{
    make_other_leader(stage);
    atomic_store(&leaders, 0);
    election_observe(stage);
    int64_t end = now_ms() + SOON;
    while (atomic_load(&leaders) == 0 && look_again(end)) {
    }
    CU_ASSERT_EQUAL(atomic_load(&leaders), 1);
}

static int election_publish(struct stage *stage)
{
    return zkl_election_publish(stage->object, "something longer than what was there before, for a quota", SECOND,
                                NULL);
}

static int leader_resigns(struct stage *stage)
{
    (void)zkl_lock_release(stage->rival, NULL);
    return ZKL_OK;
}

static void free_leader(struct stage *stage)
{
    zkl_lock_free(stage->object);
}

static void free_observer(struct stage *stage)
{
    zkl_election_observer_free(stage->object);
    zkl_lock_free(stage->rival);
}

/* --- groups --- */

static zkl_group *member_of(zkl_session *session, const char *path, const char *id)
{
    zkl_group *group;
    CU_ASSERT_EQUAL_FATAL(zkl_group_new(&group, session, path, id, NULL, NULL), ZKL_OK);
    return group;
}

static void make_member(struct stage *stage)
{
    stage->object = member_of(stage->session, "/group", "ours");
}

static void make_joined(struct stage *stage)
{
    make_member(stage);
    CU_ASSERT_EQUAL(zkl_group_join(stage->object, SOON, NULL), ZKL_OK);
}

static void make_left(struct stage *stage)
{
    make_joined(stage);
    CU_ASSERT_EQUAL(zkl_group_leave(stage->object, NULL), ZKL_OK);
}

static void make_other_member(struct stage *stage)
{
    stage->rival = member_of(others, below(stage, "/group"), "theirs");
    CU_ASSERT_EQUAL(zkl_group_join(stage->rival, SOON, NULL), ZKL_OK);
}

static int group_join(struct stage *stage)
{
    return zkl_group_join(stage->object, SECOND, NULL);
}

static int group_leave(struct stage *stage)
{
    return zkl_group_leave(stage->object, NULL);
}

static int group_update(struct stage *stage)
{
    return zkl_group_update(stage->object, "something longer than what was there before, for a quota", SECOND, NULL);
}

static int member_removed(struct stage *stage)
{
    return zoo_delete(operator, below(stage, "/group/ours"), -1) == ZOK ? ZKL_OK : ZKL_ENOENT;
}

static int group_list(struct stage *stage)
{
    zkl_members *members;
    int code = zkl_group_list(&members, stage->session, "/group", SECOND, NULL);
    zkl_members_free(members);
    return code;
}

static void on_members(zkl_group_observer *watcher, const char *const *ids, size_t count, void *payload)
{
    (void)watcher, (void)ids, (void)payload;
    atomic_fetch_add((atomic_int *)payload, count == 1);
}

static atomic_int lists;

static int group_watch(struct stage *stage)
{
    zkl_group_observer *watcher;
    int code = zkl_group_observe(&watcher, stage->session, "/group", on_members, &lists, NULL);
    stage->object = watcher;
    return code;
}

static void make_watched(struct stage *stage)
{
    make_other_member(stage);
    atomic_store(&lists, 0);
    group_watch(stage);
    int64_t end = now_ms() + SOON;
    while (atomic_load(&lists) == 0 && look_again(end)) {
    }
    CU_ASSERT_EQUAL(atomic_load(&lists), 1);
}

static int other_leaves(struct stage *stage)
{
    (void)zkl_group_leave(stage->rival, NULL);
    return ZKL_OK;
}

static void free_member(struct stage *stage)
{
    zkl_group_free(stage->object);
}

static void free_watcher(struct stage *stage)
{
    zkl_group_observer_free(stage->object);
    zkl_group_free(stage->rival);
}

/* --- partitions --- */

static void on_assigned(zkl_partition *partition, const char *piece, int64_t token, void *payload)
{
    (void)partition, (void)piece, (void)token;
    atomic_fetch_add((atomic_int *)payload, 1);
}

static void on_revoked(zkl_partition *partition, const char *piece, bool lost, void *payload)
{
    (void)partition, (void)piece, (void)lost, (void)payload;
}

static atomic_int assigned;

static zkl_partition *partition_at(zkl_session *session, const char *path, size_t count)
{
    static const char *const pieces[] = {"one", "two"};
    zkl_partition_options options = ZKL_PARTITION_OPTIONS_INIT;
    zkl_partition *partition;
    options.assigned_fn = on_assigned;
    options.revoked_fn = on_revoked;
    options.payload = &assigned;
    CU_ASSERT_EQUAL_FATAL(zkl_partition_new(&partition, session, path, pieces, count, &options, NULL), ZKL_OK);
    return partition;
}

static void await_assigned(int count)
{
    int64_t end = now_ms() + SOON;
    while (atomic_load(&assigned) < count && look_again(end)) {
    }
    CU_ASSERT(atomic_load(&assigned) >= count);
}

static void begin_owning(struct stage *stage, int pieces)
{
    atomic_store(&assigned, 0);
    stage->object = partition_at(stage->session, "/partition", (size_t)pieces);
    CU_ASSERT_EQUAL(zkl_partition_start(stage->object, NULL), ZKL_OK);
    await_assigned(pieces);
}

static void make_owner(struct stage *stage)
{
    begin_owning(stage, 1);
}

static void make_stopped(struct stage *stage)
{
    begin_owning(stage, 1);
    CU_ASSERT_EQUAL(zkl_partition_stop(stage->object, NULL), ZKL_OK);
}

/* One piece each. */
static void make_owners(struct stage *stage)
{
    begin_owning(stage, 2);
    stage->rival = partition_at(others, below(stage, "/partition"), 2);
    CU_ASSERT_EQUAL(zkl_partition_start(stage->rival, NULL), ZKL_OK);
    await_assigned(3);
}

static int partition_start(struct stage *stage)
{
    return zkl_partition_start(stage->object, NULL);
}

static int partition_stop(struct stage *stage)
{
    return zkl_partition_stop(stage->object, NULL);
}

static int other_stops(struct stage *stage)
{
    return zkl_partition_stop(stage->rival, NULL);
}

static void free_partition(struct stage *stage)
{
    zkl_partition_free(stage->object);
    zkl_partition_free(stage->rival);
}

/* --- barriers --- */

static void make_barrier(struct stage *stage)
{
    CU_ASSERT_EQUAL(zkl_barrier_set(stage->session, "/barrier", SOON, NULL), ZKL_OK);
}

static int barrier_set(struct stage *stage)
{
    return zkl_barrier_set(stage->session, "/barrier", SECOND, NULL);
}

static int barrier_wait(struct stage *stage)
{
    return zkl_barrier_wait(stage->session, "/barrier", SECOND, NULL);
}

static int barrier_lift(struct stage *stage)
{
    return zkl_barrier_lift(stage->session, "/barrier", SECOND, NULL);
}

static void *waits_at_barrier(void *arg)
{
    struct stage *stage = arg;
    (void)zkl_barrier_wait(stage->session, "/barrier", 3 * SECOND, NULL);
    return NULL;
}

/* It is up, and watched, when it is written: its watch fires. */
static void make_waiting_at_barrier(struct stage *stage)
{
    make_barrier(stage);
    pthread_create(&stage->thread, NULL, waits_at_barrier, stage);
    CU_ASSERT(ensemble_ask_until(server, 0, "wchp", below(stage, "/barrier"), true, SOON));
}

static int barrier_written(struct stage *stage)
{
    (void)zoo_set(operator, below(stage, "/barrier"), "", 0, -1);
    return ZKL_OK;
}

static zkl_double_barrier *double_at(zkl_session *session, const char *path)
{
    zkl_double_barrier *barrier;
    CU_ASSERT_EQUAL_FATAL(zkl_double_barrier_new(&barrier, session, path, 2, NULL), ZKL_OK);
    return barrier;
}

static void make_double(struct stage *stage)
{
    create(below(stage, "/double"));
    stage->object = double_at(stage->session, "/double");
}

static int double_enter(struct stage *stage)
{
    return zkl_double_barrier_enter(stage->object, SECOND, NULL);
}

static int double_leave(struct stage *stage)
{
    return zkl_double_barrier_leave(stage->object, SECOND, NULL);
}

static void *enters_double(void *arg)
{
    struct stage *stage = arg;
    (void)zkl_double_barrier_enter(stage->object, 3 * SECOND, NULL);
    return NULL;
}

/* One waits in it for the other. */
static void make_entering(struct stage *stage)
{
    make_double(stage);
    pthread_create(&stage->thread, NULL, enters_double, stage);
    wait_for_children(stage, "/double", 1);
}

static int other_enters(struct stage *stage)
{
    stage->rival = double_at(others, below(stage, "/double"));
    return zkl_double_barrier_enter(stage->rival, SECOND, NULL);
}

static void make_entered(struct stage *stage)
{
    make_entering(stage);
    CU_ASSERT_EQUAL(other_enters(stage), ZKL_OK);
    pthread_join(stage->thread, NULL);
}

static void free_double(struct stage *stage)
{
    zkl_double_barrier_free(stage->object);
    zkl_double_barrier_free(stage->rival);
}

static void join_and_free_double(struct stage *stage)
{
    pthread_join(stage->thread, NULL);
    free_double(stage);
}

static void join_only(struct stage *stage)
{
    pthread_join(stage->thread, NULL);
}

/* --- once --- */

static void make_once(struct stage *stage)
{
    CU_ASSERT_EQUAL(zkl_once_prepare(stage->session, "/once", SOON, NULL), ZKL_OK);
    stage->object = contest_lock(stage->session, "/once", NULL);
}

static void make_once_held(struct stage *stage)
{
    make_once(stage);
    CU_ASSERT_EQUAL(zkl_lock_acquire(stage->object, SOON, NULL, NULL), ZKL_OK);
}

static int once_prepare(struct stage *stage)
{
    return zkl_once_prepare(stage->session, "/once", SECOND, NULL);
}

static int job(const zkl_cancel *cancel, int64_t token, void *payload)
{
    (void)cancel, (void)token, (void)payload;
    return 0;
}

static int once_run(struct stage *stage)
{
    return zkl_once_run(stage->object, 1000, 0, SECOND, job, NULL, NULL, NULL, NULL);
}

static int once_look_and_record(struct stage *stage)
{
    zkl_once_slot slot = {.version = 0, .round_ms = 1000, .last_ms = INT64_MIN};
    int code = zkl_once_look(stage->object, 1000, 0, SECOND, &slot, NULL);
    int recorded = zkl_once_record(stage->object, &slot, SECOND, NULL);
    return code == ZKL_OK ? recorded : code;
}

static int once_last(struct stage *stage)
{
    int64_t last, when;
    return zkl_once_last(stage->session, "/once", 0, SECOND, &last, &when, NULL);
}

static void nothing(struct stage *stage)
{
    (void)stage;
}

const struct scene scenes[] = {
    {"recover, acquire", make_recovering, lock_acquire, free_lock},
    {"recover, release", make_recovering_held, lock_release, free_lock},
    {"revoke", make_rival, lock_revoke, free_lock},
    {"queue list", make_rival, queue_list_it, free_lock},
    {"queue remove", make_rival, queue_remove_it, free_lock},
    {"downgrade", make_writer, rwlock_downgrade, free_rwlock},
    {"publish", make_leader, election_publish, free_leader},
    {"observe", make_other_leader, election_observe, free_observer},
    {"observe, leader resigns", make_observed, leader_resigns, free_observer},
    {"group join", make_left, group_join, free_member},
    {"group leave", make_joined, group_leave, free_member},
    {"group update", make_joined, group_update, free_member},
    {"group, member removed", make_joined, member_removed, free_member},
    {"group list", make_other_member, group_list, free_watcher},
    {"group watch", make_other_member, group_watch, free_watcher},
    {"group watch, member leaves", make_watched, other_leaves, free_watcher},
    {"partition start", make_stopped, partition_start, free_partition},
    {"partition, other stops", make_owners, other_stops, free_partition},
    {"partition stop", make_owner, partition_stop, free_partition},
    {"barrier set", nothing, barrier_set, nothing},
    {"barrier wait", make_barrier, barrier_wait, nothing},
    {"barrier wait, written", make_waiting_at_barrier, barrier_written, join_only},
    {"barrier lift", make_barrier, barrier_lift, nothing},
    {"double barrier enter", make_double, double_enter, free_double},
    {"double barrier, other enters", make_entering, other_enters, join_and_free_double},
    {"double barrier leave", make_entered, double_leave, free_double},
    {"once prepare", nothing, once_prepare, nothing},
    {"once run", make_once, once_run, free_lock},
    {"once record", make_once_held, once_look_and_record, free_lock},
    {"once last", make_once, once_last, free_lock},
};
const int scene_count = sizeof scenes / sizeof *scenes;
