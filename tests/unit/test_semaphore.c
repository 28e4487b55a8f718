/* Semaphores, on the in-process store: what zklock/semaphore.h promises. */
#include "semaphore_kit.h"

#include "dice.h"
#include "grave_heap.h"
#include "shell.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* --- permits ------------------------------------------------------------------------------------------------------- */

static void test_acquire_and_release(void)
{
    kit_set_up(NULL);
    zkl_lock *a = pool_contender(one, 3), *b = pool_contender(two, 3), *c = pool_contender(two, 3);
    zkl_grant grant;
    zkl_error err;
    int64_t tokens[3] = {0};
    CU_ASSERT_STRING_EQUAL(zkl_lock_path(a), POOL);
    CU_ASSERT_EQUAL(zkl_lock_recipe(a), ZKL_RECIPE_SEMAPHORE);
    CU_ASSERT_EQUAL(zkl_semaphore_release(a, 0, &err), ZKL_ENOTHELD);
    CU_ASSERT_EQUAL(zkl_semaphore_release(a, 1, &err), ZKL_ENOTHELD);
    CU_ASSERT_EQUAL_FATAL(zkl_semaphore_acquire(a, 2, 5000, &grant, NULL), ZKL_OK);
    CU_ASSERT(zkl_lock_is_held(a));
    CU_ASSERT_EQUAL(zkl_lock_state(a), ZKL_STATE_HELD);
    CU_ASSERT_EQUAL(zkl_semaphore_tokens(a, NULL, 0), 2);
    CU_ASSERT(grant.token > 0);
    CU_ASSERT_EQUAL(zkl_lock_token(a), grant.token);
    CU_ASSERT(zkl_lock_remaining_ms(a) > 5000);
    CU_ASSERT_EQUAL(zkl_semaphore_tokens(a, tokens, 3), 2);
    CU_ASSERT_EQUAL(tokens[0], grant.token);
    CU_ASSERT(tokens[1] > tokens[0]);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(a, 1, 0, NULL, NULL), ZKL_EDEADLK);
    CU_ASSERT(EVENTUALLY(pool_queued() == 0)); /* who holds does not queue */
    CU_ASSERT_EQUAL(pool_leases(), 2);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(b, 2, 0, NULL, NULL), ZKL_EBUSY);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(b, 2, 50, NULL, NULL), ZKL_ETIMEOUT);
    CU_ASSERT(EVENTUALLY(pool_queued() == 0 && pool_leases() == 2)); /* and nothing is left */
    CU_ASSERT_EQUAL_FATAL(zkl_semaphore_acquire(b, 1, 5000, &grant, NULL), ZKL_OK);
    CU_ASSERT(grant.token > tokens[1]);
    CU_ASSERT(EVENTUALLY(pool_queued() == 0));
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(c, 1, 0, NULL, NULL), ZKL_EBUSY);
    CU_ASSERT_EQUAL(zkl_semaphore_release(a, 3, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_semaphore_release(a, -1, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_semaphore_release(a, 1, &err), ZKL_OK); /* the later one */
    CU_ASSERT_EQUAL(zkl_semaphore_tokens(a, NULL, 0), 1);
    CU_ASSERT_EQUAL(zkl_lock_token(a), tokens[0]);
    CU_ASSERT_EQUAL_FATAL(zkl_semaphore_acquire(c, 1, 5000, &grant, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_semaphore_release(a, 1, &err), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_state(a), ZKL_STATE_IDLE);
    CU_ASSERT_EQUAL(zkl_semaphore_tokens(a, NULL, 0), 0);
    CU_ASSERT_EQUAL(zkl_semaphore_release(b, 0, &err), ZKL_OK);
    CU_ASSERT_EQUAL(pool_leases(), 1);
    zkl_lock_free(a);
    zkl_lock_free(b);
    zkl_lock_free(c);
    zkl_lock_free(NULL);
    CU_ASSERT(EVENTUALLY(pool_leases() == 0 && pool_queued() == 0));
    kit_tear_down();
}

/* Leases that live with no session are nobody's permits. */
static void test_strays_take_no_permits(void)
{
    kit_set_up(NULL);
    zkl_lock *a = pool_contender(one, 2), *b = pool_contender(two, 2), *c = pool_contender(two, 2);
    CU_ASSERT_EQUAL_FATAL(zkl_semaphore_acquire(a, 1, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT(EVENTUALLY(pool_queued() == 0)); /* else b has somebody before it */
    pool_meddle(ZKL__OP_CREATE, POOL "/leases", "_c_11111111-2222-4333-8444-555555555555-lease-0000000090", NULL);
    pool_meddle(ZKL__OP_CREATE, POOL "/leases", "_c_11111111-2222-4333-8444-555555555556-lease-0000000091", NULL);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(b, 1, 0, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(c, 1, 0, NULL, NULL), ZKL_EBUSY);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(c, 1, 100, NULL, NULL), ZKL_ETIMEOUT);
    CU_ASSERT_EQUAL(zkl_semaphore_release(a, 0, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(c, 1, 5000, NULL, NULL), ZKL_OK);
    zkl_lock_free(a);
    zkl_lock_free(b);
    zkl_lock_free(c);
    kit_tear_down();
}

/* A foreign znode in the path, of every length that a server takes, is nobody's lock while no session owns it. */
static void test_foreign_names_of_any_length(void)
{
    static const size_t lengths[] = {18, 36, 63, 64, 65, 127, 128, 254, 255};
    char name[256];
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        memset(name, 'a', sizeof name);
        strcpy(name + lengths[i] - 18, "__READ__0000000001");
        kit_set_up(NULL);
        pool_meddle(ZKL__OP_CREATE, "/pools", NULL, NULL);
        pool_meddle(ZKL__OP_CREATE, POOL, NULL, NULL);
        pool_meddle(ZKL__OP_CREATE, POOL, name, NULL);
        zkl_lock *semaphore = pool_contender(one, 2);
        CU_ASSERT_EQUAL(zkl_semaphore_acquire(semaphore, 1, 5000, NULL, NULL), ZKL_OK);
        zkl_lock_free(semaphore);
        kit_tear_down();
    }
}

/* A request for all permits is not passed over by those for one that come after it. */
static void test_big_requests_are_not_starved(void)
{
    struct mailbox box = MAILBOX_INIT;
    kit_set_up(NULL);
    zkl_lock *holder = pool_contender(one, 4), *big = pool_contender(two, 4), *small[4];
    CU_ASSERT_EQUAL_FATAL(zkl_semaphore_acquire(holder, 1, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT(EVENTUALLY(pool_queued() == 0));
    CU_ASSERT_EQUAL(zkl_semaphore_acquire_async(big, 4, 30000, on_permitted, &box, NULL), ZKL_OK);
    CU_ASSERT(EVENTUALLY(pool_queued() == 1));
    for (size_t i = 0; i < 4; i++) {
        small[i] = pool_contender(i % 2 ? one : two, 4);
        CU_ASSERT_EQUAL(zkl_semaphore_acquire_async(small[i], 1, 30000, on_permitted, &box, NULL), ZKL_OK);
        CU_ASSERT(EVENTUALLY(pool_queued() == i + 2));
    }
    CU_ASSERT_EQUAL(mailbox_count(&box), 0);
    CU_ASSERT_EQUAL(zkl_semaphore_release(holder, 0, NULL), ZKL_OK);
    CU_ASSERT(mailbox_wait(&box, 1));
    CU_ASSERT_PTR_EQUAL(box.letters[0].from, big);
    CU_ASSERT_EQUAL(box.letters[0].code, ZKL_OK);
    CU_ASSERT_EQUAL(zkl_semaphore_tokens(big, NULL, 0), 4);
    CU_ASSERT_EQUAL(zkl_semaphore_release(big, 2, NULL), ZKL_OK);
    CU_ASSERT(mailbox_wait(&box, 3));
    int64_t first = zkl_lock_token(small[0]), second = zkl_lock_token(small[1]);
    CU_ASSERT(0 < first &&
              first < second); /* in their order; their letters come on a thread for each session, in any */
    CU_ASSERT(EVENTUALLY(pool_leases() == 5)); /* two, one, one, and the next head's */
    CU_ASSERT_EQUAL(mailbox_count(&box), 3);
    zkl_lock_free(big);
    CU_ASSERT(mailbox_wait(&box, 5));
    for (int i = 0; i < 4; i++) {
        zkl_lock_free(small[i]);
    }
    zkl_lock_free(holder);
    kit_tear_down();
}

static void test_cancel_and_free_while_waiting(void)
{
    struct mailbox box = MAILBOX_INIT;
    kit_set_up(NULL);
    zkl_lock *a = pool_contender(one, 1), *b = pool_contender(two, 1), *c = pool_contender(two, 1);
    CU_ASSERT_EQUAL_FATAL(zkl_semaphore_acquire(a, 1, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT(EVENTUALLY(pool_queued() == 0));
    CU_ASSERT_EQUAL(zkl_lock_cancel(b), ZKL_ENOTWAITING);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire_async(b, 1, 30000, on_permitted, &box, NULL), ZKL_OK); /* the head */
    CU_ASSERT(EVENTUALLY(pool_leases() == 2));
    CU_ASSERT_EQUAL(zkl_semaphore_acquire_async(c, 1, 30000, on_permitted, &box, NULL), ZKL_OK);
    CU_ASSERT(EVENTUALLY(pool_queued() == 2));
    CU_ASSERT_EQUAL(zkl_lock_state(b), ZKL_STATE_WAITING);
    CU_ASSERT_EQUAL(zkl_lock_cancel(b), ZKL_OK);
    CU_ASSERT(mailbox_wait(&box, 1));
    CU_ASSERT_EQUAL(box.letters[0].code, ZKL_ECANCELED);
    CU_ASSERT(EVENTUALLY(pool_queued() == 1 && pool_leases() == 2)); /* c is the head now */
    zkl_lock_free(c);
    CU_ASSERT(mailbox_wait(&box, 2));
    CU_ASSERT_EQUAL(box.letters[1].code, ZKL_ECANCELED);
    CU_ASSERT(EVENTUALLY(pool_queued() == 0 && pool_leases() == 1));
    CU_ASSERT_EQUAL(zkl_semaphore_acquire_async(b, 1, 30, on_permitted, &box, NULL), ZKL_OK);
    CU_ASSERT(mailbox_wait(&box, 3));
    CU_ASSERT_EQUAL(box.letters[2].code, ZKL_ETIMEOUT);
    zkl_lock_free(a);
    zkl_lock_free(b);
    kit_tear_down();
}

/* --- a session that is refused ----------------------------------------------------------------------------------------- */

/* The servers refuse the credentials at a reconnect, say: the session is over, and nothing can be given back any more. */
static void refuse_credentials(zkl_session *session)
{
    CU_ASSERT_EQUAL_FATAL(zkl__session_enter(session, NULL), ZKL_OK);
    zkl__session_event(session, (struct zkl__event){.kind = ZKL__EV_EXPIRED, .code = ZKL_EAUTH});
    zkl__session_leave(session);
}

static void test_credentials_refused_while_waiting_and_held(void)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    options.heap = &grave_heap;
    kit_set_up(&options);
    zkl_lock *held = pool_contender(two, 1), *head = pool_contender(two, 1);
    CU_ASSERT_EQUAL_FATAL(zkl_semaphore_acquire(held, 1, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT(EVENTUALLY(pool_queued() == 0));
    CU_ASSERT_EQUAL(zkl_semaphore_acquire_async(head, 1, 30000, on_permitted, &box, NULL), ZKL_OK);
    CU_ASSERT(EVENTUALLY(pool_leases() == 2));
    refuse_credentials(two);
    CU_ASSERT(mailbox_wait(&box, 1));
    CU_ASSERT_EQUAL(box.letters[0].code, ZKL_EAUTH);
    CU_ASSERT_EQUAL(zkl_lock_state(held), ZKL_STATE_IDLE); /* the session is closed */
    zkl_lock_free(head);
    zkl_lock_free(held);
    (void)zkl_session_close(two, 100);
    kit_close(one);
    graves_check();
}

static void test_timeout_without_a_server(void)
{
    struct mailbox box = MAILBOX_INIT;
    kit_set_up(NULL);
    zkl_lock *a = pool_contender(one, 1);
    for (size_t whole = 0; whole < 6; whole++) { /* also for who does not wait for it, and in the middle of things */
        zkl__memory_break(zkl_session_id(one), whole, 0, 1);
        CU_ASSERT_EQUAL(zkl_semaphore_acquire_async(a, 1, 40, on_permitted, &box, NULL), ZKL_OK);
        CU_ASSERT(mailbox_wait(&box, whole + 1));
        CU_ASSERT_EQUAL(box.letters[whole].code, ZKL_ETIMEOUT);
        zkl__memory_suspend(zkl_session_id(one));
        CU_ASSERT_EQUAL(zkl__memory_resume(zkl_session_id(one)), ZKL_OK);
    }
    CU_ASSERT_EQUAL(zkl__memory_suspend(zkl_session_id(one)), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(a, 1, 50, NULL, NULL), ZKL_ETIMEOUT);
    CU_ASSERT_EQUAL(zkl__memory_resume(zkl_session_id(one)), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(a, 1, 5000, NULL, NULL), ZKL_OK);
    zkl_lock_free(a);
    kit_tear_down();
}

/* --- the limit ----------------------------------------------------------------------------------------------------- */

static void test_the_limit_is_agreed_on(void)
{
    kit_set_up(NULL);
    zkl_lock *a = pool_contender(one, 3), *b = pool_contender(two, 5);
    zkl_error err;
    struct client client;
    CU_ASSERT_EQUAL_FATAL(client_open_plain(&client, PLACE), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(zkl_semaphore_acquire(a, 3, 5000, NULL, NULL), ZKL_OK);
    const struct zkl__reply *reply = client_call(&client, op_read(ZKL__OP_GET, POOL, false));
    CU_ASSERT_EQUAL(reply->size, 1);
    CU_ASSERT_EQUAL(memcmp(reply->data, "3", 1), 0);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(b, 1, 5000, NULL, &err), ZKL_ECONFLICT); /* though permits are out: at once */
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "limit is 5"));
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "with 3"));
    CU_ASSERT(EVENTUALLY(pool_queued() == 0));
    CU_ASSERT_EQUAL(zkl_semaphore_release(a, 0, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(b, 1, 5000, NULL, &err), ZKL_ECONFLICT);
    pool_meddle(ZKL__OP_SET, POOL, NULL, "5"); /* an operator changes it */
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(a, 1, 5000, NULL, &err), ZKL_ECONFLICT);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(b, 1, 5000, NULL, &err), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_semaphore_release(b, 0, NULL), ZKL_OK);
    pool_meddle(ZKL__OP_SET, POOL, NULL, "many");
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(a, 1, 5000, NULL, &err), ZKL_ECONFLICT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "no limit"));
    client_close(&client);
    zkl_lock_free(a);
    zkl_lock_free(b);
    kit_tear_down();
}

