/* When an operation cannot be sent: too many, too long, too much watched, no memory. */
#include "script.h"
#include "session_inside.h"

#include <string.h>

/* --- operations that cannot be sent -------------------------------------------------------------------------------- */

static void live(int code)
{
    script_acquire(&me);
    script_run(4000 * MS);
    if (script_find(SCRIPT_BLOCKER)) {
        script_remove(SCRIPT_BLOCKER);
    }
    script_run(4000 * MS);
    CU_ASSERT_EQUAL(me.granted + me.failed, 1);
    CU_ASSERT(me.granted || (code != ZKL_ECONNECT && me.code == code));
    if (me.granted) {
        script_release(&me);
        script_run(4000 * MS);
        CU_ASSERT_EQUAL(me.released, 1);
    }
    CU_ASSERT_EQUAL(script_ours(), 0);
}

static void test_refused_submits(void)
{
    static const int codes[] = {ZKL_ECONNECT, ZKL_ENOMEM, ZKL_ELIMIT};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        for (int count = 1; count <= 3; count++) {
            bool all = false;
            for (int n = 0; !all; n++) {
                unsigned failures = CU_get_number_of_failures();
                script_begin_blocked();
                script.refuse_code = codes[i];
                script.refuse_skip = n;
                script.refuse_count = count;
                live(codes[i]);
                all = script.refuse_count == count;
                script_finish();
                if (CU_get_number_of_failures() != failures) {
                    fprintf(stderr, "\n    %s, %d submits from the %dth\n", zkl_error_name(codes[i]), count, n);
                }
            }
        }
    }
}

/* The path fits, but with the session's chroot before it the whole does not: a caller's mistake, said at once. */
static void test_path_too_long_under_the_chroot(void)
{
    script_begin();
    script.refuse_code = ZKL_EINVAL;
    script.refuse_count = 2; /* the create, and its list */
    script_acquire(&me);
    CU_ASSERT_PTR_NOT_NULL(strstr(me.why, "chroot"));
    script_finish_failed(&me, ZKL_EINVAL);
}

static void test_refused_submits_after_a_lost_create(void)
{
    for (int n = 0; n < 12; n++) {
        script_begin();
        script_acquire(&me);
        script_suspend(1);
        script.refuse_code = ZKL_ECONNECT;
        script.refuse_skip = n;
        script.refuse_count = 1;
        script_connect();
        script_run(4000 * MS);
        CU_ASSERT_EQUAL(me.granted, 1);
        CU_ASSERT_EQUAL(script_ours(), 1);
        script_finish();
    }
}

/* The list behind the barrier cannot be sent, and the barrier's answer takes longer than the putting-off lasts. */
static void test_slow_barrier_without_its_list(void)
{
    script_begin();
    script_acquire(&me);
    script_suspend(1);
    script_cancel(&me);
    script.refuse_kind = ZKL__OP_CHILDREN;
    script.refuse_code = ZKL_ELIMIT;
    script.refuse_count = 1;
    script_connect();
    script_wait(500 * MS);
    OPS("check");
    script_answer();
    OPS("check list");
    script_answer_all();
    CU_ASSERT_EQUAL(script_ours(), 0);
    script_finish();
}

static void test_too_many_operations(void)
{
    script_begin();
    static struct script_owner many[450];
    for (int i = 0; i < 450; i++) { /* a create each, and a list */
        script_acquire(&many[i]);
    }
    CU_ASSERT(script.op_count < 400); /* the others wait for room */
    script_run(10000 * MS);
    for (int granted = 0, i = 0; granted < 450; i++) {
        CU_ASSERT_FATAL(i < 100000);
        if (many[i % 450].contender && many[i % 450].granted) {
            script_release(&many[i % 450]);
            script_answer_all();
            granted++;
        }
    }
    script_finish();
}

static int count_ops(enum zkl__op_kind kind)
{
    int count = 0;
    for (int i = 0; i < script.op_count; i++) {
        count += script.ops[i].kind == kind;
    }
    return count;
}

