/* faults.c - when faults strike, and what they do. A fault ends when its plan heals, at the latest. */

#include "invariants.h"
#include "name.h"
#include "sim.h"

static int64_t until_heal(const struct sim *s, int64_t duration)
{
    return sim_min(duration, sim_max(s->plan->heal - sim_now(s), 0));
}

/* --- strangers ------------------------------------------------------------------------------------------------------- */

/* Of the queue's living nodes those that look like a contender's. shell/: of those below that go with a session, wherever a recipe has
 * put them. How many. */
static int find_living(const struct sim *s, int dir, int *found)
{
    int count = 0;
    SIM_EACH_CHILD (s, node, dir, SIM_HEAD) {
        if (!s->shell && zkl__name_parse(sim_node_name(s, node)).kind != ZKL_KIND_FOREIGN) {
            found[count++] = s->nodes[node].path;
        }
    }
    size_t length = strlen(s->paths[dir].text);
    SIM_EACH_NODE (s, it) {
        const char *text = s->paths[it->path].text;
        if (s->shell && it->owner > SIM_STRANGER && it->dzxid == SIM_NEVER &&
            memcmp(text, s->paths[dir].text, length) == 0 && text[length] == '/') {
            found[count++] = it->path;
        }
    }
    return count;
}

/* With the n-th of them. */
static void meddle(struct sim *s, enum zkl__op_kind op, int dir, int64_t n)
{
    int found[SIM_NODES], count = find_living(s, dir, found);
    if (count > 0) {
        s->faults.stranger = true;
        sim_stranger_writes(
            s, &(struct sim_part){.op = op, .path = found[n % count], .version = -1, .data = "x", .size = 1});
    }
}

/* The first in the queue, by number. */
static int first_contender(const struct sim *s, int dir)
{
    int first = -1;
    int32_t lowest = 0;
    SIM_EACH_CHILD (s, node, dir, SIM_HEAD) {
        struct zkl__name name = zkl__name_parse(sim_node_name(s, node));
        if (name.kind != ZKL_KIND_FOREIGN && (first < 0 || zkl__sequence_diff(name.sequence, lowest) < 0)) {
            first = s->nodes[node].path;
            lowest = name.sequence;
        }
    }
    return first;
}

/* Curator's InterProcessReadWriteLock: a writer that holds makes itself a reader, an ephemeral node with the writer's own number, made
 * later than all who wait, and then deletes its write node. */
static void downgrade(struct sim *s, int dir)
{
    int first = first_contender(s, dir);
    if (first < 0 || !strstr(s->paths[first].text, "-__WRIT__") ||
        s->nodes[sim_node_at(s, first, SIM_HEAD)].owner != SIM_STRANGER) {
        return;
    }
    char text[SIM_PATH_TEXT];
    snprintf(text, sizeof text, "%s", s->paths[first].text);
    memcpy(strstr(text, "-__WRIT__"), "-__READ__", 9);
    int read = sim_path_of(s, text, NULL);
    sim_stranger_writes(s, &(struct sim_part){.op = ZKL__OP_CREATE, .path = read, .mode = ZKL__EPHEMERAL});
    sim_stranger_deletes(s, first);
}

/* Children that nobody of ours made: names that are none, names that lie, and contenders of other libraries. */
static void add_foreign(struct sim *s, int dir, int64_t kind)
{
    static const char *const names[][5] = {
        {"junk"},
        {"lock-"},
        {"_c_-lock-0000000001"},
        /* so many that they are looked at in a batch */
        {"lock--000000001", "lock--000000002", "__WRIT__-000000003", "-lease--000000003", "lock--000000004"},
        {"_c_2f0c9aa7-0000-0000-0000-00000000000-lock-0000000001"},
        {"lock-0000000000"},
        {"_c_11111111-2222-4333-8444-555555555555-__WRIT__"},
    };
    if (kind == 7) {
        downgrade(s, dir);
        return;
    }
    enum zkl__create_mode mode = kind == 6 ? ZKL__EPHEMERAL_SEQUENTIAL : ZKL__PERSISTENT;
    for (int i = 0; i < 5 && names[kind][i]; i++) {
        int path = sim_path_of(s, s->paths[dir].text, names[kind][i]);
        sim_stranger_writes(s, &(struct sim_part){.op = ZKL__OP_CREATE, .path = path, .mode = mode});
    }
}

/* Other libraries' contenders go, at the latest, when the plan heals; names that are nobody's place stay. False: some of them may
 * still stand, since a leader that is deposed takes along what it has only proposed. */
static bool remove_foreign(struct sim *s)
{
    bool gone = true;
    SIM_EACH_NODE (s, it) {
        if (it->by_stranger && it->owner == SIM_STRANGER && it->dzxid > sim_committed_zxid(s)) {
            gone = false;
            if (it->dzxid == SIM_NEVER) {
                sim_stranger_deletes(s, it->path);
            }
        }
    }
    return gone;
}

