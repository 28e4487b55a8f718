/* Semaphores, on the in-process store: what zklock/semaphore.h promises. */
#include "lock_kit.h"
#include "shell.h"
#include "store_client.h"

#define POOL "/pools/test"
#define LEASES POOL "/leases"

static zkl_lock *pool_contender(zkl_session *session, int limit)
{
    zkl_lock *semaphore;
    ASSERT_OK_FATAL(zkl_semaphore_new(&semaphore, session, POOL, limit, NULL, NULL));
    return kit_keep(semaphore);
}

#define acquire_permits(semaphore, count) ASSERT_OK_FATAL(zkl_semaphore_acquire(semaphore, count, 5000, NULL, NULL))
#define release_permits(semaphore, count) ASSERT_OK(zkl_semaphore_release(semaphore, count, NULL))
#define try_permits(semaphore, count, code) \
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(semaphore, count, 0, NULL, NULL), code)
/* Without waiting: the end goes to box. */
#define await_permits(semaphore, count, box) \
    ASSERT_OK(zkl_semaphore_acquire_async(semaphore, count, 30000, on_acquired, box, NULL))
#define set_limit(session, limit) ASSERT_OK(zkl_semaphore_resize(session, POOL, limit, 5000, NULL))

/* It does not fit what is at the path. */
static void expect_conflict(zkl_lock *semaphore, int count, const char *words)
{
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(semaphore, count, 5000, NULL, &err), ZKL_ECONFLICT);
    ASSERT_SAYS(err, words);
}

static void expect_no_resize(const char *path, int limit, int code, const char *words)
{
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_semaphore_resize(one, path, limit, 5000, &err), code);
    CU_ASSERT_STRING_EQUAL(err.path, code == ZKL_EINVAL ? "" : path);
    ASSERT_SAYS(err, words);
}

/* How many leases, held or asked for, and how many in the queue. */
static size_t pool_leases(void)
{
    return kit_queue(one, LEASES);
}

static size_t pool_queued(void)
{
    return kit_queue(one, POOL "/locks");
}

#define await_leases(count) ASSERT_EVENTUALLY(pool_leases() == (count))
#define await_queued(count) ASSERT_EVENTUALLY(pool_queued() == (count))

static bool limit_is(const char *text, int32_t version)
{
    struct client reader;
    ASSERT_OK_FATAL(client_open_plain(&reader, PLACE));
    const struct zkl__reply *reply = client_call(&reader, op_read(ZKL__OP_GET, POOL, false));
    bool is = reply->rc == ZKL__RC_OK && reply->size == strlen(text) && memcmp(reply->data, text, reply->size) == 0 &&
              (version < 0 || reply->stat.version == version);
    client_close(&reader);
    return is;
}

/* A holder of so many permits of as many. */
static zkl_lock *held(int limit)
{
    zkl_lock *holder = pool_contender(two, limit);
    acquire_permits(holder, limit);
    await_queued(0);
    return holder;
}

/* --- permits ------------------------------------------------------------------------------------------------------- */

