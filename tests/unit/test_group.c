/* Groups, on the in-process store: what zklock/group.h promises. */
#include "lock_kit.h"

#include "dice.h"
#include "store_client.h"
#include "test_heap.h"

#include <string.h>
#include <time.h>

#define CLUB "/clubs/test"

static zkl_group *member(zkl_session *session, const char *id, const char *data)
{
    zkl_group_options options = ZKL_GROUP_OPTIONS_INIT;
    zkl_group *group = NULL;
    options.data = data;
    CU_ASSERT_EQUAL_FATAL(zkl_group_new(&group, session, CLUB, id, &options, NULL), ZKL_OK);
    return group;
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
    zkl_group_observer *watcher = NULL;
    CU_ASSERT_EQUAL_FATAL(zkl_group_observe(&watcher, session, CLUB, on_changed, box, NULL), ZKL_OK);
    return watcher;
}

/* The nth thing told, from 1. */
static const char *news(struct mailbox *box, size_t nth)
{
    return mailbox_wait(box, nth) ? box->letters[nth - 1].text : "nothing was told";
}

static bool last_news_is(struct mailbox *box, const char *text)
{
    size_t count = mailbox_count(box);
    return count > 0 && strcmp(news(box, count), text) == 0;
}

static void on_state(zkl_group *group, zkl_state state, void *payload)
{
    mailbox_put(payload, (struct letter){.from = group, .code = (int)state});
}

static enum zkl__rc meddle(enum zkl__op_kind kind, const char *name)
{
    enum zkl__rc rc = ZKL__RC_UNKNOWN;
    struct zkl__op op = {.kind = kind, .dir = CLUB, .name = name, .mode = ZKL__PERSISTENT, .version = -1};
    CU_ASSERT_EQUAL(zkl__memory_meddle(PLACE, &op, &rc), ZKL_OK);
    return rc;
}

/* --- in health ----------------------------------------------------------------------------------------------------- */

static void test_join_list_and_leave(void)
{
    struct mailbox box = MAILBOX_INIT;
    zkl_error err;
    kit_set_up(NULL);
    zkl_group_observer *watcher = watch(two, &box);
    CU_ASSERT_STRING_EQUAL(news(&box, 1), "");
    CU_ASSERT_STRING_EQUAL(roll(two), ""); /* no such path: nobody is there */
    zkl_group *a = member(one, "a", "data of a"), *b = member(two, "b", NULL);
    CU_ASSERT_EQUAL(zkl_group_state(a), ZKL_STATE_IDLE);
    CU_ASSERT_EQUAL(zkl_group_leave(a, &err), ZKL_ENOTHELD);
    CU_ASSERT_EQUAL(zkl_group_update(a, "x", 10, &err), ZKL_ENOTHELD);
    CU_ASSERT_EQUAL(zkl_group_join(a, 5000, &err), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_group_state(a), ZKL_STATE_HELD);
    CU_ASSERT_EQUAL(zkl_group_join(a, 5000, &err), ZKL_EDEADLK);
    CU_ASSERT_STRING_EQUAL(news(&box, 2), "a;");
    CU_ASSERT_STRING_EQUAL(roll(two), "a=data of a;");
    CU_ASSERT_EQUAL(zkl_group_join(b, 5000, &err), ZKL_OK);
    CU_ASSERT_STRING_EQUAL(news(&box, 3), "a;b;");
    CU_ASSERT_EQUAL(kit_group(one, CLUB), 2);
    CU_ASSERT_EQUAL(zkl_group_update(a, "new", 5000, &err), ZKL_OK);
    CU_ASSERT_EQUAL(strncmp(roll(two), "a=new;b=", 8), 0);
    CU_ASSERT_EQUAL(zkl_group_leave(b, &err), ZKL_OK);
    CU_ASSERT_EQUAL(kit_group(one, CLUB), 1);
    CU_ASSERT_STRING_EQUAL(news(&box, 4), "a;");
    CU_ASSERT_EQUAL(zkl_group_join(b, 5000, &err), ZKL_OK);
    CU_ASSERT_STRING_EQUAL(news(&box, 5), "a;b;");
    zkl_group_free(b); /* a member still */
    CU_ASSERT_STRING_EQUAL(news(&box, 6), "a;");
    CU_ASSERT_EQUAL(zkl_group_leave(a, &err), ZKL_OK);
    CU_ASSERT_STRING_EQUAL(news(&box, 7), "");
    CU_ASSERT_EQUAL(zkl__memory_reap(PLACE), ZKL_OK); /* the directory goes; it is made again */
    CU_ASSERT_EQUAL(zkl_group_join(a, 5000, &err), ZKL_OK);
    CU_ASSERT_STRING_EQUAL(news(&box, 8), "a;");
    CU_ASSERT_STRING_EQUAL(roll(two), "a=new;");
    zkl_group_free(a);
    zkl_group_free(NULL);
    zkl_group_observer_free(watcher);
    zkl_group_observer_free(NULL);
    CU_ASSERT(EVENTUALLY(kit_group(one, CLUB) == 0));
    kit_tear_down();
}

