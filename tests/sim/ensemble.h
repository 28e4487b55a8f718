/* ensemble.h - a simulated ZooKeeper ensemble: what it does, written before it was written.
 *
 * One process, one thread, virtual time in ns, one event per step. Everything that the real servers do and that a lock can
 * notice is in here; what a lock cannot notice (bytes on the wire, snapshots, fsync) is not. Java names in parentheses
 * are those of ZooKeeper 3.8.0, the release modelled.
 *
 * THE LOG. There is one, a sequence of transactions; a server is a pair of positions in it: `logged` (has it) and `applied`
 * (shows it). Znodes are kept once, with the zxid of their birth and of their death, so "the tree of server s" is "what lives at s's
 * applied zxid" and a lagging server costs nothing. Every write is a transaction, one that failed too (OpCode.error). The leader
 * checks a write against everything proposed so far (outstandingChanges), proposes it, and commits it when a
 * majority has acknowledged it; a follower applies on COMMIT. Transactions that no majority has when the leader
 * changes may be undone: they are, when the new leader lacks them.
 *
 * SERVERS. One leads, the others follow, each over a link of two ordered channels; anything may be delayed or held for any time in
 * either direction, nothing overtakes. A follower that hears nothing for syncLimit ticks gives the leader up: it closes its
 * clients' connections and looks for a leader. A leader that hears of no majority for syncLimit ticks does the same. Until
 * then both go on serving reads, and the follower pings: this is the stale follower. A majority of looking servers
 * elects the one with the longest log; its whole log is committed; all sessions get a fresh timeout from it
 * (SessionTrackerImpl's constructor); a follower serves again once it has caught up with what was then committed.
 *
 * OBSERVERS have no vote. One follows the leader, or, where the plan says so, a follower that has an observerMasterPort. Its link is
 * then to that follower: it hears of what the follower has applied, its requests, syncs and revalidations pass through
 * (ObserverMaster, FollowerZooKeeperServer.processObserverRequest), and the follower pings it by a timer of its own. The answer to
 * such a ping is noted by the follower only (ObserverMaster.touch, LearnerSessionTracker), and goes on with its next answer to the
 * leader: two hops. A session's owner is the server that it is connected to; the real leader knows only the master, and would
 * take a late request of a session that has moved between the two.
 *
 * CLIENT CONNECTIONS. Two ordered channels each. Reads are answered from the applied prefix of the server connected to;
 * writes go through the leader; the answers of one session come in order, so a read waits behind the session's own pending
 * writes (CommitProcessor). In some plans a server applies all transactions that have come before it
 * answers such reads (CommitProcessor.run: the queue of commits is emptied first, then the sessions'
 * queues, up to the next write of the same session). A list sent together with a create is then newer
 * than the create, and what happened in between was told before it; so is one behind a sync to a follower. `sync` behind a follower goes to
 * the leader, which answers it at once when nothing is proposed
 * and not committed, else after that (Leader.processSync): it is no quorum operation. On the leader `sync` is a read (matchSyncs
 * false). A write of a session that is closing answers SESSIONEXPIRED; one that arrives through a server that the
 * session has left is refused (SESSIONMOVED) and its connection closed (FinalRequestProcessor).
 *
 * SESSIONS. The leader keeps the deadline of each: the end of the tick in which `touch + timeout` falls, so never earlier than
 * that (ExpiryQueue.roundToNextInterval). Touches are: a packet at the leader's own connection, a fresh session when it is proposed, a
 * reconnect when its REVALIDATE reaches the leader, and for a follower's clients the list of who was heard, which the follower sends
 * only with its answer to the leader's ping, every T/2 (Learner.ping). Between taking the list and sending it the follower may
 * be preempted. A forwarded request touches nothing. Past the deadline the leader takes all sessions of that tick out of its queue and
 * expires them one by one, which takes it time in some plans (plan.walk). Until its turn such a session is revalidated and touched, its
 * writes are committed, and it is expired all the same (SessionTrackerImpl.run, ExpiryQueue.poll). From its turn on it is closing
 * (nothing revives it), and a closeSession transaction removes its ephemeral nodes. The servers close its connection when they apply that; the client
 * learns of the expiry when it reconnects, not before.
 *
 * RECONNECT. A server whose applied zxid is behind what the client has seen refuses it. An older connection of the same session on the same
 * server is closed first. The new server asks the leader (REVALIDATE), who moves the session's owner. What an abandoned
 * connection had sent may still arrive, later, and meets SESSIONMOVED.
 *
 * WATCHES. One-shot, on the server connected to, told before any reply that shows the new state. After a reconnect the client sends
 * what it watches with the zxid of its last reply; the server fires at once what changed since: node gone, mzxid or pzxid
 * later than that, or created (DataTree.setWatches).
 *
 * NODES. Ephemeral, sequential, container. The number in a sequential name is the parent's count of creates as the next
 * transaction will find it; at 2147483647 the applied counter sticks (DataTree.createNode refuses the wrapped value) while
 * requests behind an unapplied one see it wrap to -2147483648. A container goes when it is empty and ever had a child; that is
 * checked again when the removal is proposed (ContainerManager, deleteContainer).
 *
 * ACCESS LISTS. An ephemeral node may be open, for its own process's sessions to read, or for nobody's. get, children and check
 * need READ; what happens to a node is told only to who may READ it, and the watch is used up all the same (WatchManager and
 * NIOServerCnxn.process, since CVE-2024-23944: 3.8.4, 3.9.2, Debian's 3.8.0), but not what SetWatches finds (DataTree.setWatches);
 * exists needs READ since ZOOKEEPER-2590 (3.8.4, 3.9.2). Which of these rules hold is the plan's. An operator may also take permissions on a
 * directory from everybody for a while (sim_path.denied): that refuses requests, and keeps no event back.
 *
 * PROCESSES. A server or a client process can be paused: nothing that is its own happens until it goes on, then everything that
 * was due happens, in any order that its channels allow.
 *
 * Not modelled: local sessions, quotas, TTL nodes, read-only mode, throttling (but see sim_handle: a reply may be
 * turned into NOTAPPLIED), reconfiguration. */
