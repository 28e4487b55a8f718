/* op_copy.c - an operation that outlives whoever asked for it. */
#include "op.h"

#include <string.h>

static size_t size_of(const struct zkl__op *op)
{
    size_t size =
        op->size + 1 + (op->dir ? strlen(op->dir) + 1 : 0) + (op->name ? strlen(op->name) + 1 : 0);
    for (size_t i = 0; op->kind == ZKL__OP_MULTI && i < op->part_count; i++) {
        size += sizeof *op + size_of(&op->parts[i]);
    }
    return size;
}

static void point_to_copies(struct zkl__op *op, char **end)
{
    op->dir = op->dir ? zkl__text_put(end, op->dir) : NULL;
    op->name = op->name ? zkl__text_put(end, op->name) : NULL;
    if (op->data) {
        op->data = memcpy(*end, op->data, op->size);
        *end += op->size;
    }
}

struct zkl__op *zkl__op_copy(const zkl_heap *heap, const struct zkl__op *op)
{
    size_t parts = op->kind == ZKL__OP_MULTI ? op->part_count : 0;
    struct zkl__op *copy = zkl__alloc(heap, sizeof *copy + size_of(op));
    if (!copy) {
        return NULL;
    }
    char *end = (char *)(copy + 1 + parts);
    copy[0] = *op;
    point_to_copies(copy, &end);
    for (size_t i = 0; i < parts; i++) {
        copy[1 + i] = op->parts[i];
        point_to_copies(&copy[1 + i], &end);
    }
    copy->parts = parts > 0 ? copy + 1 : NULL;
    return copy;
}