static void test_a_lock_is_no_semaphore(void)
{
    kit_set_up(NULL);
    zkl_lock *lock = kit_lock(one, POOL, NULL);
    zkl_lock *a = pool_contender(two, 2);
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(a, 1, 5000, NULL, &err), ZKL_ECONFLICT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "as a lock"));
    zkl_lock_free(a);
    zkl_lock_free(lock);
    kit_tear_down();
}

static void acquire_as_others(zkl_session *session, int wanted)
{
    const char *paths[] = {"/elsewhere", POOL};
    zkl_lock *lock = kit_lock(session, POOL, NULL);
    zkl_lock *rwlock;
    zkl_lock *election;
    zkl_lock *both;
    zkl_error err = {.text = ""};
    CU_ASSERT_EQUAL_FATAL(zkl_read_lock_new(&rwlock, session, POOL, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(zkl_election_new(&election, session, POOL, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(zkl_multilock_new(&both, session, paths, 2, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 5000, NULL, &err), wanted);
    CU_ASSERT_EQUAL(strstr(err.text, "in use as a semaphore") != NULL, wanted != ZKL_OK);
    zkl_lock_free(lock);
    CU_ASSERT_EQUAL(zkl_lock_acquire(rwlock, 5000, NULL, NULL), wanted);
    zkl_lock_free(rwlock);
    CU_ASSERT_EQUAL(zkl_write_lock_new(&rwlock, session, POOL, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(rwlock, 0, NULL, NULL), wanted);
    zkl_lock_free(rwlock);
    CU_ASSERT_EQUAL(zkl_lock_acquire(election, 5000, NULL, NULL), wanted);
    zkl_lock_free(election);
    CU_ASSERT_EQUAL(zkl_lock_acquire(both, 5000, NULL, NULL), wanted);
    zkl_lock_free(both);
    CU_ASSERT(EVENTUALLY(kit_queue(session, POOL) == 0));
}

static void test_a_semaphore_is_no_lock(void)
{
    kit_set_up(NULL);
    zkl_lock *a = pool_contender(two, 2);
    zkl_lock *lock = kit_lock(one, POOL, NULL);
    zkl_stats before = ZKL_STATS_INIT, after = ZKL_STATS_INIT;
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(a, 1, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_session_stats(one, &before), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 5000, NULL, NULL), ZKL_ECONFLICT);
    CU_ASSERT_EQUAL(zkl_session_stats(one, &after), ZKL_OK);
    CU_ASSERT(after.requests - before.requests <= 3); /* create, list, delete: the list says it */
    zkl_lock_free(lock);
    acquire_as_others(one, ZKL_ECONFLICT);
    CU_ASSERT(zkl_lock_is_held(a));
    CU_ASSERT_EQUAL(zkl_semaphore_release(a, 0, NULL), ZKL_OK);
    zkl_lock_free(a);
    kit_tear_down();
}

/* Anybody can leave two empty znodes behind: they are no semaphore, and deny nothing. Its limit is one, and whoever stands there. */
static void test_empty_folders_are_no_semaphore(void)
{
    kit_set_up(NULL);
    zkl_lock *a = pool_contender(two, 2);
    zkl_lock *lock = kit_lock(one, POOL, NULL);
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 5000, NULL, NULL), ZKL_OK); /* makes the directory */
    pool_meddle(ZKL__OP_CREATE, POOL, "locks", NULL);
    pool_meddle(ZKL__OP_CREATE, POOL, "leases", NULL);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
    acquire_as_others(one, ZKL_OK);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 0, NULL, NULL), ZKL_OK); /* without waiting, too */
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(a, 1, 5000, NULL, &err), ZKL_ECONFLICT);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
    pool_meddle(ZKL__OP_SET, POOL, NULL, "2");
    acquire_as_others(one, ZKL_ECONFLICT);
    pool_meddle(ZKL__OP_SET, POOL, NULL, "a note");
    acquire_as_others(one, ZKL_OK);
    zkl_lock_free(lock);
    zkl_lock_free(a);
    kit_tear_down();
}

