/* drivers.c - programs for mutate.c: each uses one recipe through the address of a liar, beside a
 * rival whose server is honest. They judge one thing: whether both held at once.
 *
 *   mutate_drivers PROGRAM LIAR HONEST PATH */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "wait.h"

#include <zklock/zklock.h>

#define ROUNDS 3
#define SHORT_MS 60 /* what the rival holds, and what a hold lasts: a session timeout has several */
#define LONG_MS 700 /* an acquire's timeout */

static zkl_session *liar, *honest;
static const char *path;
static atomic_int grants, calls, text_bytes;

static void on_log(const zkl_log_record *record, void *payload)
{
    (void)payload;
    atomic_fetch_add(&text_bytes, (int)(strlen(record->line) + strlen(record->text)));
}

static zkl_session *open_session(const char *servers)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    zkl_session *session = NULL;
    options.session_timeout_ms = 1000;
    options.tick_ms = 100;
    options.leader_pause_ms = 20;
    options.connect_timeout_ms = 2000;
    options.log_fn = on_log;
    options.log_level = ZKL_LOG_DEBUG;
    return zkl_session_open(&session, servers, &options, NULL) == ZKL_OK ? session : NULL;
}

static int called(int code)
{
    atomic_fetch_add(&calls, 1);
    return code;
}

/* --- what is acquired, held and released ----------------------------------------------------------------------------- */

static void on_lock_state(zkl_lock *lock, zkl_state state, void *payload)
{
    (void)payload;
    atomic_fetch_add(&text_bytes, (int)strlen(zkl_state_name(state)) + (zkl_lock_is_held(lock) ? 1 : 0));
}

static void on_revoke(zkl_lock *lock, void *payload)
{
    (void)payload;
    zkl_lock_cancel(lock);
}

static zkl_lock *make_lock(zkl_session *session)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    zkl_lock *lock = NULL;
    static atomic_int made;
    int number = atomic_fetch_add(&made, 1);
    options.recover = number % 3 == 1;
    options.state_fn = on_lock_state;
    options.revoke_fn = number % 3 == 2 ? on_revoke : NULL;
    options.release_timeout_ms = 200;
    zkl_lock_new(&lock, session, path, &options, NULL);
    return lock;
}

static zkl_lock *make_writer(zkl_session *session)
{
    zkl_lock *lock = NULL;
    zkl_write_lock_new(&lock, session, path, NULL, NULL);
    return lock;
}

static zkl_lock *make_semaphore(zkl_session *session)
{
    zkl_lock *semaphore = NULL;
    zkl_semaphore_new(&semaphore, session, path, 3, NULL, NULL);
    return semaphore;
}

static zkl_lock *make_multilock(zkl_session *session)
{
    char other[512];
    const char *paths[] = {path, other};
    zkl_lock *lock = NULL;
    snprintf(other, sizeof other, "%s-other", path);
    zkl_multilock_new(&lock, session, paths, 2, NULL, NULL);
    return lock;
}

static zkl_lock *make_election(zkl_session *session)
{
    zkl_lock *election = NULL;
    zkl_election_new(&election, session, path, NULL, NULL);
    return election;
}

/* Two of three permits: so two cannot hold at once. */
static int acquire(zkl_lock *lock, int64_t timeout_ms)
{
    zkl_grant grant;
    zkl_error err;
    return zkl_lock_recipe(lock) == ZKL_RECIPE_SEMAPHORE ? zkl_semaphore_acquire(lock, 2, timeout_ms, &grant, &err)
                                                         : zkl_lock_acquire(lock, timeout_ms, &grant, &err);
}

static bool holds(const zkl_lock *lock)
{
    bool semaphore = zkl_lock_recipe(lock) == ZKL_RECIPE_SEMAPHORE;
    return (!semaphore || zkl_semaphore_tokens(lock, NULL, 0) > 1) && zkl_lock_is_held(lock);
}

