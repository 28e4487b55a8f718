/* What a session can send: operations that wait for room, or find no memory; requests. */
#include "script.h"
#include "watcher.h"

#define MANY 450

/* More than there is room for: each asks for a create, and for a list. */
static struct script_owner many[MANY];

static void acquire_many(void)
{
    EACH_ROW (i, many) {
        script_acquire(&many[i]);
    }
}

/* --- operations that cannot be sent -------------------------------------------------------------------------------- */

/* A server that answers late: fewer operations are under way, those that wait are sent in their order, and heartbeats before all of them. */
TEST_IN_SCRIPT(test_slow_answers)
{
    script_hold(&me);
    EACH_ROW (i, many) {
        static const struct zkl__rule nobody = {"-lease-", 0};
        script_enter(&many[i], CONTENDER_CONFIG(.rule = &nobody));
    }
    int before = script.op_count;
    CU_ASSERT(before < MANY);
    script_wait(2000 * MS); /* two heartbeats and more, behind nobody who waits */
    CU_ASSERT_EQUAL(script_count(ZKL__OP_CHECK), 2);
    CU_ASSERT_EQUAL(script_count(ZKL__OP_CREATE), before);
    script_answer_some(30);
    CU_ASSERT_EQUAL(script_count(ZKL__OP_CREATE), before - 30); /* late: the window is smaller, nothing more is sent */
    script_answer_all();
    EACH_ROW (i, many) {
        CU_ASSERT_EQUAL(many[i].granted, 1);
        CU_ASSERT(i == 0 || many[i].token > many[i - 1].token); /* first come, first served */
    }
    CU_ASSERT_EQUAL(me.lost, 0);
}

/* Given up, or the connection lost, while they wait for room: nothing of them is sent, and nothing is left. */
TEST(test_given_up_while_waiting_for_room)
{
    for (int variant = 0; variant < 3; variant++) {
        script_begin();
        acquire_many();
        int sent = script.submits;
        if (variant == 0) {
            EACH_ROW (i, many) {
                script_cancel(&many[i]);
            }
            script_answer_all();
            CU_ASSERT_EQUAL(script_ours(), 0);
            CU_ASSERT(script.submits < sent + 2 * MANY); /* a delete for each that was made, and no create */
        } else if (variant == 1) {
            script_reconnect(10);
            script_run(5000 * MS);
            CU_ASSERT_EQUAL(script_ours(), MANY);
        } else {
            script_deinit();
            continue;
        }
        script_finish();
    }
}

/* The same of one whose directory is missing: it is not made. */
TEST_IN_SCRIPT(test_given_up_while_its_directory_waits_for_room)
{
    script_enter(&me, CONTENDER_CONFIG(.path = "/x"));
    acquire_many();
    script_answer(); /* its create: no such directory */
    STATE(&me, "making");
    script_cancel(&me);
    CU_ASSERT_EQUAL(me.failed, 1);
    script_answer_all();
    CU_ASSERT_PTR_NULL(script_find("/x"));
}

static struct answered {
    struct zkl__request request;
    int count;
    struct zkl__reply reply;
} answered;

static void on_done(struct zkl__request *request, const struct zkl__reply *reply)
{
    answered.count++;
    answered.reply = *reply;
}

static void send_request(const struct zkl__op *op)
{
    answered = (struct answered){.request.done = on_done};
    script_step((struct zkl__event){.kind = ZKL__EV_REQUEST, .request = &answered.request, .op = op});
}

