/* memory_session.h - the in-process store from inside: spaces, sessions, what waits to be told,
 * watches.
 *
 * One mutex per space guards all of it; the registry's mutex is taken before it. User functions are
 * called with neither held. */
#ifndef ZKL_STORE_MEMORY_SESSION_H
#define ZKL_STORE_MEMORY_SESSION_H

#include <pthread.h>
#include <stdalign.h>

#include "memory.h"
#include "memory_tree.h"

enum { ZKL__MEMORY_OPS = 10000, ZKL__MEMORY_WATCH_BUCKETS = 1024, ZKL__MEMORY_REQUEST = 1048575 };

/* --- what waits to be told ------------------------------------------------------------------- */

enum zkl__memory_item_kind {
    ZKL__TELL_CONNECTED,
    ZKL__TELL_SUSPENDED,
    ZKL__TELL_EXPIRED,
    ZKL__TELL_REPLY,
    ZKL__TELL_WATCH
};

struct zkl__memory_item {
    struct zkl__memory_item *next;
    enum zkl__memory_item_kind kind;
};

struct zkl__memory_queue {
    struct zkl__memory_item *head, *tail;
};

struct zkl__memory_notice {
    struct zkl__memory_item item;
    struct zkl__connection connection;
    enum zkl__end end;
};

struct zkl__memory_reply {
    struct zkl__memory_item item;
    uint64_t id;
    uint64_t number; /* of the op within its session */
    int64_t zxid;    /* the tree's when it was answered */
    struct zkl__reply reply;
    alignas(max_align_t) char room[]; /* what reply points at */
};

/* The server has two tables of watches (DataTree.dataWatches, childWatches); get and exists share
 * the first. */
enum zkl__memory_table { ZKL__WATCHES_DATA, ZKL__WATCHES_CHILD };

/* Armed (in a bucket), then fired (an item in its session's queue: so firing needs no memory), or
 * laid aside while its session has no connection. */
struct zkl__memory_watch {
    struct zkl__memory_item item;
    struct zkl__memory_watch *next;
    struct zkl__store *store;
    enum zkl__memory_table table;
    bool absent;     /* set by an exists that found nothing */
    uint64_t number; /* of the op that set it: the client knows of it once that op is answered */
    enum zkl__watch_event event;
    char path[];
};

/* --- sessions and spaces --------------------------------------------------------------------- */

enum zkl__memory_link { ZKL__LINK_UP, ZKL__LINK_DOWN, ZKL__LINK_OVER };

struct zkl__memory_space {
    struct zkl__memory_space *next;
    char *name;
    pthread_mutex_t mutex;
    struct zkl__store *sessions;
    enum zkl__memory_rules rules;
    int64_t sweep_ns; /* when empty containers are next looked for */
    struct zkl__memory_tree tree;
    struct zkl__memory_watch *watches[ZKL__MEMORY_WATCH_BUCKETS];
};

struct zkl__memory_plan {
    bool on;
    bool create; /* counts creates alone: all else is answered meanwhile */
    size_t whole, half, lost;
    struct zkl__memory_notice *suspension; /* reserved */
};

struct zkl__store {
    struct zkl__store *next;
    struct zkl__memory_space *space;
    zkl_heap heap;
    struct zkl__store_events events;
    void *ctx;
    struct zkl__memory_who who;
    char *identity, *seal; /* by its credentials, by its seal; NULL: none */
    zkl_acl *acl;
    int64_t timeout_ms;
    struct zkl__memory_voice *voice; /* tells what waits in the queue */

    enum zkl__memory_link link;
    bool ended;   /* on the server */
    bool closing; /* nothing is told any more */
    bool held;    /* nothing is told */
    struct zkl__memory_queue queue;
    size_t outstanding;
    uint64_t numbers; /* given to ops */
    /* The last reply that has been told, and the last that was told or will be. */
    uint64_t told_number, sure_number;
    int64_t told_zxid, sure_zxid;

    struct zkl__memory_watch *aside;
    bool broken;                   /* what comes from now on is lost */
    struct zkl__memory_queue lost; /* and waits here for the suspension */
    struct zkl__memory_plan plan;
    size_t refusals; /* writes that are refused from now on, with this: */
    enum zkl__rc refusal;
    struct zkl__memory_notice *last_words; /* `expired`, for a session that ended while suspended */
};

void zkl__memory_push(struct zkl__memory_queue *queue, struct zkl__memory_item *item);
struct zkl__memory_item *zkl__memory_pop(struct zkl__memory_queue *queue);
void zkl__memory_queue_free(const zkl_heap *heap, struct zkl__memory_queue *queue);

