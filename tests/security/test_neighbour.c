/* A neighbour that may create below a recipe's path leaves persistent znodes there, everything that the recipe might take for one of its
 * own: nothing of it blocks a lock, a semaphore, an election, a partition or a barrier. What it does block is said at once, and by
 * name. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "contest.h"
#include "ensemble.h"
#include "store_client.h"

#define TICK 500
#define TIMEOUT 6000
#define UUID "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"

static struct ensemble *server;
static struct recorder *neighbour;
static zkl_session *session, *other;
static char path[64];

/* Contenders' names of every kind and library, before everybody. */
static const char *const places[] = {"_c_" UUID "-lock-0000000000",   "x-lock--000000005",
                                     UUID "__WRIT__0000000000",       "_c_" UUID "__READ__0000000000",
                                     "_c_" UUID "-latch-0000000000",  "_c_" UUID "-lease-0000000000",
                                     UUID "__lock__0000000000",       "n_0000000000",
                                     "_c_" UUID "-member-0000000000", "guid-n_0000000000"};
/* Folders and signs of every recipe, and what may stand below them. */
static const char *const folders[] = {"locks", "leases", "members", "pieces", "ready"};
static const char *const deep[] = {"locks/x", "leases/x", "members/x", "pieces/x", "ready/x"};

static void put(const char *name)
{
    char whole[200];
    snprintf(whole, sizeof whole, "%s%s%s", path, name[0] ? "/" : "", name);
    struct zkl__op op = op_create(whole, NULL, ZKL__PERSISTENT);
    enum zkl__rc rc = recorder_do(neighbour, &op)->reply.rc;
    CU_ASSERT(rc == ZKL__RC_OK || rc == ZKL__RC_NODEEXISTS);
}

static void put_below(const char *folder, const char *name)
{
    char whole[128];
    put(folder);
    snprintf(whole, sizeof whole, "%s/%s", folder, name);
    put(whole);
}

#define PUT_ALL(names)                                                \
    for (size_t i_ = 0; i_ < sizeof(names) / sizeof *(names); i_++) { \
        put((names)[i_]);                                             \
    }

/* Everything, at a path that nobody has used before. */
static void litter(const char *at)
{
    snprintf(path, sizeof path, "%s", at);
    put("");
    PUT_ALL(folders);
    PUT_ALL(deep);
    PUT_ALL(places);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        put_below("locks", places[i]);
        put_below("leases", places[i]);
        put_below("members", places[i]);
        put_below("pieces/one", places[i]);
    }
}

static void check(int code, int expected, const zkl_error *err)
{
    CU_ASSERT_EQUAL(code, expected);
    if (code != expected) {
        fprintf(stderr, "\n%s: %s: %s\n", path, zkl_error_name(code), err->text);
    }
}

static void test_lock(void)
{
    zkl_error err = {.text = ""};
    litter("/lock");
    zkl_lock *lock = contest_lock(session, path, NULL);
    check(zkl_lock_acquire(lock, SOON, NULL, &err), ZKL_OK, &err);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
    zkl_lock_free(lock);
}

static void test_lock_with_recovery(void)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    zkl_error err = {.text = ""};
    options.recover = true;
    litter("/recover");
    zkl_lock *lock = contest_lock(session, path, &options);
    check(zkl_lock_acquire(lock, SOON, NULL, &err), ZKL_OK, &err);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
    zkl_lock_free(lock);
}

static void test_rwlock(void)
{
    int (*const make[])(zkl_lock **, zkl_session *, const char *, const zkl_lock_options *,
                        zkl_error *) = {zkl_read_lock_new, zkl_write_lock_new};
    litter("/rwlock");
    for (int i = 0; i < 2; i++) {
        zkl_lock *lock = NULL;
        zkl_error err = {.text = ""};
        CU_ASSERT_EQUAL_FATAL(make[i](&lock, session, path, NULL, NULL), ZKL_OK);
        check(zkl_lock_acquire(lock, SOON, NULL, &err), ZKL_OK, &err);
        CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
        zkl_lock_free(lock);
    }
}

static void test_semaphore(void)
{
    zkl_lock *semaphore = NULL;
    zkl_error err = {.text = ""};
    litter("/semaphore");
    CU_ASSERT_EQUAL_FATAL(zkl_semaphore_new(&semaphore, session, path, 2, NULL, NULL), ZKL_OK);
    check(zkl_semaphore_acquire(semaphore, 2, SOON, NULL, &err), ZKL_OK, &err);
    zkl_lock_free(semaphore);
}

static void test_election(void)
{
    zkl_lock *election = NULL;
    zkl_error err = {.text = ""};
    litter("/election");
    CU_ASSERT_EQUAL_FATAL(zkl_election_new(&election, session, path, NULL, NULL), ZKL_OK);
    check(zkl_lock_acquire(election, SOON, NULL, &err), ZKL_OK, &err);
    CU_ASSERT(zkl_lock_is_held(election));
    zkl_lock_free(election);
}

static void test_group(void)
{
    zkl_group *group = NULL, *taken = NULL;
    zkl_members *members = NULL;
    zkl_error err = {.text = ""};
    litter("/group");
    CU_ASSERT_EQUAL_FATAL(zkl_group_new(&group, session, path, "me", NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(zkl_group_new(&taken, session, path, "ready", NULL, NULL), ZKL_OK);
    check(zkl_group_join(group, SOON, &err), ZKL_OK, &err);
    check(zkl_group_list(&members, other, path, SOON, &err), ZKL_OK, &err);
    CU_ASSERT_EQUAL(members ? members->count : 0, 1);
    zkl_members_free(members);
    /* Its znode has a name that the application chose, and that one is taken: told at once, and tried again if it goes. */
    check(zkl_group_join(taken, SOON, &err), ZKL_ECONFLICT, &err);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "lives with no session"));
    zkl_group_free(taken);
    zkl_group_free(group);
}

