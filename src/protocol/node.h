/* node.h - the znode that a contender created: its name, its czxid, and what is known of its
 * create.
 *
 * A create whose response was lost is sent again with the same uuid. So a name that carries the
 * uuid is ours, and a list behind a committed write shows all copies that were created. */
#ifndef ZKL_PROTOCOL_NODE_H
#define ZKL_PROTOCOL_NODE_H

#include "name.h"
#include "name_set.h"
#include "op.h"

struct zkl__contender;

/* The fate of the creates that we sent. From UNKNOWN on a znode of ours may exist that `name` is
 * not.
 */
enum zkl__fate {
    ZKL__FATE_KNOWN,
    ZKL__FATE_DUPLICATE_STAYS, /* we may not delete the duplicate now: it is deleted with our znode
                                */
    ZKL__FATE_UNKNOWN,         /* a response was lost */
    ZKL__FATE_LISTED, /* the same, and a list is under way behind a committed write: it decides */
    ZKL__FATE_TWICE,  /* the create was sent again: two znodes may exist */
    ZKL__FATE_TWICE_STAYS /* two exist, and we may not delete the second one */
};

struct zkl__node {
    char uuid[ZKL__UUID_LENGTH + 1];
    char prefix[ZKL__NAME_MAX]; /* "_c_<uuid>-<tag>" */
    char name[ZKL__NAME_MAX];   /* "": none is known */
    int64_t czxid;              /* 0: not known */
    enum zkl__fate fate;
    bool sealed;                    /* see announcement.h */
    bool stays;                     /* we may not delete it: the end of the session does */
    bool removes_duplicate;         /* the delete under way is of a second znode of ours */
    struct zkl__name_set strangers; /* names that carry our uuid and are not ours */
};

static inline bool zkl__node_known(const struct zkl__node *node)
{
    return node->name[0] != '\0';
}

/* A znode of ours may exist whose name we do not know. */
static inline bool zkl__node_unsure(const struct zkl__node *node)
{
    return node->fate >= ZKL__FATE_UNKNOWN;
}

/* Two znodes of ours may exist. */
static inline bool zkl__node_twice(const struct zkl__node *node)
{
    return node->fate >= ZKL__FATE_TWICE;
}

/* It is known that ours exists, and that it is the only one. */
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

/* Begins an attempt with a new uuid. A uuid belongs to one attempt in one session, so a name that
 * carries it is ours, and nobody has to read its owner. */
void zkl__node_new_attempt(struct zkl__contender *c);
/* A response was lost. */
void zkl__node_doubt(struct zkl__node *node);
/* Every request of the earlier connection has a response by now, or never gets one. */
void zkl__node_on_connected(struct zkl__node *node);
/* The session ended, which deletes all its znodes. */
void zkl__node_ended(struct zkl__node *node);
/* A duplicate that we could not delete is deleted now, too: a list will show it. */
void zkl__node_remember_duplicate(struct zkl__node *node);

/* The access list refuses its delete. */
void zkl__node_keep(struct zkl__node *node);
/* It was deleted. */
void zkl__node_gone(struct zkl__node *node);
/* A downgrade replaced it by another one. */
void zkl__node_replaced(struct zkl__node *node, const char *name);
void zkl__node_free(struct zkl__contender *c);

struct zkl__op zkl__create_op(const struct zkl__contender *c);
struct zkl__op zkl__delete_op(const struct zkl__contender *c);

void zkl__node_ask(struct zkl__contender *c);
/* Reads its czxid, if the response that had it was lost. */
void zkl__node_ask_czxid(struct zkl__contender *c);
void zkl__node_on_create(struct zkl__contender *c);
void zkl__node_on_stat(struct zkl__contender *c);
void zkl__node_on_check(struct zkl__contender *c);
/* Whether the list shows our znode and no other of ours. If not, this function has already acted on
 * it. */
bool zkl__node_in_list(struct zkl__contender *c);
/* Somebody else deleted our znode. A holder loses the lock. A waiter queues again at the tail, or
 * fails if config.fail_on_expiry says so. */
void zkl__node_removed(struct zkl__contender *c);

/* --- the end, until none is left ------------------------------------------------------------- */

/* The delete under way is of a duplicate. */
static inline bool zkl__node_removes_duplicate(const struct zkl__node *node)
{
    return node->removes_duplicate;
}
void zkl__node_on_duplicate(struct zkl__node *node, enum zkl__rc rc);
/* The znode carries our uuid, but somebody else owns it. False: no memory to note that. */
bool zkl__node_is_strange(struct zkl__contender *c);
/* A committed write (the barrier) was sent, and a list behind it. */
void zkl__node_search(struct zkl__node *node);
/* The barrier is committed. */
void zkl__node_found_by_list(struct zkl__node *node);
/* The list came. True: it shows all znodes of ours that are left. */
bool zkl__node_find(struct zkl__contender *c, const struct zkl__reply *list);

#endif