#ifndef SIM_ENSEMBLE_H
#define SIM_ENSEMBLE_H

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "store.h"
#include "op.h"

/* Session 0 is a stranger's, never expires, and owns what strangers make that is ephemeral. */
#define SIM_STRANGER 0
#define SIM_MS ((int64_t)1000000)
#define SIM_SECOND (1000 * SIM_MS)
#define SIM_NEVER INT64_MAX

/* Room of one run. Nothing is allocated while it runs; a run that needs more is a storm, and that is a failure too. */
enum {
    SIM_SERVERS = 5,
    SIM_CLIENTS = 6,
    SIM_CONNS = 16,
    SIM_SESSIONS = 64,
    SIM_PATHS = 2048, /* one for each try of a create, also of those that are refused for the whole of a plan */
    SIM_NODES = 768,
    SIM_VALUES = SIM_NODES + 512, /* one of each node, and those written */
    SIM_TXNS = 16384,
    SIM_EFFECTS = 2048,
    SIM_MESSAGES = 4096,
    SIM_PARTS = 1024,
    SIM_WATCHES = 96, /* of one connection */
    SIM_PATH_TEXT = 208,
    SIM_DATA = 65536
};

struct sim;

/* --- the tree ------------------------------------------------------------------------------------------------------- */

/* A path that was ever named. Its nodes are incarnations, newest first. */
struct sim_path {
    int parent, first_child, sibling; /* -1: none */
    int node;                         /* newest incarnation, -1: none ever */
    int next;                         /* of the same hash */
    int queue, leases;                /* whose directory it is, of a plan's; -1 */
    int dir_length;                   /* text + dir_length + 1 is the name; 0 for a child of the root */
    uint32_t denied;                  /* ZKL_PERM_ bits nobody has here: an operator's ACL */
    char text[SIM_PATH_TEXT];
};

/* Who may read a node. */
enum sim_readers { SIM_ANYBODY, SIM_OWN_PROCESS, SIM_NOBODY };

/* One incarnation: lives for readers at zxid z with czxid <= z < dzxid. */
struct sim_node {
    int path, older;
    int64_t czxid, dzxid; /* dzxid SIM_NEVER: alive */
    int owner;            /* session, -1: not ephemeral */
    bool container;
    bool by_stranger;
    enum sim_readers readers;
    bool taken;            /* deleted by an operator, or with a session that he closed */
    int value;             /* newest; the first is that of the node's own index */
    int32_t cversion;      /* children ever created, as applied: sticks at INT32_MAX */
    int32_t head_cversion; /* as the next proposal finds it, while head_zxid is not committed */
    int64_t head_zxid;
    int64_t born; /* true time of its commit */
    int64_t died; /* and of its end's */
    int end_told; /* watch events sent to others when it went, or changed */
};