static void read_once(void)
{
    zkl_lock *reader = NULL;
    if (zkl_read_lock_new(&reader, liar, path, NULL, NULL) == ZKL_OK &&
        zkl_lock_acquire(reader, SHORT_MS, NULL, NULL) == ZKL_OK) {
        zkl_lock_release(reader, NULL);
    }
    zkl_lock_free(reader);
}

/* After the verb of its own that its recipe has. */
static int release(zkl_lock *lock)
{
    switch (zkl_lock_recipe(lock)) {
    case ZKL_RECIPE_WRITE_LOCK:
        zkl_write_lock_downgrade(lock, NULL);
        zkl_lock_release(lock, NULL);
        read_once();
        return ZKL_OK;
    case ZKL_RECIPE_SEMAPHORE:
        zkl_semaphore_release(lock, 1, NULL);
        return zkl_semaphore_release(lock, 1, NULL);
    case ZKL_RECIPE_ELECTION:
        zkl_election_publish(lock, "here I am", SHORT_MS, NULL);
        return zkl_lock_release(lock, NULL);
    default:
        return zkl_lock_release(lock, NULL);
    }
}

struct contest {
    zkl_lock *ours, *rival;
    pthread_t thread;
    int code;
};

/* The rival is asked between two looks at ours: both held at once. */
static void judge(const struct contest *c)
{
    if (holds(c->ours) && holds(c->rival) && holds(c->ours)) {
        printf("two holders\n");
    }
}

static void *wait_in_queue(void *arg)
{
    struct contest *c = arg;
    c->code = called(acquire(c->ours, LONG_MS));
    return NULL;
}

static void hold(const struct contest *c, int64_t ms)
{
    int64_t end = now_ms() + ms;
    while (holds(c->ours) && look_again(end)) {
        judge(c);
    }
}

/* Ours is behind the rival, which releases; then the other way round. */
static void contest_round(struct contest *c)
{
    if (c->rival && acquire(c->rival, LONG_MS) == ZKL_OK) {
        pthread_create(&c->thread, NULL, wait_in_queue, c);
        int64_t end = now_ms() + SHORT_MS;
        while (look_again(end)) {
            judge(c);
        }
        release(c->rival);
        pthread_join(c->thread, NULL);
    } else {
        c->code = called(acquire(c->ours, LONG_MS));
    }
    if (c->code == ZKL_OK) {
        atomic_fetch_add(&grants, 1);
        if (c->rival && acquire(c->rival, 0) == ZKL_OK) {
            judge(c);
            release(c->rival);
        }
        hold(c, 2 * SHORT_MS);
    }
    called(release(c->ours));
}

static void run_contest(zkl_lock *(*make)(zkl_session *session))
{
    for (int i = 0; i < ROUNDS; i++) {
        struct contest c = {.ours = make(liar), .rival = honest ? make(honest) : NULL};
        if (c.ours) {
            contest_round(&c);
            zkl_lock_free(c.ours);
        }
        if (c.rival) {
            zkl_lock_free(c.rival);
        }
    }
}

/* --- the other recipes ------------------------------------------------------------------------------------------------ */

static void run_lock(void)
{
    run_contest(make_lock);
}
static void run_rwlock(void)
{
    run_contest(make_writer);
}
static void run_semaphore(void)
{
    run_contest(make_semaphore);
}
static void run_multilock(void)
{
    run_contest(make_multilock);
}

static void on_leader(zkl_election_observer *observer, const zkl_leader *leader, void *payload)
{
    (void)observer;
    (void)payload;
    if (leader) {
        atomic_fetch_add(&text_bytes, (int)(strlen(leader->node) + (leader->readable ? strlen(leader->value) : 0)));
    }
}

static void run_election(void)
{
    zkl_election_observer *observer = NULL;
    zkl_election_observe(&observer, liar, path, on_leader, NULL, NULL);
    run_contest(make_election);
    zkl_election_observer_free(observer);
}