/* Persistent ones in them would deny the lock for ever; one that lives with a session says that it is a semaphore, limit or not. */
static void test_strays_in_its_folders_are_no_semaphore(void)
{
    static const char *const folders[] = {POOL "/locks", POOL "/leases"};
    kit_set_up(NULL);
    zkl_lock *a = pool_contender(two, 2);
    zkl_lock *lock = kit_lock(one, POOL, NULL);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 5000, NULL, NULL), ZKL_OK); /* makes the directory */
    for (int i = 0; i < 2; i++) {
        pool_meddle(ZKL__OP_CREATE, POOL, strrchr(folders[i], '/') + 1, NULL);
        pool_meddle(ZKL__OP_CREATE, folders[i], "x", NULL);
        pool_meddle(ZKL__OP_CREATE, folders[i], "x-lock-0000000001", NULL);
        pool_meddle(ZKL__OP_CREATE, folders[i], "x-lease-0000000002", NULL);
    }
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
    acquire_as_others(one, ZKL_OK);
    pool_meddle(ZKL__OP_CREATE, POOL, "x-lock-0000000000", NULL);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(a, 1, 5000, NULL, NULL), ZKL_OK);
    pool_meddle(ZKL__OP_SET, POOL, NULL, ""); /* as Curator's, which writes no limit */
    pool_meddle(ZKL__OP_DELETE, POOL, "x-lock-0000000000", NULL);
    acquire_as_others(one, ZKL_ECONFLICT);
    CU_ASSERT_EQUAL(zkl_semaphore_release(a, 1, NULL), ZKL_OK);
    zkl_lock_free(lock);
    zkl_lock_free(a);
    kit_tear_down();
}

