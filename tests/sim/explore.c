/* explore.c - every order of events, in a small world.
 *
 * The world: SERVERS, CLIENTS of one thread each, which acquire the one lock ACQUIRES times (each releases at once), all clocks the same,
 * no delays. What can happen at one time happens in every order; and FAULTS faults strike at every point: a connection lost with
 * what was on its way or without, a session closed by somebody, a node deleted by somebody. Time passes only when nothing else
 * can happen. Acknowledgements and proposals between servers are not reordered (their order shows nowhere), commits
 * reaching a follower are.
 *
 * WORDS:
 *   lingers      the locks linger, 100 ms
 *   walks        the leader takes its time to expire a session. The one fault is silence: the client's connection is lost with all
 *                that was sent, and it connects again when the leader's tracker takes its session to expire it, just before or just
 *                after. From then on the leader may come to the session at any time, after a session timeout at the latest
 *   semaphores   a permit each of two, instead of a lock. Of two orders of independent events one is tried (find_lonely)
 *
 * A world is known by the digest of all that it can still do (digest.c), and what follows it is tried once. Worlds are not kept but made
 * again, by running the choices that lead to them. With one server the clients are alike: of all orders in which they get their
 * sessions one is tried. */
#include "run.h"

#include "invariants.h"

enum { DEPTH = 4096, ROOM_MOST = 1 << 29, OPTIONS = SLOTS + 2 * SLOTS };

/* Open addressing; 0 is no hash. Of 64 bits nothing more is kept: among n worlds two have the same with a probability of
 * n * n / 2^65, for a hundred million less than 1 in 3,000, and then what follows one of them may be missed. */
struct table {
    uint64_t *hashes;
    uint64_t room, count;
};

struct explorer {
    struct sim *s;
    struct sim_plan plan;
    bool full;       /* no memory: not closed */
    bool reduces;    /* of orders that come to the same one is tried */
    int faults;      /* allowed */
    int faults_left; /* in this run */
    uint64_t runs, steps;
    int deepest; /* choices, at the most */
    struct {
        short taken, count;
    } choices[DEPTH];
    int depth; /* choices made in this run */
    int known; /* of them, given by the last run */
    struct table seen;
};

/* --- worlds ---------------------------------------------------------------------------------------------------------- */

/* Its place, or where it would stand. */
static uint64_t *find(const struct table *t, uint64_t hash)
{
    uint64_t at = hash & (t->room - 1);
    while (t->hashes[at] && t->hashes[at] != hash) {
        at = (at + 1) & (t->room - 1);
    }
    return &t->hashes[at];
}

/* Twice the room. No memory, or 4 GB are in use: the search ends here, not closed. */
static bool grow(struct table *t)
{
    struct table grown = {.room = t->room ? t->room * 2 : 1 << 16, .count = t->count};
    grown.hashes = t->room == ROOM_MOST ? NULL : calloc(grown.room, sizeof *grown.hashes);
    for (uint64_t i = 0; grown.hashes && i < t->room; i++) {
        if (t->hashes[i]) {
            *find(&grown, t->hashes[i]) = t->hashes[i];
        }
    }
    if (grown.hashes) {
        free(t->hashes);
        *t = grown;
    }
    return grown.hashes;
}

/* True when the world is new. */
static bool visit(struct explorer *e)
{
    struct table *t = &e->seen;
    uint64_t digest = sim_digest(e->s) + dice_mix(e->faults_left);
    digest = digest ? digest : 1;
    if (t->count >= t->room / 4 * 3 && !grow(t)) {
        e->full = true;
        return false;
    }
    uint64_t *at = find(t, digest);
    bool fresh = !*at;
    t->count += fresh;
    *at = digest;
    return fresh;
}

/* --- what can happen ------------------------------------------------------------------------------------------------- */

/* Between servers only a commit, or what stands behind one, shows in more than one order. */
static bool is_inner(const struct sim *s, int slot)
{
    if (slot < SLOT_TO_LEADER || slot >= SLOT_TICK) {
        return false;
    }
    const struct sim_server *server = &s->servers[(slot - SLOT_TO_LEADER) % SIM_SERVERS];
    enum sim_message_kind kind = (slot < SLOT_FROM_LEADER ? &server->to_leader : &server->from_leader)->head->kind;
    return kind == SIM_MSG_ACK || kind == SIM_MSG_HEARD || kind == SIM_MSG_PROPOSAL || kind == SIM_MSG_ASK;
}

/* The client has not begun to connect for the first time, or no server has read that it wants a session. */
static bool is_unheard(const struct sim *s, int client)
{
    const struct sim_handle *handle = &s->clients[client].handle;
    return s->clients[client].incarnation == 1 && handle->session < 0 &&
           (handle->conn < 0 || s->conns[handle->conn].to_server.head);
}

