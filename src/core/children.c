#include "children.h"

#include "own.h"

#include <stdlib.h>
#include <string.h>

static int by_name(const void *left, const void *right)
{
    return strcmp(((const struct zkl__child *)left)->name, ((const struct zkl__child *)right)->name);
}

static bool is_counted(bool (*counts)(const char *name), const char *name)
{
    return !counts || counts(name);
}

/* Both by name: one walk through both. */
static void inherit(struct zkl__children *fresh, const struct zkl__children *old)
{
    size_t at = 0;
    for (size_t i = 0; old && i < fresh->count; i++) {
        while (at < old->count && strcmp(old->all[at].name, fresh->all[i].name) < 0) {
            at++;
        }
        bool lives = at < old->count && old->all[at].verdict == ZKL__CHILD_LIVES;
        if (lives && strcmp(old->all[at].name, fresh->all[i].name) == 0) {
            fresh->all[i].verdict = ZKL__CHILD_LIVES;
            fresh->all[i].czxid = old->all[at].czxid;
        }
    }
}

struct zkl__children *zkl__children_copy(const zkl_heap *heap, const struct zkl__reply *list,
                                         const struct zkl__children *old, bool (*counts)(const char *name))
{
    size_t bytes = 0, count = 0;
    for (size_t i = 0; i < list->child_count; i++) {
        if (is_counted(counts, list->children[i])) {
            bytes += strlen(list->children[i]) + 1;
            count++;
        }
    }
    struct zkl__children *fresh = zkl__zalloc(heap, sizeof *fresh + count * sizeof *fresh->all + bytes);
    if (!fresh) {
        return NULL;
    }
    char *text = (char *)(fresh->all + count);
    for (size_t i = 0; i < list->child_count; i++) {
        if (is_counted(counts, list->children[i])) {
            fresh->all[fresh->count++].name = strcpy(text, list->children[i]);
            text += strlen(text) + 1;
        }
    }
    if (count > 0) {
        qsort(fresh->all, count, sizeof *fresh->all, by_name);
    }
    inherit(fresh, old);
    return fresh;
}

void zkl__child_judge(struct zkl__child *child, const struct zkl__reply *reply)
{
    bool there = reply->rc == ZKL__RC_OK;
    child->verdict = ZKL__CHILD_LIVES;
    if (reply->rc == ZKL__RC_NONODE) {
        child->verdict = ZKL__CHILD_GONE;
    } else if (there && !zkl__lives(&reply->stat)) {
        child->verdict = ZKL__CHILD_STRAY;
    }
    child->czxid = there ? reply->stat.czxid : 0;
}

size_t zkl__children_unknown(const struct zkl__children *children, size_t from)
{
    while (from < children->count && children->all[from].verdict != ZKL__CHILD_UNKNOWN) {
        from++;
    }
    return from;
}

size_t zkl__children_living(const struct zkl__children *children)
{
    size_t living = 0;
    for (size_t i = 0; i < children->count; i++) {
        living += children->all[i].verdict == ZKL__CHILD_LIVES;
    }
    return living;
}

size_t zkl__children_standing(const struct zkl__children *children)
{
    size_t standing = 0;
    for (size_t i = 0; i < children->count; i++) {
        standing += children->all[i].verdict != ZKL__CHILD_STRAY;
    }
    return standing;
}

struct zkl__child *zkl__children_find(struct zkl__children *children, const char *name)
{
    struct zkl__child key = {.name = (char *)(uintptr_t)name};
    return children->count ? bsearch(&key, children->all, children->count, sizeof key, by_name) : NULL;
}
