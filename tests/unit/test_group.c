/* Groups, on the in-process store: what zklock/group.h promises. How each call ends without being waited for: unit_public_calls. */
#include "lock_kit.h"
#include "store_client.h"

#define CLUB "/clubs/test"

#define MEMBER(session, id, ...) \
    make_member(session, id,     \
                &(zkl_group_options){.size = sizeof(zkl_group_options), .leave_timeout_ms = 1000, __VA_ARGS__})
#define member(session, id, text) MEMBER(session, id, .data = text)

static zkl_group *make_member(zkl_session *session, const char *id, const zkl_group_options *options)
{
    zkl_group *group;
    ASSERT_OK_FATAL(zkl_group_new(&group, session, CLUB, id, options, NULL));
    return group;
}

#define join(group) ASSERT_OK(zkl_group_join(group, 5000, NULL))
#define leave(group) ASSERT_OK(zkl_group_leave(group, NULL))

static int ended(struct mailbox *box)
{
    CU_ASSERT_TRUE_FATAL(mailbox_wait(box, 1));
    int code = mailbox_last(box);
    mailbox_clear(box);
    return code;
}

/* "id=data;id=data;" */
static const char *roll(zkl_session *session)
{
    static char text[512];
    zkl_members *members;
    text[0] = '\0';
    if (zkl_group_list(&members, session, CLUB, 5000, NULL) != ZKL_OK) {
        return "?";
    }
    for (size_t i = 0; i < members->count; i++) {
        const zkl_member *m = &members->members[i];
        CU_ASSERT(m->readable && m->token > 0 && m->session_id != 0 && strlen(m->data) == m->data_size);
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s=%s;", m->id, m->data);
    }
    zkl_members_free(members);
    return text;
}

#define LISTED(text) CU_ASSERT_STRING_EQUAL(roll(two), text)

static void on_changed(zkl_group_observer *watcher, const char *const *ids, size_t count, void *payload)
{
    struct letter letter = {.from = watcher, .code = (int)count};
    for (size_t i = 0; i < count; i++) {
        snprintf(letter.text + strlen(letter.text), sizeof letter.text - strlen(letter.text), "%s;", ids[i]);
    }
    mailbox_put(payload, letter);
}

static zkl_group_observer *watch(zkl_session *session, struct mailbox *box)
{
    zkl_group_observer *watcher;
    ASSERT_OK_FATAL(zkl_group_observe(&watcher, session, CLUB, on_changed, box, NULL));
    return watcher;
}

/* The nth thing told, from 1. */
static const char *news(struct mailbox *box, size_t nth)
{
    return mailbox_wait(box, nth) ? box->letters[nth - 1].text : "nothing was told";
}

#define TOLD(nth, text) CU_ASSERT_STRING_EQUAL(news(&box, nth), text)

static bool last_news_is(struct mailbox *box, const char *text)
{
    size_t count = mailbox_count(box);
    return count > 0 && strcmp(news(box, count), text) == 0;
}

static void on_state(zkl_group *group, zkl_state state, void *payload)
{
    mailbox_put(payload, (struct letter){.from = group, .code = (int)state});
}

/* --- in health ----------------------------------------------------------------------------------------------------- */

TEST_WITH_SESSIONS(test_join_list_and_leave)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_error err;
    zkl_group_observer *watcher = watch(two, &box);
    TOLD(1, "");
    LISTED(""); /* no such path: nobody is there */
    zkl_group *a = member(one, "a", "data of a"), *b = member(two, "b", NULL);
    CU_ASSERT_EQUAL(zkl_group_state(a), ZKL_STATE_IDLE);
    CU_ASSERT_EQUAL(zkl_group_leave(a, &err), ZKL_ENOTHELD);
    CU_ASSERT_EQUAL(zkl_group_update(a, "x", 10, &err), ZKL_ENOTHELD);
    join(a);
    CU_ASSERT_EQUAL(zkl_group_state(a), ZKL_STATE_HELD);
    CU_ASSERT_EQUAL(zkl_group_join(a, 5000, &err), ZKL_EDEADLK);
    TOLD(2, "a;");
    LISTED("a=data of a;");
    join(b);
    TOLD(3, "a;b;");
    CU_ASSERT_EQUAL(kit_group(one, CLUB), 2);
    ASSERT_OK(zkl_testing_refuse(one, ZKL_EAUTH, 1, NULL));
    CU_ASSERT_EQUAL(zkl_group_update(a, "x", 5000, &err), ZKL_EAUTH);
    ASSERT_OK(zkl_group_update(a, "new", 5000, &err));
    CU_ASSERT_EQUAL(strncmp(roll(two), "a=new;b=", 8), 0);
    leave(b);
    CU_ASSERT_EQUAL(kit_group(one, CLUB), 1);
    TOLD(4, "a;");
    join(b);
    TOLD(5, "a;b;");
    zkl_group_free(b); /* a member still */
    TOLD(6, "a;");
    leave(a);
    TOLD(7, "");
    ASSERT_OK(zkl__memory_reap(PLACE)); /* the directory goes; it is made again */
    join(a);
    TOLD(8, "a;");
    LISTED("a=new;");
    kit_create_longest(CLUB); /* as anybody may: it is no member, and hides none */
    leave(a);
    TOLD(9, "");
    LISTED("");
    zkl_group_free(a);
    zkl_group_observer_free(watcher);
    ASSERT_EVENTUALLY(kit_group(one, CLUB) == 0);
}