struct sim_value {
    int64_t zxid, time;
    int older; /* -1: it is what the node was created with */
    int32_t version;
    uint32_t size;
    const void *data;
};

enum sim_effect_kind { SIM_CREATED, SIM_DELETED, SIM_CHANGED };
struct sim_effect {
    enum sim_effect_kind kind;
    int node;
    int parent;           /* its directory's node, -1: the directory's record was left alone */
    int32_t cversion;     /* of the parent, from then on */
    int32_t old_cversion; /* and before, to undo it */
    int64_t old_head_zxid;
};

/* --- the log -------------------------------------------------------------------------------------------------------- */

enum sim_txn_kind { SIM_TXN_OP, SIM_TXN_OPEN, SIM_TXN_CLOSE };
struct sim_txn {
    int64_t zxid;
    enum sim_txn_kind kind;
    enum zkl__rc rc; /* NOTAPPLIED: the session has moved */
    int session;
    int conn; /* where the answer goes, if that connection is still conn_serial; -1: nowhere */
    uint32_t conn_serial;
    int node;  /* made or meant; -1 */
    int parts; /* first of a multi's answers in sim.parts, -1 */
    int first_effect, effect_count;
    uint32_t acks; /* servers that have it */
};

/* A request as it travels; an answer of a multi's part. */
struct sim_part {
    enum zkl__op_kind op;
    enum zkl__create_mode mode;
    enum sim_readers readers;
    enum zkl__rc rc;
    int path; /* of a sequential create: the part before the digits */
    int node;
    int32_t version;
    const void *data;
    uint32_t size;
};

/* --- channels ------------------------------------------------------------------------------------------------------- */

enum sim_message_kind {
    /* client to server */
    SIM_MSG_CONNECT, /* session (-1: a new one), zxid: last seen, timeout */
    SIM_MSG_SETWATCHES,
    SIM_MSG_REQUEST, /* id, part, parts, part_count, watch */
    SIM_MSG_PING,
    SIM_MSG_CLOSE,
    SIM_MSG_EOF, /* either way */
    /* server to client */
    SIM_MSG_WELCOME, /* session, or -1: expired */
    SIM_MSG_REPLY,   /* id, rc, node, zxid: the tree as it was */
    SIM_MSG_EVENT,   /* path, event */
    SIM_MSG_PONG,
    /* follower to leader: a client's CONNECT, REQUEST, CLOSE, and */
    SIM_MSG_JOIN,
    SIM_MSG_ACK,        /* position */
    SIM_MSG_HEARD,      /* answer to a ping: touches */
    SIM_MSG_REVALIDATE, /* session, conn */
    /* leader to follower */
    SIM_MSG_JOINED,   /* position: committed */
    SIM_MSG_PROPOSAL, /* position */
    SIM_MSG_COMMIT,   /* position */
    SIM_MSG_ASK,      /* ping */
    SIM_MSG_SYNCED,   /* conn, id */
    SIM_MSG_VALID     /* conn, session or -1 */
};

/* Sessions, as bit sets: who was heard, and whom of them a server heard that grants the shorter timeout. The timeout travels with the touch,
 * through an observer's master too (QuorumPacket PING: pairs of session and timeout; ObserverMaster.touch). */
struct sim_touches {
    uint64_t all, shorter;
};

struct sim_message {
    struct sim_message *next;
    int64_t due;
    enum sim_message_kind kind;
    enum zkl__rc rc;
    int session, conn, position, path, node;
    int via; /* to the leader: the server that the client is connected to */
    uint32_t conn_serial;
    bool watch;
    bool answered; /* in a server's queue: the leader's word is here */
    uint8_t event;
    uint64_t id;
    int64_t zxid, timeout;
    struct sim_touches touches;
    struct sim_part part;
    int parts, part_count; /* of a multi: in sim.parts */
};

struct sim_channel {
    struct sim_message *head, *tail;
    int64_t last_due;
    int64_t held_until;
    uint32_t sent;
    int count;
};

/* --- servers -------------------------------------------------------------------------------------------------------- */

enum sim_watch_bits { SIM_WATCH_DATA = 1, SIM_WATCH_EXIST = 2, SIM_WATCH_CHILD = 4 };
struct sim_watch {
    int path;
    unsigned bits;
};
struct sim_watches {
    struct sim_watch all[SIM_WATCHES];
    int count;
};

struct sim_conn {
    uint32_t serial;
    int client, server;
    int session;      /* -1 until welcomed */
    bool client_open; /* the client has not given it up */
    bool server_open; /* nor the server */
    struct sim_channel to_server, to_client;
    struct sim_channel pending; /* server: requests not answered yet, in order */
    struct sim_watches watches;
};

