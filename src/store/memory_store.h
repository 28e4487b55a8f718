/* memory_store.h - the in-process store's internals: spaces with their znodes, sessions, events to
 * be delivered, watches.
 *
 * One mutex per space guards all of it; the registry's mutex is taken before it. User functions are
 * called with neither held. */
#ifndef ZKL_STORE_MEMORY_STORE_H
#define ZKL_STORE_MEMORY_STORE_H

#include <stdalign.h>

#include "base.h"
#include "collections.h"
#include "store.h"
#include "thread.h"

/* --- znodes ---------------------------------------------------------------------------------- */

/* What marks a container inside, as in the server. */
#define ZKL__MEMORY_CONTAINER_OWNER INT64_MIN

struct zkl__memory_node {
    struct zkl__map_entry entry; /* first of all in it */
    struct zkl__link sibling;
    struct zkl__memory_node *parent;
    struct zkl__list children;
    zkl_acl *acl; /* NULL: open */
    char *auth;   /* the identity of the session that made it: who `auth` is in its list */
    void *data;
    /* Clients see it through show_stat. Its cversion, as the server's own, counts the creates of
     * children, and is the next sequence number. */
    struct zkl__stat stat;
    bool own; /* a new server has it, and refuses to delete it */
    char path[];
};

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

/* Armed (in the space's map and the session's list), then fired (an item of its session's queue: so
 * firing needs no memory). It does not fire while its session has no connection. */
struct zkl__memory_watch {
    struct zkl__memory_item item;
    struct zkl__map_entry entry;
    struct zkl__link of_session;
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
    char *servers;         /* "memory:NAME" */
    pthread_mutex_t mutex;
    struct zkl__list sessions;
    enum zkl__memory_rules rules;
    int64_t sweep_ns; /* when empty containers are next looked for */
    zkl_heap heap;
    int64_t zxid, time_ms; /* of the latest transaction */
    struct zkl__map nodes, watches;
};

/* Loses a connection in the middle of things: `whole` operations get their replies, `half` ones
 * are applied but their replies are lost, `lost` ones never arrive; then it is suspended. */
struct zkl__memory_plan {
    bool write; /* counts writes alone: other operations get their replies meanwhile */
    size_t whole, half, lost; /* all 0: there is no plan */
};

/* What src/testing has a session suffer. */
struct zkl__memory_faults {
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
    int64_t session_id; /* 0: a stranger */
    char *auth;         /* by its credentials: what entries of scheme "auth" mean; NULL: none */
    const zkl_acl *acl; /* default of creates; NULL: open */
    int64_t timeout_ms;
    struct zkl__alarms alarms;
    struct zkl__alarm delivery; /* of what waits in the queue */

    enum zkl__memory_link link_state;
    bool ended;   /* on the server */
    bool closing; /* nothing is delivered any more */
    bool held;    /* nothing is delivered for now */
    struct zkl__list queue, watches;
    size_t outstanding;
    uint64_t numbers; /* given to ops */
    /* The last reply that was delivered; and, at the loss of the connection, the last that was or
     * will be. */
    struct zkl__memory_seen told, sure;
    struct zkl__memory_faults faults;
};

/* --- delivery (memory.c) --------------------------------------------------------------------- */

/* With the space's mutex, which is dropped meanwhile. False: nothing may be delivered now. */
bool zkl__memory_deliver_next(struct zkl__store *store);
/* With the space's mutex: what waits may be delivered. */
void zkl__memory_wake(struct zkl__store *store);

/* --- spaces and sessions (memory.c) ---------------------------------------------------------- */

extern struct zkl__memory_registry {
    pthread_mutex_t mutex;
    struct zkl__list spaces; /* all of the process */
    int64_t sessions;        /* how many there ever were */
    int64_t zxid;            /* the highest of the spaces that were deleted */
} zkl__memory_registry;
/* With the registry locked. NULL: there is none of these servers. */
struct zkl__memory_space *zkl__memory_find_space(const char *servers);

/* NULL: no memory. */
struct zkl__memory_notice *zkl__memory_notice_new(const struct zkl__store *store,
                                                  enum zkl__memory_item_kind kind);
void zkl__memory_enqueue(struct zkl__store *store, struct zkl__memory_item *item);
/* The connection is lost: with all that came on it and has not been told, or only with what came
 * once it was broken. Takes the notice over. */
void zkl__memory_go_down(struct zkl__store *store, struct zkl__memory_notice *suspension, bool all);

/* Enqueues the reply to an op that was accepted. ZKL_OK; reply NULL: ZKL_ENOMEM. */
int zkl__memory_take_reply(struct zkl__store *store, uint64_t id, struct zkl__memory_reply *reply);

/* --- operations (memory.c) ------------------------------------------------------------------- */

/* Of a zeroed space. False: no memory. */
bool zkl__memory_space_init(struct zkl__memory_space *space, const zkl_heap *heap, int64_t zxid);
void zkl__memory_space_deinit(struct zkl__memory_space *space);
struct zkl__memory_node *zkl__memory_find(const struct zkl__memory_space *space, const char *path);

/* Carries out a valid op. NULL: no memory, and nothing was done. */
struct zkl__memory_reply *zkl__memory_perform(struct zkl__store *store, const struct zkl__op *op);
/* Room for a reply without contents; NULL: no memory. */
struct zkl__memory_reply *zkl__memory_reply_new(struct zkl__store *store, size_t room);
/* The session is over on the server: its watches go, its ephemeral nodes go. */
void zkl__memory_end(struct zkl__store *store);
/* Deletes the nodes of a session that ends, or the empty containers (ContainerManager): a container
 * is deleted if it ever had a child; one that this empties is deleted the next time. */
void zkl__memory_delete_nodes(struct zkl__memory_space *space, int64_t owner);

/* Of the session's armed watches those that were set after the op of this number. */
void zkl__memory_discard_watches(struct zkl__store *store, uint64_t after);
void zkl__memory_fire(struct zkl__memory_watch *watch, enum zkl__watch_event event);
/* Those of this path. False: there was none. */
bool zkl__memory_unwatch(struct zkl__store *store, const char *path);

#endif