/* The path, the data are copied. */
TEST_WITH_SESSIONS(test_without_waiting)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_members *members = NULL;
    char data[] = "after", path[] = CLUB;
    zkl_group *a = member(one, "a", "before");
    join(a);
    kit_delay(one, true);
    ASSERT_OK(zkl_group_update_async(a, data, 5000, on_ended, &box, NULL));
    ASSERT_OK(zkl_group_list_async(&members, one, path, 5000, on_ended, &box, NULL));
    memset(data, 'x', sizeof data - 1);
    memset(path, 'x', sizeof path - 1);
    kit_delay(one, false);
    CU_ASSERT_TRUE(mailbox_wait(&box, 2));
    CU_ASSERT(box.letters[0].code == ZKL_OK && box.letters[1].code == ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(members->count, 1);
    zkl_members_free(members);
    LISTED("a=after;");
    zkl_group_free(a);
}

/* --- whose name? --------------------------------------------------------------------------------------------------- */

TEST_WITH_SESSIONS(test_an_id_has_one_member)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_error err;
    zkl_group *a = member(one, "x", "1"), *b = member(two, "x", "2"), *c = member(one, "x", "3");
    join(a);
    CU_ASSERT_EQUAL(zkl_group_join(b, 50, &err), ZKL_ETIMEOUT);
    ASSERT_SAYS(err, "another member");
    CU_ASSERT_EQUAL(zkl_group_state(b), ZKL_STATE_IDLE);
    CU_ASSERT_EQUAL(zkl_group_join(c, 50, &err), ZKL_ECONFLICT);
    LISTED("x=1;");
    ASSERT_OK(zkl_group_join_async(b, 10000, on_ended, &box, NULL));
    CU_ASSERT_EQUAL(zkl_group_state(b), ZKL_STATE_WAITING);
    leave(a);
    ASSERT_OK(mailbox_code(&box, 1));
    LISTED("x=2;");
    zkl_group_free(a);
    zkl_group_free(b);
    zkl_group_free(c);
    ASSERT_EVENTUALLY(kit_group(one, CLUB) == 0);
    kit_must_write(ZKL__OP_CREATE, CLUB, "y", NULL); /* lives with no session */
    zkl_group *d = member(one, "y", "4");
    CU_ASSERT_EQUAL(zkl_group_join(d, 5000, &err), ZKL_ECONFLICT);
    LISTED("");
    zkl_group_free(d);
}

TEST_WITH_SESSIONS(test_a_lock_is_no_group)
{
    zkl_members *members;
    zkl_error err;
    zkl_lock *lock = kit_hold(one, CLUB, NULL);
    CU_ASSERT_EQUAL(zkl_group_list(&members, two, CLUB, 5000, &err), ZKL_ECONFLICT);
    ASSERT_SAYS(err, "in use as a lock");
    CU_ASSERT_PTR_NULL(members);
    kit_release(lock);
    ASSERT_OK(zkl_group_list(&members, two, CLUB, 5000, &err));
    zkl_members_free(members);
}

/* --- faults -------------------------------------------------------------------------------------------------------- */

