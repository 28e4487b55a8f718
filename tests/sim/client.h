/* client.h - a simulated process: the client library with its store adapter (handle), a real session core, and threads of an
 * application that acquire and release.
 *
 * The handle keeps the contract of store.h: on loss first `suspended`, then UNKNOWN for each operation outstanding, and only
 * then `connected` again; watches outlive reconnects; expiry is learnt only from a server. It connects, times out (2/3 of the
 * session timeout without a byte) and pings (1/3 without a request) as libzookeeper_mt does. What it has to tell may reach the core
 * late (the library's completion thread): what the core submits in between is sent, or not, and answered UNKNOWN. */
#ifndef SIM_CLIENT_H
#define SIM_CLIENT_H

#include "ensemble.h"
#include "core.h"

#define SIM_IN_LINE INT64_MAX
enum { SIM_THREADS = 3, SIM_OUTSTANDING = 128, SIM_HEAP_CLASSES = 24 };

/* --- memory: classes of sizes in one block; can be told to fail ------------------------------------------------------ */

struct sim_heap {
    char *base;
    size_t used, size;
    void *spare[SIM_HEAP_CLASSES];
    long live;        /* blocks */
    long allocations; /* ever, of this run */
    long fail_from;   /* allocation number, -1: none */
    long fail_count;
    uint32_t *starts; /* of each 16 bytes, where their block begins; NULL: nobody asks */
};
void sim_heap_init(struct sim_heap *heap);
void sim_heap_deinit(struct sim_heap *heap);
void sim_heap_reset(struct sim_heap *heap);
zkl_heap sim_heap_api(struct sim_heap *heap);
/* digest.c reads it: blocks are zeroed from now on, and known by where they begin. False: no memory. */
bool sim_heap_mapped(struct sim_heap *heap);
/* The block that an address is in, and where in it; -1: none. */
int32_t sim_heap_find(const struct sim_heap *heap, uint64_t word, uint32_t *offset);
const void *sim_heap_block(const struct sim_heap *heap, uint32_t start, size_t *size); /* 0: freed */

/* --- the client library ---------------------------------------------------------------------------------------------- */

enum sim_handle_state { SIM_HANDLE_OFF, SIM_HANDLE_WAITING, SIM_HANDLE_CONNECTING, SIM_HANDLE_CONNECTED };
struct sim_outstanding {
    uint64_t id; /* 0: nobody waits for the answer */
    enum zkl__op_kind op;
    int path;
    int deletes; /* of a multi: the path of its last part, if that is a delete; -1 */
    bool watch;
};
struct sim_handle {
    enum sim_handle_state state;
    int conn;    /* -1: none */
    int session; /* -1: none yet */
    int server;  /* the one to try next */
    int64_t last_zxid, last_received, last_sent;
    int64_t began;              /* local: before the attempt was sent */
    int64_t timeout;            /* granted, or wanted */
    int64_t shortest_told;      /* to the core, of those granted in this session */
    int untold;                 /* in the inbox: that it is connected, or that its session has ended */
    struct sim_watches watches; /* SIM_WATCH_EXIST is only known here */
    struct sim_outstanding outstanding[SIM_OUTSTANDING];
    unsigned first, count;
    struct sim_channel inbox;
};

/* --- the application ------------------------------------------------------------------------------------------------- */

enum sim_attempt_state { /* in this order */
                         SIM_PENDING,
                         SIM_HOLDING,
                         SIM_LOST,      /* told so, not released yet */
                         SIM_RELEASING, /* RELEASED is owed */
                         SIM_LEFT,      /* let go: nothing is owed */
                         SIM_OVER
};
struct sim_attempt {
    struct sim *s; /* a notice has no other way to it */
    enum sim_attempt_state state;
    int client, thread;
    const struct sim_acquire *plan;
    struct zkl__contender *contender; /* NULL: not to be used any more */
    struct zkl__multi *joint;         /* or this */
    struct zkl__semaphore *semaphore; /* or this */
    char conflict[160];               /* its words */
    int path, seats;                  /* of the queue; a joint has the next path too */
    int node[2];                      /* of the grant; of each seat */
    bool shared;                      /* granted beside other readers */
    int session;                      /* at the grant */
    int64_t deadline;                 /* local */
    int64_t granted, ended;           /* true time */
    int64_t token, serial;
    int64_t number;     /* of the znode with which it waited, when it is granted; SIM_IN_LINE: it had none */
    int64_t last_lease; /* semaphore: czxid of the last of its leases */
    int limit;          /* the highest since then and until its grant */
    int64_t room_since; /* true time at which it was first seen to wait while there is room; 0: it is not so */
    bool jeopardy;
    bool lapsed; /* the lease was seen to have ended */
    bool lost;   /* told so, maybe in the step that released it */
    bool let_go; /* by its owner, while it held */
    bool canceled;
    bool asking;     /* inside the step that releases: it may be told of a loss that came first */
    bool reported;   /* its crash, by a later grant */
    bool exempt;     /* an operator took its node or its session: the printed exception */
    int64_t removed; /* true time: when an operator deleted the node of its grant; 0: not */
};
struct sim_thread {
    int next;                    /* acquire of the plan */
    struct sim_attempt *attempt; /* NULL: none */
};

