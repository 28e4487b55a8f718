/* watcher.h - a machine that watches a path: it sends one operation after the other, keeps one
 * watch, and pauses, each time for longer, after what the servers refused or did not answer. It
 * acts after those who wait for a lock.
 *
 * A membership, the list of a group's members and the observer of an election are watchers, below.
 * Each decides with functions that are called inside a step, and know no time. */
#ifndef ZKL_PROTOCOL_WATCHER_H
#define ZKL_PROTOCOL_WATCHER_H

#include "children.h"
#include "core.h"

struct zkl__watcher;
struct zkl__watcher_ops {
    const uint32_t *next_states; /* of each state: bits of those that may follow. NULL: its states
                                    are its own */
    /* Connected, and its operation is not under way: the next one; false: none is to be sent now.
     * Sets look, unless it has none. */
    bool (*next)(struct zkl__watcher *watcher, struct zkl__op *op);
    /* The server's reply, but for "try again" (ZKL__RC_NOTAPPLIED), which is none. No look that was
     * sent before is answered any more. */
    void (*answered)(struct zkl__watcher *watcher, const struct zkl__reply *reply);
    /* The same of a look. NULL: it has none. */
    void (*looked)(struct zkl__watcher *watcher, int look, const struct zkl__reply *reply);
    /* What it watches changed, or the session is over. Never between an operation and its reply,
     * unless the session is over. */
    void (*changed)(struct zkl__watcher *watcher, bool session_over);
    /* The last thing in a step in which nothing was to be sent: it may end here. NULL: nothing. */
    void (*rests)(struct zkl__watcher *watcher);
    /* Gives back what its kind has. */
    void (*end)(struct zkl__watcher *watcher);
};

/* The owner's memory, zeroed before it begins. */
struct zkl__watcher {
    struct zkl__machine machine; /* first */
    const struct zkl__watcher_ops *ops;
    void *owner;
    const char *dir;        /* the owner's */
    unsigned state;         /* of its kind */
    struct zkl__core *core; /* NULL: not begun, or ended */
    bool busy;              /* its operation is under way */
    bool missed;            /* and what it watches changed meanwhile */
    size_t looks;           /* under way */
    int look;         /* the next operation is the look of this number, of which several may be
                         under way beside each other; -1: it is none */
    int64_t retry_at; /* nothing is sent before; 0: now */
    int64_t pause;    /* ns: the last one; 0: nothing was refused */
    bool over_limit;  /* the session had no room for the last watch: logged */
    struct zkl__watch watch;
};

/* What its owner fills in is filled in. It sends nothing before it is woken, or the session is
 * connected. */
void zkl__watcher_begin(struct zkl__watcher *watcher, struct zkl__core *core,
                        const struct zkl__watcher_ops *ops, void *owner);
/* It acts no more, and its memory may go. Not begun, or ended already: nothing. */
void zkl__watcher_end(struct zkl__watcher *watcher);
/* It acts in this step, whatever pause it made. From outside: ZKL__EV_WAKE. */
void zkl__watcher_wake(struct zkl__watcher *watcher);
/* It watches nothing. */
void zkl__watcher_unwatch(struct zkl__watcher *watcher);

/* === a membership ============================================================================= */

/* One ephemeral znode with a name of its own, made again whenever it
 * is gone.
 *
 * The name does not tell whose it is, its owner does: a node of another session is waited for, even
 * if that was ours, since it is about to vanish. One of this session is ours when we made it, or
 * when a create of ours in this session lost its answer. */

/* What the servers have of us. */
enum zkl__member_node {
    ZKL__MEMBER_NONE,     /* nothing, and nothing can come */
    ZKL__MEMBER_ASKED,    /* a create was sent and not answered */
    ZKL__MEMBER_STANDS,   /* our znode */
    ZKL__MEMBER_DELETING, /* a delete was sent and not answered */
    ZKL__MEMBER_UNSURE,   /* an answer was lost: what has our name may be ours, or may not */
    ZKL__MEMBER_SYNCED,   /* the same, behind a committed write: what is not there will not come */
};

/* What it does next, as long as it is wanted. */
enum zkl__member_step {
    ZKL__MEMBER_CREATE,
    ZKL__MEMBER_MAKE,   /* the directory */
    ZKL__MEMBER_LOOK,   /* who has our name? and hear when that changes */
    ZKL__MEMBER_WAIT,   /* somebody else has */
    ZKL__MEMBER_SETTLED /* we have */
};

struct zkl__membership {
    struct zkl__watcher watcher; /* first */
    /* In a step: what its user sees may be another; and: there is nothing to do, and it may end in
     * this call. */
    void (*note)(void *owner);
    void (*rests)(void *owner);
    struct zkl__peer_queue *queue; /* of its znode's path, where its owner enrolls it, and */
    struct zkl__link peer;         /* among those there */
    const char *path, *id;         /* the owner's, as the next two */
    const char *data;              /* set anew: stale, too */
    const zkl_acl *acl;
    char *make_path; /* the owner's room, as long as path: cut to what is made now */
    bool wanted;     /* joined by its user */
    bool joined;     /* a join has succeeded: no error ends it any more */
    bool stale;      /* the node's data is older than ours */
    bool changed;    /* what was watched did, and was not looked at since */
    enum zkl__member_step step;
    enum zkl__member_node node;
    /* The operation under way. A create while nothing of ours can come is the directory's. Leaving,
     * while a create of ours may yet come: a check, behind which nothing does, for it is a
     * committed write, and an exists behind that. */
    enum zkl__op_kind doing;
    int32_t version; /* of the node, when it was known to be ours */
    int code;        /* why the servers refused a join or an update; ZKL_OK: they did not */
    int zk_code;
    const char *why;
};

