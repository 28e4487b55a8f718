/* queue_find.c - the paths below a prefix at which somebody queues: reads only. */
#include "queue_inside.h"

#include "error.h"
#include "heap.h"
#include "name.h"
#include "path.h"

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

/* --- the walk -------------------------------------------------------------------------------- */

/* A walk, one level of the tree at a time. */
struct walk {
    struct zkl__procedure procedure; /* first */
    struct zkl__run run;
    struct zkl__reads reads; /* of the level */
    struct zkl__slot slots[ZKL__WINDOW];
    zkl_heap heap;
    zkl_paths **out;
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
        if (zkl__name_contends(name)) {
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

static bool no_memory(const struct walk *walk)
{
    return walk->level.failed || walk->below.failed || walk->found.failed || walk->refused.failed;
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

static int make_result(struct walk *walk, zkl_error *err)
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
    *walk->out = &result->public;
    return ZKL_OK;
}

/* --- the call -------------------------------------------------------------------------------- */

static void begin_level(struct walk *walk)
{
    walk->reads = (struct zkl__reads){walk->level.count, ask_level, look_at_level, walk};
    zkl__run_begin(&walk->run, &walk->procedure, ZKL__READS, &walk->reads, walk->slots,
                   ZKL__WINDOW);
}

/* The one below. */
static void descend(struct walk *walk)
{
    strings_free(&walk->level);
    walk->level = walk->below;
    walk->below = (struct strings){.heap = &walk->heap};
    begin_level(walk);
}

static int advance(struct zkl__procedure *procedure, zkl_error *err)
{
    struct walk *walk = (struct walk *)procedure;
    int rc = ZKL_OK;
    while (rc == ZKL_OK && walk->level.count > 0 && !no_memory(walk)) {
        rc = zkl__run_advance(&walk->run, err);
        if (rc == ZKL_OK) {
            descend(walk);
        }
    }
    if (rc != ZKL_OK) {
        return rc;
    }
    if (walk->first == ZKL__RC_NOAUTH) {
        return zkl__fail(err, ZKL_EAUTH, 0, procedure->path, "its children may not be listed");
    }
    return no_memory(walk)
               ? zkl__fail(err, ZKL_ENOMEM, 0, procedure->path, "no memory for the search")
               : make_result(walk, err);
}

static void end(struct zkl__procedure *procedure)
{
    struct walk *walk = (struct walk *)procedure;
    zkl__run_end(&walk->run);
    strings_free(&walk->level);
    strings_free(&walk->below);
    strings_free(&walk->found);
    strings_free(&walk->refused);
}

static int find_queues(zkl_paths **out, zkl_session *session, const char *prefix,
                       int64_t timeout_ms, const struct zkl__later *later, zkl_error *err)
{
    static const struct zkl__procedure_ops ops = {.advance = advance, .end = end};
    ZKL__CLEAR(out);
    int rc = zkl__queue_enter(session, out, prefix, timeout_ms, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    struct walk *walk = zkl__procedure_make(session, sizeof *walk, &ops, prefix, timeout_ms, err);
    rc = ZKL_ENOMEM;
    if (walk) {
        walk->heap = *zkl__session_heap(session);
        walk->out = out;
        walk->level.heap = walk->below.heap = walk->found.heap = walk->refused.heap = &walk->heap;
        strings_add(&walk->level, zkl__copy(&walk->heap, prefix, strlen(prefix)));
        begin_level(walk);
        rc = zkl__procedure_go(&walk->procedure, later, err);
    }
    zkl__session_leave(session);
    return rc;
}

int zkl_queue_find(zkl_paths **out, zkl_session *session, const char *prefix, int64_t timeout_ms,
                   zkl_error *err)
{
    return find_queues(out, session, prefix, timeout_ms, NULL, err);
}

int zkl_queue_find_async(zkl_paths **out, zkl_session *session, const char *prefix,
                         int64_t timeout_ms, zkl_done_fn done, void *payload, zkl_error *err)
{
    const struct zkl__later later = {done, payload};
    return find_queues(out, session, prefix, timeout_ms, &later, err);
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