/* What is so for a lock of every recipe: unit_handle. */
TEST_WITH_SESSIONS(test_some_of_several)
{
    zkl_lock *a = pool_contender(one, 3), *b = pool_contender(two, 3);
    zkl_grant grant;
    int64_t tokens[3] = {0};
    ASSERT_OK_FATAL(zkl_semaphore_acquire(a, 2, 5000, &grant, NULL));
    CU_ASSERT_EQUAL(zkl_semaphore_tokens(a, tokens, 3), 2);
    CU_ASSERT_EQUAL(tokens[0], grant.token);
    CU_ASSERT(tokens[1] > tokens[0]);
    await_queued(0); /* who holds does not queue */
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(b, 2, 50, NULL, NULL), ZKL_ETIMEOUT);
    ASSERT_OK_FATAL(zkl_semaphore_acquire(b, 1, 5000, &grant, NULL));
    CU_ASSERT(grant.token > tokens[1]);
    CU_ASSERT_EQUAL(zkl_semaphore_release(a, 3, NULL), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_semaphore_release(a, -1, NULL), ZKL_EINVAL);
    release_permits(a, 1); /* the later one */
    CU_ASSERT_EQUAL(zkl_semaphore_tokens(a, NULL, 0), 1);
    CU_ASSERT_EQUAL(zkl_lock_token(a), tokens[0]);
    release_permits(a, 1);
    CU_ASSERT_EQUAL(zkl_lock_state(a), ZKL_STATE_IDLE);
    CU_ASSERT_EQUAL(pool_leases(), 1);
    kit_expire(two);
    kit_await_state(b, ZKL_STATE_LOST);
    CU_ASSERT_EQUAL(zkl_semaphore_tokens(b, NULL, 0), 0);
    CU_ASSERT_EQUAL(zkl_semaphore_release(b, 1, NULL), ZKL_ELOST);
}

/* Leases that live with no session are nobody's permits. */
TEST_WITH_SESSIONS(test_strays_take_no_permits)
{
    zkl_lock *a = pool_contender(one, 2), *b = pool_contender(two, 2), *c = pool_contender(two, 2);
    acquire_permits(a, 1);
    await_queued(0); /* else b has somebody before it */
    kit_must_write(ZKL__OP_CREATE, LEASES, "_c_11111111-2222-4333-8444-555555555555-lease-0000000090", NULL);
    kit_must_write(ZKL__OP_CREATE, LEASES, "_c_11111111-2222-4333-8444-555555555556-lease-0000000091", NULL);
    try_permits(b, 1, ZKL_OK);
    try_permits(c, 1, ZKL_EBUSY);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(c, 1, 100, NULL, NULL), ZKL_ETIMEOUT);
    release_permits(a, 0);
    acquire_permits(c, 1);
}

/* A foreign znode in the path, of every length that a server takes, is nobody's lock while no session owns it. */
TEST(test_foreign_names_of_any_length)
{
    static const size_t lengths[] = {18, 36, 63, 64, 65, 127, 128, 254, 255};
    char name[256];
    EACH_ROW (i, lengths) {
        memset(name, 'a', sizeof name);
        strcpy(name + lengths[i] - 18, "__READ__0000000001");
        kit_set_up(NULL);
        kit_must_write(ZKL__OP_CREATE, "/pools", NULL, NULL);
        kit_must_write(ZKL__OP_CREATE, POOL, NULL, NULL);
        kit_must_write(ZKL__OP_CREATE, POOL, name, NULL);
        zkl_lock *semaphore = pool_contender(one, 2);
        acquire_permits(semaphore, 1);
        kit_free(semaphore);
        kit_tear_down();
    }
}

/* A request for all permits is not passed over by those for one that come after it. */
TEST_WITH_SESSIONS(test_big_requests_are_not_starved)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_lock *holder = pool_contender(one, 4), *big = pool_contender(two, 4), *small[4];
    acquire_permits(holder, 1);
    await_queued(0);
    await_permits(big, 4, &box);
    await_queued(1);
    EACH_ROW (i, small) {
        small[i] = pool_contender(i % 2 ? one : two, 4);
        await_permits(small[i], 1, &box);
        await_queued(i + 2);
    }
    CU_ASSERT_EQUAL(mailbox_count(&box), 0);
    release_permits(holder, 0);
    kit_await_letters(&box, 1);
    CU_ASSERT_PTR_EQUAL(box.letters[0].from, big);
    ASSERT_OK(box.letters[0].code);
    CU_ASSERT_EQUAL(zkl_semaphore_tokens(big, NULL, 0), 4);
    release_permits(big, 2);
    kit_await_letters(&box, 3);
    int64_t first = zkl_lock_token(small[0]), second = zkl_lock_token(small[1]);
    CU_ASSERT(0 < first &&
              first < second); /* in their order; their letters come on a thread for each session, in any */
    await_leases(5);           /* two, one, one, and the next head's */
    CU_ASSERT_EQUAL(mailbox_count(&box), 3);
    kit_free(big);
    kit_await_letters(&box, 5);
    EACH_ROW (i, small) {
        kit_free(small[i]);
    }
}