/* A server that answers late: fewer operations are under way, those that wait are sent in their order, and heartbeats before all of them. */
static void test_slow_answers(void)
{
    static struct script_owner many[300], holder;
    script_begin();
    script_acquire(&holder);
    script_answer_all();
    CU_ASSERT_EQUAL(holder.granted, 1);
    for (int i = 0; i < 300; i++) {
        struct zkl__contender_config config = script_config(&many[i], "/q");
        static const struct zkl__rule nobody = {"-lease-", 0};
        config.rule = &nobody;
        CU_ASSERT_TRUE_FATAL(script_contend(&many[i], &config));
        script_start(&many[i], INT64_MAX, false);
    }
    int before = script.op_count;
    CU_ASSERT(before < 300);
    script_wait(2000 * MS); /* two heartbeats and more, behind nobody who waits */
    CU_ASSERT_EQUAL(count_ops(ZKL__OP_CHECK), 2);
    CU_ASSERT_EQUAL(count_ops(ZKL__OP_CREATE), before);
    for (int i = 0; i < 30; i++) {
        script_answer();
    }
    CU_ASSERT_EQUAL(count_ops(ZKL__OP_CREATE), before - 30); /* late: nothing more is sent, the window is smaller now */
    script_answer_all();
    for (int i = 0; i < 300; i++) {
        CU_ASSERT_EQUAL(many[i].granted, 1);
        CU_ASSERT(i == 0 || many[i].token > many[i - 1].token); /* first come, first served */
    }
    CU_ASSERT_EQUAL(holder.lost, 0);
    script_finish();
}

/* Given up, or the connection lost, while they wait for room: nothing of them is sent, and nothing is left. */
static void test_given_up_while_waiting_for_room(void)
{
    for (int variant = 0; variant < 3; variant++) {
        static struct script_owner many[400];
        script_begin();
        for (int i = 0; i < 400; i++) {
            script_acquire(&many[i]);
        }
        int sent = script.submits;
        if (variant == 0) {
            for (int i = 0; i < 400; i++) {
                script_cancel(&many[i]);
            }
            script_answer_all();
            CU_ASSERT_EQUAL(script_ours(), 0);
            CU_ASSERT(script.submits < sent + 800); /* a delete for each that was made, and no create */
        } else if (variant == 1) {
            script_suspend(10);
            script_connect();
            script_run(5000 * MS);
            CU_ASSERT_EQUAL(script_ours(), 400);
        } else {
            script_deinit();
            continue;
        }
        script_finish();
    }
}

/* The same of one whose directory is missing: it is not made. */
static void test_given_up_while_its_directory_waits_for_room(void)
{
    static struct script_owner many[400], other;
    struct zkl__contender_config config = script_config(&other, "/x");
    script_begin();
    CU_ASSERT_TRUE_FATAL(script_contend(&other, &config));
    script_start(&other, INT64_MAX, false);
    for (int i = 0; i < 400; i++) {
        script_acquire(&many[i]);
    }
    script_answer(); /* its create: no such directory */
    STATE(&other, "making");
    script_cancel(&other);
    CU_ASSERT_EQUAL(other.failed, 1);
    script_answer_all();
    CU_ASSERT_PTR_NULL(script_find("/x"));
    script_finish();
}

static void on_request(struct zkl__request *request, const struct zkl__reply *reply)
{
    *(struct zkl__reply *)request->owner = *reply;
}

/* All that an operation points to may go when it is handed over (op.h). Without memory for the copy it is not sent, and says so. */
static void test_what_waits_for_room_is_a_copy(void)
{
    static struct script_owner many[400];
    struct zkl__reply reply = {.rc = ZKL__RC_UNKNOWN};
    char text[4][8] = {"/q", "name", "data", "id"}, longer[] = "a longer id";
    zkl_acl_entry entries[3] = {
        {ZKL_PERM_ALL, "digest", text[3]}, {ZKL_PERM_READ, "ip", longer}, {ZKL_PERM_ALL, "digest", longer}};
    zkl_acl acls[2] = {{1, entries}, {2, entries + 1}};
    struct zkl__op parts[2] = {
        {.kind = ZKL__OP_CREATE, .dir = text[0], .name = text[1], .data = text[2], .size = 4, .acl = &acls[0]},
        {.kind = ZKL__OP_CREATE, .dir = "/q/name", .name = text[1], .acl = &acls[1]}};
    struct zkl__op op = {.kind = ZKL__OP_MULTI, .parts = parts, .part_count = 2};
    struct zkl__request request = {.done = on_request, .owner = &reply};
    script_begin();
    for (int i = 0; i < 400; i++) {
        script_acquire(&many[i]);
    }
    test_heap_fail(&script.heap, 1, true);
    script_step((struct zkl__event){.kind = ZKL__EV_REQUEST, .request = &request, .op = &op});
    test_heap_fail(&script.heap, 0, false);
    CU_ASSERT_EQUAL(reply.rc, ZKL__RC_UNSENT);
    CU_ASSERT_EQUAL(reply.unsent, ZKL_ENOMEM);
    script_step((struct zkl__event){.kind = ZKL__EV_REQUEST, .request = &request, .op = &op});
    memset(text, 'x', sizeof text);
    memset(longer, 'x', sizeof longer - 1);
    memset(entries, 0, sizeof entries);
    memset(acls, 0, sizeof acls);
    memset(parts, 0, sizeof parts);
    struct script_op sent;
    do {
        sent = script_answer();
    } while (script.op_count > 0 && sent.kind != ZKL__OP_MULTI);
    CU_ASSERT_EQUAL(reply.rc, ZKL__RC_OK);
    CU_ASSERT_STRING_EQUAL(sent.parts[0].path, "/q/name");
    CU_ASSERT_STRING_EQUAL(sent.parts[0].data, "data");
    CU_ASSERT_STRING_EQUAL(sent.parts[1].path, "/q/name/name");
    CU_ASSERT_STRING_EQUAL(sent.lists, "id a longer id a longer id ");
    script_finish();
}

