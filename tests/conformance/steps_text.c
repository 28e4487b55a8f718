/* steps_text.c - a script in words, for the people who read what went wrong. */
#include "steps.h"

#include <stdio.h>
#include <string.h>

const char *script_step_name(enum step_kind kind)
{
    static const char *const step_names[] = {"burst", "open", "close", "cut", "heal"};
    return step_names[kind];
}

static size_t put(char *out, size_t size, size_t at, const char *text)
{
    int length = at < size ? snprintf(out + at, size - at, "%s", text) : 0;
    return at + (size_t)(length > 0 ? length : 0);
}

static size_t put_acl(char *out, size_t size, size_t at, const zkl_acl *acl)
{
    char text[128];
    at = put(out, size, at, " acl=[");
    for (size_t i = 0; i < acl->count; i++) {
        const zkl_acl_entry *entry = &acl->entries[i];
        snprintf(text, sizeof text, "%s%d:%s:%s", i > 0 ? " " : "", entry->perms, entry->scheme, entry->id);
        at = put(out, size, at, text);
    }
    return put(out, size, at, "]");
}

void script_op_text(char *out, size_t size, const struct zkl__op *op)
{
    static const char *const mode_names[] = {"persistent", "ephemeral", "ephemeral-seq", "persistent-seq", "container"};
    char text[SCRIPT_PATH + 64];
    size_t at = put(out, size, 0, zkl__op_name(op->kind));
    if (op->kind == ZKL__OP_MULTI) {
        for (size_t i = 0; i < op->part_count && at < size; i++) {
            at = put(out, size, at, i == 0 ? " { " : "; ");
            script_op_text(out + at, size - at, &op->parts[i]);
            at += strlen(out + at);
        }
        put(out, size, at, " }");
        return;
    }
    snprintf(text, sizeof text, " %s%s%s", op->dir, op->name ? " + " : "", op->name ? op->name : "");
    at = put(out, size, at, text);
    if (op->kind == ZKL__OP_CREATE) {
        snprintf(text, sizeof text, " %s size=%zu", mode_names[op->mode], op->size);
        at = put(out, size, at, text);
        at = op->acl ? put_acl(out, size, at, op->acl) : at;
    } else if (op->kind == ZKL__OP_DELETE || op->kind == ZKL__OP_SET || op->kind == ZKL__OP_CHECK) {
        snprintf(text, sizeof text, " version=%d", op->version);
        at = put(out, size, at, text);
    }
    put(out, size, at, op->watch ? " watch" : "");
}