static void on_members(zkl_group_observer *watcher, const char *const *ids, size_t count, void *payload)
{
    (void)watcher;
    (void)payload;
    for (size_t i = 0; i < count; i++) {
        atomic_fetch_add(&text_bytes, (int)strlen(ids[i]));
    }
}

static void list_members(void)
{
    zkl_members *members = NULL;
    called(zkl_group_list(&members, liar, path, LONG_MS, NULL));
    for (size_t i = 0; members && i < members->count; i++) {
        const zkl_member *member = &members->members[i];
        atomic_fetch_add(&text_bytes, (int)(strlen(member->id) + (member->readable ? strlen(member->data) : 0)));
    }
    zkl_members_free(members);
}

static void run_group(void)
{
    zkl_group *ours = NULL, *rival = NULL;
    zkl_group_observer *watcher = NULL;
    zkl_group_observe(&watcher, liar, path, on_members, NULL, NULL);
    zkl_group_new(&ours, liar, path, "ours", NULL, NULL);
    zkl_group_new(&rival, honest, path, "rival", NULL, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        zkl_group_join(rival, LONG_MS, NULL);
        if (called(zkl_group_join(ours, LONG_MS, NULL)) == ZKL_OK) {
            atomic_fetch_add(&grants, 1);
        }
        called(zkl_group_update(ours, "other data", SHORT_MS, NULL));
        list_members();
        zkl_group_leave(rival, NULL);
        called(zkl_group_leave(ours, NULL));
    }
    zkl_group_observer_free(watcher);
    zkl_group_free(ours);
    zkl_group_free(rival);
}

static void on_assigned(zkl_partition *partition, const char *piece, int64_t token, void *payload)
{
    (void)partition;
    (void)payload;
    atomic_fetch_add(&grants, token != 0 && piece[0] ? 1 : 0);
}
static void on_revoked(zkl_partition *partition, const char *piece, bool lost, void *payload)
{
    (void)partition;
    (void)payload;
    atomic_fetch_add(&text_bytes, (int)strlen(piece) + lost);
}

static zkl_partition *make_partition(zkl_session *session)
{
    static const char *const pieces[] = {"a", "b", "c"};
    zkl_partition_options options = ZKL_PARTITION_OPTIONS_INIT;
    zkl_partition *partition = NULL;
    options.assigned_fn = on_assigned;
    options.revoked_fn = on_revoked;
    if (!session || zkl_partition_new(&partition, session, path, pieces, 3, &options, NULL) != ZKL_OK) {
        return NULL;
    }
    return partition;
}

static void run_partition(void)
{
    zkl_partition *ours = make_partition(liar), *rival = make_partition(honest);
    called(zkl_partition_start(ours, NULL));
    int64_t end = now_ms() + LONG_MS;
    while (zkl_partition_owned(ours, NULL, 0) < 3 && look_again(end)) {
    }
    if (rival) {
        zkl_partition_start(rival, NULL);
        end = now_ms() + LONG_MS;
        while (zkl_partition_owned(rival, NULL, 0) == 0 && look_again(end)) {
        }
        zkl_partition_stop(rival, NULL);
    }
    called(zkl_partition_stop(ours, NULL));
    zkl_partition_free(ours);
    zkl_partition_free(rival);
}

static void *enter_and_leave(void *arg)
{
    zkl_double_barrier *barrier = arg;
    zkl_double_barrier_enter(barrier, LONG_MS, NULL);
    zkl_double_barrier_leave(barrier, LONG_MS, NULL);
    return NULL;
}