/* --- who tells: memory_thread.c, or, where there is no thread, src/store_st/memory_loop.c -------
 */

/* With the space's mutex, which is dropped meanwhile. False: nothing may be told now. */
bool zkl__memory_tell_next(struct zkl__store *store);
int zkl__memory_voice_start(struct zkl__store *store); /* ZKL_OK, ZKL_ENOMEM, ZKL_ELIMIT */
void zkl__memory_voice_wake(
    struct zkl__store *store); /* with the space's mutex; before start too */
/* `closing` is set. Nothing is told any more when it returns. */
void zkl__memory_voice_end(struct zkl__store *store);

/* NULL: no memory. */
struct zkl__memory_notice *zkl__memory_notice_new(const struct zkl__store *store,
                                                  enum zkl__memory_item_kind kind);
/* Puts an item where it belongs (queue, or lost), wakes who tells. */
void zkl__memory_tell(struct zkl__store *store, struct zkl__memory_item *item);

/* The registry: finds and locks; NULL and nothing locked when there is no such session or name. */
struct zkl__store *zkl__memory_enter(int64_t session_id);
struct zkl__memory_space *zkl__memory_enter_name(const char *name);
void zkl__memory_leave(struct zkl__memory_space *space);

/* --- operations (memory_op.c) ---------------------------------------------------------------- */

/* Whether an op is one of the port's, formed as it should be. */
bool zkl__memory_op_valid(const struct zkl__op *op);
size_t zkl__memory_op_size(const struct zkl__op *op);
/* Room for a reply without contents; NULL: no memory. */
struct zkl__memory_reply *zkl__memory_reply_new(struct zkl__store *store, uint64_t id, size_t room);
/* Carries out a valid op. ZKL_OK with its reply, or ZKL_ENOMEM with nothing done. */
int zkl__memory_perform(struct zkl__memory_reply **out, struct zkl__store *store, uint64_t id,
                        const struct zkl__op *op);
/* Refuses a valid write: the same, and nothing is done. */
int zkl__memory_refused(struct zkl__memory_reply **out, struct zkl__store *store, uint64_t id,
                        const struct zkl__op *op);
/* One of the writes, or a multi, which has at least one (a lone check is none). */
bool zkl__memory_writes(const struct zkl__op *op);
bool zkl__memory_creates(const struct zkl__op *op);
/* Applies count writes, all or none, and fires what watches them. ZKL_OK (see each rc), ZKL_ENOMEM.
 * changes: dropped by the caller when ZKL_OK. */
int zkl__memory_write(struct zkl__memory_space *space, const struct zkl__memory_who *who,
                      const struct zkl__op *ops, size_t count, struct zkl__memory_change *changes);
/* The session is over on the server: its watches go, its ephemeral nodes go. */
void zkl__memory_end(struct zkl__store *store);
void zkl__memory_sweep(struct zkl__memory_space *space);

/* --- watches (memory_watch.c) ---------------------------------------------------------------- */

struct zkl__memory_watch *zkl__memory_watch_new(struct zkl__store *store, const char *path,
                                                enum zkl__memory_table table);
/* Takes the watch over. One like it is armed already: once is enough. */
void zkl__memory_arm(struct zkl__memory_watch *watch);
/* What a created, set or deleted node means to those who watch it and its parent. */
void zkl__memory_fire(struct zkl__memory_space *space, enum zkl__watch_event event,
                      const struct zkl__memory_node *node);
/* Forgets every armed watch of the session, on path or (NULL) on all; false when there was none. */
bool zkl__memory_disarm(struct zkl__store *store, const char *path);
/* At a suspension: armed watches that the client knows of are laid aside, the others go. */
void zkl__memory_lay_aside(struct zkl__store *store);
/* The same for one that was fired but not told. */
void zkl__memory_take_back(struct zkl__memory_watch *watch);
/* At a reconnect: arms what was laid aside again, fires what came meanwhile. */
void zkl__memory_rearm(struct zkl__store *store);
void zkl__memory_forget_aside(struct zkl__store *store);

/* --- connections (memory_fault.c) ------------------------------------------------------------ */

/* What is to become of this op. */
enum zkl__memory_fate { ZKL__FATE_FREE, ZKL__FATE_WHOLE, ZKL__FATE_HALF, ZKL__FATE_LOST };
enum zkl__memory_fate zkl__memory_fate(const struct zkl__store *store, const struct zkl__op *op);
/* An op of this fate was accepted: takes the plan one op further, to the suspension perhaps. */
void zkl__memory_fated(struct zkl__store *store, enum zkl__memory_fate fate);
void zkl__memory_plan_drop(struct zkl__store *store);

#endif