enum sim_role { SIM_DOWN, SIM_LOOKING, SIM_JOINING, SIM_FOLLOWING, SIM_LEADING }; /* the last two serve */
struct sim_server {
    enum sim_role role;
    int logged, applied; /* positions: how many of the log */
    int64_t paused_until;
    int64_t isolated_until;     /* cut off from all other servers */
    int64_t heard_leader;       /* follower: when */
    int64_t heard[SIM_SERVERS]; /* leader: when, of each follower */
    bool linked[SIM_SERVERS];   /* leader: follower is synchronized */
    uint32_t link_serial;       /* follower: of its present link */
    int master;                 /* observer: the follower that it follows; -1: the leader, as everybody else */
    struct sim_channel to_leader, from_leader; /* follower; an observer's to and from its master */
    struct sim_touches touched;                /* follower: who was heard since the last answer to a ping */
    struct sim_touches answering;              /* and who is in the answer being written */
    int64_t phase;                             /* of its clock against the ticks */
};

struct sim_session {
    int client;
    int64_t timeout;
    int64_t shortest; /* timeout by which it was ever touched */
    int64_t deadline; /* by the leader's tracker */
    bool taken;       /* its tick was taken out of the leader's queue: expired at its turn, whatever touches it */
    int64_t turn;
    int64_t decided; /* when it was found expired or asked to close; SIM_NEVER: not */
    int64_t strayed; /* epoch in which it was last heard by a leader that another one had replaced */
    bool closing;
    bool committed; /* it exists */
    bool ended;     /* its closeSession is committed */
    int ended_position;
    bool by_operator; /* ended by somebody who had its password: no lease holds against that */
    int owner;        /* server through which it speaks, -1: it has not come to this leader yet */
    uint32_t owner_serial;
};

/* --- what others call ----------------------------------------------------------------------------------------------- */

/* All servers up, one leads. */
void sim_ensemble_start(struct sim *s);

/* Path of dir and name (may be NULL), made known. -1: no room. */
int sim_path_of(struct sim *s, const char *dir, const char *name);
/* Incarnation alive at zxid, -1: none. SIM_NEVER: as the next proposal finds it. */
int sim_node_at(const struct sim *s, int path, int64_t zxid);
const char *sim_node_name(const struct sim *s, int node);
/* In its queue. */
int32_t sim_node_number(const struct sim *s, int node);
int64_t sim_committed_zxid(const struct sim *s);
/* The first that lives at zxid, of this path and those behind it in the same directory; -1: none. */
int sim_first_living(const struct sim *s, int path, int64_t zxid);
int sim_child_count(const struct sim *s, int path, int64_t zxid);
void sim_stat_at(const struct sim *s, int node, int64_t zxid, struct zkl__stat *stat);

/* A transaction of nobody's: operators, strangers, the reaper. Nothing, without a leader. */
void sim_stranger_writes(struct sim *s, const struct sim_part *part);
void sim_stranger_deletes(struct sim *s, int path);
/* A persistent node that was there from the beginning, with all above it. */
void sim_stranger_prepares(struct sim *s, int path, const void *data, uint32_t size);
/* Somebody else closes the session, at the leader. */
void sim_stranger_closes(struct sim *s, int session);

/* A client's end of a connection. -1: no room. */
int sim_conn_open(struct sim *s, int client, int server);
void sim_conn_send(struct sim *s, int conn, struct sim_message *message);
/* The client gives it up. keep: how many of the messages on their way to the server still arrive. */
void sim_conn_abandon(struct sim *s, int conn, int keep);

void sim_server_kill(struct sim *s, int server, int64_t down_for);
void sim_server_isolate(struct sim *s, int server, int64_t duration);
void sim_process_pause(struct sim *s, int64_t *paused_until, int64_t duration);
void sim_channel_hold(struct sim *s, struct sim_channel *channel, int slot, int64_t duration);

/* Events of the clock: see sim.h. */
void sim_server_hears_client(struct sim *s, int conn);
void sim_client_hears_server(struct sim *s, int conn);
void sim_leader_hears(struct sim *s, int server); /* or the observer's master */
void sim_master_pings(struct sim *s, int server);
void sim_follower_hears(struct sim *s, int server);
void sim_server_ticks(struct sim *s, int server);
void sim_follower_answers(struct sim *s, int server);
void sim_leader_expires(struct sim *s);
void sim_election(struct sim *s);

#endif
