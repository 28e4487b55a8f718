/* group_watch.c - who is in a group: a list, and a callback on every change of it. */
#include "agent.h"

#include "await.h"
#include "error.h"
#include "heap.h"
#include "name.h"
#include "path.h"

#include <zklock/group.h>

#include <stdlib.h>
#include <string.h>

#define AGAIN_NS \
    (2000 * ZKL__MS) /* when an access list hides the members, or no memory is left for them */

/* --- ids: one block, the pointers first ------------------------------------------------------ */

struct ids {
    size_t count;
    char *all[];
};

static int compare_ids(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

/* Those that live with a session, in the order of their names. NULL: no memory. */
static struct ids *ids_of_living(const zkl_heap *heap, const struct zkl__children *children)
{
    size_t bytes = 0, living = zkl__children_living(children);
    for (size_t i = 0; i < children->count; i++) {
        bytes += strlen(children->all[i].name) + 1;
    }
    struct ids *ids = zkl__zalloc(heap, sizeof *ids + living * sizeof *ids->all + bytes);
    char *text = ids ? (char *)(ids->all + living) : NULL;
    for (size_t i = 0; ids && i < children->count; i++) {
        if (children->all[i].verdict == ZKL__CHILD_LIVES) {
            ids->all[ids->count++] = strcpy(text, children->all[i].name);
            text += strlen(text) + 1;
        }
    }
    return ids;
}

/* NULL: no memory. */
static struct ids *ids_copy(const zkl_heap *heap, const struct zkl__reply *list)
{
    size_t bytes = 0;
    for (size_t i = 0; i < list->child_count; i++) {
        bytes += strlen(list->children[i]) + 1;
    }
    struct ids *ids = zkl__zalloc(heap, sizeof *ids + list->child_count * sizeof *ids->all + bytes);
    if (!ids) {
        return NULL;
    }
    char *text = (char *)(ids->all + list->child_count);
    for (size_t i = 0; i < list->child_count; i++) {
        ids->all[i] = text;
        strcpy(text, list->children[i]);
        text += strlen(text) + 1;
    }
    ids->count = list->child_count;
    if (ids->count > 0) {
        qsort(ids->all, ids->count, sizeof *ids->all, compare_ids);
    }
    return ids;
}

/* --- list ------------------------------------------------------------------------------------ */

/* What the caller gets is the first member; the rest is ours to free it with. */
struct snapshot {
    zkl_members public;
    zkl_heap heap;
    const char *path;
    struct ids *ids;
    zkl_member *members; /* one for each id; id NULL: it is none, or went before it was read */
    enum zkl__rc rc;     /* of the list */
    bool failed;
    const char *contender; /* of a lock: the first one seen */
};

static void look_at_ids(void *arg, const struct zkl__reply *reply)
{
    struct snapshot *snapshot = arg;
    snapshot->rc = reply->rc;
    if (reply->rc == ZKL__RC_OK) {
        snapshot->ids = ids_copy(&snapshot->heap, reply);
        snapshot->failed = !snapshot->ids;
    }
}

static void ask_member(void *arg, size_t index, struct zkl__op *op)
{
    struct snapshot *snapshot = arg;
    *op = (struct zkl__op){
        .kind = ZKL__OP_GET, .dir = snapshot->path, .name = snapshot->ids->all[index]};
}

/* Stands in the queue of a lock or an election. Its name has a uuid of its own: an id that somebody
 * chose hardly looks like that. */
static bool is_contender(const char *id)
{
    struct zkl__name name = zkl__name_parse(id);
    return name.kind != ZKL_KIND_FOREIGN && name.uuid;
}

static void look_at_member(void *arg, size_t index, const struct zkl__reply *reply)
{
    struct snapshot *snapshot = arg;
    zkl_member *member = &snapshot->members[index];
    bool readable = reply->rc == ZKL__RC_OK;
    if (reply->rc == ZKL__RC_NONODE || (readable && reply->stat.ephemeral_owner == 0)) {
        return;
    }
    *member = (zkl_member){.id = snapshot->ids->all[index], .readable = readable};
    if (readable && is_contender(member->id)) {
        snapshot->contender = member->id;
    }
    if (readable) {
        size_t size = reply->size < ZKL_DATA_MAX ? reply->size : ZKL_DATA_MAX;
        member->data = zkl__copy(&snapshot->heap, reply->data, size);
        member->data_size = size;
        member->token = reply->stat.czxid;
        member->session_id = reply->stat.ephemeral_owner;
        snapshot->failed = snapshot->failed || !member->data;
    }
}

/* Inside. */
static int take_snapshot(struct snapshot *snapshot, zkl_session *session, int64_t deadline,
                         zkl_error *err)
{
    const struct zkl__op list = {.kind = ZKL__OP_CHILDREN, .dir = snapshot->path};
    int rc = zkl__session_insist(session, &list, deadline, look_at_ids, snapshot, err);
    if (rc == ZKL_OK && snapshot->rc != ZKL__RC_OK && snapshot->rc != ZKL__RC_NONODE) {
        return zkl__fail(err, zkl__rc_code(snapshot->rc), 0, snapshot->path,
                         "its members may not be listed");
    }
    size_t count = snapshot->ids ? snapshot->ids->count : 0;
    if (rc == ZKL_OK && count > 0) {
        snapshot->members = zkl__zalloc(&snapshot->heap, count * sizeof *snapshot->members);
        snapshot->failed = !snapshot->members;
        if (snapshot->members) {
            struct zkl__reads reads = {count, ask_member, look_at_member, snapshot};
            rc = zkl__session_read(session, &reads, deadline, err);
        }
    }
    if (rc == ZKL_OK && snapshot->contender) {
        return zkl__fail(err, ZKL_ECONFLICT, 0, snapshot->path,
                         "the path is in use as a lock or an election: %.80s", snapshot->contender);
    }
    return rc == ZKL_OK && snapshot->failed
               ? zkl__fail(err, ZKL_ENOMEM, 0, snapshot->path, "no memory for the members")
               : rc;
}

/* Moves those that were there together. */
static void close_ranks(struct snapshot *snapshot)
{
    size_t all = snapshot->ids ? snapshot->ids->count : 0;
    for (size_t i = 0; i < all; i++) {
        if (snapshot->members[i].id) {
            zkl_member member = snapshot->members[i];
            snapshot->members[i] = (zkl_member){.id = NULL};
            snapshot->members[snapshot->public.count++] = member;
        }
    }
    snapshot->public.members = snapshot->members;
}

int zkl_group_list(zkl_members **out, zkl_session *session, const char *path, int64_t timeout_ms,
                   zkl_error *err)
{
    ZKL__CLEAR(out);
    if (!out || !session) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "%s is NULL", out ? "session" : "out");
    }
    int rc = zkl__timeout_check(timeout_ms, err);
    rc = rc == ZKL_OK ? zkl__path_check(path, err) : rc;
    rc = rc == ZKL_OK ? zkl__session_enter(session, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    const zkl_heap *heap = zkl__session_heap(session);
    struct snapshot *snapshot = zkl__zalloc(heap, sizeof *snapshot);
    if (snapshot) {
        snapshot->heap = *heap;
        snapshot->path = path;
        rc = take_snapshot(snapshot, session, zkl__deadline(zkl__session_now(session), timeout_ms),
                           err);
    } else {
        rc = zkl__fail(err, ZKL_ENOMEM, 0, path, "no memory for a list");
    }
    zkl__session_leave(session);
    if (rc != ZKL_OK) {
        zkl_members_free(snapshot ? &snapshot->public : NULL);
        return rc;
    }
    close_ranks(snapshot);
    snapshot->path = NULL;
    *out = &snapshot->public;
    return ZKL_OK;
}

