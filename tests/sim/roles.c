/* roles.c - who leads and who follows: pings, timeouts of links, elections, servers that die, stall or are cut off. */

#include "invariants.h"

enum { SYNC_LIMIT = 5 }; /* ticks; zoo.cfg's syncLimit, its usual value */

static int64_t patience(const struct sim *s)
{
    return SYNC_LIMIT * s->tick;
}

static bool reachable(const struct sim *s, int server)
{
    const struct sim_server *it = &s->servers[server];
    return it->role != SIM_DOWN && sim_now(s) >= it->isolated_until && sim_now(s) >= it->paused_until;
}

static int64_t roll(const struct sim *s, int server, int64_t most)
{
    return 1 + dice_at(s->seed, SLOT_TICK + server, s->steps) % most;
}

static void tick_in(struct sim *s, int server, int64_t delay)
{
    sim_arm(s, SLOT_TICK + server, sim_now(s) + delay);
}

/* What was on its way is lost. */
static void cut_link(struct sim *s, int server)
{
    sim_channel_cut(s, &s->servers[server].to_leader, SLOT_TO_LEADER + server, 0);
    sim_channel_cut(s, &s->servers[server].from_leader, SLOT_FROM_LEADER + server, 0);
}

/* Both ends of a follower's link forget it. */
static void reset_link(struct sim *s, int server)
{
    struct sim_server *it = &s->servers[server];
    cut_link(s, server);
    it->to_leader.held_until = 0;
    it->from_leader.held_until = 0;
    it->link_serial = ++s->link_serial;
    it->touched = (struct sim_touches){0};
    it->heard_leader = sim_now(s);
    sim_arm(s, SLOT_ANSWER + server, SIM_NEVER);
}

/* The links of a leader, or of an observers' master, break, with what was on its way. Followers that can be reached notice at once,
 * the others by their own patience; until then they serve. */
static void drop_followers(struct sim *s, int leader)
{
    for (int i = 0; i < s->server_count; i++) {
        struct sim_server *it = &s->servers[i];
        bool follows = it->role == SIM_FOLLOWING || it->role == SIM_JOINING;
        s->servers[leader].linked[i] = false;
        if (i == leader || !follows || sim_master_of(s, i) != leader) {
            continue;
        }
        cut_link(s, i);
        if (sim_now(s) >= it->isolated_until && sim_now(s) >= s->servers[leader].isolated_until) {
            it->heard_leader = sim_now(s) - patience(s);
            tick_in(s, i, roll(s, i, 5 * SIM_MS));
        }
    }
}

static void look(struct sim *s, int server)
{
    sim_say(s, "server", "%d looks for a leader", server);
    sim_judge_disturbed(s, 2 * s->tick);
    int master = sim_master_of(s, server);
    s->servers[server].role = SIM_LOOKING;
    sim_server_close_conns(s, server, -1);
    reset_link(s, server);
    if (master >= 0) {
        s->servers[master].linked[server] = false;
    }
    s->servers[server].master = -1;
    drop_followers(s, server); /* ObserverMaster.stop */
    tick_in(s, server, roll(s, server, s->tick / 4));
}

static void abdicate(struct sim *s, int server)
{
    sim_say(s, "server", "%d leads no more", server);
    sim_judge_disturbed(s, patience(s) + 2 * s->tick);
    if (s->leader == server) {
        drop_followers(s, server);
        s->leader = -1;
        s->sync_count = 0;
        sim_clock_set(&s->clock, SLOT_EXPIRY, SIM_NEVER);
    }
}

/* LearnerHandler.synced counts whole ticks, so a leader without a majority goes on for one tick longer than its followers. */
static int heard_lately(const struct sim *s, int server)
{
    int count = 1;
    for (int i = 0; i < s->voters; i++) {
        count += i != server && sim_now(s) - s->servers[server].heard[i] <= patience(s) + s->tick;
    }
    return count;
}

static int64_t ping_lateness(const struct sim *s, int server)
{
    uint64_t roll = dice_at(s->seed, SLOT_TICK + server, s->steps); /* often not, often as much as can be */
    int64_t late = (roll >> 40) % 3 == 0 ? s->plan->ping_late : (int64_t)(roll % (s->plan->ping_late + 1));
    return (roll >> 50) % 3 == 0 ? 0 : late;
}