TEST_WITH_SESSIONS(test_joins_again)
{
    struct mailbox box = MAILBOX_INIT, states = MAILBOX_INIT;
    zkl_group *a = MEMBER(one, "a", .data = "x", .state_fn = on_state, .payload = &states);
    zkl_group_observer *watcher = watch(two, &box);
    TOLD(1, "");
    join(a);
    CU_ASSERT_EQUAL(mailbox_code(&states, 1), ZKL_STATE_HELD);
    int64_t id = zkl_session_id(one);
    ASSERT_OK(zkl__memory_suspend(id)); /* a lost connection is nothing */
    CU_ASSERT_EQUAL(zkl_group_state(a), ZKL_STATE_HELD);
    ASSERT_OK(zkl__memory_resume(id));
    ASSERT_OK(zkl__memory_expire(id));
    ASSERT_EVENTUALLY(zkl_session_id(one) != id && zkl_group_state(a) == ZKL_STATE_HELD);
    LISTED("a=x;");
    ASSERT_EVENTUALLY(last_news_is(&box, "a;"));
    kit_must_write(ZKL__OP_DELETE, CLUB, "a", NULL); /* an operator removes it */
    ASSERT_EVENTUALLY(strcmp(roll(two), "a=x;") == 0);
    ASSERT_EVENTUALLY(zkl_group_state(a) == ZKL_STATE_HELD);
    ASSERT_EVENTUALLY(mailbox_last(&states) == ZKL_STATE_HELD);
    leave(a);
    ASSERT_EVENTUALLY(last_news_is(&box, ""));
    zkl_group_observer_free(watcher);
    zkl_group_free(a);
}

