/* test_ensemble.c - the simulated ensemble by itself: does it do what ensemble.h says? Clients are handles without a core. */
#include "check.h"
#include "run.h"

#include <string.h>

static struct sim *s;
static struct sim_plan plan;

/* What the handles told, newest last. */
enum { ROOM = 256 };
static struct told {
    int client;
    enum zkl__event_kind kind;
    uint64_t id;
    enum zkl__rc rc;
    enum zkl__watch_event watch;
    size_t child_count;
    int64_t session;
    char name[128];
} told[ROOM];
static int told_count;

static void listen(struct sim *sim, int client, const struct zkl__event *event)
{
    (void)sim;
    if (told_count == ROOM) {
        return;
    }
    struct told *it = &told[told_count++];
    *it = (struct told){.client = client, .kind = event->kind, .id = event->id, .session = event->session_id};
    if (event->kind == ZKL__EV_REPLY) {
        it->rc = event->reply->rc;
        it->child_count = event->reply->child_count;
        snprintf(it->name, sizeof it->name, "%s", event->reply->name ? event->reply->name : "");
    } else if (event->kind == ZKL__EV_WATCH) {
        it->watch = event->watch;
        snprintf(it->name, sizeof it->name, "%s", event->path);
    }
}

static void run_for(int64_t ms)
{
    int64_t end = sim_now(s) + ms * SIM_MS;
    while (s->clock.due[sim_clock_next(&s->clock)] <= end && sim_step(s)) {
    }
    s->clock.now = end;
}

static void begin(int servers, int clients)
{
    if (!s) {
        s = sim_new();
    }
    told_count = 0;
    plan = (struct sim_plan){.servers = servers,
                             .clients = clients,
                             .paths = 1,
                             .tick = 1000 * SIM_MS,
                             .timeout = 4000 * SIM_MS,
                             .delay = SIM_MS,
                             .heal = 1000 * SIM_SECOND};
    sim_reset(s, &plan, 11);
    s->listener = listen;
    sim_ensemble_start(s);
    for (int i = 0; i < clients; i++) {
        sim_handle_open(s, i);
    }
    run_for(50);
}

static void ask(int client, uint64_t id, struct zkl__op op)
{
    op.version = -1;
    CU_ASSERT_EQUAL(sim_handle_submit(s, client, id, &op), ZKL_OK);
}

static void make(int client, uint64_t id, const char *name, enum zkl__create_mode mode)
{
    ask(client, id, (struct zkl__op){.kind = ZKL__OP_CREATE, .dir = "/", .name = name, .mode = mode});
}

static void list(int client, uint64_t id)
{
    ask(client, id, (struct zkl__op){.kind = ZKL__OP_CHILDREN, .dir = "/"});
}

static const struct told *reply(int client, uint64_t id)
{
    for (int i = 0; i < told_count; i++) {
        if (told[i].client == client && told[i].kind == ZKL__EV_REPLY && told[i].id == id) {
            return &told[i];
        }
    }
    return NULL;
}

static int place_of(int client, enum zkl__event_kind kind)
{
    for (int i = told_count - 1; i >= 0; i--) {
        if (told[i].client == client && told[i].kind == kind) {
            return i;
        }
    }
    return -1;
}

#define RC(client, id, expected)                        \
    do {                                                \
        const struct told *answer_ = reply(client, id); \
        CU_ASSERT_PTR_NOT_NULL_FATAL(answer_);          \
        CU_ASSERT_EQUAL(answer_->rc, expected);         \
    } while (0)

static int server_of(int client)
{
    return s->conns[s->clients[client].handle.conn].server;
}

/* A client behind a follower. */
static int behind_follower(void)
{
    for (int i = 0; i < s->client_count; i++) {
        if (server_of(i) != s->leader) {
            return i;
        }
    }
    CU_FAIL_FATAL("nobody is behind a follower");
    return 0;
}

/* --- reads and writes ------------------------------------------------------------------------------------------------ */

static void test_a_list_behind_a_create_shows_it(void)
{
    begin(3, 4);
    int me = behind_follower();
    make(me, 1, "a", ZKL__EPHEMERAL);
    list(me, 2);
    run_for(20);
    RC(me, 1, ZKL__RC_OK);
    RC(me, 2, ZKL__RC_OK);
    CU_ASSERT_EQUAL(reply(me, 2)->child_count, 1);
}

