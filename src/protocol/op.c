#include "acl.h"
#include "op.h"

#include <string.h>

const char *zkl__op_name(enum zkl__op_kind kind)
{
    static const char *const names[] = {
        [ZKL__OP_NONE] = "none",     [ZKL__OP_CREATE] = "create",   [ZKL__OP_DELETE] = "delete",
        [ZKL__OP_SET] = "set",       [ZKL__OP_CHECK] = "check",     [ZKL__OP_MULTI] = "multi",
        [ZKL__OP_SYNC] = "sync",     [ZKL__OP_CHILDREN] = "list",   [ZKL__OP_GET] = "get",
        [ZKL__OP_EXISTS] = "exists", [ZKL__OP_UNWATCH] = "unwatch",
    };
    return (unsigned)kind < sizeof names / sizeof *names ? names[kind] : "?";
}

const char *zkl__rc_name(enum zkl__rc rc)
{
    static const char *const names[] = {
        [ZKL__RC_OK] = "ok",
        [ZKL__RC_NONODE] = "no node",
        [ZKL__RC_NODEEXISTS] = "node exists",
        [ZKL__RC_NOTEMPTY] = "not empty",
        [ZKL__RC_BADVERSION] = "bad version",
        [ZKL__RC_NOAUTH] = "not permitted",
        [ZKL__RC_INVALIDACL] = "invalid acl",
        [ZKL__RC_EPHEMERALPARENT] = "ephemeral parent",
        [ZKL__RC_NOWATCH] = "no watch",
        [ZKL__RC_ROLLEDBACK] = "rolled back",
        [ZKL__RC_QUOTA] = "quota exceeded",
        [ZKL__RC_LOCAL] = "local session",
        [ZKL__RC_UNIMPLEMENTED] = "unimplemented",
        [ZKL__RC_REFUSED] = "refused",
        [ZKL__RC_NOTAPPLIED] = "not applied",
        [ZKL__RC_UNSENT] = "unsent",
        [ZKL__RC_UNKNOWN] = "unknown",
    };
    return (unsigned)rc < sizeof names / sizeof *names ? names[rc] : "?";
}

const char *zkl__rc_why(enum zkl__rc rc)
{
    switch (rc) {
    case ZKL__RC_NOAUTH:
        return "the access list of the path does not permit it";
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

int zkl__rc_code(enum zkl__rc rc)
{
    switch (rc) {
    case ZKL__RC_OK:
        return ZKL_OK;
    case ZKL__RC_NONODE:
        return ZKL_ENOENT;
    case ZKL__RC_NOAUTH:
    case ZKL__RC_INVALIDACL:
        return ZKL_EAUTH;
    case ZKL__RC_NODEEXISTS:
    case ZKL__RC_NOTEMPTY:
    case ZKL__RC_BADVERSION:
    case ZKL__RC_EPHEMERALPARENT:
    case ZKL__RC_ROLLEDBACK:
        return ZKL_ECONFLICT;
    case ZKL__RC_LOCAL:
    case ZKL__RC_UNIMPLEMENTED:
    case ZKL__RC_REFUSED:
        return ZKL_EUNSUPPORTED;
    case ZKL__RC_QUOTA:
    case ZKL__RC_UNSENT:
        return ZKL_ELIMIT;
    case ZKL__RC_NOWATCH:
    case ZKL__RC_NOTAPPLIED:
    case ZKL__RC_UNKNOWN:
        break;
    }
    return ZKL_ECONNECT;
}

/* === copies =================================================================================== */

/* An operation that outlives whoever asked for it. */

static size_t list_size(const struct zkl__op *op)
{
    return op->acl ? zkl__acl_size(op->acl) : 0;
}

static size_t bytes_size(const struct zkl__op *op)
{
    return op->size + (op->dir ? strlen(op->dir) + 1 : 0) + (op->name ? strlen(op->name) + 1 : 0);
}

/* The copies begin where lists (aligned) and bytes point to, which then point behind them. */
static void point_to_copies(struct zkl__op *op, char **lists, char **bytes)
{
    if (op->acl) {
        size_t size = zkl__acl_size(op->acl);
        op->acl = zkl__acl_put(*lists, op->acl);
        *lists += size;
    }
    op->dir = op->dir ? zkl__text_put(bytes, op->dir) : NULL;
    op->name = op->name ? zkl__text_put(bytes, op->name) : NULL;
    if (op->data) {
        op->data = memcpy(*bytes, op->data, op->size);
        *bytes += op->size;
    }
}

/* The block: the operation, its parts, their access lists, their texts and data. */
struct zkl__op *zkl__op_copy(const zkl_heap *heap, const struct zkl__op *op)
{
    size_t parts = op->kind == ZKL__OP_MULTI ? op->part_count : 0;
    size_t lists_size = list_size(op), rest_size = bytes_size(op);
    for (size_t i = 0; i < parts; i++) {
        lists_size += list_size(&op->parts[i]);
        rest_size += bytes_size(&op->parts[i]);
    }
    struct zkl__op *copy = zkl__alloc(heap, (1 + parts) * sizeof *copy + lists_size + rest_size);
    if (!copy) {
        return NULL;
    }
    char *lists = (char *)(copy + 1 + parts), *bytes = lists + lists_size;
    copy[0] = *op;
    point_to_copies(&copy[0], &lists, &bytes);
    for (size_t i = 0; i < parts; i++) {
        copy[1 + i] = op->parts[i];
        point_to_copies(&copy[1 + i], &lists, &bytes);
    }
    copy->parts = parts > 0 ? copy + 1 : NULL;
    return copy;
}
