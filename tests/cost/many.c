/* many FEW MOST [KIND]: of that kind, or of each one, one session of memory: with FEW objects, and one with MOST. Under callgrind each phase of
 * their life is a part of the profile, with its instructions: see ./linear. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <valgrind/callgrind.h>

#include <zklock/testing.h>

#include "handle_kit.h"

#define LONG 600000 /* ms: a session timeout in which nothing periodic happens */

static zkl_session *session, *rival;
static zkl_stop stop;
static size_t count;
#define EACH_OBJECT(i) for (size_t i = 0; i < count; i++)
static const char *kind;
static char (*paths)[32];
static zkl_lock **locks;
static zkl_error err;

static void must(int code)
{
    if (code != ZKL_OK) {
        fprintf(stderr, "many %s: %s: %s\n", kind, zkl_error_name(code), err.text);
        exit(1);
    }
}

/* --- what callbacks report ------------------------------------------------------------------------------------------------- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static size_t events;

static void note_event(void)
{
    pthread_mutex_lock(&mutex);
    events++;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&mutex);
}

static void await_events(size_t expected)
{
    pthread_mutex_lock(&mutex);
    while (events < expected) {
        pthread_cond_wait(&changed, &mutex);
    }
    events -= expected;
    pthread_mutex_unlock(&mutex);
}

static void on_acquired(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *why, void *payload)
{
    note_event();
}

static void on_done(int code, const zkl_error *why, void *payload)
{
    note_event();
}

static void release_acquired(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *why, void *payload)
{
    on_acquired(lock, code, grant, why, payload);
    zkl_lock_release_async(lock, on_done, NULL, NULL);
}

static void on_state(zkl_lock *lock, zkl_state state, void *payload)
{
    note_event();
}

/* --- phases ---------------------------------------------------------------------------------------------------------------- */

static void begin_phases(void)
{
    CALLGRIND_ZERO_STATS;
}

/* A phase ends here, and the next one begins. */
static void phase(const char *name)
{
    char title[64];
    snprintf(title, sizeof title, "%s %s %zu", kind, name, count);
    CALLGRIND_DUMP_STATS_AT(title);
}

static zkl_session *open_session(void)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    zkl_session *opened;
    char store[64];
    options.session_timeout_ms = LONG;
    options.stop = strcmp(kind, "stop") == 0 ? &stop : NULL;
    snprintf(store, sizeof store, "memory:%s-%zu", kind, count);
    must(zkl_session_open(&opened, store, &options, &err));
    return opened;
}

static void make_locks(handle_make_fn make, const zkl_lock_options *options)
{
    EACH_OBJECT (i) {
        must(make(&locks[i], session, paths[i], options, &err));
    }
}

static void acquire(zkl_lock *lock)
{
    must(zkl_lock_acquire(lock, ZKL_WAIT_FOREVER, NULL, &err));
}

static void acquire_locks(void)
{
    EACH_OBJECT (i) {
        acquire(locks[i]);
    }
}

static void start_acquires(void)
{
    EACH_OBJECT (i) {
        must(zkl_lock_acquire_async(locks[i], ZKL_WAIT_FOREVER, on_acquired, NULL, &err));
    }
}

static void release_locks(void)
{
    EACH_OBJECT (i) {
        must(zkl_lock_release(locks[i], &err));
    }
}

static void free_locks(void)
{
    EACH_OBJECT (i) {
        zkl_lock_free(locks[i]);
    }
}

static zkl_lock *hold(handle_make_fn make, zkl_session *holds, const char *path)
{
    zkl_lock *lock;
    must(make(&lock, holds, path, NULL, &err));
    acquire(lock);
    return lock;
}

/* --- kinds ------------------------------------------------------------------------------------------------------------------ */

static void live(handle_make_fn make, const zkl_lock_options *options)
{
    make_locks(make, options);
    phase("new");
    acquire_locks();
    phase("acquire");
    release_locks();
    phase("release");
    free_locks();
    /* The free of a lock that lingers does not wait for its delete. This request's reply comes behind all of them. */
    zkl_queue *queue;
    must(zkl_queue_list(&queue, session, paths[0], LONG, &err));
    zkl_queue_free(queue);
    phase("free");
}