static int elsewhere(int server)
{
    int client = 0;
    while (server_of(client) == server) {
        client++;
    }
    return client;
}

/* A follower lags. One of its clients makes a znode or two and lists after each; then somebody else
 * makes one elsewhere. What the lists show. */
static void lag(bool batches, int makes, size_t *shown)
{
    static const char *const names[] = {"a", "b"};
    begin(3, 4);
    plan.batches = batches;
    int me = behind_follower(), server = server_of(me), other = elsewhere(server);
    sim_channel_hold(s, &s->servers[server].from_leader, SLOT_FROM_LEADER + server, 500 * SIM_MS);
    for (int i = 0; i < makes; i++) {
        make(me, 2 * (uint64_t)i + 1, names[i], ZKL__EPHEMERAL);
        list(me, 2 * (uint64_t)i + 2);
    }
    run_for(50);
    make(other, 9, "c", ZKL__EPHEMERAL);
    run_for(50);
    RC(other, 9, ZKL__RC_OK);
    CU_ASSERT_PTR_NULL(reply(me, 1));
    run_for(1000);
    for (int i = 0; i < makes; i++) {
        RC(me, 2 * (uint64_t)i + 1, ZKL__RC_OK);
        RC(me, 2 * (uint64_t)i + 2, ZKL__RC_OK);
        shown[i] = reply(me, 2 * (uint64_t)i + 2)->child_count;
    }
}

static void test_a_read_behind_a_write_may_be_newer(void)
{
    size_t shown[2];
    lag(false, 1, shown);
    CU_ASSERT_EQUAL(shown[0], 1);
    lag(true, 1, shown);
    CU_ASSERT_EQUAL(shown[0], 2);
}

/* A follower lags. One of its clients syncs and lists, the leader answers the sync, and somebody else makes a znode then. */
static size_t list_behind_a_sync(bool batches)
{
    begin(3, 4);
    plan.batches = batches;
    int me = behind_follower(), server = server_of(me), other = elsewhere(server);
    sim_channel_hold(s, &s->servers[server].from_leader, SLOT_FROM_LEADER + server, 500 * SIM_MS);
    ask(me, 1, (struct zkl__op){.kind = ZKL__OP_SYNC, .dir = "/"});
    list(me, 2);
    run_for(50);
    make(other, 9, "a", ZKL__EPHEMERAL);
    run_for(1000);
    RC(other, 9, ZKL__RC_OK);
    RC(me, 1, ZKL__RC_OK);
    RC(me, 2, ZKL__RC_OK);
    return reply(me, 2)->child_count;
}

static void test_a_read_behind_a_sync_may_be_newer(void)
{
    CU_ASSERT_EQUAL(list_behind_a_sync(false), 0);
    CU_ASSERT_EQUAL(list_behind_a_sync(true), 1);
}

static void test_a_read_never_sees_the_next_write(void)
{
    size_t shown[2];
    lag(true, 2, shown);
    CU_ASSERT_EQUAL(shown[0], 1);
    CU_ASSERT_EQUAL(shown[1], 3);
}

static void test_errors(void)
{
    begin(3, 1);
    make(0, 1, "a", ZKL__EPHEMERAL);
    make(0, 2, "a", ZKL__PERSISTENT);
    ask(0, 3, (struct zkl__op){.kind = ZKL__OP_CREATE, .dir = "/a", .name = "b"});
    ask(0, 4, (struct zkl__op){.kind = ZKL__OP_CREATE, .dir = "/x", .name = "b"});
    ask(0, 5, (struct zkl__op){.kind = ZKL__OP_GET, .dir = "/", .name = "x", .watch = true});
    make(0, 6, "p", ZKL__PERSISTENT);
    ask(0, 7, (struct zkl__op){.kind = ZKL__OP_CREATE, .dir = "/p", .name = "b"});
    ask(0, 8, (struct zkl__op){.kind = ZKL__OP_DELETE, .dir = "/p"});
    ask(0, 9, (struct zkl__op){.kind = ZKL__OP_UNWATCH, .dir = "/x"});
    run_for(50);
    RC(0, 2, ZKL__RC_NODEEXISTS);
    RC(0, 3, ZKL__RC_EPHEMERALPARENT);
    RC(0, 4, ZKL__RC_NONODE);
    RC(0, 5, ZKL__RC_NONODE);
    RC(0, 8, ZKL__RC_NOTEMPTY);
    RC(0, 9, ZKL__RC_NOWATCH); /* get sets no watch on a missing node */
}