/* --- a session that is refused ----------------------------------------------------------------------------------------- */

static void end_while_waiting_and_held(struct zkl__event end, int code)
{
    struct mailbox box = MAILBOX_INIT, states = MAILBOX_INIT;
    kit_set_up(NULL);
    zkl_lock *held, *head = pool_contender(two, 1);
    ASSERT_OK_FATAL(zkl_semaphore_new(&held, two, POOL, 1, STATES_TO(&states), NULL));
    kit_keep(held);
    acquire_permits(held, 1);
    await_queued(0);
    await_permits(head, 1, &box);
    await_leases(2);
    ASSERT_OK_FATAL(zkl__session_enter(two, NULL));
    zkl__session_event(two, end);
    zkl__session_leave(two);
    CU_ASSERT_EQUAL(mailbox_code(&box, 1), code);
    CU_ASSERT(zkl_lock_state(held) == ZKL_STATE_IDLE || code == ZKL_ECLOSED); /* refused: the session is closed */
    ASSERT_EVENTUALLY(mailbox_last(&states) == ZKL_STATE_LOST || code == ZKL_ECLOSED);
    kit_free(head);
    kit_free(held);
    zkl_session_close(two, 100);
    kit_close(one);
}

/* The servers refuse the credentials at a reconnect, say: the session is over, and nothing can be given back any more. Or it is closed. */
TEST(test_the_end_of_a_session_while_waiting_and_held)
{
    end_while_waiting_and_held((struct zkl__event){.kind = ZKL__EV_EXPIRED, .code = ZKL_EAUTH}, ZKL_EAUTH);
    end_while_waiting_and_held((struct zkl__event){.kind = ZKL__EV_CLOSE}, ZKL_ECLOSED);
}

/* --- the limit ----------------------------------------------------------------------------------------------------- */

TEST_WITH_SESSIONS(test_the_limit_is_agreed_on)
{
    zkl_lock *a = pool_contender(one, 3), *b = pool_contender(two, 5);
    acquire_permits(a, 3);
    CU_ASSERT(limit_is("3", -1));
    expect_conflict(b, 1, "limit is 5, the path is in use with 3"); /* though permits are out: at once */
    await_queued(0);
    release_permits(a, 0);
    expect_conflict(b, 1, "limit is 5");
    kit_must_write(ZKL__OP_SET, POOL, NULL, "5"); /* an operator changes it */
    expect_conflict(a, 1, "limit is 3");
    acquire_permits(b, 1);
    release_permits(b, 0);
    static const char *const no_limits[] = {"-1",     "0",      "0x3", "10001",      "99999",
                                            "100009", "000003", "3 ",  "99999999999"};
    EACH_ROW (i, no_limits) {
        kit_must_write(ZKL__OP_SET, POOL, NULL, no_limits[i]);
        expect_conflict(a, 1, "no limit");
    }
}

/* Of every recipe but semaphores. */
static void acquire_as_others(zkl_session *session, int wanted)
{
    EACH_ROW (i, handle_recipes) {
        if (handle_recipes[i].recipe != ZKL_RECIPE_SEMAPHORE) {
            zkl_lock *lock = handle_make(&handle_recipes[i], session, POOL, NULL);
            zkl_error err = {.text = ""};
            CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 5000, NULL, &err), wanted);
            CU_ASSERT_EQUAL(strstr(err.text, "in use as a semaphore") != NULL, wanted != ZKL_OK);
            kit_free(lock);
        }
    }
    kit_await_queue(session, POOL, 0);
}