/* --- striking -------------------------------------------------------------------------------------------------------- */

static void cut(struct sim *s, int client, enum sim_fault_kind kind)
{
    struct sim_handle *handle = &s->clients[client].handle;
    if (handle->conn < 0) {
        return;
    }
    int sent = s->conns[handle->conn].to_server.count;
    int some = (int)(dice_at(s->seed, SLOT_FAULT, s->steps) % (sent + 1));
    sim_handle_cut(s, client, kind == SIM_LOSE_REPLIES ? sent : kind == SIM_LOSE_REQUESTS ? 0 : some);
}

static void hold_client(struct sim *s, int client, bool up, int64_t duration)
{
    struct sim_client *it = &s->clients[client];
    *(up ? &it->held_up_until : &it->held_down_until) = sim_now(s) + duration;
    int conn = it->handle.conn, slot = up ? SLOT_TO_SERVER : SLOT_TO_CLIENT;
    if (conn >= 0) {
        sim_channel_hold(s, up ? &s->conns[conn].to_server : &s->conns[conn].to_client, slot + conn, duration);
    }
}

static void pause_server(struct sim *s, int server, int64_t duration)
{
    if (server == s->leader) {
        /* Two freezes on either side of one ping would make one long one. */
        if (sim_now(s) - s->faults.last_leader_pause < 2 * s->tick && s->faults.last_leader_pause > 0) {
            return;
        }
        s->faults.last_leader_pause = sim_now(s) + duration;
        s->faults.beyond = s->faults.beyond || duration > s->plan->pause;
    }
    sim_process_pause(s, &s->servers[server].paused_until, duration);
}

static void strike_queue(struct sim *s, const struct sim_fault *it, int queue)
{
    int dir = sim_path_of(s, sim_plan_path(queue), NULL);
    if (!s->shell && sim_path_is_semaphore(s->plan, queue) &&
        (it->kind == SIM_DELETE_NODE || it->kind == SIM_WRITE_NODE)) {
        dir = sim_path_of(s, sim_semaphore_folder(queue, it->value % 2), NULL);
    }
    switch (it->kind) {
    case SIM_DELETE_NODE:
        meddle(s, ZKL__OP_DELETE, dir, it->value);
        break;
    case SIM_WRITE_NODE:
        meddle(s, ZKL__OP_SET, dir, it->value);
        break;
    case SIM_FOREIGN:
        add_foreign(s, dir, it->value % 8);
        break;
    case SIM_DENY:
        s->paths[dir].denied = (uint32_t)it->value;
        break;
    case SIM_RESIZE:
        if (sim_node_at(s, dir, SIM_HEAD) >= 0) { /* somebody has made the path */
            sim_stranger_writes(
                s,
                &(struct sim_part){
                    .op = ZKL__OP_SET, .path = dir, .version = -1, .data = &"0123456789"[it->value % 10], .size = 1});
        }
        break;
    default: /* containers that may be reaped are */
        SIM_EACH_NODE (s, node) {
            if (node->container && node->dzxid == SIM_NEVER && node->cversion != 0 &&
                sim_child_count(s, node->path, SIM_HEAD) == 0) {
                sim_stranger_deletes(s, node->path);
            }
        }
        break;
    }
}

/* How long what is sent may be late for it. Servers that were cut off may follow nobody for another while: five ticks. */
static void note_disturbance(struct sim *s, enum sim_fault_kind kind, int64_t duration)
{
    if (kind <= SIM_MOVE) {
        sim_judge_disturbed(s, 0);
    } else if (kind < SIM_HOLD_TO_LEADER || kind == SIM_PAUSE_CLIENT) {
        sim_judge_disturbed(s, duration);
    } else if (kind <= SIM_KILL_LEADER) {
        sim_judge_disturbed(s, duration + 7 * s->tick);
    } else if (kind >= SIM_DENY && kind <= SIM_REFUSE) {
        sim_judge_disturbed(s,
                            until_heal(s, SIM_NEVER) + 3 * SIM_SECOND); /* what was refused is tried again after that */
    }
}