/* Curator's GroupMember: path/id, ephemeral, the data as it is; nothing else in the directory. */
static void test_curators_format(void)
{
    struct client curator;
    kit_set_up(NULL);
    zkl_group *a = member(one, "a", "payload");
    CU_ASSERT_EQUAL(zkl_group_join(a, 5000, NULL), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(client_open_plain(&curator, PLACE), ZKL_OK);
    const struct zkl__reply *reply = client_call(&curator, op_read(ZKL__OP_GET, CLUB "/a", false));
    CU_ASSERT_EQUAL(reply->rc, ZKL__RC_OK);
    CU_ASSERT_EQUAL(reply->stat.ephemeral_owner, zkl_session_id(one));
    CU_ASSERT_EQUAL(reply->size, 7);
    CU_ASSERT_EQUAL(memcmp(reply->data, "payload", 7), 0);
    CU_ASSERT_EQUAL(client_rc(&curator, op_create(CLUB "/java", "x", ZKL__EPHEMERAL)), ZKL__RC_OK);
    CU_ASSERT_STRING_EQUAL(roll(two), "a=payload;java=x;");
    client_close(&curator);
    CU_ASSERT_STRING_EQUAL(roll(two), "a=payload;");
    zkl_group_free(a);
    kit_tear_down();
}

/* --- whose name? --------------------------------------------------------------------------------------------------- */

static void *run_join(void *arg)
{
    return zkl_group_join(arg, 10000, NULL) == ZKL_OK ? arg : NULL;
}

static void test_an_id_has_one_member(void)
{
    pthread_t thread;
    void *result;
    zkl_error err;
    kit_set_up(NULL);
    zkl_group *a = member(one, "x", "1"), *b = member(two, "x", "2"), *c = member(one, "x", "3");
    CU_ASSERT_EQUAL(zkl_group_join(a, 5000, &err), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_group_join(b, 50, &err), ZKL_ETIMEOUT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "another member"));
    CU_ASSERT_EQUAL(zkl_group_state(b), ZKL_STATE_IDLE);
    CU_ASSERT_EQUAL(zkl_group_join(c, 50, &err), ZKL_ECONFLICT);
    CU_ASSERT_STRING_EQUAL(roll(two), "x=1;");
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, run_join, b), 0);
    CU_ASSERT(EVENTUALLY(zkl_group_state(b) == ZKL_STATE_WAITING));
    CU_ASSERT_EQUAL(zkl_group_leave(a, &err), ZKL_OK);
    pthread_join(thread, &result);
    CU_ASSERT_PTR_EQUAL(result, b);
    CU_ASSERT_STRING_EQUAL(roll(two), "x=2;");
    zkl_group_free(a);
    zkl_group_free(b);
    zkl_group_free(c);
    CU_ASSERT(EVENTUALLY(kit_group(one, CLUB) == 0));
    CU_ASSERT_EQUAL(meddle(ZKL__OP_CREATE, "y"), ZKL__RC_OK); /* lives with no session */
    zkl_group *d = member(one, "y", "4");
    CU_ASSERT_EQUAL(zkl_group_join(d, 5000, &err), ZKL_ECONFLICT);
    CU_ASSERT_STRING_EQUAL(roll(two), "");
    zkl_group_free(d);
    kit_tear_down();
}