/* Anybody can leave two empty znodes behind: they are no semaphore, and deny nothing. Its limit is one, and whoever stands there. */
TEST_WITH_SESSIONS(test_empty_folders_are_no_semaphore)
{
    zkl_lock *a = pool_contender(two, 2);
    zkl_lock *lock = kit_lock(one, POOL, NULL);
    kit_acquire(lock); /* makes the directory */
    kit_must_write(ZKL__OP_CREATE, POOL, "locks", NULL);
    kit_must_write(ZKL__OP_CREATE, POOL, "leases", NULL);
    kit_release(lock);
    acquire_as_others(one, ZKL_OK);
    ASSERT_OK(zkl_lock_acquire(lock, 0, NULL, NULL)); /* without waiting, too */
    expect_conflict(a, 1, "in use as a lock");
    kit_release(lock);
    kit_must_write(ZKL__OP_SET, POOL, NULL, "2");
    acquire_as_others(one, ZKL_ECONFLICT);
    kit_must_write(ZKL__OP_SET, POOL, NULL, "a note");
    acquire_as_others(one, ZKL_OK);
}

/* Persistent ones in them would deny the lock for ever; one that lives with a session says that it is a semaphore, limit or not. */
TEST_WITH_SESSIONS(test_strays_in_its_folders_are_no_semaphore)
{
    static const char *const folders[] = {POOL "/locks", POOL "/leases"};
    zkl_lock *a = pool_contender(two, 2);
    zkl_lock *lock = kit_hold(one, POOL, NULL); /* makes the directory */
    EACH_ROW (i, folders) {
        kit_must_write(ZKL__OP_CREATE, POOL, strrchr(folders[i], '/') + 1, NULL);
        kit_must_write(ZKL__OP_CREATE, folders[i], "x", NULL);
        kit_must_write(ZKL__OP_CREATE, folders[i], "x-lock-0000000001", NULL);
        kit_must_write(ZKL__OP_CREATE, folders[i], "x-lease-0000000002", NULL);
    }
    kit_release(lock);
    acquire_as_others(one, ZKL_OK);
    kit_must_write(ZKL__OP_CREATE, POOL, "x-lock-0000000000", NULL);
    acquire_permits(a, 1);
    kit_must_write(ZKL__OP_SET, POOL, NULL, ""); /* as Curator's, which writes no limit */
    kit_must_write(ZKL__OP_DELETE, POOL, "x-lock-0000000000", NULL);
    acquire_as_others(one, ZKL_ECONFLICT);
    release_permits(a, 1);
}

/* Somebody's lock of the name "locks", below one that is held. */
TEST_WITH_SESSIONS(test_one_of_its_folders_is_no_semaphore)
{
    kit_hold(two, POOL "/locks", NULL);
    acquire_as_others(one, ZKL_OK);
}

/* A crowd of one session shares its lists. */
TEST_WITH_SESSIONS(test_many_of_one_session_are_refused)
{
    enum { CROWD = 40 };
    struct mailbox box = MAILBOX_INIT;
    zkl_lock *locks[CROWD];
    zkl_lock *a = pool_contender(two, 2);
    acquire_permits(a, 1);
    EACH_ROW (i, locks) {
        locks[i] = kit_lock(one, POOL, NULL);
        kit_acquire_async(locks[i], on_acquired, &box);
    }
    kit_await_letters(&box, CROWD);
    EACH_ROW (i, locks) {
        CU_ASSERT_EQUAL(box.letters[i].code, ZKL_ECONFLICT);
        kit_free(locks[i]);
    }
}

/* --- another limit while it is used -------------------------------------------------------------------------------------- */

/* Whoever wants several makes them before it reads the leases, and the limit with them; and once more, with watches. */
TEST_WITH_SESSIONS(test_growth_for_several)
{
    struct mailbox box = MAILBOX_INIT;
    held(2);
    zkl_lock *waiter = pool_contender(two, 0);
    await_permits(waiter, 2, &box);
    await_leases(4);
    set_limit(one, 4);
    ASSERT_OK(mailbox_code(&box, 1));
}