static void strike(struct sim *s, int index, int client)
{
    const struct sim_fault *it = &s->plan->faults[index];
    s->faults.struck |= 1u << index;
    sim_say(s, "fault", "%s", sim_fault_name(it->kind));
    sim_hash(s, index + 77);
    int64_t duration = until_heal(s, it->value);
    note_disturbance(s, it->kind, duration);
    int server = (it->target < 0 ? (int)s->steps : it->target) % s->server_count;
    int target = it->target < 0 ? (int)sim_max(client, 0) : it->target % s->client_count;
    struct sim_client *victim = &s->clients[target];
    switch (it->kind) {
    case SIM_MOVE:
        victim->handle.server = (int)(it->value % s->server_count);
        cut(s, target, it->kind);
        break;
    case SIM_LOSE_REPLIES:
    case SIM_LOSE_REQUESTS:
    case SIM_CUT:
        cut(s, target, it->kind);
        break;
    case SIM_HOLD_UP:
    case SIM_HOLD_DOWN:
        hold_client(s, target, it->kind == SIM_HOLD_UP, duration);
        break;
    case SIM_PAUSE_CLIENT:
        sim_process_pause(s, &victim->paused_until, duration);
        break;
    case SIM_CRASH:
        sim_process_crash(s, target, it->value);
        break;
    case SIM_EXPIRE:
        if (victim->handle.session >= 0) {
            s->faults.stranger = true;
            sim_stranger_closes(s, victim->handle.session);
        }
        break;
    case SIM_NO_MEMORY:
        victim->heap.fail_from = victim->heap.allocations;
        victim->heap.fail_count = it->value;
        break;
    case SIM_THROTTLE:
        victim->throttled = (int)it->value;
        break;
    case SIM_REFUSE:
        victim->refused = (int)it->value;
        break;
    case SIM_LOSE_TOUCH: /* LearnerSessionTracker: touchTable.get().put() races with getAndSet() */
        s->faults.beyond = true;
        s->servers[server].touched = (struct sim_touches){0};
        break;
    case SIM_HOLD_TO_LEADER:
        sim_channel_hold(s, &s->servers[server].to_leader, SLOT_TO_LEADER + server, duration);
        break;
    case SIM_HOLD_FROM_LEADER:
        sim_channel_hold(s, &s->servers[server].from_leader, SLOT_FROM_LEADER + server, duration);
        break;
    case SIM_ISOLATE:
        sim_server_isolate(s, server, duration);
        break;
    case SIM_PAUSE_SERVER:
        pause_server(s, server, server == s->leader ? sim_min(duration, s->plan->pause) : duration);
        break;
    case SIM_KILL_SERVER:
        sim_server_kill(s, server, duration);
        break;
    case SIM_PAUSE_LEADER:
        if (s->leader >= 0) {
            pause_server(s, s->leader, duration);
        }
        break;
    case SIM_KILL_LEADER:
        if (s->leader >= 0) {
            sim_server_kill(s, s->leader, duration);
        }
        break;
    default:
        strike_queue(s, it, target % s->plan->paths);
        break;
    }
}

/* --- when ------------------------------------------------------------------------------------------------------------ */

void sim_faults_arm(struct sim *s)
{
    int64_t due = s->faults.healed ? SIM_NEVER : s->plan->heal;
    for (int i = 0; i < s->plan->fault_count; i++) {
        const struct sim_fault *it = &s->plan->faults[i];
        if (it->trigger == SIM_AT && !sim_has_struck(s, i) && it->when < due) {
            due = it->when;
        }
    }
    sim_clock_set(&s->clock, SLOT_FAULT, s->faults.deferred_count ? sim_now(s) : due);
}

static void heal(struct sim *s)
{
    sim_say(s, "fault", "everything heals");
    s->faults.healed = true;
    SIM_EACH (path, s->paths, s->path_count) {
        path->denied = 0;
    }
    SIM_EACH (client, s->clients, s->client_count) {
        client->heap.fail_from = -1;
        client->throttled = 0;
        client->refused = 0;
    }
    s->faults.to_clean = true;
}

void sim_faults_on(struct sim *s, enum sim_trigger trigger, int client)
{
    int64_t seen = ++s->faults.seen[trigger];
    if (s->faults.healed) {
        return;
    }
    for (int i = 0; i < s->plan->fault_count; i++) {
        const struct sim_fault *it = &s->plan->faults[i];
        if (it->trigger != trigger || it->when != seen || sim_has_struck(s, i)) {
            continue;
        }
        if (trigger == SIM_ON_REPLY || trigger == SIM_ON_CONNECT) {
            strike(s, i, client);
        } else { /* in the middle of something: next */
            s->faults.struck |= 1u << i;
            s->faults.deferred[s->faults.deferred_count] = i;
            s->faults.deferred_client[s->faults.deferred_count++] = client;
            sim_clock_set(&s->clock, SLOT_FAULT, sim_now(s));
        }
    }
}

void sim_faults_due(struct sim *s)
{
    int count = s->faults.deferred_count;
    s->faults.deferred_count = 0;
    for (int i = 0; i < count; i++) {
        strike(s, s->faults.deferred[i], s->faults.deferred_client[i]);
    }
    for (int i = 0; i < s->plan->fault_count && !s->faults.healed; i++) {
        const struct sim_fault *it = &s->plan->faults[i];
        if (it->trigger == SIM_AT && !sim_has_struck(s, i) && it->when <= sim_now(s)) {
            strike(s, i, -1);
        }
    }
    if (!s->faults.healed && sim_now(s) >= s->plan->heal) {
        heal(s);
    }
    s->faults.to_clean = s->faults.to_clean && !remove_foreign(s);
    sim_faults_arm(s);
    if (s->faults.to_clean) {
        sim_clock_set(&s->clock, SLOT_FAULT, sim_now(s) + s->tick);
    }
}
