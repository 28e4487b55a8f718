/* queue.c - who holds and who waits: reads only. */
#include "queue_inside.h"

#include "error.h"
#include "heap.h"
#include "name.h"
#include "path.h"
#include "queue_order.h"

#include <stdlib.h>
#include <string.h>

/* --- what these functions begin and end with ------------------------------------------------- */

int zkl__queue_enter(zkl_session *session, const void *out, const char *path, int64_t timeout_ms,
                     zkl_error *err)
{
    if (!out || !session) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "%s is NULL", out ? "session" : "out");
    }
    int rc = zkl__timeout_check(timeout_ms, err);
    bool root = path && strcmp(path, "/") == 0;
    rc = rc == ZKL_OK && !root ? zkl__path_check(path, err) : rc;
    return rc == ZKL_OK ? zkl__session_enter(session, err) : rc;
}

/* --- the list of a queue --------------------------------------------------------------------- */

/* What the caller gets is the first member; the rest is ours to free it with. */
struct zkl__queue_snapshot {
    zkl_queue public;
    zkl_heap heap;
    struct zkl__children *names; /* NULL until it is whole */
    const char **foreign;        /* the names of the others; their text is behind them */
    struct zkl__stat stat;       /* of the directory, as of the list */
    bool failed;
    size_t room; /* one for each name; name NULL: it went before it was read */
    zkl_queue_entry entries[];
};

/* The names that are no contenders', in one block. NULL: no memory. */
static const char **copy_foreign(const zkl_heap *heap, const struct zkl__reply *list, size_t count)
{
    size_t bytes = count * sizeof(const char *) + 1;
    for (size_t i = 0; i < list->child_count; i++) {
        bytes += strlen(list->children[i]) + 1;
    }
    const char **names = zkl__alloc(heap, bytes);
    char *text = names ? (char *)(names + count) : NULL;
    for (size_t i = 0, at = 0; names && i < list->child_count; i++) {
        if (!zkl__name_contends(list->children[i])) {
            size_t size = strlen(list->children[i]) + 1;
            names[at++] = memcpy(text, list->children[i], size);
            text += size;
        }
    }
    return names;
}

static bool make_snapshot(struct zkl__survey *survey, const struct zkl__reply *list)
{
    const zkl_heap *heap = zkl__session_heap(survey->by->session);
    struct zkl__queue_listing *listing = (struct zkl__queue_listing *)survey;
    size_t room = survey->names->count;
    struct zkl__queue_snapshot *snapshot =
        zkl__zalloc(heap, sizeof *snapshot + room * sizeof *snapshot->entries);
    if (snapshot) {
        snapshot->heap = *heap;
        snapshot->room = room;
        snapshot->stat = list->stat;
        snapshot->public.foreign = list->child_count - room;
        snapshot->foreign = copy_foreign(heap, list, snapshot->public.foreign);
        snapshot->public.foreign_names = snapshot->foreign;
    }
    listing->snapshot = snapshot;
    return snapshot && snapshot->foreign;
}

static void take_entry(struct zkl__survey *survey, size_t index, const struct zkl__reply *reply)
{
    struct zkl__queue_snapshot *snapshot = ((struct zkl__queue_listing *)survey)->snapshot;
    zkl_queue_entry *entry = &snapshot->entries[index];
    const char *whole = survey->names->all[index].name;
    struct zkl__name name = zkl__name_parse(whole);
    if (reply->rc == ZKL__RC_NONODE) {
        return;
    }
    *entry = (zkl_queue_entry){.name = whole,
                               .kind = name.kind,
                               .sequence = name.sequence,
                               .readable = reply->rc == ZKL__RC_OK};
    if (!entry->readable) {
        return;
    }
    size_t size = reply->size < ZKL_DATA_MAX ? reply->size : ZKL_DATA_MAX;
    entry->data = zkl__copy(&snapshot->heap, reply->data, size);
    entry->data_size = size;
    entry->token = reply->stat.czxid;
    entry->session_id = reply->stat.ephemeral_owner;
    entry->created_ms = reply->stat.ctime_ms;
    snapshot->failed = snapshot->failed || !entry->data;
}

/* By number; of two that have the same one (Curator's downgraded reader stands in its writer's
 * place) by name. */
static int compare_entries(const void *left, const void *right)
{
    const zkl_queue_entry *a = left, *b = right;
    if (!a->name || !b->name) {
        return (a->name == NULL) - (b->name == NULL); /* what went is put last, and cut off */
    }
    int32_t diff = zkl__sequence_diff(a->sequence, b->sequence);
    return diff ? (diff > 0) - (diff < 0) : strcmp(a->name, b->name);
}