static void visit(const char *path, zkl_state state, int64_t token, void *payload) {}

static void many_reads(void)
{
    live(zkl_read_lock_new, NULL);
}

static void many_elections(void)
{
    live(zkl_election_new, NULL);
}

static void many_semaphores(void)
{
    live(handle_recipes[ZKL_RECIPE_SEMAPHORE].make, NULL);
}

static void many_lingering(void)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.linger_ms = LONG;
    live(zkl_lock_new, &options);
}

static void many_async(void)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.release_timeout_ms = LONG;
    make_locks(zkl_lock_new, &options);
    phase("new");
    start_acquires();
    await_events(count);
    phase("acquire");
    EACH_OBJECT (i) {
        must(zkl_lock_release_async(locks[i], on_done, NULL, &err));
    }
    await_events(count);
    phase("release");
    free_locks();
    phase("free");
}

/* One semaphore, of which all permits are acquired together. */
static void many_permits(void)
{
    zkl_lock *lock;
    must(zkl_semaphore_new(&lock, session, "/many/permits", (int)count, NULL, &err));
    begin_phases();
    must(zkl_semaphore_acquire(lock, (int)count, LONG, NULL, &err));
    phase("acquire");
}

/* While as many other locks are held. */
static void many_tries(void)
{
    zkl_lock *tried;
    hold(zkl_lock_new, rival, paths[0]);
    memcpy(paths[0], paths[count], sizeof *paths);
    make_locks(zkl_lock_new, NULL);
    acquire_locks();
    must(zkl_lock_new(&tried, session, "/many/000000", NULL, &err));
    begin_phases();
    EACH_OBJECT (i) {
        if (zkl_lock_acquire(tried, 0, NULL, &err) != ZKL_EBUSY) {
            must(ZKL_EINVAL);
        }
    }
    phase("try");
}

/* Waiters behind another session, each in a queue of its own, that are cancelled. */
static void many_waiters(void)
{
    make_locks(zkl_lock_new, NULL);
    zkl_lock **waiters = locks, **holders = calloc(count, sizeof *holders);
    zkl_session *own = session;
    locks = holders;
    session = rival;
    make_locks(zkl_lock_new, NULL);
    acquire_locks();
    locks = waiters;
    session = own;
    begin_phases();
    start_acquires();
    EACH_OBJECT (i) {
        must(zkl_lock_release(holders[i], &err));
    }
    await_events(count);
    phase("granted");
    release_locks();
    EACH_OBJECT (i) {
        acquire(holders[i]);
    }
    start_acquires();
    begin_phases();
    EACH_OBJECT (i) {
        must(zkl_lock_cancel(locks[i]));
    }
    await_events(count);
    phase("cancelled");
    free(holders);
}

/* Whoever holds reads: what all have sent before that is answered. */
static void await_replies(zkl_lock *holder)
{
    zkl_data *data;
    must(zkl_lock_read(&data, holder, "/many", false, LONG, &err));
    zkl_data_free(data);
}

static void many_locks(void)
{
    live(zkl_lock_new, NULL);
    zkl_lock *holder = hold(zkl_lock_new, session, "/many/holder");
    make_locks(zkl_lock_new, NULL);
    acquire_locks();
    begin_phases();
    zkl_session_locks(session, visit, NULL);
    phase("visit");
    free_locks();          /* which are held: nobody waits for their deletes ... */
    await_replies(holder); /* ... and they are counted here, not when the session closes */
    phase("drop");
}

/* All in one queue. In a turn the holder releases, the next one is granted, and the first one queues again behind all. No release ends by
 * its time, which would count as an event, too. */