/* Clients of one server are alike, so they get their sessions in one order only: every other is the same world under other names. */
static bool is_renamed(const struct sim *s, int slot)
{
    bool reads = slot < SLOT_TO_CLIENT;
    bool begins = slot >= SLOT_LIBRARY && slot < SLOT_INBOX;
    if (s->server_count > 1 || !(reads || begins)) {
        return false;
    }
    int client = reads ? s->conns[slot].client : slot - SLOT_LIBRARY;
    for (int lower = 0; lower < client && is_unheard(s, client); lower++) {
        if (is_unheard(s, lower)) {
            return true;
        }
    }
    return false;
}

/* The client that the event belongs to; -1: a server. */
static int client_of(const struct sim *s, int slot)
{
    if (slot >= SLOT_TO_CLIENT && slot < SLOT_TO_LEADER) {
        return s->conns[slot - SLOT_TO_CLIENT].client;
    }
    if (slot >= SLOT_LIBRARY && slot < SLOT_THREAD) {
        return (slot - SLOT_LIBRARY) % SIM_CLIENTS;
    }
    return slot >= SLOT_THREAD && slot < SLOT_FIBER ? (slot - SLOT_THREAD) / SIM_THREADS : -1;
}

/* A message to a client for which nothing else can happen just then changes that client alone, and what it makes it send stands behind
 * what it has sent before. So it changes no other event, and none changes it: of all orders of the two one is tried (a persistent set;
 * Godefroid, Partial-Order Methods for the Verification of Concurrent Systems). The judge loses nothing: an acquire is granted as early as
 * can be, and all orders of its release are tried. A fault may strike the message, so only when no more can. */
static int find_lonely(const struct sim *s, const int *options, int count)
{
    for (int i = 0; i < count; i++) {
        bool lonely = options[i] >= SLOT_TO_CLIENT && options[i] < SLOT_TO_LEADER;
        for (int k = 0; k < count && lonely; k++) {
            lonely = k == i || client_of(s, options[k]) != client_of(s, options[i]);
        }
        if (lonely) {
            return i;
        }
    }
    return -1;
}

/* The slots that are due at the earliest time. */
static int enabled(const struct sim *s, int *options)
{
    int64_t due = s->clock.due[sim_clock_next(&s->clock)];
    int count = 0;
    for (int slot = 0; slot < SLOTS; slot++) {
        if (slot % 8 == 0 && (int64_t)(s->clock.first[(SIM_LEAVES + slot) / 8] >> 7) > due) {
            slot += 7; /* none of the eight */
        } else if (s->clock.due[slot] == due && !is_renamed(s, slot)) {
            if (is_inner(s, slot)) {
                options[0] = slot;
                return 1;
            }
            options[count++] = slot;
        }
    }
    return count;
}

enum { CUT, CUT_AND_LOSE, CLOSE, DELETE, SILENCE, EXPIRE, KINDS };

/* NULL: the session has none. */
static const struct sim_node *node_of(const struct sim *s, int session)
{
    SIM_EACH_NODE (s, it) {
        if (it->owner == session && it->dzxid == SIM_NEVER) {
            return it;
        }
    }
    return NULL;
}

/* One that would do nothing, or the same as another, is left out. */
static bool tells(const struct explorer *e, const struct sim_handle *handle, int kind)
{
    const struct sim *s = e->s;
    const struct sim_session *session = handle->session < 0 ? NULL : &s->sessions[handle->session];
    if (kind == EXPIRE) { /* no fault of its own */
        return session && session->taken && !session->closing;
    }
    if (e->faults_left == 0 || handle->state != SIM_HANDLE_CONNECTED || (kind == SILENCE) != (e->plan.walk > 0)) {
        return false;
    }
    return kind == CUT_AND_LOSE ? s->conns[handle->conn].to_server.count > 0
                                : kind != DELETE || node_of(s, handle->session);
}

static int add_faults(const struct explorer *e, int *options, int count)
{
    for (int client = 0; client < e->plan.clients; client++) {
        for (int kind = 0; kind < KINDS; kind++) {
            if (tells(e, &e->s->clients[client].handle, kind)) {
                options[count++] = SLOTS + KINDS * client + kind;
            }
        }
    }
    return count;
}

static void strike(struct explorer *e, int option)
{
    struct sim *s = e->s;
    int client = option / KINDS, kind = option % KINDS, session = s->clients[client].handle.session;
    sim_say(s, "fault", "%d of client %d", kind, client);
    if (kind == EXPIRE) {
        s->sessions[session].turn = sim_now(s);
        sim_leader_expires(s);
        return;
    }
    e->faults_left--;
    s->faults.struck = 1;
    if (kind != CLOSE && kind != DELETE) {
        sim_handle_cut(s, client, kind == CUT ? SIM_MESSAGES : 0);
        if (kind == SILENCE) {
            sim_arm(s, SLOT_LIBRARY + client, s->sessions[session].deadline);
        }
        return;
    }
    s->faults.stranger = true;
    if (kind == CLOSE) {
        sim_stranger_closes(s, session);
    } else {
        sim_stranger_deletes(s, node_of(s, session)->path);
    }
}