static void watch_much(struct zkl__watch *watch)
{
    static char path[99971];
    memset(path, 'a', sizeof path - 1);
    path[0] = '/';
    *watch = (struct zkl__watch){.path = path};
    CU_ASSERT_EQUAL(zkl__watch_add(script.core, watch), ZKL_OK);
}

static void test_too_many_watched_bytes(void)
{
    struct zkl__watch big;
    script_begin_blocked();
    watch_much(&big);
    script_acquire(&me);
    script_run(1000 * MS);
    CU_ASSERT_EQUAL(script_ours(), 0);
    script_finish_failed(&me, ZKL_ELIMIT);
}

/* The same, but the get had to wait: our czxid is not known yet, and the server puts the question off. */
static void test_too_many_watched_bytes_and_a_get_put_off(void)
{
    struct zkl__watch big;
    script_begin_blocked();
    watch_much(&big);
    script.next_sequence = 2;
    script_put("/q/lock-0000000001", SCRIPT_STRANGER); /* short enough to be watched */
    script_acquire(&me);
    script_suspend(2);
    script_connect();
    while (strcmp(script_state(&me), "watching") != 0) {
        script_answer();
    }
    OPS("exists get");
    script_step((struct zkl__event){.kind = ZKL__EV_WATCH, .path = "/q/lock-0000000001"});
    OPS("exists get list");
    script_answer_with(ZKL__RC_NOTAPPLIED);
    script_answer();
    script_remove("/q/lock-0000000001");
    script_answer();
    OPS(""); /* put off */
    script_run(1000 * MS);
    script_finish_failed(&me, ZKL_ELIMIT);
}

/* --- no memory ----------------------------------------------------------------------------------------------------- */

static void live_without_memory(bool lost_create)
{
    struct zkl__contender_config config = script_config(&me, "/made/here");
    script_connect();
    if (!script_contend(&me, &config)) {
        return;
    }
    script_start(&me, INT64_MAX, false);
    if (lost_create) {
        script_answer_all();
        script_end(ZKL_ELOST);
        script_connect();
        script_suspend(1);
        script_connect();
    }
    script_run(1000 * MS);
    CU_ASSERT(me.granted + me.failed <= 1);
    CU_ASSERT(me.granted || me.code == ZKL_ENOMEM || !me.failed);
    if (me.contender && zkl__contender_state(me.contender) == ZKL__HELD) {
        script_release(&me);
    }
    script_run(4000 * MS);
}

static void test_no_memory_at_every_allocation(void)
{
    for (int variant = 0; variant < 4; variant++) {
        bool on = variant & 1, failed = true;
        for (long nth = 1; failed; nth++) {
            unsigned failures = CU_get_number_of_failures();
            if (script_init_failing(nth, on)) {
                script.next_sequence = 10;
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
    while (zkl__window_has_room(window)) {
        zkl__window_sent(window);
    }
    while (window->under_way > 0) {
        zkl__window_ended(window, true, sent, sent + latency, 8000 * MS);
    }
}

/* It grows with each answer, until it has been too large: then by one for a whole window of answers. */
static void test_window(void)
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

TESTS("contender limits", T(test_refused_submits), T(test_path_too_long_under_the_chroot),
      T(test_refused_submits_after_a_lost_create), T(test_slow_barrier_without_its_list), T(test_too_many_operations),
      T(test_slow_answers), T(test_given_up_while_waiting_for_room),
      T(test_given_up_while_its_directory_waits_for_room), T(test_what_waits_for_room_is_a_copy),
      T(test_too_many_watched_bytes), T(test_too_many_watched_bytes_and_a_get_put_off),
      T(test_no_memory_at_every_allocation), T(test_window))
