#include "children.h"

#include "collections.h"
#include "name.h"

#include <string.h>

static int compare_names(const void *one, const void *other)
{
    const struct zkl__child *a = one, *b = other;
    return strcmp(a->name, b->name);
}

bool zkl__children_renew(const zkl_heap *heap, struct zkl__children **children,
                         const struct zkl__reply *list, bool (*counts)(const char *name))
{
    struct zkl__children *old = *children;
    size_t bytes = 0, kept = 0;
    ZKL__EACH_NAME (name, list) {
        bytes += strlen(name) + 1;
    }
    struct zkl__children *fresh =
        zkl__zalloc(heap, sizeof *fresh + list->child_count * sizeof *fresh->all + bytes);
    *children = fresh;
    if (!fresh) {
        zkl__free(heap, old);
        return false;
    }
    fresh->czxid = list->stat.czxid;
    /* "cversion" is twice the creates less the children (DataNode.copyStat). */
    fresh->created = (uint32_t)list->stat.cversion + (uint32_t)list->stat.child_count;
    char *text = (char *)(fresh->all + list->child_count);
    ZKL__EACH_NAME (name, list) {
        if (!counts || counts(name)) {
            fresh->all[fresh->count++].name = zkl__text_put(&text, name);
        }
    }
    const size_t count = fresh->count;
    fresh->others = list->child_count - count;
    zkl__sort(fresh->all, count, sizeof *fresh->all, compare_names);
    if (!old) {
        return true;
    }
    for (size_t i = 0; i < count; i++) {
        const struct zkl__child *was = zkl__children_find(old, fresh->all[i].name);
        kept += was != NULL;
        if (was && was->verdict != ZKL__CHILD_DELETED) {
            fresh->all[i].verdict = was->verdict;
            fresh->all[i].czxid = was->czxid;
        }
    }
    /* If between the lists as many children were created as have new names, no name that both lists
     * show was created in between. */
    size_t added = count - kept + (fresh->others > old->others ? fresh->others - old->others : 0);
    bool known = fresh->czxid == old->czxid && fresh->created - old->created == 2 * (uint32_t)added;
    for (size_t i = 0; !known && i < count; i++) {
        fresh->all[i].verdict = ZKL__CHILD_UNKNOWN;
        fresh->all[i].czxid = 0;
    }
    zkl__free(heap, old);
    return true;
}

void zkl__child_judge(struct zkl__child *child, const struct zkl__reply *reply)
{
    bool there = reply->rc == ZKL__RC_OK;
    child->verdict = ZKL__CHILD_EPHEMERAL;
    if (reply->rc == ZKL__RC_NONODE) {
        child->verdict = ZKL__CHILD_DELETED;
    } else if (reply->unsent == ZKL_EINVAL || (there && !zkl__is_ephemeral(&reply->stat))) {
        child->verdict = ZKL__CHILD_PERSISTENT;
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

size_t zkl__children_count(const struct zkl__children *children, enum zkl__child_verdict verdict)
{
    size_t count = 0;
    for (size_t i = 0; i < children->count; i++) {
        count += children->all[i].verdict == verdict;
    }
    return count;
}

struct zkl__names *zkl__children_names(const zkl_heap *heap, const struct zkl__children *children)
{
    size_t bytes = 0, living = zkl__children_count(children, ZKL__CHILD_EPHEMERAL);
    for (size_t i = 0; i < children->count; i++) {
        bytes += strlen(children->all[i].name) + 1;
    }
    struct zkl__names *names =
        zkl__zalloc(heap, sizeof *names + living * sizeof *names->all + bytes);
    char *text = names ? (char *)(names->all + living) : NULL;
    for (size_t i = 0; names && i < children->count; i++) {
        if (children->all[i].verdict == ZKL__CHILD_EPHEMERAL) {
            names->all[names->count++] = zkl__text_put(&text, children->all[i].name);
        }
    }
    return names;
}

struct zkl__child *zkl__children_find(struct zkl__children *children, const char *name)
{
    size_t low = 0, high = children->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(children->all[middle].name, name);
        if (order == 0) {
            return &children->all[middle];
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return NULL;
}

/* === of a queue ================================================================================
 */

bool zkl__stat_forged(zkl_kind kind, const struct zkl__stat *stat, int64_t czxid)
{
    /* No czxid is a reply without a stat: every znode but the root has one (PrepRequestProcessor,
     * StatPersisted). */
    return stat->czxid &&
           (stat->ephemeral_owner == 0 || (czxid && stat->czxid > czxid && kind != ZKL_KIND_READ));
}

/* The first contender holds. If its kind is shared, so do all of its kind before the first one of
 * another. */
void zkl__queue_judge(zkl_queue_entry *entries, size_t count, const struct zkl__stat *directory)
{
    const uint32_t shared = ZKL__KIND_READERS | ZKL__KIND(ZKL_KIND_LEASE);
    /* The number that the directory's next sequential node gets: PrepRequestProcessor takes the
     * number of creates, and DataNode.copyStat shows it as twice that less the children (ZooKeeper
     * 3.8). */
    int32_t next =
        (int32_t)(((uint32_t)directory->cversion + (uint32_t)directory->child_count) / 2);
    int64_t oldest = 0; /* from the end: the least czxid behind the entry */
    for (size_t i = count; i > 0; i--) {
        zkl_queue_entry *entry = &entries[i - 1];
        const struct zkl__stat stat = {.czxid = entry->token, .ephemeral_owner = entry->session_id};
        bool lease = entry->kind == ZKL_KIND_LEASE; /* permits of a semaphore have no order */
        if (entry->token == 0) {
            continue; /* nothing is known of it: contenders wait for it */
        }
        /* Or a number that the server has not given to anybody yet. */
        entry->forged = zkl__stat_forged(entry->kind, &stat, lease ? 0 : oldest) ||
                        (!lease && next >= 0 && entry->sequence >= next);
        if (!entry->forged && (oldest == 0 || entry->token < oldest)) {
            oldest = entry->token;
        }
    }
    zkl_kind first = ZKL_KIND_FOREIGN; /* none yet */
    bool more = true;
    for (size_t i = 0; i < count; i++) {
        zkl_queue_entry *entry = &entries[i];
        if (entry->forged) {
            continue;
        }
        first = first == ZKL_KIND_FOREIGN ? entry->kind : first;
        entry->holds = more && entry->kind == first;
        more = entry->holds && (ZKL__KIND(first) & shared);
    }
}