/* Somebody's lock of the name "locks", below one that is held. */
static void test_one_of_its_folders_is_no_semaphore(void)
{
    kit_set_up(NULL);
    zkl_lock *nested = kit_lock(two, POOL "/locks", NULL);
    CU_ASSERT_EQUAL(zkl_lock_acquire(nested, 5000, NULL, NULL), ZKL_OK);
    acquire_as_others(one, ZKL_OK);
    zkl_lock_free(nested);
    kit_tear_down();
}

/* A crowd of one session shares its lists. */
static void test_many_of_one_session_are_refused(void)
{
    enum { CROWD = 40 };
    struct mailbox box = MAILBOX_INIT;
    zkl_lock *locks[CROWD];
    kit_set_up(NULL);
    zkl_lock *a = pool_contender(two, 2);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(a, 1, 5000, NULL, NULL), ZKL_OK);
    for (int i = 0; i < CROWD; i++) {
        locks[i] = kit_lock(one, POOL, NULL);
        CU_ASSERT_EQUAL(zkl_lock_acquire_async(locks[i], 10000, on_acquired, &box, NULL), ZKL_OK);
    }
    CU_ASSERT(mailbox_wait(&box, CROWD));
    for (int i = 0; i < CROWD; i++) {
        CU_ASSERT_EQUAL(box.letters[i].code, ZKL_ECONFLICT);
        zkl_lock_free(locks[i]);
    }
    zkl_lock_free(a);
    kit_tear_down();
}