static void run_barrier(void)
{
    char gate[512];
    pthread_t thread;
    zkl_double_barrier *ours = NULL, *rival = NULL;
    snprintf(gate, sizeof gate, "%s-gate", path);
    called(zkl_barrier_set(liar, gate, LONG_MS, NULL));
    called(zkl_barrier_wait(liar, gate, SHORT_MS, NULL));
    called(zkl_barrier_lift(liar, gate, LONG_MS, NULL));
    called(zkl_barrier_wait(liar, gate, LONG_MS, NULL));
    zkl_double_barrier_new(&ours, liar, path, 2, NULL);
    zkl_double_barrier_new(&rival, honest, path, 2, NULL);
    for (int i = 0; i < ROUNDS && ours && rival; i++) {
        pthread_create(&thread, NULL, enter_and_leave, rival);
        if (called(zkl_double_barrier_enter(ours, LONG_MS, NULL)) == ZKL_OK) {
            atomic_fetch_add(&grants, 1);
        }
        called(zkl_double_barrier_leave(ours, LONG_MS, NULL));
        pthread_join(thread, NULL);
    }
    zkl_double_barrier_free(ours);
    zkl_double_barrier_free(rival);
}

static int do_the_job(const zkl_cancel *cancel, int64_t token, void *payload)
{
    (void)payload;
    return token != 0 && !zkl_cancel_raised(cancel) ? 0 : 1;
}

static void run_once(void)
{
    zkl_lock *lock = NULL;
    zkl_lock_new(&lock, liar, path, NULL, NULL);
    called(zkl_once_prepare(liar, path, LONG_MS, NULL));
    for (int i = 0; i < ROUNDS; i++) {
        bool ran = false;
        int result;
        called(zkl_once_run(lock, 1000, 300 * i, LONG_MS, do_the_job, NULL, &ran, &result, NULL));
        atomic_fetch_add(&grants, ran);
    }
    zkl_lock_free(lock);
}

static void visit_queue(void)
{
    zkl_queue *queue = NULL;
    called(zkl_queue_list(&queue, liar, path, LONG_MS, NULL));
    for (size_t i = 0; queue && i < queue->count; i++) {
        const zkl_queue_entry *entry = &queue->entries[i];
        atomic_fetch_add(&text_bytes, (int)(strlen(entry->name) + (entry->readable ? strlen(entry->data) : 0)));
        if (entry->kind != ZKL_KIND_FOREIGN) {
            atomic_fetch_add(&grants, 1);
        }
        if (i < 2) {
            called(zkl_queue_revoke(liar, path, entry->name, SHORT_MS, NULL));
            called(zkl_queue_remove(liar, path, entry->name, entry->token, SHORT_MS, NULL));
        }
    }
    for (size_t i = 0; queue && i < queue->foreign; i++) {
        atomic_fetch_add(&text_bytes, (int)strlen(queue->foreign_names[i]));
    }
    zkl_queue_free(queue);
}

static void run_queue(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        zkl_lock *holder = make_lock(honest);
        acquire(holder, LONG_MS);
        visit_queue();
        zkl_lock_free(holder);
    }
}

/* --- whole ------------------------------------------------------------------------------------------------------------ */

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } programs[] = {{"lock", run_lock},           {"rwlock", run_rwlock},     {"semaphore", run_semaphore},
                    {"multilock", run_multilock}, {"election", run_election}, {"group", run_group},
                    {"partition", run_partition}, {"barrier", run_barrier},   {"once", run_once},
                    {"queue", run_queue}};
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; argc == 5 && i < sizeof programs / sizeof *programs; i++) {
        if (strcmp(argv[1], programs[i].name) != 0) {
            continue;
        }
        path = argv[4];
        liar = open_session(argv[2]);
        honest = open_session(argv[3]);
        if (liar && honest) {
            programs[i].run();
        }
        zkl_session_close(liar, 500);
        zkl_session_close(honest, 500);
        printf("%d grants in %d calls\n", atomic_load(&grants), atomic_load(&calls));
        return 0;
    }
    fprintf(stderr, "mutate_drivers PROGRAM LIAR HONEST PATH\n");
    return 2;
}