/* What lives with no session is nobody, in the list and for the watcher; its name may become a member's. */
static void test_strays_are_no_members(void)
{
    struct mailbox box = MAILBOX_INIT;
    kit_set_up(NULL);
    zkl_group *a = member(one, "a", "x"), *late = member(two, "ghost-7", "x");
    CU_ASSERT_EQUAL(zkl_group_join(a, 5000, NULL), ZKL_OK);
    for (int i = 0; i < 40; i++) { /* more than are looked at at once */
        char name[16];
        snprintf(name, sizeof name, "ghost-%d", i);
        CU_ASSERT_EQUAL(meddle(ZKL__OP_CREATE, name), ZKL__RC_OK);
    }
    zkl_group_observer *watcher = watch(two, &box);
    CU_ASSERT_STRING_EQUAL(news(&box, 1), "a;");
    CU_ASSERT_EQUAL(meddle(ZKL__OP_DELETE, "ghost-7"), ZKL__RC_OK);
    CU_ASSERT_EQUAL(zkl_group_join(late, 5000, NULL), ZKL_OK);
    CU_ASSERT_STRING_EQUAL(news(&box, 2), "a;ghost-7;");
    CU_ASSERT_EQUAL(kit_group(two, CLUB), 2);
    zkl_group_observer_free(watcher);
    zkl_group_free(a);
    zkl_group_free(late);
    kit_tear_down();
}

static void test_a_lock_is_no_group(void)
{
    zkl_members *members;
    zkl_error err;
    kit_set_up(NULL);
    zkl_lock *lock = kit_lock(one, CLUB, NULL);
    CU_ASSERT_EQUAL(zkl_lock_acquire(lock, 5000, NULL, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_group_list(&members, two, CLUB, 5000, &err), ZKL_ECONFLICT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "in use as a lock"));
    CU_ASSERT_PTR_NULL(members);
    CU_ASSERT_EQUAL(zkl_lock_release(lock, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_group_list(&members, two, CLUB, 5000, &err), ZKL_OK);
    zkl_members_free(members);
    zkl_lock_free(lock);
    kit_tear_down();
}

static void test_leave_ends_a_join(void)
{
    pthread_t thread;
    void *result;
    kit_set_up(NULL);
    zkl_group *a = member(one, "x", "1"), *b = member(two, "x", "2");
    CU_ASSERT_EQUAL(zkl_group_join(a, 5000, NULL), ZKL_OK);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, run_join, b), 0);
    CU_ASSERT(EVENTUALLY(zkl_group_state(b) == ZKL_STATE_WAITING));
    CU_ASSERT_EQUAL(zkl_group_leave(b, NULL), ZKL_OK);
    pthread_join(thread, &result);
    CU_ASSERT_PTR_NULL(result);
    CU_ASSERT_STRING_EQUAL(roll(two), "x=1;");
    zkl_group_free(a);
    zkl_group_free(b);
    kit_tear_down();
}

/* --- faults -------------------------------------------------------------------------------------------------------- */

/* Of the member that has this id; 0: there is none. */
static int64_t token_of(const char *id)
{
    zkl_members *members;
    int64_t token = 0;
    CU_ASSERT_EQUAL_FATAL(zkl_group_list(&members, two, CLUB, 5000, NULL), ZKL_OK);
    for (size_t i = 0; i < members->count; i++) {
        token = strcmp(members->members[i].id, id) == 0 ? members->members[i].token : token;
    }
    zkl_members_free(members);
    return token;
}

