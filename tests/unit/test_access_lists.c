/* Contenders with different credentials in one open queue, by each version's rules. */
#include "access_kit.h"
#include "lock_kit.h"

#define SERVERS "memory:access"
#define ROUNDS 3
#define FEW 200 /* requests of an observer in a second: a loop without backoff sends thousands */

static const enum zkl__memory_rules every_rule[] = {ZKL__RULES_NOTHING_NEEDS_READ, ZKL__RULES_EVENTS_NEED_READ,
                                                    ZKL__RULES_EXISTS_NEEDS_READ};

static struct access all;

static void set_up(enum zkl__memory_rules rules)
{
    access_begin(&all, SERVERS, true, 2000);
    ASSERT_OK(zkl__memory_set_rules(SERVERS, rules));
}

TEST(test_hand_over_and_nothing_repeated)
{
    EACH_ROW (r, every_rule) {
        set_up(every_rule[r]);
        for (int i = 0; i < ACCESS_KINDS * ROUNDS; i++) {
            CU_ASSERT(access_hand_over(&all, &access_kinds[i % ACCESS_KINDS], NULL) > 0);
        }
        EACH_ROW (i, access_kinds) {
            CU_ASSERT_EQUAL(access_requests(&all, &access_kinds[i], NULL), 0);
        }
        access_end(&all);
    }
}

/* --- observers ----------------------------------------------------------------------------------------------------- */

TEST(test_observer)
{
    const struct access_kind *kind = &access_kinds[4];
    EACH_ROW (r, every_rule) {
        struct mailbox box = MAILBOX_INIT;
        zkl_election_observer *observer = NULL;
        char node[128];
        set_up(every_rule[r]);
        zkl_lock *first = access_make(kind, all.sessions[0], kind->path, NULL);
        zkl_lock *second = access_make(kind, all.sessions[2], kind->path, NULL);
        kit_acquire(first);
        uint64_t before = access_sent(all.sessions[1]);
        ASSERT_OK(zkl_election_observe(&observer, all.sessions[1], kind->path, on_leader, &box, NULL));
        kit_await_letters(&box, 1);
        zkl_lock_node(first, node, sizeof node);
        CU_ASSERT_STRING_EQUAL(box.letters[0].text, node);
        bool told = every_rule[r] != ZKL__RULES_EXISTS_NEEDS_READ;
        CU_ASSERT_EQUAL(box.letters[0].grant.token, told ? zkl_lock_token(first) : 0);
        CU_ASSERT_EQUAL(zkl_lock_acquire(second, 1000, NULL, NULL), ZKL_ETIMEOUT); /* comes and goes behind it */
        CU_ASSERT(access_sent(all.sessions[1]) - before < FEW);
        CU_ASSERT_EQUAL(mailbox_count(&box), 1);
        kit_release(first);
        kit_await_letters(&box, 2);
        CU_ASSERT_FALSE(box.letters[1].granted);
        kit_acquire(second);
        kit_await_letters(&box, 3);
        zkl_lock_node(second, node, sizeof node);
        CU_ASSERT_STRING_EQUAL(box.letters[2].text, node);
        kit_free(first);
        kit_free(second);
        zkl_election_observer_free(observer);
        access_end(&all);
    }
}

/* --- our own znode --------------------------------------------------------------------------------------------------- */

TEST(test_own_hidden)
{
    EACH_ROW (r, every_rule) {
        set_up(every_rule[r]);
        EACH_ROW (i, access_kinds) {
            const struct access_kind *kind = &access_kinds[i];
            zkl_lock *holder = access_make(kind, all.sessions[0], kind->path, &access_hidden);
            bool by_transaction = i == ACCESS_KINDS - 1; /* which does not tell the token */
            bool hidden = by_transaction && every_rule[r] == ZKL__RULES_EXISTS_NEEDS_READ;
            CU_ASSERT_EQUAL(zkl_lock_acquire(holder, 10000, NULL, NULL), hidden ? ZKL_EAUTH : ZKL_OK);
            if (!hidden) {
                kit_release(holder);
            }
            kit_free(holder);
        }
        access_end(&all);
    }
}

/* A barrier that may not be read might be a directory that the servers delete: nobody is told that it is up. */
TEST(test_barrier)
{
    static const zkl_acl_entry own[] = {{ZKL_PERM_ALL, "auth", ""}};
    static const zkl_acl acl = {1, own};
    zkl_error err;
    one = kit_open(SESSION_OPTIONS(.auth_scheme = "digest", .auth = "a:a", .auth_size = 3, .acl = &acl));
    two = kit_open(SESSION_OPTIONS(.auth_scheme = "digest", .auth = "b:b", .auth_size = 3, .acl = &acl));
    ASSERT_OK(zkl_barrier_set(one, "/barrier", ZKL_WAIT_FOREVER, NULL));
    ASSERT_OK(zkl_barrier_set(one, "/barrier", ZKL_WAIT_FOREVER, NULL));
    CU_ASSERT_EQUAL(zkl_barrier_set(two, "/barrier", ZKL_WAIT_FOREVER, &err), ZKL_EAUTH);
    ASSERT_SAYS(err, "may not be read");
    kit_tear_down();
}

TESTS("access lists")
