/* queue.c - who holds and who waits: reads only. */
#include "await.h"

#include "error.h"
#include "heap.h"
#include "name.h"
#include "path.h"
#include "queue_order.h"

#include <stdlib.h>
#include <string.h>

/* --- growing lists of strings ---------------------------------------------------------------- */

struct strings {
    const zkl_heap *heap;
    char **all;
    size_t count, room;
    bool failed; /* no memory */
};

static void strings_add(struct strings *strings, char *text)
{
    if (text && strings->count == strings->room) {
        size_t room = strings->room ? strings->room * 2 : 16;
        char **grown = zkl__resize(strings->heap, strings->all, room * sizeof *grown);
        strings->all = grown ? grown : strings->all;
        strings->room = grown ? room : strings->room;
    }
    if (text && strings->count < strings->room) {
        strings->all[strings->count++] = text;
    } else {
        zkl__free(strings->heap, text);
        strings->failed = true;
    }
}

static void strings_free(struct strings *strings)
{
    for (size_t i = 0; i < strings->count; i++) {
        zkl__free(strings->heap, strings->all[i]);
    }
    zkl__free(strings->heap, strings->all);
}

/* --- list ------------------------------------------------------------------------------------ */

/* What the caller gets is the first member; the rest is ours to free it with. */
struct snapshot {
    zkl_queue public;
    zkl_heap heap;
    struct strings names;
    zkl_queue_entry *entries; /* one for each name; name NULL: it went before it was read */
    const char *path;
    enum zkl__rc rc;       /* of the list */
    struct zkl__stat stat; /* of the directory, as of the list */
    bool failed;
};

static void look_at_children(void *arg, const struct zkl__reply *reply)
{
    struct snapshot *snapshot = arg;
    snapshot->rc = reply->rc;
    snapshot->stat = reply->stat;
    for (size_t i = 0; reply->rc == ZKL__RC_OK && i < reply->child_count; i++) {
        const char *name = reply->children[i];
        if (zkl__name_parse(name).kind == ZKL_KIND_FOREIGN) {
            snapshot->public.foreign++;
        } else {
            strings_add(&snapshot->names, zkl__copy(&snapshot->heap, name, strlen(name)));
        }
    }
}

static void ask_entry(void *arg, size_t index, struct zkl__op *op)
{
    struct snapshot *snapshot = arg;
    *op = (struct zkl__op){
        .kind = ZKL__OP_GET, .dir = snapshot->path, .name = snapshot->names.all[index]};
}

static void look_at_entry(void *arg, size_t index, const struct zkl__reply *reply)
{
    struct snapshot *snapshot = arg;
    zkl_queue_entry *entry = &snapshot->entries[index];
    struct zkl__name name = zkl__name_parse(snapshot->names.all[index]);
    if (reply->rc == ZKL__RC_NONODE) {
        return;
    }
    *entry = (zkl_queue_entry){.name = snapshot->names.all[index],
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

static void put_in_order(struct snapshot *snapshot)
{
    size_t count = snapshot->names.count;
    if (count > 0) {
        qsort(snapshot->entries, count, sizeof *snapshot->entries, compare_entries);
    }
    for (size_t i = 0; i < count && snapshot->entries[i].name; i++) {
        const zkl_queue_entry *entry = &snapshot->entries[i];
        snapshot->public.count++;
        if (entry->created_ms > snapshot->public.server_ms) {
            snapshot->public.server_ms = entry->created_ms;
        }
    }
    zkl__queue_judge(snapshot->entries, snapshot->public.count, &snapshot->stat);
    snapshot->public.entries = snapshot->entries;
}

/* Inside. */
static int take_snapshot(struct snapshot *snapshot, zkl_session *session, int64_t deadline,
                         zkl_error *err)
{
    const struct zkl__op list = {.kind = ZKL__OP_CHILDREN, .dir = snapshot->path};
    int rc = zkl__session_insist(session, &list, deadline, look_at_children, snapshot, err);
    if (rc == ZKL_OK && snapshot->rc != ZKL__RC_OK && snapshot->rc != ZKL__RC_NONODE) {
        return zkl__fail(err, zkl__rc_code(snapshot->rc), 0, snapshot->path,
                         "its children may not be listed");
    }
    if (rc == ZKL_OK && !snapshot->names.failed && snapshot->names.count > 0) {
        snapshot->entries =
            zkl__zalloc(&snapshot->heap, snapshot->names.count * sizeof *snapshot->entries);
        snapshot->failed = !snapshot->entries;
        if (snapshot->entries) {
            struct zkl__reads reads = {snapshot->names.count, ask_entry, look_at_entry, snapshot};
            rc = zkl__session_read(session, &reads, deadline, err);
        }
    }
    if (rc == ZKL_OK && (snapshot->failed || snapshot->names.failed)) {
        return zkl__fail(err, ZKL_ENOMEM, 0, snapshot->path, "no memory for %zu contenders",
                         snapshot->names.count);
    }
    return rc;
}

static int enter_to_read(zkl_session *session, const void *out, const char *path,
                         int64_t timeout_ms, zkl_error *err)
{
    if (!out || !session) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "%s is NULL", out ? "session" : "out");
    }
    int rc = zkl__timeout_check(timeout_ms, err);
    bool root = path && strcmp(path, "/") == 0;
    rc = rc == ZKL_OK && !root ? zkl__path_check(path, err) : rc;
    return rc == ZKL_OK ? zkl__session_enter(session, err) : rc;
}