/* --- Curator ------------------------------------------------------------------------------------------------------- */

#define CURATORS_LEASE "/leases/_c_01234567-89ab-4def-8123-456789abcdef-lease-"
#define CURATORS_LOCK "/locks/_c_01234567-89ab-4def-8123-456789abcdef-lock-"

static void test_curators_permits_count(void)
{
    struct mailbox box = MAILBOX_INIT;
    struct client curator;
    kit_set_up(NULL);
    zkl_lock *a = pool_contender(one, 2);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(a, 1, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_semaphore_release(a, 0, NULL), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(client_open_plain(&curator, PLACE), ZKL_OK);
    char lock[128], lease[128];
    const struct zkl__reply *reply =
        client_call(&curator, op_create(POOL CURATORS_LOCK, "", ZKL__EPHEMERAL_SEQUENTIAL));
    CU_ASSERT_EQUAL_FATAL(reply->rc, ZKL__RC_OK);
    snprintf(lock, sizeof lock, POOL "/locks/%s", reply->name);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire_async(a, 2, 30000, on_permitted, &box, NULL), ZKL_OK);
    CU_ASSERT(EVENTUALLY(pool_queued() == 2));
    reply = client_call(&curator, op_create(POOL CURATORS_LEASE, "", ZKL__EPHEMERAL_SEQUENTIAL));
    CU_ASSERT_EQUAL_FATAL(reply->rc, ZKL__RC_OK);
    snprintf(lease, sizeof lease, POOL "/leases/%s", reply->name);
    CU_ASSERT_EQUAL(client_rc(&curator, op_delete(lock, -1)), ZKL__RC_OK);
    CU_ASSERT(EVENTUALLY(pool_leases() == 3)); /* we are the head, and wait */
    CU_ASSERT_EQUAL(mailbox_count(&box), 0);
    CU_ASSERT_EQUAL(client_rc(&curator, op_delete(lease, -1)), ZKL__RC_OK);
    CU_ASSERT(mailbox_wait(&box, 1));
    CU_ASSERT_EQUAL(box.letters[0].code, ZKL_OK);
    client_close(&curator);
    zkl_lock_free(a);
    kit_tear_down();
}

