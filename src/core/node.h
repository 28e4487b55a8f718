/* node.h - the znode that a contender made: its name, its czxid, and what is known of its create.
 *
 * A create whose answer was lost is sent again with the same uuid: so a name that carries the uuid
 * is ours, and the list behind a committed write tells what became of all copies. */
#ifndef ZKL_CORE_NODE_H
#define ZKL_CORE_NODE_H

#include "name.h"
#include "name_set.h"
#include "op.h"

struct zkl__contender;
struct zkl__contender_actions;
struct zkl__contender_event;

/* What became of all that we sent. From UNKNOWN on there may be a node that `name` is not. */
enum zkl__fate {
    ZKL__FATE_KNOWN,
    ZKL__FATE_DUPLICATE_STAYS, /* we may not delete the duplicate now: it goes when our node goes */
    ZKL__FATE_UNKNOWN,         /* an answer was lost */
    ZKL__FATE_LISTED,     /* and the list under way stands behind a committed write: it will tell */
    ZKL__FATE_TWICE,      /* the create was sent again: there may be two nodes */
    ZKL__FATE_TWICE_STAYS /* there are, and we may not delete the second one */
};

struct zkl__node {
    char uuid[ZKL__UUID_LENGTH + 1];
    char prefix[ZKL__NAME_MAX];    /* "_c_<uuid>-<tag>" */
    char name[ZKL__NAME_MAX];      /* "": none is known */
    char duplicate[ZKL__NAME_MAX]; /* that is being deleted; "": none */
    int64_t czxid;                 /* 0: not known */
    enum zkl__fate fate;
    bool sealed;                    /* see announcement.h */
    bool stays;                     /* we may not delete it: it goes with the session */
    struct zkl__name_set strangers; /* names that carry our uuid and are not ours */
};

static inline bool zkl__node_known(const struct zkl__node *node)
{
    return node->name[0] != '\0';
}

/* There may be one that we do not know. */
static inline bool zkl__node_unsure(const struct zkl__node *node)
{
    return node->fate >= ZKL__FATE_UNKNOWN;
}

/* There may be two. */
static inline bool zkl__node_twice(const struct zkl__node *node)
{
    return node->fate >= ZKL__FATE_TWICE;
}

/* It is the only one, and is it for certain. */
static inline bool zkl__node_certain(const struct zkl__node *node)
{
    return node->czxid && !zkl__node_unsure(node);
}

static inline const char *zkl__node_name(const struct zkl__node *node)
{
    return node->name;
}

/* 0: not known. */
static inline int64_t zkl__node_czxid(const struct zkl__node *node)
{
    return node->czxid;
}

static inline const char *zkl__node_uuid(const struct zkl__node *node)
{
    return node->uuid;
}

static inline bool zkl__node_sealed(const struct zkl__node *node)
{
    return node->sealed;
}

static inline bool zkl__node_stays(const struct zkl__node *node)
{
    return node->stays;
}

/* A name that carries our uuid, and is not ours. */
static inline bool zkl__node_has_stranger(const struct zkl__node *node, const char *name)
{
    return zkl__name_set_has(&node->strangers, name);
}

/* With a uuid of its own. A uuid belongs to one attempt in one session: so a name that carries it
 * is ours, without a look at its owner. */
void zkl__node_new_attempt(struct zkl__contender *c);
/* An answer was lost. */
void zkl__node_doubt(struct zkl__node *node);
/* What was sent before is answered, or never will be. */
void zkl__node_on_connected(struct zkl__node *node);
/* The session ended, and took all with it. */
void zkl__node_ended(struct zkl__node *node);
/* The duplicate that we could not delete must go, too: the list will show it. */
void zkl__node_remember_duplicate(struct zkl__node *node);

/* The access list refuses its delete. */
void zkl__node_keep(struct zkl__node *node);
/* It was deleted. */
void zkl__node_gone(struct zkl__node *node);
/* Another one took its place. */
void zkl__node_replaced(struct zkl__node *node, const char *name);
void zkl__node_free(struct zkl__contender *c);

struct zkl__op zkl__create_op(const struct zkl__contender *c);
struct zkl__op zkl__delete_op(const struct zkl__contender *c);
/* That it is there. */
struct zkl__op zkl__check_op(const struct zkl__contender *c);

void zkl__node_ask(struct zkl__contender *c, struct zkl__contender_actions *out);
/* Its czxid, if the answer that told it was lost. */
void zkl__node_ask_czxid(struct zkl__contender *c, struct zkl__contender_actions *out);
void zkl__node_on_create(struct zkl__contender *c, const struct zkl__contender_event *ev,
                         struct zkl__contender_actions *out);
void zkl__node_on_stat(struct zkl__contender *c, const struct zkl__contender_event *ev,
                       struct zkl__contender_actions *out);
void zkl__node_on_check(struct zkl__contender *c, const struct zkl__contender_event *ev,
                        struct zkl__contender_actions *out);
/* Whether the list shows it, and nothing else of ours. False: what follows from that was done. */
bool zkl__node_in_list(struct zkl__contender *c, const struct zkl__contender_event *ev,
                       struct zkl__contender_actions *out);
/* It is gone through no wish of ours. Held: lost. Else: once more at the tail, or an end. */
void zkl__node_removed(struct zkl__contender *c, const struct zkl__contender_event *ev,
                       struct zkl__contender_actions *out);

/* --- until none is left ---------------------------------------------------------------------- */

/* The delete under way is of a duplicate. */
static inline bool zkl__node_removes_duplicate(const struct zkl__node *node)
{
    return node->duplicate[0] != '\0';
}
void zkl__node_on_duplicate(struct zkl__node *node, enum zkl__rc rc);
/* It only carries our uuid, and is somebody else's. False: no memory to note that. */
bool zkl__node_is_strange(struct zkl__contender *c);
/* A barrier was sent, and a list behind it; */
void zkl__node_search(struct zkl__node *node);
/* the barrier was passed; */
void zkl__node_found_by_list(struct zkl__node *node);
/* the list is here. True: it told what is left. */
bool zkl__node_find(struct zkl__contender *c, const struct zkl__reply *list);

#endif