/* Its own node of the session before, which the servers have not ended yet, is waited for. */
TEST_WITH_SESSIONS(test_the_dying_session_is_waited_for)
{
    struct client old;
    struct mailbox box = MAILBOX_INIT;
    ASSERT_OK_FATAL(client_open_plain(&old, PLACE));
    CU_ASSERT_EQUAL(client_rc(&old, op_create("/clubs", "", ZKL__PERSISTENT)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(client_rc(&old, op_create(CLUB, "", ZKL__PERSISTENT)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(client_rc(&old, op_create(CLUB "/a", "old", ZKL__EPHEMERAL)), ZKL__RC_OK);
    zkl_group *a = member(one, "a", "new");
    zkl__memory_break(zkl_session_id(one), 0, 1, 0); /* though a create of ours has an unknown fate */
    ASSERT_OK(zkl_group_join_async(a, 10000, on_ended, &box, NULL));
    ASSERT_EVENTUALLY(zkl__memory_resume(zkl_session_id(one)) == ZKL_OK);
    kit_await_session(one, ZKL_SESSION_CONNECTED);
    CU_ASSERT_EQUAL(kit_group(one, CLUB), 1);
    CU_ASSERT_NOT_EQUAL(zkl_group_state(a), ZKL_STATE_HELD);
    LISTED("a=old;");
    ASSERT_OK(zkl__memory_expire(old.session_id));
    ASSERT_OK(mailbox_code(&box, 1));
    LISTED("a=new;");
    zkl_group_free(a);
    client_close(&old);
}

/* --- what ends a call -------------------------------------------------------------------------------------------------- */

enum call { JOIN, UPDATE, LEAVE, CALLS };

static zkl_group *begin(enum call call, int64_t ms, struct mailbox *box)
{
    zkl_group *group = MEMBER(one, "a", .leave_timeout_ms = call == LEAVE ? ms : 60000);
    if (call != JOIN) {
        join(group);
    }
    kit_delay(one, true);
    int rc = call == JOIN     ? zkl_group_join_async(group, ms, on_ended, box, NULL)
             : call == UPDATE ? zkl_group_update_async(group, "after", ms, on_ended, box, NULL)
                              : zkl_group_leave_async(group, on_ended, box, NULL);
    ASSERT_OK(rc);
    return group;
}

/* A join that was given up is not tried on; a member that was not updated in time is one still; a leave goes on. */
TEST_WITH_SESSIONS(test_the_time_is_up)
{
    static const int codes[CALLS] = {ZKL_ETIMEOUT, ZKL_ETIMEOUT, ZKL_OK};
    static const zkl_state states[CALLS] = {ZKL_STATE_IDLE, ZKL_STATE_HELD, ZKL_STATE_IDLE};
    for (int call = 0; call < CALLS; call++) {
        struct mailbox box = MAILBOX_INIT;
        zkl_group *group = begin(call, 20, &box);
        CU_ASSERT_EQUAL(ended(&box), codes[call]);
        CU_ASSERT_EQUAL(zkl_group_state(group), states[call]);
        kit_delay(one, false);
        zkl_group_free(group);
        ASSERT_EVENTUALLY(kit_group(two, CLUB) == 0); /* whatever became of it, nothing is left behind */
        CU_ASSERT_EQUAL(mailbox_count(&box), 0);
    }
}

TEST_WITH_SESSIONS(test_a_leave_ends_the_others)
{
    for (int call = 0; call < LEAVE; call++) {
        struct mailbox box = MAILBOX_INIT, leaves = MAILBOX_INIT;
        zkl_group *group = begin(call, ZKL_WAIT_FOREVER, &box);
        ASSERT_OK(zkl_group_leave_async(group, on_ended, &leaves, NULL));
        CU_ASSERT_EQUAL(ended(&box), ZKL_ECANCELED);
        kit_delay(one, false);
        ASSERT_OK(ended(&leaves));
        CU_ASSERT_EQUAL(kit_group(two, CLUB), 0);
        zkl_group_free(group);
        CU_ASSERT_EQUAL(mailbox_count(&box) + mailbox_count(&leaves), 0);
    }
}

/* Nobody else calls back here: what the free owes, it delivers itself. */
TEST_WITH_SESSIONS_OF(kit_dispatched, test_free)
{
    static const int codes[CALLS] = {ZKL_ECANCELED, ZKL_ECANCELED, ZKL_OK};
    for (int call = 0; call < CALLS; call++) {
        struct mailbox box = MAILBOX_INIT;
        zkl_group *group = begin(call, 60000, &box);
        zkl_session_dispatch(one);
        CU_ASSERT_EQUAL(mailbox_count(&box), 0);
        zkl_group_free(group);
        CU_ASSERT_EQUAL(mailbox_count(&box), 1); /* before it returned */
        CU_ASSERT_EQUAL(ended(&box), codes[call]);
        kit_delay(one, false);
        ASSERT_EVENTUALLY(kit_group(two, CLUB) == 0);
    }
}

static void join_again(int code, const zkl_error *err, void *payload)
{
    zkl_group **group = payload;
    CU_ASSERT_EQUAL(code, ZKL_ECANCELED);
    CU_ASSERT_EQUAL(zkl_group_join_async(*group, 5000, join_again, payload, NULL), ZKL_ECANCELED);
}

/* What a free calls back joins no more: it would stay a member that nobody can end. */
TEST_WITH_SESSIONS_OF(kit_dispatched, test_no_join_of_what_is_freed)
{
    zkl_group *group = member(one, "a", "x");
    kit_delay(one, true);
    ASSERT_OK(zkl_group_join_async(group, ZKL_WAIT_FOREVER, join_again, &group, NULL));
    zkl_group_free(group);
    kit_delay(one, false);
    ASSERT_EVENTUALLY(kit_group(two, CLUB) == 0);
}

TEST_WITH_SESSIONS(test_bad_calls)
{
    static const char *const ids[] = {"a/b", "", "..", "a__READ__0000000001"};
    zkl_group_options options = ZKL_GROUP_OPTIONS_INIT;
    zkl_group *group = NULL;
    zkl_error err;
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        CU_ASSERT_EQUAL(zkl_group_new(&group, one, CLUB, ids[i], NULL, &err), ZKL_EINVAL);
    }
    ASSERT_SAYS(err, "looks like a contender");
    ASSERT_SAYS(err, "'a__READ__0000000001'");
    options.data = "\xff";
    CU_ASSERT_EQUAL(zkl_group_new(&group, one, CLUB, "a", &options, &err), ZKL_EINVAL);
    options.data = NULL;
    options.leave_timeout_ms = -1;
    CU_ASSERT_EQUAL(zkl_group_new(&group, one, CLUB, "a", &options, &err), ZKL_EINVAL);
    options.size = 0;
    CU_ASSERT_EQUAL(zkl_group_new(&group, one, CLUB, "a", &options, &err), ZKL_EINVAL);
    CU_ASSERT_PTR_NULL(group);
    group = member(one, "a", "x");
    CU_ASSERT_EQUAL(zkl_group_update(group, NULL, 0, &err), ZKL_EINVAL);
    zkl_group_free(group);
}

TESTS("group")
