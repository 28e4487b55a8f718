/* op_copy.c - an operation that outlives whoever asked for it. */
#include "op.h"

#include "acl.h"

#include <string.h>

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
