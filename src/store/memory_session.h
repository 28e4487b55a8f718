/* memory_session.h - the in-process store's internals: spaces, sessions, events to be delivered,
 * watches.
 *
 * One mutex per space guards all of it; the registry's mutex is taken before it. User functions are
 * called with neither held. */
#ifndef ZKL_STORE_MEMORY_SESSION_H
#define ZKL_STORE_MEMORY_SESSION_H

#include <pthread.h>
#include <stdalign.h>

#include "memory_tree.h"
#include "store.h"

enum { ZKL__MEMORY_OPS = 10000, ZKL__MEMORY_WATCH_BUCKETS = 1024 };

/* --- events to be delivered ------------------------------------------------------------------ */

enum zkl__memory_item_kind {
    ZKL__ITEM_CONNECTED,
    ZKL__ITEM_SUSPENDED,
    ZKL__ITEM_EXPIRED,
    ZKL__ITEM_REPLY,
    ZKL__ITEM_WATCH
};

struct zkl__memory_item {
    struct zkl__link link; /* first of all in it */
    enum zkl__memory_item_kind kind;
};

struct zkl__memory_notice {
    struct zkl__memory_item item;
    struct zkl__connection connection;
    enum zkl__end end;
};

/* How far a client has seen. */
struct zkl__memory_seen {
    uint64_t number; /* of the op within its session */
    int64_t zxid;    /* the tree's when the reply was made */
};

struct zkl__memory_reply {
    struct zkl__memory_item item;
    uint64_t id;
    struct zkl__memory_seen seen;
    struct zkl__reply reply;
    alignas(max_align_t) char room[]; /* what reply points at */
};

/* The server has two tables of watches (DataTree.dataWatches, childWatches); get and exists share
 * the first. */
enum zkl__memory_table { ZKL__WATCHES_DATA, ZKL__WATCHES_CHILD };

/* Armed (in a bucket), then fired (an item of its session's queue: so firing needs no memory). It
 * does not fire while its session has no connection. */
struct zkl__memory_watch {
    struct zkl__memory_item item;
    struct zkl__memory_watch *next;
    struct zkl__store *store;
    enum zkl__memory_table table;
    bool absent;     /* set by an exists that found nothing */
    uint64_t number; /* of the op that set it: the client knows of it once it has the reply */
    enum zkl__watch_event event;
    char path[];
};

/* --- sessions and spaces --------------------------------------------------------------------- */

enum zkl__memory_link { ZKL__LINK_UP, ZKL__LINK_DOWN, ZKL__LINK_OVER };

struct zkl__memory_space {
    struct zkl__link link; /* first of all in it */
    char *name;
    pthread_mutex_t mutex;
    struct zkl__list sessions;
    enum zkl__memory_rules rules;
    int64_t sweep_ns; /* when empty containers are next looked for */
    struct zkl__memory_tree tree;
    struct zkl__memory_watch *watches[ZKL__MEMORY_WATCH_BUCKETS];
};

/* Loses a connection in the middle of things: `whole` operations get their replies, `half` ones
 * are applied but their replies are lost, `lost` ones never arrive; then it is suspended. */
struct zkl__memory_plan {
    bool write; /* counts writes alone: other operations get their replies meanwhile */
    size_t whole, half, lost; /* all 0: there is no plan */
};

/* What src/testing has a session suffer. */
struct zkl__memory_faults {
    /* Called instead of what submit does; NULL: nothing is planned. */
    int (*accept)(struct zkl__store *store, uint64_t id, const struct zkl__op *op);
    struct zkl__memory_plan plan;
    bool broken; /* what comes from now on is lost: it waits here for the suspension */
    struct zkl__list lost;
    size_t refusals; /* writes that are refused from now on, with this: */
    enum zkl__rc refusal;
};

struct zkl__store {
    struct zkl__link link; /* first of all in it */
    struct zkl__memory_space *space;
    zkl_heap heap;
    struct zkl__store_events events;
    void *ctx;
    struct zkl__memory_who who;
    int64_t timeout_ms;
    struct zkl__memory_notifier *notifier; /* delivers what waits in the queue */

    enum zkl__memory_link link_state;
    bool ended;   /* on the server */
    bool closing; /* nothing is delivered any more */
    bool held;    /* nothing is delivered for now */
    struct zkl__list queue;
    size_t outstanding;
    uint64_t numbers; /* given to ops */
    /* The last reply that was delivered; and, at the loss of the connection, the last that was or
     * will be. */
    struct zkl__memory_seen told, sure;
    struct zkl__memory_faults faults;
};

/* --- delivery: memory_thread.c, or, where there is no thread, src/store_st/memory_loop.c ----- */

/* With the space's mutex, which is dropped meanwhile. False: nothing may be delivered now. */
bool zkl__memory_deliver_next(struct zkl__store *store);
int zkl__memory_notifier_start(struct zkl__store *store); /* ZKL_OK, ZKL_ENOMEM, ZKL_ELIMIT */
/* With the space's mutex; before start too. */
void zkl__memory_notifier_wake(struct zkl__store *store);
/* `closing` is set. Nothing is delivered any more when it returns. */
void zkl__memory_notifier_end(struct zkl__store *store);

/* --- spaces and sessions (memory.c) ---------------------------------------------------------- */

extern struct zkl__memory_registry {
    pthread_mutex_t mutex;
    struct zkl__list spaces; /* all of the process */
    int64_t sessions;        /* how many there ever were */
    int64_t zxid;            /* the highest of the spaces that were deleted */
} zkl__memory_registry;
/* With the registry locked. NULL: there is none of this name. */
struct zkl__memory_space *zkl__memory_find_space(const char *name);

/* NULL: no memory. */
struct zkl__memory_notice *zkl__memory_notice_new(const struct zkl__store *store,
                                                  enum zkl__memory_item_kind kind);
void zkl__memory_enqueue(struct zkl__store *store, struct zkl__memory_item *item);
/* A reply that a server sent, not one that was lost. */
bool zkl__memory_was_answered(const struct zkl__memory_item *item);
/* Enqueues the reply to an op that was accepted. ZKL_OK; reply NULL: ZKL_ENOMEM. */
int zkl__memory_take_reply(struct zkl__store *store, struct zkl__memory_reply *reply);

/* --- operations (memory_op.c) ---------------------------------------------------------------- */

/* One of the writes, or a multi, which has at least one (a lone check is none). */
bool zkl__memory_writes(const struct zkl__op *op);
/* Carries out a valid op. NULL: no memory, and nothing was done. refused: a write is refused with
 * that instead; ZKL__RC_OK: none is. */
struct zkl__memory_reply *zkl__memory_perform(struct zkl__store *store, uint64_t id,
                                              const struct zkl__op *op, enum zkl__rc refused);
/* Room for a reply without contents; NULL: no memory. */
struct zkl__memory_reply *zkl__memory_reply_new(struct zkl__store *store, uint64_t id, size_t room);
/* The session is over on the server: its watches go, its ephemeral nodes go. */
void zkl__memory_end(struct zkl__store *store);
void zkl__memory_sweep(struct zkl__memory_space *space);

/* --- watches (memory_op.c) ------------------------------------------------------------------- */

/* Of the session's armed watches those of path (NULL: of all paths) that were set after the op of
 * this number. False: there was none. */
bool zkl__memory_discard_watches(struct zkl__store *store, const char *path, uint64_t after);
/* Frees a watch that another one of its session makes unneeded. */
void zkl__memory_arm(struct zkl__memory_watch *watch);
/* It is in no bucket any more. */
void zkl__memory_fire(struct zkl__memory_watch *watch, enum zkl__watch_event event);

#endif
