/* sim.h - the world of one run: clock, ensemble, client processes. Everything is in one struct of fixed size, so a run
 * allocates nothing, is reset by forgetting, and can be copied as a whole. */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include <assert.h>

#include "../lib/core_facts.h"
#include "../lib/dice.h"
#include "client.h"
#include "ensemble.h"
#include "plan.h"

/* What can happen: one slot each, due at a time or never. The next event is the earliest slot; equal times are ordered by a
 * number that each slot rolls per run. */
enum {
    SLOT_TO_SERVER, /* + conn: the server reads a message */
    SLOT_TO_CLIENT = SLOT_TO_SERVER + SIM_CONNS,
    SLOT_TO_LEADER = SLOT_TO_CLIENT + SIM_CONNS, /* + server */
    SLOT_FROM_LEADER = SLOT_TO_LEADER + SIM_SERVERS,
    SLOT_TICK = SLOT_FROM_LEADER + SIM_SERVERS,
    SLOT_ANSWER = SLOT_TICK + SIM_SERVERS, /* the follower's answer to a ping leaves */
    SLOT_EXPIRY = SLOT_ANSWER + SIM_SERVERS,
    SLOT_ELECTION,
    SLOT_FAULT,
    SLOT_LIBRARY,                                         /* + client: connect, time out, ping */
    SLOT_INBOX = SLOT_LIBRARY + SIM_CLIENTS,              /* + client: the core is told the next thing */
    SLOT_TIMER = SLOT_INBOX + SIM_CLIENTS,                /* + client: zkl__core_next */
    SLOT_PROCESS = SLOT_TIMER + SIM_CLIENTS,              /* + client: starts again */
    SLOT_THREAD = SLOT_PROCESS + SIM_CLIENTS,             /* + client * SIM_THREADS + thread */
    SLOT_FIBER = SLOT_THREAD + SIM_CLIENTS * SIM_THREADS, /* + client * 2: shell/, the library's own threads */
    SLOT_PING = SLOT_FIBER + SIM_CLIENTS * 2,             /* + server: a follower pings the observers that follow it */
    SLOTS = SLOT_PING + SIM_SERVERS,
    SIM_LEAVES = 128
};
_Static_assert(SLOTS <= SIM_LEAVES, "the clock has a leaf per slot");

struct sim_clock {
    int64_t now;
    int64_t due[SIM_LEAVES];
    uint8_t tie[SIM_LEAVES];        /* among equal times; a permutation */
    uint8_t slot[SIM_LEAVES];       /* whose tie it is */
    uint64_t first[2 * SIM_LEAVES]; /* of each node of the tree over the slots, due << 7 | tie; [1] is the next event */
};
void sim_clock_init(struct sim_clock *clock, uint64_t seed);
void sim_clock_set(struct sim_clock *clock, int slot, int64_t due);
static inline int sim_clock_next(const struct sim_clock *clock)
{
    return clock->slot[clock->first[1] & (SIM_LEAVES - 1)];
}

enum { SIM_SYNCS = 64 };
struct sim_waiting_sync {
    int position, server, conn;
    uint32_t conn_serial;
    uint64_t id;
};

/* Instead of a bare core and app.c: the library's sessions and recipes, with threads (shell/). */
struct sim_shell {
    void (*begin)(struct sim *s);
    bool (*start)(struct sim *s, int client);
    void (*stop)(struct sim *s, int client); /* the process is gone */
    void (*due)(struct sim *s, int slot);    /* of INBOX, TIMER, THREAD, FIBER */
    void (*event)(struct sim *s, int client, const struct zkl__event *event);
    bool (*done)(const struct sim *s);
    void (*judge)(struct sim *s);
};

struct sim {
    /* of all runs */
    const struct sim_shell *shell; /* NULL: none */
    const char *without;           /* an invariant that does not count; NULL: none */
    FILE *trace;                   /* NULL: nobody reads it */
    bool story;                    /* told shorter */
    /* Tests of the ensemble alone, without a core: what the handles tell. */
    void (*listener)(struct sim *s, int client, const struct zkl__event *event);