/* --- one wake-up --------------------------------------------------------------------------------------------------- */

static atomic_int readings;

static void count_readings(const zkl_log_record *record, void *payload)
{
    (void)payload;
    readings += strstr(record->text, "leases stand") != NULL;
}

/* With many waiting, one release wakes the head, and nobody else. */
static void test_only_the_head_is_woken(void)
{
    enum { CROWD = 30 };
    struct mailbox box = MAILBOX_INIT;
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    options.log_fn = count_readings;
    options.log_level = ZKL_LOG_DEBUG;
    kit_set_up(&options);
    zkl_lock *holders[3], *crowd[CROWD];
    for (int i = 0; i < 3; i++) {
        holders[i] = pool_contender(one, 3);
        CU_ASSERT_EQUAL_FATAL(zkl_semaphore_acquire(holders[i], 1, 5000, NULL, NULL), ZKL_OK);
    }
    CU_ASSERT(EVENTUALLY(pool_queued() == 0));
    for (size_t i = 0; i < CROWD; i++) {
        crowd[i] = pool_contender(i % 2 ? one : two, 3);
        CU_ASSERT_EQUAL(zkl_semaphore_acquire_async(crowd[i], 1, 60000, on_permitted, &box, NULL), ZKL_OK);
        CU_ASSERT(EVENTUALLY(pool_queued() == i + 1));
    }
    CU_ASSERT(EVENTUALLY(pool_leases() == 4));
    for (size_t i = 0; i < 3; i++) {
        int reads_of_the_next = 2; /* without a watch; there is no room, so once more with one */
        CU_ASSERT(EVENTUALLY(pool_leases() == 4 && pool_queued() == CROWD - i));
        CU_ASSERT(EVENTUALLY(readings >= 3 + reads_of_the_next)); /* the head has settled down */
        kit_queue(one, POOL);
        int before = readings;
        CU_ASSERT_EQUAL(zkl_semaphore_release(holders[i], 0, NULL), ZKL_OK);
        CU_ASSERT(mailbox_wait(&box, i + 1));
        CU_ASSERT_PTR_EQUAL(box.letters[i].from, crowd[i]);
        CU_ASSERT(EVENTUALLY(readings == before + 1 + reads_of_the_next)); /* the head once, then who follows it */
    }
    for (int i = CROWD - 1; i >= 0; i--) { /* those that hold go last */
        CU_ASSERT_EQUAL(zkl_lock_cancel(crowd[i]), i < 3 ? ZKL_ENOTWAITING : ZKL_OK);
        zkl_lock_free(crowd[i]);
    }
    for (int i = 0; i < 3; i++) {
        zkl_lock_free(holders[i]);
    }
    kit_tear_down();
}