/* --- one run --------------------------------------------------------------------------------------------------------- */

/* True: went to an end. False: came to a world that was seen before. */
static bool run(struct explorer *e)
{
    struct sim *s = e->s;
    int options[OPTIONS];
    while (!sim_app_done(s) && !s->judge.failed) {
        int count = enabled(s, options),
            lonely = e->reduces && e->faults_left == 0 ? find_lonely(s, options, count) : -1;
        if (lonely >= 0) {
            options[0] = options[lonely];
            count = 1;
        }
        count = add_faults(e, options, count);
        if (count > 1 && e->depth >= e->known && !visit(e)) {
            return false;
        }
        int option = options[0];
        if (count > 1) { /* as in the last run, or the first one there is */
            if (e->depth == DEPTH) {
                sim_fail(s, "storm", "too many choices");
                return true;
            }
            if (e->depth >= e->known) {
                e->choices[e->depth].taken = 0;
                e->choices[e->depth].count = (short)count;
            }
            option = options[e->choices[e->depth++].taken];
        }
        if (option >= SLOTS) {
            strike(e, option - SLOTS);
            continue;
        }
        e->steps++;
        if (!sim_step_slot(s, option)) { /* nothing will happen any more */
            return true;
        }
        if (sim_now(s) > 20 * e->plan.timeout) {
            sim_fail(s, "liveness", "not all acquires have ended");
        }
    }
    return s->judge.failed || visit(e);
}

static void plan_world(struct sim_plan *plan, char **scope, const char *words)
{
    int acquires = atoi(scope[2]);
    bool semaphores = strstr(words, "semaphores");
    *plan = (struct sim_plan){.servers = atoi(scope[0]),
                              .clients = atoi(scope[1]),
                              .paths = 1,
                              .tick = 1000 * SIM_MS,
                              .timeout = 4000 * SIM_MS,
                              .pause = 250 * SIM_MS,
                              .walk = strstr(words, "walks") ? 4000 * SIM_MS : 0,
                              .sequence = !semaphores, /* the directory is there */
                              .folders = semaphores};
    for (int i = 0; i < plan->clients * acquires; i++) {
        plan->acquires[plan->acquire_count++] =
            (struct sim_acquire){.client = i / acquires,
                                 .timeout = -1,
                                 .cancel = -1,
                                 .linger = strstr(words, "lingers") ? 100 * SIM_MS /* less than a heartbeat */ : 0,
                                 .recipe = semaphores ? SIM_SEMAPHORE : SIM_BY_SEED,
                                 .permits = 1};
    }
}

/* The last choice that has another answer. False: all were tried. */
static bool next_path(struct explorer *e)
{
    while (e->depth > 0) {
        e->depth--;
        if (e->choices[e->depth].taken + 1 < e->choices[e->depth].count) {
            e->choices[e->depth].taken++;
            e->known = e->depth + 1;
            return true;
        }
    }
    return false;
}

/* One run to its end, or to a world that was seen. False: something is violated. */
static bool explore_once(struct explorer *e, FILE *trace)
{
    struct sim *s = e->s;
    e->depth = 0;
    e->faults_left = e->faults;
    sim_begin(s, &e->plan, 1, trace);
    if (run(e)) {
        sim_finish(s, !s->judge.failed);
    } else {
        sim_abandon(s);
    }
    return !s->judge.failed;
}

int sim_explore(struct sim *s, char **scope, const char *words)
{
    static struct explorer explorer;
    struct explorer *e = &explorer;
    *e = (struct explorer){.s = s, .reduces = strstr(words, "semaphores"), .faults = atoi(scope[3])};
    plan_world(&e->plan, scope, words);
    SIM_EACH (client, s->clients, e->plan.clients) {
        e->full = e->full || !sim_heap_mapped(&client->heap);
    }
    bool more = true, fine = true;
    while (more && fine && !e->full) {
        fine = explore_once(e, NULL);
        e->runs++;
        e->deepest = (int)sim_max(e->deepest, e->depth);
        more = fine && next_path(e);
    }
    if (!fine) { /* once more, told */
        e->known = e->depth;
        explore_once(e, stdout);
    }
    printf("%s servers, %s clients, %s acquires each, %s faults: %" PRIu64 " worlds, %" PRIu64 " runs, %" PRIu64
           " steps, %d choices deep: %s\n",
           scope[0], scope[1], scope[2], scope[3], e->seen.count, e->runs, e->steps, e->deepest,
           !fine     ? s->judge.verdict
           : e->full ? "not closed: no memory"
                     : "closed, nothing violated");
    free(e->seen.hashes);
    return !fine || e->full;
}