    /* room, as much of it as is counted below */
    struct sim_txn log[SIM_TXNS];
    struct sim_effect effects[SIM_EFFECTS];
    struct sim_path paths[SIM_PATHS];
    int path_hash[SIM_PATHS * 2];
    struct sim_node nodes[SIM_NODES];
    struct sim_value values[SIM_VALUES];
    struct sim_part parts[SIM_PARTS];
    struct sim_session sessions[SIM_SESSIONS];
    struct sim_message messages[SIM_MESSAGES];
    char data[SIM_DATA]; /* contents of nodes */
    struct sim_client clients[SIM_CLIENTS];
    struct sim_attempt attempts[SIM_ACQUIRES];

    /* From here on all is zero when a run begins. */
    const struct sim_plan *plan;
    uint64_t seed;
    struct sim_clock clock;
    int64_t last_pause; /* its end */
    uint64_t steps;
    uint64_t hash; /* of every event, in order: equal for equal runs */

    /* the ensemble */
    int server_count, leader; /* -1: none that a majority follows */
    int voters;               /* the first so many servers; the others observe */
    int64_t tick;
    int64_t epoch, last_zxid;
    int proposed, committed; /* positions */
    int effect_count, path_count, node_count, value_count, part_count, session_count, message_count;
    struct sim_server servers[SIM_SERVERS];
    int64_t taken_at; /* when the leader took the sessions that it is expiring */
    struct sim_conn conns[SIM_CONNS];
    int conn_count; /* of them, that were ever used */
    uint32_t conn_serial, link_serial;
    struct sim_waiting_sync syncs[SIM_SYNCS];
    int sync_count;
    struct sim_message *free_messages;
    uint32_t data_used;

    /* the processes */
    int client_count, attempt_count;
    struct sim_thread threads[SIM_CLIENTS * SIM_THREADS];

    /* faults and judgement */
    struct sim_judge judge;
    struct sim_faults faults;
    bool stepping; /* inside a core's step */
    bool over;     /* what the plan wants is done: nobody starts any more */
    bool quick;    /* the network has become as fast as it can be */
};

/* In the order of their numbers; the children of a path that live at zxid in none. */
#define SIM_EACH_ATTEMPT(s, it) SIM_EACH (it, (s)->attempts, (s)->attempt_count)
#define SIM_EACH_ACQUIRE(plan, it) SIM_EACH (it, (plan)->acquires, (plan)->acquire_count)
#define SIM_EACH_NODE(s, it) SIM_EACH (it, (s)->nodes, (s)->node_count)
#define SIM_EACH_CHILD(s, node, dir, zxid)                                             \
    for (int node = sim_first_living(s, (s)->paths[dir].first_child, zxid); node >= 0; \
         node = sim_first_living(s, (s)->paths[(s)->nodes[node].path].sibling, zxid))
#define SIM_EACH(it, all, count) for (__auto_type it = &(all)[0]; it < (all) + (count); it++)

static inline int64_t sim_now(const struct sim *s)
{
    return s->clock.now;
}
/* The plan's fault of this index. */
static inline bool sim_has_struck(const struct sim *s, int index)
{
    return s->faults.struck >> index & 1;
}
/* Arms a slot; what belongs to a paused process waits until it goes on. */
void sim_arm(struct sim *s, int slot, int64_t due);

static inline int64_t sim_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static inline int64_t sim_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The next of those that there is room for. A run that needs more is a storm, and ends. */
static inline int sim_next_of(int *count, int room)
{
    assert(*count < room);
    return (*count)++;
}

struct sim_message *sim_message_new(struct sim *s, enum sim_message_kind kind);
struct sim_message *sim_message_copy(struct sim *s, const struct sim_message *message);
void sim_message_free(struct sim *s, struct sim_message *message);
void sim_channel_push(struct sim *s, struct sim_channel *channel, int slot, struct sim_message *message);
struct sim_message *sim_channel_pop(struct sim *s, struct sim_channel *channel, int slot);
/* Drops what is on its way but the first `keep`. */
void sim_channel_cut(struct sim *s, struct sim_channel *channel, int slot, int keep);
void sim_channel_rearm(struct sim *s, struct sim_channel *channel, int slot);

/* One line of the trace: the time, who, what. Does nothing when nobody reads it. */
#define sim_say(s, ...)                   \
    do {                                  \
        if ((s)->trace) {                 \
            sim_say_it((s), __VA_ARGS__); \
        }                                 \
    } while (0)