static void test_a_multi_is_all_or_nothing(void)
{
    begin(3, 1);
    struct zkl__op parts[] = {{.kind = ZKL__OP_CREATE, .dir = "/", .name = "a", .version = -1},
                              {.kind = ZKL__OP_CHECK, .dir = "/", .name = "x", .version = -1},
                              {.kind = ZKL__OP_CREATE, .dir = "/", .name = "b", .version = -1}};
    ask(0, 1, (struct zkl__op){.kind = ZKL__OP_MULTI, .parts = parts, .part_count = 3});
    list(0, 2);
    ask(0, 3, (struct zkl__op){.kind = ZKL__OP_MULTI, .parts = parts, .part_count = 1});
    list(0, 4);
    run_for(20);
    RC(0, 1, ZKL__RC_NONODE);
    CU_ASSERT_EQUAL(reply(0, 2)->child_count, 0);
    RC(0, 3, ZKL__RC_OK);
    CU_ASSERT_EQUAL(reply(0, 4)->child_count, 1);
}

static void test_the_counter_sticks(void)
{
    begin(1, 1);
    s->nodes[0].cversion = INT32_MAX - 1;
    for (uint64_t id = 1; id <= 3; id++) {
        make(0, id, "n", ZKL__EPHEMERAL_SEQUENTIAL);
        run_for(20);
    }
    CU_ASSERT_STRING_EQUAL(reply(0, 1)->name, "n2147483646");
    CU_ASSERT_STRING_EQUAL(reply(0, 2)->name, "n2147483647");
    RC(0, 3, ZKL__RC_NODEEXISTS);
    make(0, 4, "m", ZKL__EPHEMERAL_SEQUENTIAL); /* another prefix: the number comes twice */
    run_for(20);
    CU_ASSERT_STRING_EQUAL(reply(0, 4)->name, "m2147483647");
}

static void test_the_counter_wraps_for_those_behind(void)
{
    begin(3, 1);
    s->nodes[0].cversion = INT32_MAX;
    make(0, 1, "n", ZKL__EPHEMERAL_SEQUENTIAL);
    make(0, 2, "n", ZKL__EPHEMERAL_SEQUENTIAL);
    run_for(20);
    CU_ASSERT_STRING_EQUAL(reply(0, 1)->name, "n2147483647");
    CU_ASSERT_STRING_EQUAL(reply(0, 2)->name, "n-2147483648");
}

/* --- sessions -------------------------------------------------------------------------------------------------------- */

static void test_expiry_is_learnt_on_reconnect(void)
{
    begin(3, 2);
    make(0, 1, "a", ZKL__EPHEMERAL);
    run_for(20);
    sim_process_pause(s, &s->clients[0].paused_until, 9000 * SIM_MS);
    run_for(8900);
    CU_ASSERT_EQUAL(place_of(0, ZKL__EV_EXPIRED), -1);
    list(1, 2);
    run_for(20);
    CU_ASSERT_EQUAL(reply(1, 2)->child_count, 0);
    run_for(2000);
    CU_ASSERT(place_of(0, ZKL__EV_SUSPENDED) >= 0);
    CU_ASSERT(place_of(0, ZKL__EV_EXPIRED) > place_of(0, ZKL__EV_SUSPENDED));
}

static void test_a_session_never_expires_early(void)
{
    begin(3, 4);
    int me = behind_follower();
    int session = s->clients[me].handle.session;
    for (int i = 0; i < 40; i++) {
        run_for(250);
        CU_ASSERT(!s->sessions[session].closing);
        CU_ASSERT(s->sessions[session].deadline > sim_now(s)); /* pings alone keep it */
    }
    int64_t deadline = s->sessions[session].deadline;
    sim_process_pause(s, &s->clients[me].paused_until, 20000 * SIM_MS);
    while (!s->sessions[session].closing && sim_step(s)) {
    }
    CU_ASSERT(s->sessions[session].decided >= deadline);
}

