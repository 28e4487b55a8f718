/* membership.h - a membership: one ephemeral znode with a name of its own, made again whenever it
 * is gone. Decisions are pure: what has come goes in, what to send next comes out, one operation at
 * a time. A watcher carries them out.
 *
 * The name does not tell whose it is, its owner does: a node of another session is waited for, even
 * if that was ours, since it is about to vanish. One of this session is ours when we made it, or
 * when a create of ours in this session lost its answer. */
#ifndef ZKL_PROTOCOL_MEMBERSHIP_H
#define ZKL_PROTOCOL_MEMBERSHIP_H

#include "base.h"
#include "collections.h"
#include "watcher.h"

/* What the servers have of us. */
enum zkl__member_node {
    ZKL__MEMBER_NONE,     /* nothing, and nothing can come */
    ZKL__MEMBER_ASKED,    /* a create was sent and not answered */
    ZKL__MEMBER_STANDS,   /* our znode */
    ZKL__MEMBER_DELETING, /* a delete was sent and not answered */
    ZKL__MEMBER_UNSURE,   /* an answer was lost: what has our name may be ours, or may not */
    ZKL__MEMBER_SYNCED,   /* the same, behind a committed write: what is not there will not come */
    ZKL__MEMBER_NODES
};

/* What it does next, as long as it is wanted. */
enum zkl__member_step {
    ZKL__MEMBER_CREATE,
    ZKL__MEMBER_MAKE,   /* the directory */
    ZKL__MEMBER_LOOK,   /* who has our name? and hear when that changes */
    ZKL__MEMBER_WAIT,   /* somebody else has */
    ZKL__MEMBER_SETTLED /* we have */
};

/* What a reply brought: bits. */
enum {
    ZKL__MEMBER_CHANGED = 1, /* what its user sees may be another */
    ZKL__MEMBER_REFUSED = 2  /* the next operation not at once */
};

struct zkl__membership {
    struct zkl__watcher watcher; /* first */
    /* In a step: what its user sees may be another; and: there is nothing to do, and it may end in
     * this call. */
    void (*note)(void *owner);
    void (*rests)(void *owner);
    struct zkl__peer_queue *queue; /* of its znode's path, and */
    struct zkl__link peer;         /* among those there */
    const char *path, *id;         /* the owner's, as the next two */
    const char *data;
    const zkl_acl *acl;
    char *make_path; /* the owner's room, as long as path: cut to what is made now */
    bool wanted;     /* joined by its user */
    bool joined;     /* a join has succeeded: no error ends it any more */
    bool stale;      /* the node's data is older than ours */
    bool changed;    /* what was watched did, and was not looked at since */
    enum zkl__member_step step;
    enum zkl__member_node node;
    enum zkl__member_doing {
        ZKL__MEMBER_IDLE,
        ZKL__MEMBER_CREATING,
        ZKL__MEMBER_MAKING,
        ZKL__MEMBER_LOOKING,
        ZKL__MEMBER_WRITING,
        ZKL__MEMBER_SYNC_POINT, /* leaving, and a create of ours may yet come: nothing does behind a
                                committed write */
        ZKL__MEMBER_LAST_LOOK,  /* behind that */
        ZKL__MEMBER_REMOVING
    } doing;         /* what the operation under way is for */
    int32_t version; /* of the node, when it was known to be ours */
    int code;        /* why the servers refused a join; ZKL_OK: they did not */
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

/* Before the first use: what its owner fills in is filled in. False: no memory. */
bool zkl__membership_begin(struct zkl__membership *m, struct zkl__core *core, void *owner);
void zkl__membership_end(struct zkl__membership *m);
/* Another one of this session is a member under our id, or about to be; or (leaving) is on its way
 * out. The two would take each other's node for their own. */
bool zkl__membership_has_rival(const struct zkl__membership *m, bool leaving);

/* What its user wants. Outside a step; the owner wakes the watcher. */
void zkl__membership_join(struct zkl__membership *m);
void zkl__membership_leave(struct zkl__membership *m);
void zkl__membership_update(struct zkl__membership *m, const char *data);

/* Nothing is under way: what to send now; false: nothing. What was under way before was not
 * answered. free: no other membership of this session has the name still. */
bool zkl__membership_next(struct zkl__membership *m, bool free, struct zkl__op *op);
/* The server's word on that, but for "try again" (ZKL__RC_NOTAPPLIED), which is no answer. Returns
 * ZKL__MEMBER_... bits. */
unsigned zkl__membership_on_reply(struct zkl__membership *m, const struct zkl__reply *reply,
                                  int64_t session_id);
/* What was watched changed. */
void zkl__membership_on_change(struct zkl__membership *m);
/* The session is over: its znodes go, and nothing that it sent comes any more. */
void zkl__membership_on_end(struct zkl__membership *m);

#endif