/* A lower limit that comes while a list of the leases is under way counts for that list, and takes nothing from the holder. */
TEST_WITH_SESSIONS(test_shrink_meanwhile)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_lock *holder = held(4), *waiter = pool_contender(one, 0);
    await_permits(waiter, 1, &box);
    await_leases(5);
    for (int i = 0; i < 3; i++) { /* its looks are answered by now: it waits */
        CU_ASSERT_EQUAL(pool_leases(), 5);
    }
    kit_delay(one, true);
    release_permits(holder, 1);
    kit_await_queue(two, POOL "/leases", 4);
    set_limit(two, 2);
    kit_delay(one, false); /* of the leases, then of the limit */
    for (int i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(pool_leases(), 4);
    }
    CU_ASSERT_EQUAL(zkl_lock_state(waiter), ZKL_STATE_WAITING);
    CU_ASSERT_EQUAL(zkl_semaphore_tokens(holder, NULL, 0), 3);
    release_permits(holder, 2);
    ASSERT_OK(mailbox_code(&box, 1));
}

/* Who insists on a limit is refused from then on, also while it waits; and who wants more than there are. */
TEST_WITH_SESSIONS(test_who_does_not_fit_is_refused)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_lock *holder = held(3), *insists = pool_contender(one, 3), *wants = pool_contender(one, 0);
    await_permits(insists, 1, &box);
    await_leases(4);
    set_limit(one, 2);
    CU_ASSERT_EQUAL(mailbox_code(&box, 1), ZKL_ECONFLICT);
    ASSERT_SAYS(box.letters[0], "limit is 3, the path is in use with 2");
    expect_conflict(wants, 3, "3 permits are wanted, the limit of the path is 2");
    await_permits(wants, 2, &box);
    await_leases(5);
    set_limit(one, 1);
    CU_ASSERT_EQUAL(mailbox_code(&box, 2), ZKL_ECONFLICT);
    ASSERT_EVENTUALLY(pool_leases() == 3 && pool_queued() == 0); /* and nothing of theirs is left */
    release_permits(holder, 0);
    set_limit(one, 3);
    acquire_permits(insists, 3);
}

TEST_WITH_SESSIONS(test_no_limit_there)
{
    zkl_lock *adopts = pool_contender(one, 0);
    expect_no_resize(POOL, 2, ZKL_ENOENT, "does not exist");
    expect_conflict(adopts, 1, "nobody has set a limit");
    ASSERT_EVENTUALLY(pool_queued() == 0 && pool_leases() == 0);
    expect_no_resize(POOL, 2, ZKL_ECONFLICT, "nobody has set a limit"); /* the acquire has made the path */
    kit_must_write(ZKL__OP_SET, POOL, NULL, "");                        /* whatever its version is */
    acquire_permits(pool_contender(two, 2), 1);
    acquire_permits(adopts, 1);
}

/* Who may read the limit, and not write it. */
TEST_WITH_SESSIONS(test_without_permission)
{
    static const zkl_acl_entry entry = {ZKL_PERM_ALL & ~ZKL_PERM_WRITE, "world", "anyone"};
    static const zkl_acl acl = {1, &entry};
    kit_create("/closed", NULL, "3", &acl);
    expect_no_resize("/closed", 2, ZKL_EAUTH, "cannot be written");
    expect_no_resize("/closed", 3, ZKL_EAUTH, "cannot be written"); /* nor what it is */
}