/* --- never above the limit ----------------------------------------------------------------------------------------- */

#define LIMIT 4
#define CONTENDERS 8

static zkl_lock *crowd[CONTENDERS];
static atomic_bool over;
static atomic_int grants;

static void *use(void *arg)
{
    zkl_lock *semaphore = arg;
    uint64_t dice = (uintptr_t)arg;
    while (!over) {
        int count = 1 + (int)dice_below(&dice, LIMIT);
        if (zkl_semaphore_acquire(semaphore, count, 200, NULL, NULL) == ZKL_OK) {
            grants++;
            for (int64_t spins = dice_below(&dice, 4); spins > 0 && zkl_lock_is_held(semaphore); spins--) {
                nanosleep(&(struct timespec){0, 1000000}, NULL);
            }
            if (dice_once_in(&dice, 2) && count > 1) {
                zkl_semaphore_release(semaphore, 1, NULL);
            }
            zkl_semaphore_release(semaphore, 0, NULL);
        }
    }
    return NULL;
}

/* All permits seen, and then seen again with the same tokens: those were held at one time, in between. */
static void look_for_too_many(void)
{
    int64_t tokens[CONTENDERS][LIMIT], again[LIMIT];
    int held[CONTENDERS], sure = 0;
    for (int i = 0; i < CONTENDERS; i++) {
        held[i] = zkl_semaphore_tokens(crowd[i], tokens[i], LIMIT);
    }
    for (int i = 0; i < CONTENDERS; i++) {
        int now = zkl_semaphore_tokens(crowd[i], again, LIMIT);
        for (int j = 0; j < now && j < held[i]; j++) {
            sure += again[j] == tokens[i][j];
        }
    }
    CU_ASSERT(sure <= LIMIT);
}