static inline bool zkl__member_stands(const struct zkl__membership *m)
{
    return m->node == ZKL__MEMBER_STANDS || m->node == ZKL__MEMBER_DELETING;
}

/* Wanted, its node stands with our data. */
static inline bool zkl__member_settled(const struct zkl__membership *m)
{
    return m->wanted && m->step == ZKL__MEMBER_SETTLED && !m->stale;
}

/* Another one of this session is a member under our id, or about to be; or (leaving) is on its way
 * out. The two would take each other's node for their own. */
bool zkl__membership_has_rival(const struct zkl__membership *m, bool leaving);

/* What its user wants. Outside a step; the owner wakes the watcher. */
void zkl__membership_join(struct zkl__membership *m);
void zkl__membership_leave(struct zkl__membership *m);

/* What it does as a watcher. */
extern const struct zkl__watcher_ops zkl__membership_ops;

/* === the members of a group =================================================================== */

/* Who is in a group: the children of a znode that live with a session (op.h),
 * shown on every change of them.
 *
 * The children are listed with a watch, and those of which nothing is known are looked at. A child
 * that was deleted before the look is not shown: the watch on the list has fired, and the next list
 * is without it. While the znode is missing nobody is shown, and the watch waits for it. */

#define ZKL__LOOKS_MOST 16 /* under way: hides the round trip */

enum zkl__member_list_state {
    ZKL__LIST_STALE,   /* to be listed */
    ZKL__LIST_MISSING, /* the znode was; is it still? */
    ZKL__LIST_LOOKS,   /* listed: which of them live with a session? */
    ZKL__LIST_SHOWN,
};

struct zkl__member_list {
    struct zkl__watcher watcher;      /* first; its state: enum zkl__member_list_state */
    bool (*counts)(const char *name); /* NULL: all children do */
    /* Whether it may be listed now; when that becomes so, the owner wakes the watcher. NULL: it
     * always may. */
    bool (*wanted)(void *owner);
    /* Inside a step: these are the members. They are the owner's to free from now on. */
    void (*show)(void *owner, struct zkl__names *members);
    /* Inside a step: the servers refuse to list them, until they are shown. NULL: nobody asks. */
    void (*refused)(void *owner, enum zkl__rc rc);
    struct zkl__children *children; /* of the last list; NULL: there was none */
    size_t looked; /* of them: the next look is at the first unknown from here on */
};

extern const struct zkl__watcher_ops zkl__member_list_ops;
/* What was shown is out of date. The owner wakes the watcher. */
void zkl__member_list_renew(struct zkl__member_list *list);

/* === the observer of an election ============================================================== */

/* Who leads an election, for a process that does not take part.
 *
 * The list is read; of the first candidate in it one get brings data and watch. Only while there is
 * no candidate is the list itself watched, or, while there is no directory, its making: so
 * candidates that come and go behind the leader wake nobody. The first candidate stays first until
 * its znode is deleted, since numbers only rise.
 *
 * A first candidate that may not be read is not watched: servers keep its events from us (see enum
 * zkl__read_access in core_internal.h). The list is, by the request that shows it still first. */

enum zkl__observer_state {
    ZKL__OBSERVER_STALE,   /* to be listed */
    ZKL__OBSERVER_MISSING, /* the directory was; is it still? */
    ZKL__OBSERVER_EMPTY,   /* no candidate was in the list; is there still none? */
    ZKL__OBSERVER_READS,   /* the first candidate */
    ZKL__OBSERVER_REFUSED, /* it may not be read: does it live with a session? */
    ZKL__OBSERVER_HIDDEN,  /* it does, or nobody knows; is it still the first? */
    ZKL__OBSERVER_SHOWN,
    ZKL__OBSERVER_SHOWN_HIDDEN,
};

/* Lives until show returns. */
struct zkl__leader {
    const char *node; /* NULL: nobody leads, and nothing of the rest is set */
    bool readable;    /* by us; else without data, and stat as far as the server tells it */
    struct zkl__stat stat;
    const void *data;
    size_t size;
};

struct zkl__observer {
    struct zkl__watcher watcher; /* first; its state: enum zkl__observer_state */
    /* Inside a step: that is so. False: no memory, it is to be shown again. */
    bool (*show)(void *owner, const struct zkl__leader *leader);
    struct zkl__children *children; /* of the last list; PERSISTENT: it is no candidate. EPHEMERAL:
                                       it is, and may not be read */
    struct zkl__child *first;       /* of these, the first candidate */
    struct zkl__child **order;      /* all of these, in the order of their numbers; NULL: none of
                                       them was skipped */
    size_t next;                    /* of order: those before it were skipped */
    struct zkl__stat stat;          /* of it, while it may not be read */
};

extern const struct zkl__watcher_ops zkl__observer_ops;

#endif