void zkl_members_free(zkl_members *members)
{
    if (!members) {
        return;
    }
    struct snapshot *snapshot = (struct snapshot *)members;
    zkl_heap heap = snapshot->heap;
    for (size_t i = 0; snapshot->members && i < snapshot->ids->count; i++) {
        zkl__free(&heap, (void *)(uintptr_t)snapshot->members[i].data);
    }
    zkl__free(&heap, snapshot->members);
    zkl__free(&heap, snapshot->ids);
    zkl__free(&heap, snapshot);
}

/* --- watch ----------------------------------------------------------------------------------- */

struct zkl_group_watcher {
    struct zkl__agent agent; /* first */
    enum { LIST, DIRECTORY, JUDGING, SETTLED } step;
    struct zkl__jury jury;
    bool warned;              /* that the path is a lock's */
    struct ids *seen, *shown; /* NULL: nothing yet */
    zkl_group_changed_fn changed;
    void *payload;
};

static const zkl_heap *heap_of(struct zkl_group_watcher *watcher)
{
    return zkl__session_heap(watcher->agent.session);
}

static bool same(const struct ids *a, const struct ids *b)
{
    bool so = a && b && a->count == b->count;
    for (size_t i = 0; so && i < a->count; i++) {
        so = strcmp(a->all[i], b->all[i]) == 0;
    }
    return so;
}

static void see(struct zkl_group_watcher *watcher, const struct zkl__reply *list)
{
    if (zkl__jury_take(&watcher->jury, list, NULL)) {
        watcher->step = JUDGING;
    } else {
        zkl__agent_put_off(&watcher->agent, AGAIN_NS);
    }
}