static void lead(struct sim *s, int server)
{
    bool deposed = s->leader != server && sim_now(s) >= s->servers[server].isolated_until;
    if (deposed || 2 * heard_lately(s, server) <= s->voters) {
        abdicate(s, server);
        look(s, server);
        return;
    }
    if (s->leader == server) {
        for (int i = 0; i < s->server_count; i++) {
            if (s->servers[server].linked[i]) {
                sim_to_follower(s, i, sim_message_new(s, SIM_MSG_ASK));
            }
        }
    }
    tick_in(s, server, s->tick / 2 + ping_lateness(s, server));
}

/* ObserverMaster.ping: by a timer of the follower's own. */
void sim_master_pings(struct sim *s, int server)
{
    sim_clock_set(&s->clock, SLOT_PING + server, SIM_NEVER);
    if (s->servers[server].role != SIM_FOLLOWING) {
        return;
    }
    for (int i = s->voters; i < s->server_count; i++) {
        if (s->servers[i].master == server && s->servers[server].linked[i]) {
            sim_to_follower(s, i, sim_message_new(s, SIM_MSG_ASK));
        }
    }
    sim_arm(s, SLOT_PING + server, sim_now(s) + s->tick / 2 + ping_lateness(s, server));
}

/* --- elections ------------------------------------------------------------------------------------------------------ */

static int electors(const struct sim *s)
{
    int count = 0;
    for (int i = 0; i < s->voters; i++) {
        count += s->servers[i].role == SIM_LOOKING && reachable(s, i);
    }
    return count;
}

/* A voter in that role, from a random one on; of those who look for a leader one with the longest log. -1: none. */
static int some_voter(const struct sim *s, enum sim_role role, int slot)
{
    int best = -1, first = (int)(dice_at(s->seed, slot, s->steps) % s->voters);
    for (int i = 0; i < s->voters; i++) {
        int each = (first + i) % s->voters;
        bool better = best < 0 || (role == SIM_LOOKING && s->servers[each].logged > s->servers[best].logged);
        if (s->servers[each].role == role && reachable(s, each) && better) {
            best = each;
        }
    }
    return best;
}

/* A new leader's tracker gives every session that its log knows a whole timeout (SessionTrackerImpl's constructor). */
static void restart_sessions(struct sim *s)
{
    for (int i = 0; i < s->session_count; i++) {
        struct sim_session *session = &s->sessions[i];
        if (session->ended || i == SIM_STRANGER) {
            continue;
        }
        session->owner = -1;
        session->by_operator = false;
        session->closing = !session->committed;
        session->ended = !session->committed;
        session->ended_position = 0;
        session->taken = false;
        session->decided = session->committed ? SIM_NEVER : sim_now(s);
        if (session->committed) {
            sim_leader_touch(s, i, session->timeout); /* what it was made with */
        }
    }
}

/* FollowerZooKeeperServer's ObserverMaster: its timer begins when it starts to follow. */
void sim_master_starts(struct sim *s, int server)
{
    if (s->plan->masters && !sim_observes(s, server)) {
        sim_arm(s, SLOT_PING + server, sim_now(s) + s->tick / 2);
    }
}

void sim_election(struct sim *s)
{
    sim_clock_set(&s->clock, SLOT_ELECTION, SIM_NEVER);
    if (2 * electors(s) <= s->voters) {
        return;
    }
    int server = some_voter(s, SIM_LOOKING, SLOT_ELECTION);
    int cut = s->servers[server].logged;
    assert(cut >= s->committed);
    if (s->proposed > cut) {
        sim_tree_undo(s, s->log[cut].first_effect);
        s->proposed = cut;
    }
    if (s->leader >= 0) {
        drop_followers(s, s->leader); /* those that still follow the deposed one */
    }
    s->leader = server;
    s->last_zxid = ++s->epoch << 32;
    s->sync_count = 0;
    sim_commit_all(s);
    struct sim_server *leader = &s->servers[server];
    for (int i = 0; i < s->server_count; i++) {
        struct sim_server *it = &s->servers[i];
        it->logged = (int)sim_min(it->logged, cut);
        leader->heard[i] = sim_now(s);
        leader->linked[i] = i != server && !sim_observes(s, i) && it->role == SIM_LOOKING && reachable(s, i);
        if (leader->linked[i]) {
            reset_link(s, i);
            it->role = SIM_FOLLOWING;
            it->logged = it->applied = cut;
            tick_in(s, i, patience(s));
            sim_master_starts(s, i);
        }
    }
    leader->role = SIM_LEADING;
    leader->applied = cut;
    restart_sessions(s);
    tick_in(s, server, s->tick / 2);
    sim_say(s, "server", "%d leads", server);
    sim_judge_disturbed(s, patience(s) + 2 * s->tick); /* until then somebody may follow the last one */
}