/* Its connection breaks there; then others write that, or nobody does; then it is connected again. */
TEST(test_resized_over_lost_replies)
{
    static const struct {
        size_t whole, half, lost;
        const char *written[2]; /* by others while it is cut off */
        const char *limit;      /* then */
        int32_t writes;         /* of all */
    } cases[] = {
        {0, 1, 0, {NULL}, "5", 1},     /* the read's */
        {0, 0, 1, {NULL}, "5", 1},     /* it never arrives */
        {1, 1, 0, {NULL}, "5", 1},     /* of the write, which is done: not once more */
        {1, 0, 1, {NULL}, "5", 1},     /* which is not */
        {1, 0, 1, {"7"}, "5", 2},      /* another was faster: then once more */
        {1, 0, 1, {"5"}, "5", 1},      /* with the same limit */
        {1, 1, 0, {"7"}, "7", 2},      /* another was later, and it stands */
        {1, 1, 0, {"7", "8"}, "8", 3}, /* two were */
        {1, 0, 1, {"7", "8"}, "8", 2}, /* which nobody can tell from that */
    };
    EACH_ROW (i, cases) {
        struct mailbox box = MAILBOX_INIT;
        kit_set_up(NULL);
        kit_must_write(ZKL__OP_CREATE, "/pools", NULL, NULL);
        kit_must_write(ZKL__OP_CREATE, POOL, NULL, "3");
        zkl__memory_break(zkl_session_id(one), cases[i].whole, cases[i].half, cases[i].lost);
        ASSERT_OK(zkl_semaphore_resize_async(one, POOL, 5, 20000, on_ended, &box, NULL));
        kit_await_session(one, ZKL_SESSION_SUSPENDED);
        for (int k = 0; k < 2 && cases[i].written[k]; k++) {
            kit_must_write(ZKL__OP_SET, POOL, NULL, cases[i].written[k]);
        }
        CU_ASSERT_EQUAL(mailbox_count(&box), 0);
        kit_resume(one);
        ASSERT_OK(mailbox_code(&box, 1));
        CU_ASSERT(limit_is(cases[i].limit, cases[i].writes));
        kit_tear_down();
    }
}

/* Between the read and the write it becomes another limit; or something else, which stays: a lock's directory, say. */
TEST_WITH_SESSIONS(test_limit_changed_meanwhile)
{
    static const struct {
        const char *written;
        int code;
        const char *left;
        int32_t version;
    } changes[] = {{"3", ZKL_OK, "5", 3}, {"host:1", ZKL_ECONFLICT, "host:1", 4}};
    held(2);
    EACH_ROW (i, changes) {
        struct mailbox box = MAILBOX_INIT;
        kit_delay(one, true); /* read, and not told yet */
        ASSERT_OK(zkl_semaphore_resize_async(one, POOL, 5, 20000, on_ended, &box, NULL));
        kit_must_write(ZKL__OP_SET, POOL, NULL, changes[i].written);
        kit_delay(one, false);
        CU_ASSERT_EQUAL(mailbox_code(&box, 1), changes[i].code);
        CU_ASSERT(limit_is(changes[i].left, changes[i].version));
    }
}

TEST_WITH_SESSIONS(test_bad_calls)
{
    static const int limits[] = {INT32_MIN, -1, ZKL_PERMITS_MAX + 1, INT32_MAX};
    zkl_lock *semaphore = NULL;
    zkl_error err;
    EACH_ROW (i, limits) {
        CU_ASSERT_EQUAL(zkl_semaphore_new(&semaphore, one, POOL, limits[i], NULL, &err), ZKL_EINVAL);
        ASSERT_SAYS(err, "limit");
        expect_no_resize(POOL, limits[i], ZKL_EINVAL, "limit");
    }
    expect_no_resize(POOL, 0, ZKL_EINVAL, "limit");
    char path[ZKL_PATH_MAX + 1];
    memset(path, 'x', sizeof path);
    path[0] = '/';
    path[ZKL_PATH_MAX - 3] = '\0';
    CU_ASSERT_EQUAL(zkl_semaphore_new(&semaphore, one, path, 1, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_PTR_NULL(semaphore);
    semaphore = pool_contender(one, 2);
    try_permits(semaphore, 3, ZKL_EINVAL);
    try_permits(semaphore, 0, ZKL_EINVAL);
    semaphore = pool_contender(one, 0);
    try_permits(semaphore, ZKL_PERMITS_MAX + 1, ZKL_EINVAL);
}

TESTS("semaphore")