static void many_in_one_queue(void)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.release_timeout_ms = LONG;
    EACH_OBJECT (i) {
        must(zkl_lock_new(&locks[i], session, "/many/queue", &options, &err));
    }
    acquire(locks[0]); /* which makes the directory */
    must(zkl_lock_release(locks[0], &err));
    /* Or the scheduler decides how many lists are sent: one after each batch of responses. */
    must(zkl_testing_delay(session, true, &err));
    begin_phases();
    start_acquires();
    must(zkl_testing_delay(session, false, &err));
    await_events(1);
    await_replies(locks[0]);
    phase("acquire");
    EACH_OBJECT (i) {
        must(zkl_lock_release(locks[i], &err));
        must(zkl_lock_acquire_async(locks[i], ZKL_WAIT_FOREVER, on_acquired, NULL, &err));
        await_events(1);
    }
    phase("turn");
    must(zkl_testing_cut(session, &err));
    must(zkl_testing_heal(session, &err));
    await_replies(locks[0]);
    phase("reconnect");
    for (size_t i = 0; i + 1 < count; i++) {
        must(zkl_lock_release(locks[i], &err));
        await_events(1);
    }
    phase("grant");
    /* Who is not in the last list is not handed the lock without another one. */
    must(zkl_testing_delay(session, true, &err));
    for (size_t i = 0; i + 1 < count; i++) {
        must(zkl_lock_acquire_async(locks[i], ZKL_WAIT_FOREVER, release_acquired, NULL, &err));
    }
    must(zkl_testing_delay(session, false, &err));
    for (int i = 0; i < 3; i++) { /* to the creates, to a list that is under way then, and to the last list */
        await_replies(locks[count - 1]);
    }
    must(zkl_testing_delay(session, true, &err));
    begin_phases();
    zkl_lock_release_async(locks[count - 1], on_done, NULL, NULL);
    await_events(count - 1); /* all deletes are under way */
    must(zkl_testing_delay(session, false, &err));
    await_events(count);
    phase("chain");
}

/* Also to what follows from them: a list, another one, and a get. */
static void await_all_replies(zkl_lock *holder)
{
    for (int i = 0; i < 4; i++) {
        await_replies(holder);
    }
}

/* Readers in one queue, all behind a writer of another session. For a lock that may linger a list shows whether strangers queue, too. */
static void many_behind_a_stranger(void)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    zkl_lock *tried;
    options.linger_ms = LONG;
    hold(zkl_write_lock_new, rival, "/many/queue");
    zkl_lock *held = hold(zkl_lock_new, session, "/many/other");
    must(zkl_lock_new(&tried, session, "/many/queue", &options, &err));
    EACH_OBJECT (i) {
        must(zkl_read_lock_new(&locks[i], session, "/many/queue", NULL, &err));
    }
    must(zkl_testing_delay(session, true, &err));
    start_acquires();
    must(zkl_testing_delay(session, false, &err));
    await_all_replies(held);
    begin_phases();
    if (zkl_lock_acquire(tried, 0, NULL, &err) != ZKL_EBUSY) {
        must(ZKL_EINVAL);
    }
    await_replies(held);
    phase("try");
    must(zkl_testing_cut(session, &err));
    must(zkl_testing_heal(session, &err));
    await_all_replies(held);
    phase("reconnect");
}

/* Waits that a stop token ends. */
static void many_stops(void)
{
    zkl_op op = {.kind = ZKL_OP_CHECK, .path = "/many", .version = ZKL_ANY_VERSION};
    make_locks(zkl_lock_new, NULL);
    acquire_locks();
    must(zkl_testing_delay(session, true, &err));
    begin_phases();
    EACH_OBJECT (i) {
        must(zkl_lock_commit_async(locks[i], &op, 1, ZKL_WAIT_FOREVER, NULL, on_done, NULL, &err));
    }
    phase("commit");
    zkl_stop_raise(&stop);
    await_events(count);
    phase("raise");
    must(zkl_testing_delay(session, false, &err));
}