/* Between two pings of the leader nothing that a follower hears reaches the leader's tracker. */
static void test_touches_ride_on_pings_only(void)
{
    begin(3, 4);
    int me = behind_follower();
    int session = s->clients[me].handle.session;
    int follower = server_of(me);
    sim_channel_hold(s, &s->servers[follower].from_leader, SLOT_FROM_LEADER + follower, 4000 * SIM_MS);
    run_for(10);
    int64_t deadline = s->sessions[session].deadline;
    for (uint64_t id = 1; id < 10; id++) {
        list(me, id);
        run_for(200);
    }
    RC(me, 9, ZKL__RC_OK);
    CU_ASSERT_EQUAL(s->sessions[session].deadline, deadline);
}

static void test_a_stale_follower_serves_reads(void)
{
    begin(3, 4);
    int me = behind_follower();
    int session = s->clients[me].handle.session;
    make(me, 1, "a", ZKL__EPHEMERAL);
    run_for(20);
    sim_server_isolate(s, server_of(me), 30000 * SIM_MS);
    for (uint64_t id = 2; !s->sessions[session].ended; id++) { /* the leader hears nothing and ends the session */
        list(me, id);
        run_for(200);
        CU_ASSERT_EQUAL(reply(me, id)->child_count, 1);
    }
    CU_ASSERT_EQUAL(place_of(me, ZKL__EV_SUSPENDED), -1);
    run_for(12000); /* then the follower gives the leader up */
    CU_ASSERT(place_of(me, ZKL__EV_EXPIRED) >= 0);
}

static void test_writes_through_a_left_server_are_refused(void)
{
    begin(3, 4);
    int me = behind_follower();
    int left = server_of(me);
    int conn = s->clients[me].handle.conn;
    sim_channel_hold(s, &s->conns[conn].to_server, SLOT_TO_SERVER + conn, 1000 * SIM_MS);
    make(me, 1, "late", ZKL__EPHEMERAL);
    s->clients[me].handle.server = (left + 1) % 3;
    sim_handle_cut(s, me, 1);
    run_for(500);
    CU_ASSERT_NOT_EQUAL(server_of(me), left);
    RC(me, 1, ZKL__RC_UNKNOWN);
    run_for(1000);
    list(me, 2);
    run_for(20);
    CU_ASSERT_EQUAL(reply(me, 2)->child_count, 0);
    CU_ASSERT(place_of(me, ZKL__EV_SUSPENDED) < place_of(me, ZKL__EV_CONNECTED));
}

static void test_nobody_reconnects_into_the_past(void)
{
    begin(3, 1);
    int behind = (s->leader + 1) % 3;
    if (server_of(0) == behind) {
        behind = (s->leader + 2) % 3;
    }
    sim_channel_hold(s, &s->servers[behind].from_leader, SLOT_FROM_LEADER + behind, 2000 * SIM_MS);
    make(0, 1, "a", ZKL__EPHEMERAL);
    run_for(20);
    RC(0, 1, ZKL__RC_OK);
    s->clients[0].handle.server = behind;
    sim_handle_cut(s, 0, 9);
    run_for(400);
    CU_ASSERT_NOT_EQUAL(server_of(0), behind);
}

/* --- watches --------------------------------------------------------------------------------------------------------- */

static void test_a_watch_comes_before_the_answer(void)
{
    begin(3, 4);
    make(0, 1, "a", ZKL__EPHEMERAL);
    run_for(20);
    ask(0, 2, (struct zkl__op){.kind = ZKL__OP_GET, .dir = "/", .name = "a", .watch = true});
    ask(0, 3, (struct zkl__op){.kind = ZKL__OP_DELETE, .dir = "/", .name = "a"});
    list(0, 4);
    run_for(20);
    int at = place_of(0, ZKL__EV_WATCH);
    CU_ASSERT_FATAL(at >= 0);
    CU_ASSERT_EQUAL(told[at].watch, ZKL__WATCH_DELETED);
    CU_ASSERT(&told[at] < reply(0, 3));
    CU_ASSERT_EQUAL(s->clients[0].handle.watch_count, 0);
}