/* All that an operation points to may go when it is handed over (op.h). Without memory for the copy it is not sent, and says so. */
TEST_IN_SCRIPT(test_what_waits_for_room_is_a_copy)
{
    char text[4][8] = {"/q", "name", "data", "id"};
    zkl_acl_entry entries[2] = {{ZKL_PERM_ALL, "digest", text[3]}, {ZKL_PERM_READ, "ip", text[1]}};
    zkl_acl acl = {2, entries};
    struct zkl__op parts[2] = {
        {.kind = ZKL__OP_CREATE, .dir = text[0], .name = text[1], .data = text[2], .size = 4, .acl = &acl},
        {.kind = ZKL__OP_CREATE, .dir = "/q/name", .name = text[1], .acl = &acl}};
    struct zkl__op op = {.kind = ZKL__OP_MULTI, .parts = parts, .part_count = 2};
    acquire_many();
    test_heap_fail(&script.heap, 1, true);
    send_request(&op);
    test_heap_fail(&script.heap, 0, false);
    CU_ASSERT_EQUAL(answered.reply.rc, ZKL__RC_UNSENT);
    CU_ASSERT_EQUAL(answered.reply.unsent, ZKL_ENOMEM);
    send_request(&op);
    memset(text, 'x', sizeof text);
    memset(entries, 0, sizeof entries);
    memset(&acl, 0, sizeof acl);
    memset(parts, 0, sizeof parts);
    script_answer_until(ZKL__OP_MULTI);
    const struct zkl__op *sent = script.ops[0].op->parts;
    CU_ASSERT_STRING_EQUAL(sent[0].dir, "/q");
    CU_ASSERT_STRING_EQUAL(sent[0].name, "name");
    CU_ASSERT_NSTRING_EQUAL(sent[0].data, "data", 4);
    CU_ASSERT_STRING_EQUAL(sent[1].dir, "/q/name");
    EACH_ROW (i, parts) {
        CU_ASSERT_STRING_EQUAL(sent[i].acl->entries[0].id, "id");
        CU_ASSERT_STRING_EQUAL(sent[i].acl->entries[1].id, "name");
    }
    script_answer();
    CU_ASSERT_EQUAL(answered.reply.rc, ZKL__RC_OK);
}

static void watch_much(struct zkl__watch *watch)
{
    static char path[99971];
    memset(path, 'a', sizeof path - 1);
    path[0] = '/';
    *watch = (struct zkl__watch){.entry.path = path};
    ASSERT_OK(zkl__watch_add(script.core, watch, false));
}

TEST(test_too_many_watched_bytes)
{
    struct zkl__watch big;
    script_begin_blocked();
    watch_much(&big);
    script_acquire(&me);
    script_run(1000 * MS);
    CU_ASSERT_EQUAL(script_ours(), 0);
    script_finish_failed(&me, ZKL_ELIMIT);
}

static bool count_shown(void *owner, const struct zkl__leader *leader)
{
    return ++*(int *)owner;
}

/* An observer waits for room, and warns once, however often it tries. */
#define LONG_PATH "/longer-than-what-is-left-of-the-limit"

TEST_IN_SCRIPT(test_too_many_watched_bytes_for_an_observer)
{
    int shown = 0;
    struct zkl__watch big;
    struct zkl__observer observer = {.watcher.dir = LONG_PATH, .show = count_shown};
    zkl__watcher_begin(&observer.watcher, script.core, &zkl__observer_ops, &shown);
    for (int round = 1; round <= 2; round++) {
        watch_much(&big);
        script_step((struct zkl__event){.kind = ZKL__EV_WAKE, .machine = &observer.watcher.machine});
        script_run(10000 * MS);
        CU_ASSERT_EQUAL(script.warnings, round);
        CU_ASSERT_PTR_NOT_NULL(strstr(script.warned, "limit of 100000 bytes"));
        CU_ASSERT_PTR_NOT_NULL(strstr(script.warned, LONG_PATH));
        CU_ASSERT_EQUAL(shown, round - 1);
        zkl__watch_remove(script.core, &big);
        script_run(3000 * MS);
        CU_ASSERT_EQUAL(shown, round);
        script_put(LONG_PATH, 0); /* so it looks again */
        script_deliver();
        script_remove(LONG_PATH);
    }
    zkl__watcher_end(&observer.watcher);
}

/* A list that may not be read says nothing: the observer asks later. */
TEST_IN_SCRIPT(test_unlisted_for_an_observer)
{
    int shown = 0;
    struct zkl__observer observer = {.watcher.dir = "/q", .show = count_shown};
    script_forbid(script_find("/q"), ZKL_PERM_READ);
    zkl__watcher_begin(&observer.watcher, script.core, &zkl__observer_ops, &shown);
    script_step((struct zkl__event){.kind = ZKL__EV_WAKE, .machine = &observer.watcher.machine});
    script_run(10000 * MS);
    CU_ASSERT_EQUAL(shown, 0);
    script_forbid(script_find("/q"), 0);
    script_run(10000 * MS);
    CU_ASSERT_EQUAL(shown, 1);
    zkl__watcher_end(&observer.watcher);
}