/* Requests that were refused for their access lists: how many of a kind on a path, since when. */
enum { SIM_REFUSALS = 16, SIM_REFUSALS_MOST = 20 * SIM_THREADS };
struct sim_refusal {
    enum zkl__op_kind op;
    int path, count;
    int64_t since;
};

enum sim_process { SIM_STOPPED, SIM_RUNNING, SIM_CLOSING };
struct sim_client {
    enum sim_process process;
    int64_t paused_until;
    int64_t held_up_until, held_down_until; /* packets to the server, to the client: of this and of later connections */
    int64_t clock_base, clock_ppm;
    struct sim_handle handle;
    struct zkl__core *core;
    bool reopen;            /* the core asked for a new session */
    int throttled;          /* so many requests are refused with NOTAPPLIED */
    int refused;            /* so many submits are refused here */
    int64_t last_step;      /* local */
    int64_t expired_at;     /* true time: when it was told that a session ended */
    int64_t connected_at;   /* true time; SIM_NEVER: its core is not connected */
    int64_t leases_zxid[4]; /* of the last list of each semaphore's leases that the core had */
    int64_t listed_zxid[4]; /* of the last list of each queue that the core had */
    int64_t shown_zxid[4];  /* of that, or of an event there since */
    bool suspended;         /* ever */
    struct sim_refusal refusals[SIM_REFUSALS];
    unsigned incarnation;
    struct sim_heap heap;
};

/* The process's clock: runs up to 1 in 1000 fast or slow. */
int64_t sim_local(const struct sim *s, int client, int64_t now);
/* The first true time at which the local clock shows local. */
int64_t sim_true(const struct sim *s, int client, int64_t local);

/* handle.c */
void sim_handle_open(struct sim *s, int client);
int sim_handle_submit(struct sim *s, int client, uint64_t id, const struct zkl__op *op);
/* The connection breaks. keep: so many requests on their way still arrive. */
void sim_handle_cut(struct sim *s, int client, int keep);
void sim_handle_close(struct sim *s, int client);
void sim_handle_due(struct sim *s, int client);

void sim_inbox_due(struct sim *s, int client);

/* process.c */
void sim_process_start(struct sim *s, int client);
void sim_process_crash(struct sim *s, int client, int64_t down_for);
void sim_process_due(struct sim *s, int client);
void sim_core_event(struct sim *s, int client, struct zkl__event event);
void sim_timer_due(struct sim *s, int client);
/* The end: asks the core to close; true when everything is closed. */
void sim_process_close(struct sim *s, int client);
void sim_process_free(struct sim *s, int client);

/* app.c */
void sim_app_start(struct sim *s, int client);
void sim_thread_due(struct sim *s, int number); /* client * SIM_THREADS + thread */
void sim_app_crashed(struct sim *s, int client);
bool sim_app_done(const struct sim *s);
/* Of the client's places; NULL: open to all. */
const zkl_acl *sim_acl_of(const struct sim *s, int client);
/* By its own clock. */
bool sim_attempt_holds(const struct sim *s, const struct sim_attempt *attempt);

/* --- semaphores.c ---------------------------------------------------------------------------------------------------- */

enum { SIM_LIMIT = 2, SIM_RESIZED_MOST = 4 };
struct zkl__semaphore *sim_semaphore_make(struct sim_attempt *attempt, const struct zkl__contender_config *contender);
int sim_semaphore_count(const struct sim_attempt *attempt);
/* The highest limit that was in force at any time from one zxid to another; 0: none was. */
int sim_semaphore_limit(const struct sim *s, int path, int64_t from, int64_t to);
/* plan->folders: their znodes are made, but for those of acquires. */
void sim_semaphores_begin(struct sim *s);
/* PATH/locks, or PATH/leases. */
const char *sim_semaphore_folder(int path, bool leases);

#endif