/* A delete goes by a name, and names are for all: its answer is lost, and meanwhile another process has the id. */
/* False if the connection broke before the delete was sent: something else was, first. */
static bool leave_is_lost(void)
{
    kit_set_up(NULL);
    zkl_group_options options = ZKL_GROUP_OPTIONS_INIT;
    zkl_group *a = NULL, *b = member(two, "x", "2"), *c = member(one, "x", "3");
    zkl_error err = {.text = ""};
    options.leave_timeout_ms = 0;
    CU_ASSERT_EQUAL_FATAL(zkl_group_new(&a, one, CLUB, "x", &options, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_group_join(a, 5000, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl__memory_break(zkl_session_id(one), 0, 2, 0), ZKL_OK); /* the end of its watch, too */
    CU_ASSERT_EQUAL(zkl_group_leave(a, NULL), ZKL_OK);                        /* goes on in the background */
    CU_ASSERT(EVENTUALLY(zkl_session_state(one) == ZKL_SESSION_SUSPENDED));
    bool lost = zkl_group_join(b, 1000, NULL) == ZKL_OK;
    int64_t token = lost ? token_of("x") : 0;
    CU_ASSERT_EQUAL(zkl__memory_resume(zkl_session_id(one)), ZKL_OK);
    if (lost) {
        /* who looks at the id has seen that `a` has left */
        CU_ASSERT(EVENTUALLY(zkl_group_join(c, 50, &err) == ZKL_OK || strstr(err.text, "another member has this id")));
        CU_ASSERT_EQUAL(token_of("x"), token);
    }
    zkl_group_free(a);
    zkl_group_free(c);
    CU_ASSERT(!lost || token_of("x") == token);
    zkl_group_free(b);
    kit_tear_down();
    return lost;
}

static void test_a_lost_leave_takes_nobody_elses_node(void)
{
    CU_ASSERT(EVENTUALLY(leave_is_lost()));
}

/* The delete that was never done is done later. */
static void test_a_lost_leave_is_not_forgotten(void)
{
    kit_set_up(NULL);
    zkl_group *a = member(one, "x", "1");
    CU_ASSERT_EQUAL(zkl_group_join(a, 5000, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl__memory_break(zkl_session_id(one), 0, 0, 2), ZKL_OK);
    zkl_group_free(a);
    CU_ASSERT(EVENTUALLY(zkl_session_state(one) == ZKL_SESSION_SUSPENDED));
    CU_ASSERT_STRING_NOT_EQUAL(roll(two), "");
    CU_ASSERT_EQUAL(zkl__memory_resume(zkl_session_id(one)), ZKL_OK);
    CU_ASSERT(EVENTUALLY(kit_group(two, CLUB) == 0));
    kit_tear_down();
}

static void test_joins_again(void)
{
    struct mailbox box = MAILBOX_INIT, states = MAILBOX_INIT;
    zkl_group_options options = ZKL_GROUP_OPTIONS_INIT;
    options.data = "x";
    options.state_fn = on_state;
    options.payload = &states;
    zkl_group *a = NULL;
    kit_set_up(NULL);
    zkl_group_observer *watcher = watch(two, &box);
    CU_ASSERT_STRING_EQUAL(news(&box, 1), "");
    CU_ASSERT_EQUAL_FATAL(zkl_group_new(&a, one, CLUB, "a", &options, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_group_join(a, 5000, NULL), ZKL_OK);
    CU_ASSERT(mailbox_wait(&states, 1));
    CU_ASSERT_EQUAL(states.letters[0].code, ZKL_STATE_HELD);
    int64_t id = zkl_session_id(one);
    CU_ASSERT_EQUAL(zkl__memory_suspend(id), ZKL_OK); /* a lost connection is nothing */
    CU_ASSERT_EQUAL(zkl_group_state(a), ZKL_STATE_HELD);
    CU_ASSERT_EQUAL(zkl__memory_resume(id), ZKL_OK);
    CU_ASSERT_EQUAL(zkl__memory_expire(id), ZKL_OK);
    CU_ASSERT(EVENTUALLY(zkl_session_id(one) != id && zkl_group_state(a) == ZKL_STATE_HELD));
    CU_ASSERT_STRING_EQUAL(roll(two), "a=x;");
    CU_ASSERT(EVENTUALLY(last_news_is(&box, "a;")));
    CU_ASSERT_EQUAL(meddle(ZKL__OP_DELETE, "a"), ZKL__RC_OK); /* an operator removes it */
    CU_ASSERT(EVENTUALLY(strcmp(roll(two), "a=x;") == 0));
    CU_ASSERT(EVENTUALLY(zkl_group_state(a) == ZKL_STATE_HELD));
    CU_ASSERT(EVENTUALLY(mailbox_last(&states) == ZKL_STATE_HELD));
    CU_ASSERT_EQUAL(zkl_group_leave(a, NULL), ZKL_OK);
    CU_ASSERT(EVENTUALLY(last_news_is(&box, "")));
    zkl_group_observer_free(watcher);
    zkl_group_free(a);
    kit_tear_down();
}

/* Its own node of the session before, which the servers have not ended yet, is waited for. */
static void test_the_dying_session_is_waited_for(void)
{
    struct client old;
    pthread_t thread;
    void *result;
    kit_set_up(NULL);
    CU_ASSERT_EQUAL_FATAL(client_open_plain(&old, PLACE), ZKL_OK);
    CU_ASSERT_EQUAL(client_rc(&old, op_create("/clubs", "", ZKL__PERSISTENT)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(client_rc(&old, op_create(CLUB, "", ZKL__PERSISTENT)), ZKL__RC_OK);
    CU_ASSERT_EQUAL(client_rc(&old, op_create(CLUB "/a", "old", ZKL__EPHEMERAL)), ZKL__RC_OK);
    zkl_group *a = member(one, "a", "new");
    zkl__memory_break(zkl_session_id(one), 0, 1, 0); /* though a create of ours has an unknown fate */
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, run_join, a), 0);
    CU_ASSERT(EVENTUALLY(zkl__memory_resume(zkl_session_id(one)) == ZKL_OK));
    CU_ASSERT(EVENTUALLY(zkl_session_state(one) == ZKL_SESSION_CONNECTED));
    CU_ASSERT_EQUAL(kit_group(one, CLUB), 1);
    CU_ASSERT_NOT_EQUAL(zkl_group_state(a), ZKL_STATE_HELD);
    CU_ASSERT_STRING_EQUAL(roll(two), "a=old;");
    CU_ASSERT_EQUAL(zkl__memory_expire(old.session_id), ZKL_OK);
    pthread_join(thread, &result);
    CU_ASSERT_PTR_EQUAL(result, a);
    CU_ASSERT_STRING_EQUAL(roll(two), "a=new;");
    zkl_group_free(a);
    client_close(&old);
    kit_tear_down();
}

static void test_lost_replies(void)
{
    kit_set_up(NULL);
    int64_t id = zkl_session_id(one);
    for (size_t whole = 0; whole < 8; whole++) {
        for (size_t half = 0; half < 3; half++) {
            pthread_t thread;
            void *result;
            zkl_group *a = member(one, "a", "x");
            zkl__memory_break(id, whole, half, half == 0);
            CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, run_join, a), 0);
            CU_ASSERT(EVENTUALLY(zkl_group_state(a) == ZKL_STATE_HELD || zkl__memory_resume(id) == ZKL_OK));
            pthread_join(thread, &result);
            CU_ASSERT_PTR_EQUAL(result, a);
            CU_ASSERT_EQUAL(kit_group(two, CLUB), 1);
            zkl__memory_break(id, whole, half, half == 0);
            if (whole % 2) {
                CU_ASSERT(zkl_group_update(a, "y", 20, NULL) != ZKL_OK || strcmp(roll(two), "a=y;") == 0);
            }
            zkl_group_free(a);
            CU_ASSERT(EVENTUALLY(kit_group(two, CLUB) == 0 || zkl__memory_resume(id) == ZKL_OK));
            zkl__memory_suspend(id); /* what is left of the plan goes with the connection */
            CU_ASSERT_EQUAL(zkl__memory_resume(id), ZKL_OK);
            CU_ASSERT(EVENTUALLY(kit_group(two, CLUB) == 0));
        }
    }
    kit_tear_down();
}

/* Taken back while its create is on its way: nothing stays. */
static void test_timeout_of_a_create_of_unknown_fate(void)
{
    kit_set_up(NULL);
    int64_t id = zkl_session_id(one);
    zkl_group *a = member(one, "a", "x"), *b = member(one, "b", "x");
    CU_ASSERT_EQUAL(zkl_group_join(b, 5000, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl__memory_hold(id, true), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_group_join(a, 50, NULL), ZKL_ETIMEOUT);
    CU_ASSERT_EQUAL(kit_group(two, CLUB), 2); /* applied, and not heard of */
    CU_ASSERT_EQUAL(zkl__memory_suspend(id), ZKL_OK);
    CU_ASSERT_EQUAL(zkl__memory_resume(id), ZKL_OK);
    CU_ASSERT(EVENTUALLY(kit_group(two, CLUB) == 1));
    zkl_group_free(a);
    zkl_group_free(b);
    kit_tear_down();
}

static void test_close(void)
{
    struct mailbox box = MAILBOX_INIT;
    kit_set_up(NULL);
    zkl_group *a = member(one, "a", "x"), *b = member(two, "b", "x"), *c = member(two, "c", "x");
    zkl_group_observer *watcher = watch(one, &box);
    CU_ASSERT_EQUAL(zkl_group_join(a, 5000, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_group_join(b, 5000, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl_group_join(c, 5000, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl__memory_hold(zkl_session_id(two), true), ZKL_OK);
    zkl_group_free(c); /* goes on leaving, until the session is closed */
    CU_ASSERT_EQUAL(zkl__memory_hold(zkl_session_id(two), false), ZKL_OK);
    kit_close(two);
    CU_ASSERT(EVENTUALLY(kit_group(one, CLUB) == 1));
    kit_close(one);
    CU_ASSERT_EQUAL(zkl_group_join(a, 10, NULL), ZKL_ECLOSED);
    CU_ASSERT_EQUAL(zkl_group_state(a), ZKL_STATE_IDLE);
    zkl_group_free(a);
    zkl_group_free(b);
    zkl_group_observer_free(watcher);
}

/* Through everything: in the end each is a member once, and the watcher has it right. */
static void test_random_faults(void)
{
    enum { MEMBERS = 9, SESSIONS = 3 };
    struct mailbox box = MAILBOX_INIT;
    zkl_session *sessions[SESSIONS];
    zkl_group *members[MEMBERS];
    uint64_t dice = 7;
    kit_set_up(NULL);
    for (int i = 0; i < SESSIONS; i++) {
        sessions[i] = kit_open(NULL);
    }
    for (int i = 0; i < MEMBERS; i++) {
        char id[] = {(char)('a' + i), '\0'};
        members[i] = member(sessions[i % SESSIONS], id, id);
        CU_ASSERT_EQUAL(zkl_group_join(members[i], 5000, NULL), ZKL_OK);
    }
    zkl_group_observer *watcher = watch(sessions[0], &box);
    for (int round = 0; round < 400; round++) {
        int64_t id = zkl_session_id(sessions[dice_below(&dice, SESSIONS)]);
        char name[] = {(char)('a' + dice_below(&dice, MEMBERS)), '\0'};
        switch (dice_below(&dice, 8)) {
        case 0:
            zkl__memory_expire(id);
            break;
        case 1:
            zkl__memory_suspend(id);
            break;
        case 2:
            zkl__memory_break(id, (size_t)dice_below(&dice, 6), (size_t)dice_below(&dice, 3),
                              (size_t)dice_below(&dice, 3));
            break;
        case 3:
            meddle(ZKL__OP_DELETE, name);
            break;
        default:
            zkl__memory_resume(id);
            break;
        }
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    for (int i = 0; i < SESSIONS; i++) {
        zkl__memory_break(zkl_session_id(sessions[i]), 0, 0, 0);
        zkl__memory_resume(zkl_session_id(sessions[i]));
        CU_ASSERT(EVENTUALLY(zkl_session_state(sessions[i]) == ZKL_SESSION_CONNECTED));
    }
    CU_ASSERT(EVENTUALLY(strcmp(roll(two), "a=a;b=b;c=c;d=d;e=e;f=f;g=g;h=h;i=i;") == 0));
    for (int i = 0; i < MEMBERS; i++) {
        CU_ASSERT(EVENTUALLY(zkl_group_state(members[i]) == ZKL_STATE_HELD));
    }
    CU_ASSERT(mailbox_count(&box) > 0);
    mailbox_clear(&box);
    zkl_group_leave(members[0], NULL);
    CU_ASSERT(EVENTUALLY(last_news_is(&box, "b;c;d;e;f;g;h;i;")));
    zkl_group_observer_free(watcher);
    for (int i = 0; i < MEMBERS; i++) {
        zkl_group_free(members[i]);
    }
    CU_ASSERT(EVENTUALLY(kit_group(two, CLUB) == 0));
    for (int i = 0; i < SESSIONS; i++) {
        kit_close(sessions[i]);
    }
    kit_tear_down();
}

/* --- no memory; arguments ------------------------------------------------------------------------------------------ */

static void test_no_memory(void)
{
    struct test_heap heap = TEST_HEAP_INIT;
    struct mailbox box = MAILBOX_INIT;
    zkl_heap functions = test_heap(&heap);
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    options.heap = &functions;
    one = kit_open(&options);
    for (long nth = 1; nth < 40; nth++) {
        zkl_group *a = NULL;
        zkl_group_observer *watcher = NULL;
        zkl_members *members = NULL;
        test_heap_fail(&heap, nth, false);
        int code = zkl_group_observe(&watcher, one, CLUB, on_changed, &box, NULL);
        CU_ASSERT(code == ZKL_OK || code == ZKL_ENOMEM);
        code = zkl_group_new(&a, one, CLUB, "a", NULL, NULL);
        if (code == ZKL_OK) {
            code = zkl_group_join(a, 5000, NULL);
        }
        CU_ASSERT(code == ZKL_OK || code == ZKL_ENOMEM);
        code = zkl_group_list(&members, one, CLUB, 5000, NULL);
        CU_ASSERT(code == ZKL_OK || code == ZKL_ENOMEM);
        test_heap_fail(&heap, 0, false);
        zkl_members_free(members);
        zkl_group_free(a);
        zkl_group_observer_free(watcher);
        CU_ASSERT(EVENTUALLY(kit_group(one, CLUB) == 0));
    }
    kit_close(one);
    CU_ASSERT_EQUAL(test_heap_live(&heap), 0);
}

static void test_bad_calls(void)
{
    zkl_group_options options = ZKL_GROUP_OPTIONS_INIT;
    zkl_group *group = NULL;
    zkl_group_observer *watcher = NULL;
    zkl_members *members = NULL;
    zkl_error err;
    kit_set_up(NULL);
    CU_ASSERT_EQUAL(zkl_group_new(&group, one, CLUB, "a/b", NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_group_new(&group, one, CLUB, "", NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_group_new(&group, one, CLUB, "..", NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_group_new(&group, one, CLUB, "a__READ__0000000001", NULL, &err), ZKL_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "looks like a contender"));
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "'a__READ__0000000001'"));
    CU_ASSERT_EQUAL(zkl_group_new(&group, one, CLUB, NULL, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_group_new(&group, one, "x", "a", NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_group_new(&group, NULL, CLUB, "a", NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_group_new(NULL, one, CLUB, "a", NULL, &err), ZKL_EINVAL);
    options.data = "\xff";
    CU_ASSERT_EQUAL(zkl_group_new(&group, one, CLUB, "a", &options, &err), ZKL_EINVAL);
    options.data = NULL;
    options.leave_timeout_ms = -1;
    CU_ASSERT_EQUAL(zkl_group_new(&group, one, CLUB, "a", &options, &err), ZKL_EINVAL);
    options.size = 0;
    CU_ASSERT_EQUAL(zkl_group_new(&group, one, CLUB, "a", &options, &err), ZKL_EINVAL);
    CU_ASSERT_PTR_NULL(group);
    CU_ASSERT_EQUAL(zkl_group_join(NULL, 0, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_group_leave(NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_group_update(NULL, "x", 0, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_group_observe(&watcher, one, CLUB, NULL, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_group_observe(&watcher, one, "x", on_changed, NULL, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_group_list(&members, one, CLUB, -2, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_group_list(NULL, one, CLUB, 0, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_group_list(&members, one, "x", 0, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_group_state(NULL), ZKL_STATE_IDLE);
    group = member(one, "a", "x");
    CU_ASSERT_EQUAL(zkl_group_join(group, -2, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl_group_update(group, NULL, 0, &err), ZKL_EINVAL);
    zkl_group_free(group);
    kit_tear_down();
}

TESTS("group", T(test_join_list_and_leave), T(test_curators_format), T(test_an_id_has_one_member),
      T(test_strays_are_no_members), T(test_a_lock_is_no_group), T(test_leave_ends_a_join),
      T(test_a_lost_leave_takes_nobody_elses_node), T(test_a_lost_leave_is_not_forgotten), T(test_joins_again),
      T(test_the_dying_session_is_waited_for), T(test_lost_replies), T(test_timeout_of_a_create_of_unknown_fate),
      T(test_close), T(test_random_faults), T(test_no_memory), T(test_bad_calls))