/* --- no memory ----------------------------------------------------------------------------------------------------- */

static void live_without_memory(bool lost_create)
{
    script_connect();
    if (!script_contend(&me, CONTENDER_CONFIG(.path = "/made/here"))) {
        return;
    }
    script_start(&me, INT64_MAX, false);
    if (lost_create) {
        script_answer_all();
        script_end(ZKL_ELOST);
        script_connect();
        script_reconnect(1);
    }
    script_run(1000 * MS);
    CU_ASSERT(me.granted + me.failed <= 1);
    CU_ASSERT(me.granted || me.code == ZKL_ENOMEM || !me.failed);
    if (me.contender && me.contender->state == ZKL__HELD) {
        script_release(&me);
    }
    script_run(4000 * MS);
}

TEST(test_no_memory_at_every_allocation)
{
    for (int variant = 0; variant < 4; variant++) {
        bool on = variant & 1, failed = true;
        for (long nth = 1; failed; nth++) {
            unsigned failures = CU_get_number_of_failures();
            if (script_init_failing(nth, on)) {
                script_put("/made", 0);
                if (variant & 2) { /* something to be ignored: names are kept */
                    script_put("/made/here", 0);
                    script_put("/made/here/lock-0000000000", 0);
                    script_put("/made/here/lock-0000000001", 0);
                }
                live_without_memory(variant & 2);
                failed = test_heap_failures(&script.heap) > 0;
                test_heap_fail(&script.heap, 0, false);
                script_run(4000 * MS);
                script_finish();
            } else {
                script_deinit();
            }
            if (CU_get_number_of_failures() != failures) {
                fprintf(stderr, "\n    allocation %ld, variant %d\n", nth, variant);
                return;
            }
        }
    }
}

/* As many operations as the window has room for, each answered after a while. */
static void use_window(struct zkl__window *window, int64_t sent, int64_t latency)
{
    window->under_way = window->size;
    while (window->under_way > 0) {
        zkl__window_ended(window, true, sent, sent + latency, 8000 * MS);
    }
}

/* It grows with each answer, until it has been too large: then by one for a whole window of answers. */
TEST(test_window)
{
    struct zkl__window window;
    zkl__window_init(&window, 0);
    size_t first = window.size;
    use_window(&window, 1000 * MS, 10 * MS);
    CU_ASSERT(window.size > first + first / 4);
    use_window(&window, 2000 * MS, 2000 * MS);
    size_t slowed = window.size;
    CU_ASSERT(slowed < first);
    for (int i = 0; i < 8; i++) {
        use_window(&window, (10 + i) * 1000 * MS, 10 * MS);
    }
    CU_ASSERT(window.size > slowed);
    CU_ASSERT(window.size <= slowed + 8);
}

/* --- requests ------------------------------------------------------------------------------------------------------ */

TEST(test_request_without_memory)
{
    script_init();
    test_heap_fail(&script.heap, 1, true);
    send_request(&(const struct zkl__op){.kind = ZKL__OP_GET, .dir = "/q"});
    CU_ASSERT_EQUAL(answered.count, 1);
    CU_ASSERT_EQUAL(answered.reply.rc, ZKL__RC_UNSENT);
    script_connect(); /* not even the sync finds room: later */
    OPS("");
    test_heap_fail(&script.heap, 0, false);
    script_wait(2500 * MS);
    OPS("sync");
    script_finish();
}

/* A request that has waited for room may be done as soon as it is sent. */
TEST(test_request_forgotten_after_its_wait_for_room)
{
    script_begin();
    acquire_many();
    send_request(&(const struct zkl__op){.kind = ZKL__OP_SET, .dir = "/q", .version = -1});
    CU_ASSERT_EQUAL(script_count(ZKL__OP_SET), 0);
    script_answer_until(ZKL__OP_SET);
    CU_ASSERT_TRUE(zkl__request_forget(&answered.request));
    script_answer_all();
    CU_ASSERT_EQUAL(answered.count, 0);
    script_deinit();
}

TESTS("contender_limits")