void sim_say_it(struct sim *s, const char *who, const char *format, ...) __attribute__((format(printf, 3, 4)));
static inline void sim_hash(struct sim *s, uint64_t value)
{
    s->hash = (s->hash ^ value) * 0x100000001b3u + (s->hash >> 29);
}

/* --- tree.c: what ensemble.c needs of it ---------------------------------------------------------------------------- */

#define SIM_HEAD (SIM_NEVER - 1) /* the zxid at which a leader looks when it checks a write */
void sim_tree_init(struct sim *s);
/* Carries out a part in the proposed tree; effects are appended. */
enum zkl__rc sim_tree_do(struct sim *s, struct sim_part *part, int session, int64_t zxid);
void sim_tree_close_session(struct sim *s, int session, int64_t zxid);
void sim_tree_commit(struct sim *s, const struct sim_txn *txn);
void sim_tree_undo(struct sim *s, int first_effect);
/* By the node's own list. */
bool sim_node_readable(const struct sim *s, int node, int client);
int64_t sim_tree_changed(const struct sim *s, int path, int64_t zxid, bool children);
/* The newest value at zxid. Of no node: one of nothing. */
const struct sim_value *sim_value_at(const struct sim *s, int node, int64_t zxid);

/* The session timeout that a server grants: its maxSessionTimeout may be shorter than what was asked for. */
int64_t sim_granted_timeout(const struct sim *s, int server);
int64_t sim_shorter_timeout(const struct sim *s); /* of those that grant less */

/* --- server.c: what ensemble.c needs of it -------------------------------------------------------------------------- */

/* ZooKeeper's number for it. */
int sim_zk_code(enum zkl__rc rc);
/* session: -1: of all. */
void sim_server_close_conns(struct sim *s, int server, int session);
void sim_server_fire(struct sim *s, int server, const struct sim_txn *txn);
void sim_server_answer(struct sim *s, const struct sim_txn *txn);
void sim_server_answer_sync(struct sim *s, const struct sim_message *message);
void sim_server_validated(struct sim *s, const struct sim_message *message);
int64_t sim_server_zxid(const struct sim *s, int server);
/* A batch of transactions is applied: what its sessions read behind their own writes. */
void sim_server_ends_batch(struct sim *s, int server);

/* One-shot watches, of a server's connection or of a client library: the bits that it had. */
void sim_watch_set(struct sim_watches *watches, enum zkl__op_kind op, int path, enum zkl__rc rc,
                   unsigned absent); /* by a reply; absent: of an exists that found nothing */
unsigned sim_watch_take(struct sim_watches *watches, int path, unsigned bits);

/* --- ensemble.c: what server.c needs of it -------------------------------------------------------------------------- */

void sim_leader_takes(struct sim *s, int from, const struct sim_message *request);
/* -1: not a session any more. */
int sim_leader_validates(struct sim *s, int from, int session);
/* Who was heard by this server, whose connections have its own timeouts (LearnerSessionTracker.touchSession). */
void sim_leader_touch(struct sim *s, int session, int64_t timeout);
void sim_touches_add(struct sim_touches *touches, struct sim_touches later);
void sim_server_heard(struct sim *s, int server, int session, int by); /* by: itself, or an observer that follows it */
/* A new leader's whole log is committed. */
void sim_commit_all(struct sim *s);
void sim_to_leader(struct sim *s, int server, struct sim_message *message);
void sim_to_follower(struct sim *s, int server, struct sim_message *message);
void sim_master_starts(struct sim *s, int server);
static inline bool sim_observes(const struct sim *s, int server)
{
    return server >= s->voters;
}
/* Whom the server follows: the leader, or the follower that is this observer's master. -1: nobody. */
static inline int sim_master_of(const struct sim *s, int server)
{
    return s->servers[server].master >= 0 ? s->servers[server].master : s->leader;
}

/* The path in which the node stands. */
static inline int sim_dir_of(const struct sim *s, int node)
{
    return s->paths[s->nodes[node].path].parent;
}

/* It is there, for all that is committed. */
static inline bool sim_stands(const struct sim *s, int node)
{
    return node >= 0 && s->nodes[node].dzxid > sim_committed_zxid(s);
}

#endif