static bool find_master(struct sim *s, int server)
{
    s->servers[server].master = -1;
    if (sim_observes(s, server) && s->plan->masters) {
        s->servers[server].master = some_voter(s, SIM_FOLLOWING, SLOT_PING);
        return s->servers[server].master >= 0;
    }
    return s->leader >= 0 && s->servers[s->leader].role == SIM_LEADING && reachable(s, s->leader);
}

static void search(struct sim *s, int server)
{
    struct sim_server *it = &s->servers[server];
    if (reachable(s, server) && find_master(s, server)) {
        reset_link(s, server);
        it->role = SIM_JOINING;
        sim_to_leader(s, server, sim_message_new(s, SIM_MSG_JOIN));
        tick_in(s, server, patience(s));
        return;
    }
    if (2 * electors(s) > s->voters && s->clock.due[SLOT_ELECTION] == SIM_NEVER) {
        sim_clock_set(&s->clock, SLOT_ELECTION, sim_now(s) + roll(s, server, s->tick / 2));
    }
    tick_in(s, server, s->tick / 8 + roll(s, server, s->tick / 8));
}

void sim_server_ticks(struct sim *s, int server)
{
    struct sim_server *it = &s->servers[server];
    switch (it->role) {
    case SIM_DOWN:
        look(s, server);
        break;
    case SIM_LOOKING:
        search(s, server);
        break;
    case SIM_LEADING:
        lead(s, server);
        break;
    case SIM_JOINING:
    case SIM_FOLLOWING:
        if (sim_now(s) - it->heard_leader >= patience(s)) {
            look(s, server);
        } else {
            sim_arm(s, SLOT_TICK + server, it->heard_leader + patience(s));
        }
        break;
    }
}

/* --- what befalls them ---------------------------------------------------------------------------------------------- */

void sim_server_kill(struct sim *s, int server, int64_t down_for)
{
    struct sim_server *it = &s->servers[server];
    if (it->role == SIM_DOWN || s->server_count == 1) {
        return;
    }
    bool led = it->role == SIM_LEADING;
    sim_say(s, "server", "%d dies", server);
    for (int i = 0; i < s->conn_count; i++) {
        if (s->conns[i].server == server && s->conns[i].server_open) {
            sim_channel_cut(s, &s->conns[i].to_client, SLOT_TO_CLIENT + i, 0);
        }
    }
    if (led) {
        abdicate(s, server);
    }
    look(s, server);
    it->role = SIM_DOWN;
    it->paused_until = 0;
    tick_in(s, server, down_for);
}

void sim_server_isolate(struct sim *s, int server, int64_t duration)
{
    struct sim_server *it = &s->servers[server];
    it->isolated_until = sim_max(it->isolated_until, sim_now(s) + duration);
    for (int i = 0; i < s->server_count; i++) {
        if (i == server || s->leader == server || s->servers[i].master == server) {
            sim_channel_hold(s, &s->servers[i].to_leader, SLOT_TO_LEADER + i, duration);
            sim_channel_hold(s, &s->servers[i].from_leader, SLOT_FROM_LEADER + i, duration);
        }
    }
}

void sim_ensemble_start(struct sim *s)
{
    sim_tree_init(s);
    s->sessions[SIM_STRANGER] =
        (struct sim_session){.client = -1, .deadline = SIM_NEVER, .decided = SIM_NEVER, .committed = true, .owner = -1};
    s->session_count = 1;
    s->epoch = 1;
    s->last_zxid = s->epoch << 32;
    s->leader = (int)(dice_at(s->seed, SLOT_ELECTION, 0) % s->voters);
    struct sim_server *leader = &s->servers[s->leader];
    for (int i = 0; i < s->server_count; i++) {
        s->servers[i] = (struct sim_server){.role = SIM_FOLLOWING,
                                            .master = -1,
                                            .phase = dice_at(s->seed, SLOT_TICK, i) % s->tick,
                                            .link_serial = ++s->link_serial};
        tick_in(s, i, patience(s));
    }
    leader->role = SIM_LEADING;
    for (int i = 0; i < s->server_count; i++) {
        if (i != s->leader) {
            (void)find_master(s, i);
            s->servers[sim_master_of(s, i)].linked[i] = true;
        }
    }
    for (int i = 0; i < s->voters && s->plan->masters; i++) {
        sim_arm(s, SLOT_PING + i, 1 + dice_at(s->seed, SLOT_PING, i) % (s->tick / 2));
    }
    tick_in(s, s->leader, 1 + dice_at(s->seed, SLOT_TICK, 99) % (s->tick / 2));
}