/* One that went before it could be looked at is not shown: the list that follows will say the same.
 */
static void settle(struct zkl_group_watcher *watcher)
{
    struct ids *ids = ids_of_living(heap_of(watcher), watcher->jury.children);
    if (!ids) {
        zkl__agent_put_off(&watcher->agent, AGAIN_NS);
        return;
    }
    for (size_t i = 0; i < ids->count && !watcher->warned; i++) {
        watcher->warned = is_contender(ids->all[i]);
        if (watcher->warned) {
            zkl__session_log(watcher->agent.session, ZKL_LOG_WARN, "group", watcher->agent.path,
                             "the path is in use as a lock or an election, too: whoever queues is "
                             "shown as a member");
        }
    }
    zkl__free(heap_of(watcher), watcher->seen);
    watcher->seen = ids;
    watcher->step = SETTLED;
    zkl__agent_post(&watcher->agent);
}

static void tell(struct zkl__agent *agent)
{
    struct zkl_group_watcher *watcher = (struct zkl_group_watcher *)agent;
    struct ids *news = NULL;
    zkl__session_enter_even_closed(agent->session, NULL);
    if (watcher->seen && !agent->freed && !same(watcher->seen, watcher->shown)) {
        zkl__free(heap_of(watcher), watcher->shown);
        news = watcher->shown = watcher->seen;
        watcher->seen = NULL;
    }
    zkl__session_leave(agent->session);
    if (news) {
        watcher->changed(watcher, (const char *const *)news->all, news->count, watcher->payload);
    }
}

static void answer(struct zkl__agent *agent, const struct zkl__reply *reply)
{
    struct zkl_group_watcher *watcher = (struct zkl_group_watcher *)agent;
    const struct zkl__reply nobody = {.rc = ZKL__RC_OK};
    bool missing = reply->rc == ZKL__RC_NONODE;
    if (!missing && reply->rc != ZKL__RC_OK) {
        zkl__agent_put_off(agent, AGAIN_NS);
    } else if (watcher->step == LIST && missing) {
        watcher->step = DIRECTORY;
    } else if (watcher->step == LIST) {
        see(watcher, reply);
    } else if (watcher->step == DIRECTORY && missing) {
        see(watcher, &nobody);
    } else {
        watcher->step = LIST;
    }
}

static void stir(struct zkl__agent *agent, bool session_over)
{
    (void)session_over;
    ((struct zkl_group_watcher *)agent)->step = LIST;
}

static void act(struct zkl__agent *agent)
{
    struct zkl_group_watcher *watcher = (struct zkl_group_watcher *)agent;
    struct zkl__op op = {.kind = ZKL__OP_CHILDREN, .dir = agent->path, .watch = true};
    if (watcher->step == DIRECTORY) {
        op.kind = ZKL__OP_EXISTS;
    }
    if (watcher->step == JUDGING) {
        if (!zkl__jury_sit(&watcher->jury)) {
            settle(watcher);
        }
    } else if (watcher->step != SETTLED) {
        zkl__agent_ask(agent, &op);
    }
}

static void destroy(struct zkl__agent *agent)
{
    struct zkl_group_watcher *watcher = (struct zkl_group_watcher *)agent;
    zkl__free(heap_of(watcher), watcher->seen);
    zkl__free(heap_of(watcher), watcher->shown);
}

static const struct zkl__agent_ops ops = {
    .object = {"group watcher", zkl__agent_give_up, zkl__agent_describe,
               zkl__agent_session_changed},
    .act = act,
    .answer = answer,
    .stir = stir,
    .tell = tell,
    .destroy = destroy,
};

int zkl_group_watch(zkl_group_watcher **out, zkl_session *session, const char *path,
                    zkl_group_changed_fn changed, void *payload, zkl_error *err)
{
    ZKL__CLEAR(out);
    if (!out || !changed) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "%s is NULL", out ? "changed" : "out");
    }
    struct zkl__agent *agent;
    int rc = zkl__agent_new(&agent, sizeof(zkl_group_watcher), &ops, session, path, true, err);
    if (rc == ZKL_OK) {
        zkl_group_watcher *watcher = (zkl_group_watcher *)agent;
        watcher->changed = changed;
        watcher->payload = payload;
        zkl__agent_impanel(agent, &watcher->jury, agent->path);
        *out = watcher; /* before changed can be called with it */
        zkl__agent_wake(agent);
        zkl__session_leave(session);
    }
    return rc;
}

void zkl_group_watcher_free(zkl_group_watcher *watcher)
{
    if (watcher) {
        zkl__agent_free(&watcher->agent, false);
    }
}
