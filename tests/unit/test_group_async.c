/* Memberships without a thread that waits: what the calls bring, and each way to end. */
#include <string.h>
#include <zklock/testing.h>

#include "lock_kit.h"

#define CLUB "/clubs/async"

static void on_done(int code, const zkl_error *err, void *payload)
{
    struct letter letter = {.code = code, .thread = pthread_self()};
    snprintf(letter.text, sizeof letter.text, "%s", code == ZKL_OK ? "" : err->text);
    mailbox_put(payload, letter);
}

static zkl_group *member(zkl_session *session, const char *id, int64_t leave_timeout_ms)
{
    zkl_group_options options = ZKL_GROUP_OPTIONS_INIT;
    zkl_group *group = NULL;
    options.data = "before";
    options.leave_timeout_ms = leave_timeout_ms;
    CU_ASSERT_EQUAL_FATAL(zkl_group_new(&group, session, CLUB, id, &options, NULL), ZKL_OK);
    return group;
}

static int ended(struct mailbox *box)
{
    CU_ASSERT_TRUE_FATAL(mailbox_wait(box, 1));
    int code = mailbox_last(box);
    mailbox_clear(box);
    return code;
}

static void test_what_they_bring(void)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_members *members = NULL;
    char data[] = "after", path[] = CLUB;
    kit_set_up(NULL);
    zkl_group *a = member(one, "a", 5000);
    CU_ASSERT_EQUAL(zkl_group_join_async(a, 5000, on_done, &box, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(ended(&box), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_group_state(a), ZKL_STATE_HELD);
    CU_ASSERT_EQUAL(zkl_group_join_async(a, 5000, on_done, &box, NULL), ZKL_EDEADLK);
    CU_ASSERT_EQUAL(zkl_testing_delay(one, true, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_group_update_async(a, data, 5000, on_done, &box, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_group_list_async(&members, one, path, 5000, on_done, &box, NULL), ZKL_OK);
    memset(data, 'x', sizeof data - 1); /* they were copied */
    memset(path, 'x', sizeof path - 1);
    CU_ASSERT_EQUAL(zkl_testing_delay(one, false, NULL), ZKL_OK);
    CU_ASSERT_TRUE(mailbox_wait(&box, 2));
    CU_ASSERT_EQUAL(box.letters[0].code, ZKL_OK);
    CU_ASSERT_EQUAL(box.letters[1].code, ZKL_OK);
    mailbox_clear(&box);
    CU_ASSERT_EQUAL_FATAL(members->count, 1);
    CU_ASSERT_STRING_EQUAL(members->members[0].id, "a");
    CU_ASSERT_EQUAL(members->members[0].session_id, zkl_session_id(one));
    zkl_members_free(members);
    CU_ASSERT_EQUAL(zkl_group_list_async(&members, two, CLUB, 5000, on_done, &box, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(ended(&box), ZKL_OK);
    CU_ASSERT_STRING_EQUAL(members->members[0].data, "after");
    zkl_members_free(members);
    CU_ASSERT_EQUAL(zkl_group_leave_async(a, on_done, &box, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(ended(&box), ZKL_OK);
    CU_ASSERT_EQUAL(kit_group(two, CLUB), 0);
    CU_ASSERT_EQUAL(zkl_group_leave_async(a, on_done, &box, NULL), ZKL_ENOTHELD);
    CU_ASSERT_EQUAL(zkl_group_update_async(a, "", 10, on_done, &box, NULL), ZKL_ENOTHELD);
    zkl_group_free(a);
    kit_tear_down();
    CU_ASSERT_EQUAL(mailbox_count(&box), 0);
}

/* A lock's path is none of a group. */
static void test_list_at_a_lock(void)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_members *members = (zkl_members *)&box;
    kit_set_up(NULL);
    zkl_lock *lock = kit_lock(two, CLUB, NULL);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_group_list_async(&members, one, CLUB, 5000, on_done, &box, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(ended(&box), ZKL_ECONFLICT);
    CU_ASSERT_PTR_NULL(members);
    zkl_lock_free(lock);
    kit_tear_down();
}

/* --- ways to end ----------------------------------------------------------------------------------------------------- */

enum call { JOIN, UPDATE, LEAVE, CALLS };

static zkl_group *begin(enum call call, int64_t ms, struct mailbox *box, int code)
{
    zkl_group *group = member(one, "a", call == LEAVE ? ms : 5000);
    if (call != JOIN) {
        CU_ASSERT_EQUAL(zkl_group_join(group, 5000, NULL), ZKL_OK);
    }
    CU_ASSERT_EQUAL(zkl_testing_delay(one, true, NULL), ZKL_OK);
    int rc = call == JOIN     ? zkl_group_join_async(group, ms, on_done, box, NULL)
             : call == UPDATE ? zkl_group_update_async(group, "after", ms, on_done, box, NULL)
                              : zkl_group_leave_async(group, on_done, box, NULL);
    CU_ASSERT_EQUAL(rc, code);
    return group;
}

static void freed(zkl_group *group)
{
    CU_ASSERT_EQUAL(zkl_testing_delay(one, false, NULL), ZKL_OK);
    zkl_group_free(group);
    CU_ASSERT_TRUE(EVENTUALLY(kit_group(two, CLUB) == 0)); /* whatever became of it, nothing is left behind */
}

/* A join that was given up is not tried on; a member that was not updated in time is one still; a leave goes on. */
static void test_the_time_is_up(void)
{
    static const int codes[CALLS] = {ZKL_ETIMEOUT, ZKL_ETIMEOUT, ZKL_OK};
    static const zkl_state states[CALLS] = {ZKL_STATE_IDLE, ZKL_STATE_HELD, ZKL_STATE_IDLE};
    kit_set_up(NULL);
    for (int call = 0; call < CALLS; call++) {
        struct mailbox box = MAILBOX_INIT;
        zkl_group *group = begin(call, 20, &box, ZKL_OK);
        CU_ASSERT_EQUAL(ended(&box), codes[call]);
        CU_ASSERT_EQUAL(zkl_group_state(group), states[call]);
        freed(group);
        CU_ASSERT_EQUAL(mailbox_count(&box), 0);
    }
    kit_tear_down();
}

static void test_a_leave_ends_the_others(void)
{
    kit_set_up(NULL);
    for (int call = 0; call < LEAVE; call++) {
        struct mailbox box = MAILBOX_INIT, leaves = MAILBOX_INIT;
        zkl_group *group = begin(call, ZKL_WAIT_FOREVER, &box, ZKL_OK);
        CU_ASSERT_EQUAL(zkl_group_leave_async(group, on_done, &leaves, NULL), ZKL_OK);
        CU_ASSERT_EQUAL(ended(&box), ZKL_ECANCELED);
        CU_ASSERT_EQUAL(zkl_testing_delay(one, false, NULL), ZKL_OK);
        CU_ASSERT_EQUAL(ended(&leaves), ZKL_OK);
        CU_ASSERT_EQUAL(kit_group(two, CLUB), 0);
        zkl_group_free(group);
        CU_ASSERT_EQUAL(mailbox_count(&box) + mailbox_count(&leaves), 0);
    }
    kit_tear_down();
}

/* Nobody else calls back here: what the free owes, it delivers itself. */
static void test_free(void)
{
    static const int codes[CALLS] = {ZKL_ECANCELED, ZKL_ECANCELED, ZKL_OK};
    zkl_session_options options = kit_dispatched();
    one = kit_open(&options);
    two = kit_open(NULL);
    for (int call = 0; call < CALLS; call++) {
        struct mailbox box = MAILBOX_INIT;
        zkl_group *group = begin(call, 60000, &box, ZKL_OK);
        zkl_group_free(group);
        CU_ASSERT_EQUAL(mailbox_count(&box), 1); /* before it returned */
        CU_ASSERT_EQUAL(ended(&box), codes[call]);
        CU_ASSERT_EQUAL(zkl_testing_delay(one, false, NULL), ZKL_OK);
        CU_ASSERT_TRUE(EVENTUALLY(kit_group(two, CLUB) == 0));
    }
    kit_tear_down();
}

static void test_stop_and_close(void)
{
    static const int stopped[] = {ZKL_ECANCELED, ZKL_ECANCELED}, closed[CALLS] = {ZKL_ECLOSED, ZKL_ECLOSED, ZKL_OK};
    two = kit_open(NULL);
    for (int call = 0; call < CALLS; call++) {
        struct mailbox box = MAILBOX_INIT;
        zkl_stop stop = ZKL_STOP_INIT;
        zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
        options.stop = &stop;
        one = kit_open(&options);
        zkl_group *group = begin(call, 60000, &box, ZKL_OK);
        zkl_stop_raise(&stop);
        if (call == LEAVE) {
            CU_ASSERT_EQUAL(zkl_testing_delay(one, false, NULL), ZKL_OK);
            CU_ASSERT_EQUAL(ended(&box), ZKL_OK);
        } else {
            CU_ASSERT_EQUAL(ended(&box), stopped[call]);
        }
        freed(group);
        kit_close(one);
        one = kit_open(NULL);
        group = begin(call, 60000, &box, ZKL_OK);
        zkl_session_close(one, 10);
        CU_ASSERT_EQUAL(mailbox_count(&box), 1); /* before it returned */
        CU_ASSERT_EQUAL(ended(&box), closed[call]);
        zkl_group_free(group);
        CU_ASSERT_EQUAL(mailbox_count(&box), 0);
        CU_ASSERT_TRUE(EVENTUALLY(kit_group(two, CLUB) == 0));
    }
    kit_close(two);
}

/* --- faults ---------------------------------------------------------------------------------------------------------- */

/* The connection goes at each request in turn, before or behind it: one end, one member, and then none. */
static void break_at(enum call call, size_t whole, bool half)
{
    struct mailbox box = MAILBOX_INIT;
    kit_set_up(NULL);
    zkl_group *group = member(one, "a", 10000);
    if (call != JOIN) {
        CU_ASSERT_EQUAL(zkl_group_join(group, 10000, NULL), ZKL_OK);
    }
    CU_ASSERT_EQUAL(zkl__memory_break(zkl_session_id(one), whole, half, !half), ZKL_OK);
    int rc = call == JOIN     ? zkl_group_join_async(group, 10000, on_done, &box, NULL)
             : call == UPDATE ? zkl_group_update_async(group, "after", 10000, on_done, &box, NULL)
                              : zkl_group_leave_async(group, on_done, &box, NULL);
    CU_ASSERT_EQUAL(rc, ZKL_OK);
    CU_ASSERT_TRUE(EVENTUALLY(zkl_session_state(one) == ZKL_SESSION_SUSPENDED || mailbox_count(&box) == 1));
    (void)zkl__memory_break(zkl_session_id(one), 0, 0, 0); /* it may have asked less */
    (void)zkl__memory_resume(zkl_session_id(one));
    CU_ASSERT_EQUAL(ended(&box), ZKL_OK);
    CU_ASSERT_EQUAL(kit_group(two, CLUB), call == LEAVE ? 0 : 1);
    zkl_group_free(group);
    CU_ASSERT_TRUE(EVENTUALLY(kit_group(two, CLUB) == 0));
    kit_tear_down();
    CU_ASSERT_EQUAL(mailbox_count(&box), 0);
}

static void test_cut_at_each_request(void)
{
    for (int call = 0; call < CALLS; call++) {
        for (size_t whole = 0; whole < 6; whole++) {
            break_at(call, whole, false);
            break_at(call, whole, true);
        }
    }
}

/* Two at once: the second one waits for the first to leave. */
static void test_an_id_that_is_taken(void)
{
    struct mailbox box = MAILBOX_INIT;
    kit_set_up(NULL);
    zkl_group *first = member(two, "a", 5000), *second = member(one, "a", 5000), *twin = member(one, "a", 5000);
    CU_ASSERT_EQUAL(zkl_group_join(first, 5000, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_group_join_async(second, 50, on_done, &box, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_group_join_async(twin, 50, on_done, &box, NULL), ZKL_ECONFLICT);
    CU_ASSERT_TRUE(mailbox_wait(&box, 1));
    CU_ASSERT_PTR_NOT_NULL(strstr(box.letters[0].text, "another member has this id"));
    CU_ASSERT_EQUAL(ended(&box), ZKL_ETIMEOUT);
    CU_ASSERT_EQUAL(zkl_group_join_async(second, ZKL_WAIT_FOREVER, on_done, &box, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_group_leave(first, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(ended(&box), ZKL_OK);
    zkl_group_free(first);
    zkl_group_free(second);
    zkl_group_free(twin);
    kit_tear_down();
}

/* A completion begins the next call, and the last one frees. */
struct chain {
    zkl_group *group;
    struct mailbox *box;
    int left;
};

static void on_link(int code, const zkl_error *err, void *payload)
{
    struct chain *chain = payload;
    CU_ASSERT_EQUAL(code, ZKL_OK);
    switch (--chain->left % 3) {
    case 2:
        CU_ASSERT_EQUAL(zkl_group_update_async(chain->group, "next", 5000, on_link, chain, NULL), ZKL_OK);
        break;
    case 1:
        CU_ASSERT_EQUAL(zkl_group_leave_async(chain->group, on_link, chain, NULL), ZKL_OK);
        break;
    default:
        if (chain->left > 0) {
            CU_ASSERT_EQUAL(zkl_group_join_async(chain->group, 5000, on_link, chain, NULL), ZKL_OK);
        } else {
            zkl_group_free(chain->group);
            on_done(code, err, chain->box);
        }
    }
}

static void test_completions_call_the_library(void)
{
    for (int dispatched = 0; dispatched < 2; dispatched++) {
        struct mailbox box = MAILBOX_INIT;
        zkl_session_options options = dispatched ? kit_dispatched() : (zkl_session_options)ZKL_SESSION_OPTIONS_INIT;
        one = kit_open(&options);
        two = kit_open(NULL);
        struct chain chain = {member(one, "a", 5000), &box, 15};
        CU_ASSERT_EQUAL(zkl_group_join_async(chain.group, 5000, on_link, &chain, NULL), ZKL_OK);
        CU_ASSERT_TRUE(EVENTUALLY((zkl_session_dispatch(one), mailbox_count(&box) == 1)));
        CU_ASSERT_TRUE(EVENTUALLY(kit_group(two, CLUB) == 0));
        kit_tear_down();
    }
}

static void test_bad_calls(void)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_members *members;
    zkl_error err;
    kit_set_up(NULL);
    zkl_group *group = member(one, "a", 5000);
    CU_ASSERT_EQUAL(zkl_group_join_async(NULL, 10, on_done, &box, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_group_join_async(group, -2, on_done, &box, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_group_join_async(group, 10, NULL, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_STRING_EQUAL(err.text, "done is NULL");
    CU_ASSERT_EQUAL(zkl_group_state(group), ZKL_STATE_IDLE);
    CU_ASSERT_EQUAL(zkl_group_list_async(NULL, one, CLUB, 10, on_done, &box, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_group_list_async(&members, one, CLUB, 10, NULL, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_group_list_async(&members, one, "/", 10, on_done, &box, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_group_join(group, 5000, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_group_update_async(group, NULL, 10, on_done, &box, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_group_update_async(group, "x", 10, NULL, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_group_leave_async(group, NULL, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_group_state(group), ZKL_STATE_HELD);
    zkl_group_free(group);
    kit_tear_down();
    CU_ASSERT_EQUAL(mailbox_count(&box), 0);
}

TESTS("group_async", T(test_what_they_bring), T(test_list_at_a_lock), T(test_the_time_is_up),
      T(test_a_leave_ends_the_others), T(test_free), T(test_stop_and_close), T(test_cut_at_each_request),
      T(test_an_id_that_is_taken), T(test_completions_call_the_library), T(test_bad_calls))