static void many_commits(void)
{
    zkl_op op = {.kind = ZKL_OP_SET, .path = "/many", .version = ZKL_ANY_VERSION};
    zkl_data *data, **all = calloc(count, sizeof(zkl_data *));
    make_locks(zkl_lock_new, NULL);
    acquire_locks();
    begin_phases();
    EACH_OBJECT (i) {
        must(zkl_lock_commit(locks[i], &op, 1, LONG, NULL, &err));
    }
    phase("commit");
    EACH_OBJECT (i) {
        must(zkl_lock_read(&data, locks[i], "/many", true, LONG, &err));
        zkl_data_free(data);
    }
    phase("read");
    EACH_OBJECT (i) {
        must(zkl_lock_commit_async(locks[i], &op, 1, LONG, NULL, on_done, NULL, &err));
    }
    await_events(count);
    phase("commits");
    EACH_OBJECT (i) {
        must(zkl_lock_read_async(&all[i], locks[i], "/many", false, LONG, on_done, NULL, &err));
    }
    await_events(count);
    phase("reads");
    EACH_OBJECT (i) {
        zkl_data_free(all[i]);
    }
    free(all);
}

static void many_losses(void)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.state_fn = on_state;
    make_locks(zkl_lock_new, &options);
    acquire_locks();
    await_events(count);
    begin_phases();
    must(zkl_testing_cut(session, &err));
    await_events(count);
    phase("jeopardy");
    must(zkl_testing_heal(session, &err));
    await_events(count);
    phase("safe");
    must(zkl_testing_expire(session, &err));
    await_events(count); /* the session's own thread goes on behind the last of them: one phase with what follows */
    EACH_OBJECT (i) {
        zkl_lock_release(locks[i], NULL);
    }
    phase("lost");
    free_locks();
    phase("free");
}

static void many_at_close(void)
{
    make_locks(zkl_lock_new, NULL);
    acquire_locks();
    begin_phases();
    zkl_session_close(session, LONG);
    phase("close");
    free_locks();
    phase("free");
    session = NULL;
}

static void many_groups(void)
{
    zkl_group **groups = calloc(count, sizeof(zkl_group *));
    EACH_OBJECT (i) {
        must(zkl_group_new(&groups[i], session, paths[i], "m", NULL, &err));
    }
    phase("new");
    must(zkl_testing_delay(session, true, &err)); /* or the scheduler decides which responses come together */
    EACH_OBJECT (i) {
        must(zkl_group_join_async(groups[i], LONG, on_done, NULL, &err));
    }
    must(zkl_testing_delay(session, false, &err));
    await_events(count);
    phase("join");
    EACH_OBJECT (i) {
        must(zkl_group_update(groups[i], "other", LONG, &err));
    }
    phase("update");
    EACH_OBJECT (i) {
        must(zkl_group_leave(groups[i], &err));
    }
    phase("leave");
    EACH_OBJECT (i) {
        zkl_group_free(groups[i]);
    }
    phase("free");
    free(groups);
}

static void on_leader(zkl_election_observer *observer, const zkl_leader *leader, void *payload)
{
    note_event();
}

static void many_observers(void)
{
    zkl_election_observer **observers = calloc(count, sizeof(zkl_election_observer *));
    make_locks(zkl_election_new, NULL);
    acquire_locks();
    begin_phases();
    EACH_OBJECT (i) {
        must(zkl_election_observe(&observers[i], session, paths[i], on_leader, NULL, &err));
    }
    await_events(count);
    phase("observe");
    release_locks();
    await_events(count);
    phase("changed");
    EACH_OBJECT (i) {
        zkl_election_observer_free(observers[i]);
    }
    phase("free");
    free(observers);
}

/* As many calls under way at a time. */
static void many_calls(void)
{
    zkl_queue **queues = calloc(count, sizeof(zkl_queue *));
    EACH_OBJECT (i) {
        must(zkl_barrier_set_async(session, paths[i], LONG, on_done, NULL, &err));
    }
    await_events(count);
    phase("set");
    EACH_OBJECT (i) {
        must(zkl_queue_list_async(&queues[i], session, paths[i], LONG, on_done, NULL, &err));
    }
    await_events(count);
    phase("list");
    EACH_OBJECT (i) {
        zkl_queue_free(queues[i]);
        must(zkl_barrier_lift_async(session, paths[i], LONG, on_done, NULL, &err));
    }
    await_events(count);
    phase("lift");
    free(queues);
}