int zkl_queue_list(zkl_queue **out, zkl_session *session, const char *path, int64_t timeout_ms,
                   zkl_error *err)
{
    ZKL__CLEAR(out);
    int rc = enter_to_read(session, out, path, timeout_ms, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    const zkl_heap *heap = zkl__session_heap(session);
    int64_t deadline = zkl__deadline(zkl__session_now(session), timeout_ms);
    struct snapshot *snapshot = zkl__zalloc(heap, sizeof *snapshot);
    if (snapshot) {
        snapshot->heap = *heap;
        snapshot->names.heap = &snapshot->heap;
        snapshot->path = path;
        rc = take_snapshot(snapshot, session, deadline, err);
    } else {
        rc = zkl__fail(err, ZKL_ENOMEM, 0, path, "no memory for a list");
    }
    zkl__session_leave(session);
    if (rc != ZKL_OK) {
        zkl_queue_free(snapshot ? &snapshot->public : NULL);
        return rc;
    }
    put_in_order(snapshot);
    snapshot->path = NULL;
    *out = &snapshot->public;
    return ZKL_OK;
}

void zkl_queue_free(zkl_queue *queue)
{
    if (!queue) {
        return;
    }
    struct snapshot *snapshot = (struct snapshot *)queue;
    zkl_heap heap = snapshot->heap;
    for (size_t i = 0; snapshot->entries && i < snapshot->names.count; i++) {
        zkl__free(&heap, (void *)(uintptr_t)snapshot->entries[i].data);
    }
    zkl__free(&heap, snapshot->entries);
    strings_free(&snapshot->names);
    zkl__free(&heap, snapshot);
}

/* --- find ------------------------------------------------------------------------------------ */

/* A walk, one level of the tree at a time. */
struct walk {
    zkl_heap heap;
    struct strings level, below, found, refused;
    enum zkl__rc first; /* of the list of the prefix itself */
    bool started;
};

/* What the caller gets is the first member. */
struct result {
    zkl_paths public;
    zkl_heap heap;
    struct strings paths, refused;
};

static void ask_level(void *arg, size_t index, struct zkl__op *op)
{
    *op = (struct zkl__op){.kind = ZKL__OP_CHILDREN, .dir = ((struct walk *)arg)->level.all[index]};
}

static void look_at_level(void *arg, size_t index, const struct zkl__reply *reply)
{
    struct walk *walk = arg;
    const char *path = walk->level.all[index];
    bool root = strcmp(path, "/") == 0, queue = false;
    walk->first = walk->started ? walk->first : reply->rc;
    walk->started = true;
    if (reply->rc != ZKL__RC_OK && reply->rc != ZKL__RC_NONODE) {
        strings_add(&walk->refused, zkl__copy(&walk->heap, path, strlen(path)));
    }
    for (size_t i = 0; reply->rc == ZKL__RC_OK && i < reply->child_count; i++) {
        char below[ZKL_PATH_MAX + 1];
        const char *name = reply->children[i];
        if (zkl__name_parse(name).kind != ZKL_KIND_FOREIGN) {
            queue = true;
        } else if (!(root && strcmp(name, "zookeeper") == 0) &&
                   zkl__path_join(below, sizeof below, path, name) > 0) {
            strings_add(&walk->below, zkl__copy(&walk->heap, below, strlen(below)));
        }
    }
    if (queue) {
        strings_add(&walk->found, zkl__copy(&walk->heap, path, strlen(path)));
    }
}

static int compare_strings(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

/* Inside. */
static int go(struct walk *walk, zkl_session *session, const char *prefix, int64_t deadline,
              zkl_error *err)
{
    strings_add(&walk->level, zkl__copy(&walk->heap, prefix, strlen(prefix)));
    while (walk->level.count > 0) {
        struct zkl__reads reads = {walk->level.count, ask_level, look_at_level, walk};
        int rc = zkl__session_read(session, &reads, deadline, err);
        if (rc != ZKL_OK) {
            return rc;
        }
        strings_free(&walk->level);
        walk->level = walk->below;
        walk->below = (struct strings){.heap = &walk->heap};
        if (walk->level.failed) {
            break;
        }
    }
    if (walk->first == ZKL__RC_NOAUTH) {
        return zkl__fail(err, ZKL_EAUTH, 0, prefix, "its children may not be listed");
    }
    return walk->level.failed || walk->found.failed || walk->refused.failed
               ? zkl__fail(err, ZKL_ENOMEM, 0, prefix, "no memory for the search")
               : ZKL_OK;
}

/* Moves sorted strings into a result that outlives the walk. */
static void take_over(struct strings *own, struct strings *of_the_walk, const zkl_heap *heap)
{
    *own = *of_the_walk;
    own->heap = heap;
    *of_the_walk = (struct strings){.heap = of_the_walk->heap};
    if (own->count > 0) {
        qsort(own->all, own->count, sizeof *own->all, compare_strings);
    }
}

static int make_result(zkl_paths **out, struct walk *walk, zkl_error *err)
{
    struct result *result = zkl__zalloc(&walk->heap, sizeof *result);
    if (!result) {
        return zkl__fail(err, ZKL_ENOMEM, 0, NULL, "no memory for the search");
    }
    result->heap = walk->heap;
    take_over(&result->paths, &walk->found, &result->heap);
    take_over(&result->refused, &walk->refused, &result->heap);
    result->public.count = result->paths.count;
    result->public.paths = (const char *const *)result->paths.all;
    result->public.refused_count = result->refused.count;
    result->public.refused = (const char *const *)result->refused.all;
    *out = &result->public;
    return ZKL_OK;
}

int zkl_queue_find(zkl_paths **out, zkl_session *session, const char *prefix, int64_t timeout_ms,
                   zkl_error *err)
{
    ZKL__CLEAR(out);
    int rc = enter_to_read(session, out, prefix, timeout_ms, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    struct walk walk = {.heap = *zkl__session_heap(session)};
    walk.level.heap = walk.below.heap = walk.found.heap = walk.refused.heap = &walk.heap;
    rc = go(&walk, session, prefix, zkl__deadline(zkl__session_now(session), timeout_ms), err);
    zkl__session_leave(session);
    if (rc == ZKL_OK) {
        rc = make_result(out, &walk, err);
    }
    strings_free(&walk.level);
    strings_free(&walk.below);
    strings_free(&walk.found);
    strings_free(&walk.refused);
    return rc;
}

void zkl_paths_free(zkl_paths *paths)
{
    if (paths) {
        struct result *result = (struct result *)paths;
        zkl_heap heap = result->heap;
        strings_free(&result->paths);
        strings_free(&result->refused);
        zkl__free(&heap, result);
    }
}