static void put_in_order(struct zkl__queue_snapshot *snapshot)
{
    if (snapshot->room > 0) {
        qsort(snapshot->entries, snapshot->room, sizeof *snapshot->entries, compare_entries);
    }
    for (size_t i = 0; i < snapshot->room && snapshot->entries[i].name; i++) {
        const zkl_queue_entry *entry = &snapshot->entries[i];
        snapshot->public.count++;
        if (entry->created_ms > snapshot->public.server_ms) {
            snapshot->public.server_ms = entry->created_ms;
        }
    }
    zkl__queue_judge(snapshot->entries, snapshot->public.count, &snapshot->stat);
    snapshot->public.entries = snapshot->entries;
}

void zkl__queue_listing_begin(struct zkl__queue_listing *listing, struct zkl__procedure *by,
                              const char *path)
{
    listing->survey.dir = path;
    listing->survey.counts = zkl__name_contends;
    listing->survey.refused = "its children may not be listed";
    listing->survey.listed = make_snapshot;
    listing->survey.read = take_entry;
    zkl__survey_begin(&listing->survey, by);
}

int zkl__queue_listing_advance(struct zkl__queue_listing *listing, zkl_queue **out, zkl_error *err)
{
    struct zkl__queue_snapshot *snapshot;
    int rc = zkl__survey_advance(&listing->survey, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    snapshot = listing->snapshot;
    if (snapshot->failed) {
        return zkl__fail(err, ZKL_ENOMEM, 0, listing->survey.dir, "no memory for %zu contenders",
                         snapshot->room);
    }
    snapshot->names = listing->survey.names;
    listing->survey.names = NULL;
    listing->snapshot = NULL;
    put_in_order(snapshot);
    *out = &snapshot->public;
    return ZKL_OK;
}

void zkl__queue_listing_end(struct zkl__queue_listing *listing)
{
    zkl__survey_end(&listing->survey);
    zkl_queue_free(listing->snapshot ? &listing->snapshot->public : NULL);
    listing->snapshot = NULL;
}

void zkl_queue_free(zkl_queue *queue)
{
    if (!queue) {
        return;
    }
    struct zkl__queue_snapshot *snapshot = (struct zkl__queue_snapshot *)queue;
    zkl_heap heap = snapshot->heap;
    for (size_t i = 0; i < snapshot->room; i++) {
        zkl__free(&heap, (void *)(uintptr_t)snapshot->entries[i].data);
    }
    zkl__free(&heap, snapshot->names);
    zkl__free(&heap, snapshot->foreign);
    zkl__free(&heap, snapshot);
}

/* --- the call -------------------------------------------------------------------------------- */

struct list {
    struct zkl__procedure procedure; /* first */
    struct zkl__queue_listing listing;
    zkl_queue **out;
};

static int advance(struct zkl__procedure *procedure, zkl_error *err)
{
    struct list *list = (struct list *)procedure;
    return zkl__queue_listing_advance(&list->listing, list->out, err);
}

static void end(struct zkl__procedure *procedure)
{
    zkl__queue_listing_end(&((struct list *)procedure)->listing);
}

static int list_queue(zkl_queue **out, zkl_session *session, const char *path, int64_t timeout_ms,
                      const struct zkl__later *later, zkl_error *err)
{
    static const struct zkl__procedure_ops ops = {.advance = advance, .end = end};
    ZKL__CLEAR(out);
    int rc = zkl__queue_enter(session, out, path, timeout_ms, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    struct list *list = zkl__procedure_make(session, sizeof *list, &ops, path, timeout_ms, err);
    rc = ZKL_ENOMEM;
    if (list) {
        list->out = out;
        zkl__queue_listing_begin(&list->listing, &list->procedure, list->procedure.path);
        rc = zkl__procedure_go(&list->procedure, later, err);
    }
    zkl__session_leave(session);
    return rc;
}

int zkl_queue_list(zkl_queue **out, zkl_session *session, const char *path, int64_t timeout_ms,
                   zkl_error *err)
{
    return list_queue(out, session, path, timeout_ms, NULL, err);
}

int zkl_queue_list_async(zkl_queue **out, zkl_session *session, const char *path,
                         int64_t timeout_ms, zkl_done_fn done, void *payload, zkl_error *err)
{
    const struct zkl__later later = {done, payload};
    return list_queue(out, session, path, timeout_ms, &later, err);
}