static void test_never_too_many(void)
{
    pthread_t threads[CONTENDERS];
    struct storm storm;
    over = false;
    grants = 0;
    one = kit_open(NULL);
    storm_begin(&storm, 42, 12);
    for (int i = 0; i < CONTENDERS; i++) {
        crowd[i] = pool_contender(storm.sessions[i % STORM_SESSIONS], LIMIT);
        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, use, crowd[i]), 0);
    }
    int64_t until = now_ms() + 4000;
    while (now_ms() < until) {
        storm_blow(&storm);
        for (int i = 0; i < 20; i++) {
            look_for_too_many();
        }
        nanosleep(&(struct timespec){0, 2000000}, NULL);
    }
    over = true;
    for (int i = 0; i < CONTENDERS; i++) {
        pthread_join(threads[i], NULL);
        zkl_lock_free(crowd[i]);
    }
    storm_calm(&storm);
    CU_ASSERT(EVENTUALLY(pool_leases() == 0 && pool_queued() == 0)); /* nothing is left */
    CU_ASSERT(grants > 5);
    storm_end(&storm);
    kit_close(one);
}

/* --- arguments ----------------------------------------------------------------------------------------------------- */

static void test_bad_calls(void)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    zkl_lock *semaphore = NULL;
    zkl_error err;
    kit_set_up(NULL);
    CU_ASSERT_EQUAL(zkl_semaphore_new(&semaphore, one, POOL, -1, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "limit"));
    CU_ASSERT_EQUAL(zkl_semaphore_new(&semaphore, one, POOL, ZKL_PERMITS_MAX + 1, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_semaphore_new(&semaphore, one, "x", 1, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_semaphore_new(&semaphore, NULL, POOL, 1, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_semaphore_new(NULL, one, POOL, 1, NULL, &err), ZKL_EINVAL);
    char path[ZKL_PATH_MAX + 1];
    memset(path, 'x', sizeof path);
    path[0] = '/';
    path[ZKL_PATH_MAX - 3] = '\0';
    CU_ASSERT_EQUAL(zkl_semaphore_new(&semaphore, one, path, 1, NULL, &err), ZKL_EINVAL);
    options.size = sizeof options.size;
    CU_ASSERT_EQUAL(zkl_semaphore_new(&semaphore, one, POOL, 1, &options, &err), ZKL_EINVAL);
    options.size = sizeof options;
    options.on_expiry = (zkl_on_expiry)7;
    CU_ASSERT_EQUAL(zkl_semaphore_new(&semaphore, one, POOL, 1, &options, &err), ZKL_EINVAL);
    CU_ASSERT_PTR_NULL(semaphore);
    semaphore = pool_contender(one, 2);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(semaphore, 3, 0, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(semaphore, 0, 0, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(semaphore, 1, -2, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(NULL, 1, 0, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire_async(semaphore, 1, 0, NULL, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_lock_cancel(NULL), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_semaphore_release(NULL, 1, &err), ZKL_EINVAL);
    CU_ASSERT_FALSE(zkl_lock_is_held(NULL));
    CU_ASSERT_EQUAL(zkl_semaphore_tokens(NULL, NULL, 0), 0);
    zkl_lock_free(semaphore);
    semaphore = pool_contender(one, 0);
    CU_ASSERT_EQUAL(zkl_semaphore_acquire(semaphore, ZKL_PERMITS_MAX + 1, 0, NULL, &err), ZKL_EINVAL);
    zkl_lock_free(semaphore);
    kit_tear_down();
}

TESTS("semaphore", T(test_acquire_and_release), T(test_strays_take_no_permits), T(test_foreign_names_of_any_length),
      T(test_big_requests_are_not_starved), T(test_cancel_and_free_while_waiting),
      T(test_credentials_refused_while_waiting_and_held), T(test_timeout_without_a_server),
      T(test_the_limit_is_agreed_on), T(test_a_lock_is_no_semaphore), T(test_a_semaphore_is_no_lock),
      T(test_one_of_its_folders_is_no_semaphore), T(test_empty_folders_are_no_semaphore),
      T(test_strays_in_its_folders_are_no_semaphore), T(test_many_of_one_session_are_refused),
      T(test_curators_permits_count), T(test_only_the_head_is_woken), T(test_never_too_many), T(test_bad_calls))