static void test_a_watch_outlives_a_reconnect(void)
{
    begin(3, 2);
    make(1, 1, "a", ZKL__EPHEMERAL);
    run_for(20);
    ask(0, 2, (struct zkl__op){.kind = ZKL__OP_GET, .dir = "/", .name = "a", .watch = true});
    run_for(20);
    sim_handle_cut(s, 0, 9);
    ask(1, 3, (struct zkl__op){.kind = ZKL__OP_DELETE, .dir = "/", .name = "a"});
    run_for(500);
    int at = place_of(0, ZKL__EV_WATCH);
    CU_ASSERT_FATAL(at >= 0);
    CU_ASSERT_EQUAL(told[at].watch, ZKL__WATCH_DELETED);
    CU_ASSERT(at > place_of(0, ZKL__EV_CONNECTED));
}

/* --- leaders --------------------------------------------------------------------------------------------------------- */

static void test_sync_waits_for_what_is_proposed(void)
{
    begin(3, 4);
    int me = behind_follower();
    int follower = server_of(me), other = 3 - s->leader - follower;
    /* Neither follower's acknowledgement comes through for a while: the proposal stays one. */
    sim_channel_hold(s, &s->servers[other].to_leader, SLOT_TO_LEADER + other, 1000 * SIM_MS);
    sim_channel_hold(s, &s->servers[follower].from_leader, SLOT_FROM_LEADER + follower, 500 * SIM_MS);
    sim_stranger_writes(s, &(struct sim_part){.op = ZKL__OP_CREATE, .path = sim_path_of(s, "/", "a")});
    ask(me, 1, (struct zkl__op){.kind = ZKL__OP_SYNC, .dir = "/"});
    list(me, 2);
    run_for(400);
    CU_ASSERT_PTR_NULL(reply(me, 1));
    run_for(200);
    CU_ASSERT_EQUAL(reply(me, 2)->child_count, 1);
}

static void test_an_uncommitted_write_dies_with_its_leader(void)
{
    begin(3, 4);
    int old = s->leader;
    sim_server_isolate(s, old, 20000 * SIM_MS);
    sim_stranger_writes(s, &(struct sim_part){.op = ZKL__OP_CREATE, .path = sim_path_of(s, "/", "lost")});
    CU_ASSERT_EQUAL(s->proposed, s->committed + 1);
    run_for(12000);
    CU_ASSERT_NOT_EQUAL(s->leader, old);
    CU_ASSERT_EQUAL(sim_node_at(s, sim_path_of(s, "/", "lost"), SIM_HEAD), -1);
    run_for(12000);
    CU_ASSERT_EQUAL(s->servers[old].role, SIM_FOLLOWING);
    CU_ASSERT_EQUAL(s->servers[old].applied, s->committed);
}

static void test_a_new_leader_gives_sessions_their_whole_timeout(void)
{
    begin(3, 1);
    int session = s->clients[0].handle.session;
    sim_process_pause(s, &s->clients[0].paused_until, 60000 * SIM_MS);
    run_for(2000);
    int64_t killed = sim_now(s);
    sim_server_kill(s, s->leader, 30000 * SIM_MS);
    run_for(2000);
    CU_ASSERT(s->leader >= 0);
    CU_ASSERT(s->sessions[session].deadline > killed + plan.timeout);
}

TESTS("sim ensemble", T(test_a_list_behind_a_create_shows_it), T(test_a_read_behind_a_write_may_be_newer),
      T(test_a_read_behind_a_sync_may_be_newer), T(test_a_read_never_sees_the_next_write), T(test_errors),
      T(test_a_multi_is_all_or_nothing), T(test_the_counter_sticks), T(test_the_counter_wraps_for_those_behind),
      T(test_expiry_is_learnt_on_reconnect), T(test_a_session_never_expires_early), T(test_touches_ride_on_pings_only),
      T(test_a_stale_follower_serves_reads), T(test_writes_through_a_left_server_are_refused),
      T(test_nobody_reconnects_into_the_past), T(test_a_watch_comes_before_the_answer),
      T(test_a_watch_outlives_a_reconnect), T(test_sync_waits_for_what_is_proposed),
      T(test_an_uncommitted_write_dies_with_its_leader), T(test_a_new_leader_gives_sessions_their_whole_timeout))