/* --- barriers --------------------------------------------------------------------------------------------------------- */

struct member {
    pthread_t thread;
    zkl_double_barrier *barrier;
    int entered, left;
    zkl_error err;
};

static void *enter_and_leave(void *arg)
{
    struct member *member = arg;
    member->entered = zkl_double_barrier_enter(member->barrier, SOON, &member->err);
    member->left = member->entered == ZKL_OK ? zkl_double_barrier_leave(member->barrier, SOON, &member->err) : ZKL_OK;
    return NULL;
}

static void test_double_barrier(void)
{
    zkl_session *sessions[] = {session, other};
    struct member members[2];
    litter("/double");
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL_FATAL(zkl_double_barrier_new(&members[i].barrier, sessions[i], path, 2, NULL), ZKL_OK);
    }
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL_FATAL(pthread_create(&members[i].thread, NULL, enter_and_leave, &members[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(members[i].thread, NULL);
        check(members[i].entered, ZKL_OK, &members[i].err);
        check(members[i].left, ZKL_OK, &members[i].err);
        zkl_double_barrier_free(members[i].barrier);
    }
}

/* What the neighbour makes first is a barrier, whoever made it, and anybody may lift it. Below ours it makes nothing. */
static void test_barrier(void)
{
    zkl_error err = {.text = ""};
    snprintf(path, sizeof path, "/barrier");
    put("");
    check(zkl_barrier_wait(session, path, 200, &err), ZKL_ETIMEOUT, &err);
    check(zkl_barrier_lift(session, path, SOON, &err), ZKL_OK, &err);
    check(zkl_barrier_set(session, path, SOON, &err), ZKL_OK, &err);
    struct zkl__op child = op_create("/barrier/x", NULL, ZKL__PERSISTENT);
    CU_ASSERT_EQUAL(recorder_do(neighbour, &child)->reply.rc, ZKL__RC_NOAUTH);
    check(zkl_barrier_lift(other, path, SOON, &err), ZKL_OK, &err);
    check(zkl_barrier_wait(session, path, SOON, &err), ZKL_OK, &err);
    litter(
        "/littered"); /* its children are nobody's, but nobody may delete them for it, so nobody lifts it: told at once */
    check(zkl_barrier_set(session, path, SOON, &err), ZKL_OK, &err);
    int code = zkl_barrier_lift(session, path, SOON, &err);
    CU_ASSERT(code != ZKL_OK && code != ZKL_ETIMEOUT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "the barrier may not be lifted"));
}

/* --- partition, once -------------------------------------------------------------------------------------------------- */

static void on_assigned(zkl_partition *partition, const char *piece, int64_t token, void *payload)
{
    (void)partition, (void)piece, (void)token, (void)payload;
}

static void on_revoked(zkl_partition *partition, const char *piece, bool lost, void *payload)
{
    (void)partition, (void)piece, (void)lost, (void)payload;
}

static void test_partition(void)
{
    static const char *const pieces[] = {"one", "two"};
    zkl_partition_options options = ZKL_PARTITION_OPTIONS_INIT;
    zkl_partition *partition = NULL;
    options.assigned_fn = on_assigned;
    options.revoked_fn = on_revoked;
    litter("/partition");
    CU_ASSERT_EQUAL_FATAL(zkl_partition_new(&partition, session, path, pieces, 2, &options, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_partition_start(partition, NULL), ZKL_OK);
    int64_t end = now_ms() + SOON;
    while (zkl_partition_owned(partition, NULL, 0) < 2 && look_again(end)) {
    }
    CU_ASSERT_EQUAL(zkl_partition_owned(partition, NULL, 0), 2);
    zkl_partition_free(partition);
}

static int count_a_run(const zkl_cancel *cancel, int64_t token, void *runs)
{
    (void)cancel, (void)token;
    ++*(int *)runs;
    return 0;
}

static void test_once(void)
{
    bool ran = false;
    int runs = 0;
    zkl_error err = {.text = ""};
    litter("/once");
    zkl_lock *lock = contest_lock(session, path, NULL);
    for (int i = 0; i < 2; i++) {
        check(zkl_once_run(lock, 86400000, 0, SOON, count_a_run, &runs, &ran, NULL, &err), ZKL_OK, &err);
        CU_ASSERT_EQUAL(ran, i == 0);
    }
    CU_ASSERT_EQUAL(runs, 1);
    zkl_lock_free(lock);
}

static const struct check_case cases[] = {
    T(test_lock),    T(test_lock_with_recovery), T(test_rwlock),    T(test_semaphore), T(test_election), T(test_group),
    T(test_barrier), T(test_double_barrier),     T(test_partition), T(test_once)};

int main(int argc, char **argv)
{
    if (!ensemble_available()) {
        return 77;
    }
    server = ensemble_start(&(struct ensemble_options){.tick_ms = TICK});
    if (!server) {
        return 1;
    }
    neighbour = recorder_connect(&zkl__store_zookeeper, ensemble_servers(server));
    session = contest_session(ensemble_servers(server), TIMEOUT, TICK);
    other = contest_session(ensemble_servers(server), TIMEOUT, TICK);
    int code = check_main("neighbour", cases, (int)(sizeof cases / sizeof *cases), argc, argv);
    (void)zkl_session_close(session, SOON);
    (void)zkl_session_close(other, SOON);
    recorder_free(neighbour);
    ensemble_stop(server);
    return code;
}
