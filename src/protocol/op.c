#include "op.h"

#include <string.h>

static const struct {
    const char *name;
    int code;
} replies[] = {
    [ZKL__RC_OK] = {"ok", ZKL_OK},
    [ZKL__RC_NONODE] = {"no node", ZKL_ENOENT},
    [ZKL__RC_NODEEXISTS] = {"node exists", ZKL_ECONFLICT},
    [ZKL__RC_NOTEMPTY] = {"not empty", ZKL_ECONFLICT},
    [ZKL__RC_BADVERSION] = {"bad version", ZKL_ECONFLICT},
    [ZKL__RC_NOAUTH] = {"not permitted", ZKL_EAUTH},
    [ZKL__RC_INVALIDACL] = {"invalid acl", ZKL_EAUTH},
    [ZKL__RC_EPHEMERALPARENT] = {"ephemeral parent", ZKL_ECONFLICT},
    [ZKL__RC_NOWATCH] = {"no watch", ZKL_ECONNECT},
    [ZKL__RC_ROLLEDBACK] = {"rolled back", ZKL_ECONFLICT},
    [ZKL__RC_QUOTA] = {"quota exceeded", ZKL_ELIMIT},
    [ZKL__RC_LOCAL] = {"local session", ZKL_EUNSUPPORTED},
    [ZKL__RC_UNIMPLEMENTED] = {"unimplemented", ZKL_EUNSUPPORTED},
    [ZKL__RC_REFUSED] = {"refused", ZKL_EUNSUPPORTED},
    [ZKL__RC_NOTAPPLIED] = {"not applied", ZKL_ECONNECT},
    [ZKL__RC_UNSENT] = {"unsent", ZKL_ELIMIT},
    [ZKL__RC_UNKNOWN] = {"unknown", ZKL_ECONNECT},
};

const char *zkl__rc_name(enum zkl__rc rc)
{
    return replies[rc].name;
}

int zkl__rc_code(enum zkl__rc rc)
{
    return replies[rc].code;
}

const char *zkl__rc_why(enum zkl__rc rc)
{
    switch (rc) {
    case ZKL__RC_NOAUTH:
        return "the access list of the path does not permit it";
    case ZKL__RC_EPHEMERALPARENT:
        return "a part of the path is an ephemeral znode, which has no children";
    case ZKL__RC_QUOTA:
        return "the quota of the path is used up: raise it (setquota), or remove what is not "
               "needed below it";
    case ZKL__RC_LOCAL:
        return "the servers gave a local session, which makes no ephemeral znodes: set "
               "localSessionsUpgradingEnabled=true";
    case ZKL__RC_UNIMPLEMENTED:
        return "the server does not know this request: locks need ZooKeeper 3.5.0 or later, and "
               "'zklock doctor' shows each server's version";
    default:
        return "the server refused it";
    }
}

/* === copies =================================================================================== */

/* An operation that outlives whoever asked for it. */

/* The block: the operation, its parts, their access lists, their texts and data. */
struct zkl__op *zkl__op_copy(const zkl_heap *heap, const struct zkl__op *op)
{
    size_t count = 1 + op->part_count, lists_size = 0, bytes_size = 0;
    for (size_t i = 0; i < count; i++) {
        const struct zkl__op *each = i == 0 ? op : &op->parts[i - 1];
        lists_size += each->acl ? zkl__acl_size(each->acl) : 0;
        bytes_size += (each->dir ? strlen(each->dir) + 1 : 0) +
                      (each->name ? strlen(each->name) + 1 : 0) + each->size;
    }
    struct zkl__op *copy = zkl__alloc(heap, count * sizeof *copy + lists_size + bytes_size);
    if (!copy) {
        return NULL;
    }
    char *lists = (char *)(copy + count), *bytes = lists + lists_size;
    for (size_t i = 0; i < count; i++) {
        struct zkl__op *each = &copy[i];
        *each = i == 0 ? *op : op->parts[i - 1];
        if (each->acl) {
            size_t size = zkl__acl_size(each->acl);
            each->acl = zkl__acl_put(lists, each->acl);
            lists += size;
        }
        each->dir = each->dir ? zkl__text_put(&bytes, each->dir) : NULL;
        each->name = each->name ? zkl__text_put(&bytes, each->name) : NULL;
        if (each->data) {
            each->data = memcpy(bytes, each->data, each->size);
            bytes += each->size;
        }
    }
    copy->parts = op->parts ? copy + 1 : NULL;
    return copy;
}