/* Contenders of one queue, which is listed. */
static void many_listed(void)
{
    char(*names)[48] = calloc(count, sizeof *names);
    zkl_op *ops = calloc(count, sizeof *ops);
    zkl_queue *queue;
    make_locks(zkl_lock_new, NULL);
    acquire(locks[0]);
    EACH_OBJECT (i) {
        snprintf(names[i], sizeof *names, "%s/x-lock-%010zu", paths[0], i + 1);
        ops[i] = (zkl_op){.kind = ZKL_OP_CREATE, .path = names[i], .mode = ZKL_CREATE_EPHEMERAL};
    }
    for (size_t i = 0; i < count; i += ZKL_COMMIT_MAX) {
        size_t some = count - i < ZKL_COMMIT_MAX ? count - i : ZKL_COMMIT_MAX;
        must(zkl_lock_commit(locks[0], ops + i, some, LONG, NULL, &err));
    }
    begin_phases();
    must(zkl_queue_list(&queue, session, paths[0], LONG, &err));
    phase("list");
    zkl_queue_free(queue);
    free(ops);
    free(names);
}

static void on_assigned(zkl_partition *partition, const char *piece, int64_t token, void *payload)
{
    note_event();
}

static void on_revoked(zkl_partition *partition, const char *piece, bool lost, void *payload) {}

static void many_pieces(void)
{
    zkl_partition_options options = ZKL_PARTITION_OPTIONS_INIT;
    zkl_partition *partition;
    const char **pieces = calloc(count, sizeof *pieces);
    EACH_OBJECT (i) {
        pieces[i] = paths[i] + strlen("/many/");
    }
    options.assigned_fn = on_assigned;
    options.revoked_fn = on_revoked;
    zkl_lock *holder = hold(zkl_lock_new, session, "/many/holder");
    must(zkl_partition_new(&partition, session, "/many/pieces", pieces, count, &options, &err));
    phase("new");
    must(zkl_partition_start(partition, &err));
    await_events(count);
    phase("assign");
    must(zkl_partition_stop(partition, &err));
    zkl_partition_free(partition); /* whichever of the two ends what is left of the pieces ... */
    await_replies(holder);         /* ... it is counted here */
    phase("stop");
    free(pieces);
}

static const struct {
    const char *name;
    void (*run)(void);
} kinds[] = {
    {"locks", many_locks},
    {"async", many_async},
    {"tries", many_tries},
    {"waiters", many_waiters},
    {"reads", many_reads},
    {"elections", many_elections},
    {"semaphores", many_semaphores},
    {"permits", many_permits},
    {"lingering", many_lingering},
    {"commits", many_commits},
    {"stop", many_stops},
    {"losses", many_losses},
    {"close", many_at_close},
    {"groups", many_groups},
    {"observers", many_observers},
    {"pieces", many_pieces},
    {"calls", many_calls},
    {"listed", many_listed},
    {"queue", many_in_one_queue},
    {"behind", many_behind_a_stranger},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void live_of(size_t which, size_t objects)
{
    kind = kinds[which].name;
    count = objects;
    paths = calloc(count + 1, sizeof *paths);
    locks = calloc(count, sizeof *locks);
    for (size_t i = 0; i <= count; i++) {
        snprintf(paths[i], sizeof *paths, "/many/%06zu", i);
    }
    stop = (zkl_stop)ZKL_STOP_INIT;
    events = 0;
    session = open_session();
    rival = open_session();
    begin_phases();
    kinds[which].run();
    zkl_session_close(session, LONG);
    zkl_session_close(rival, LONG);
    free(locks);
    free(paths);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: many FEW MOST [KIND]\n");
        return 2;
    }
    for (size_t i = 0; i < KINDS; i++) {
        if (argc < 4 || strcmp(kinds[i].name, argv[3]) == 0) {
            live_of(i, strtoul(argv[1], NULL, 10));
            live_of(i, strtoul(argv[2], NULL, 10));
        }
    }
    return 0;
}
