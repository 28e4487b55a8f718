#include "queue_list.h"

#include <string.h>

static bool is_ignored(const struct zkl__contender *c, const char *name)
{
    for (size_t i = 0; i < c->ignored_count; i++) {
        if (strcmp(c->ignored[i], name) == 0) {
            return true;
        }
    }
    return false;
}

bool zkl__list_ignore(struct zkl__contender *c, const char *name)
{
    char **grown = zkl__resize(c->heap, c->ignored, (c->ignored_count + 1) * sizeof *grown);
    if (!grown) {
        return false;
    }
    c->ignored = grown;
    c->ignored[c->ignored_count] = zkl__copy(c->heap, name, strlen(name));
    if (!c->ignored[c->ignored_count]) {
        return false;
    }
    c->ignored_count++;
    return true;
}

static bool is_mine(const struct zkl__contender *c, const char *name)
{
    const char *uuid = zkl__name_parse(name).uuid;
    return uuid && memcmp(uuid, c->uuid, ZKL__UUID_LENGTH) == 0 && strlen(name) < ZKL__NAME_MAX && !is_ignored(c, name);
}

bool zkl__list_has(const struct zkl__reply *list, const char *name)
{
    for (size_t i = 0; i < list->child_count; i++) {
        if (strcmp(list->children[i], name) == 0) {
            return true;
        }
    }
    return false;
}

void zkl__list_mine(const struct zkl__contender *c, const struct zkl__reply *list, const char **lowest,
                    const char **other)
{
    *lowest = *other = NULL;
    for (size_t i = 0; i < list->child_count; i++) {
        const char *name = list->children[i];
        if (!is_mine(c, name)) {
            continue;
        }
        if (!*lowest) {
            *lowest = name;
        } else if (zkl__sequence_diff(zkl__name_parse(name).sequence, zkl__name_parse(*lowest).sequence) < 0) {
            *other = *lowest;
            *lowest = name;
        } else {
            *other = name;
        }
    }
}

const char *zkl__list_blocker(const struct zkl__contender *c, const struct zkl__reply *list)
{
    int32_t own = zkl__name_parse(c->node).sequence;
    int32_t nearest = INT32_MIN;
    const char *blocker = NULL;
    for (size_t i = 0; i < list->child_count; i++) {
        struct zkl__name name = zkl__name_parse(list->children[i]);
        int32_t place = zkl__sequence_diff(name.sequence, own);
        if (place < 0 && (c->config.rule->waits_for & ZKL__KIND(name.kind)) && (!blocker || place > nearest) &&
            !is_ignored(c, list->children[i])) {
            nearest = place;
            blocker = list->children[i];
        }
    }
    return blocker;
}

bool zkl__list_forged(const struct zkl__contender *c, const char *name, const struct zkl__stat *stat)
{
    zkl_kind kind = zkl__name_parse(name).kind;
    return stat->ephemeral_owner == 0 || (c->czxid && stat->czxid > c->czxid && kind != ZKL_KIND_READ);
}
