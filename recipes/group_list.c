/* group_list.c - who is in a group now. */
#include "survey.h"

#include "error.h"
#include "heap.h"
#include "name.h"
#include "path.h"

#include <zklock/group.h>

#include <string.h>

/* What the caller gets is the first member; the rest is ours to free it with. */
struct snapshot {
    zkl_members public;
    zkl_heap heap;
    struct zkl__children *names; /* NULL until it is whole */
    const char *contender;       /* of a lock: the first one seen */
    bool failed;
    size_t room; /* one for each name; id NULL: it is none, or went before it was read */
    zkl_member members[];
};

struct listing {
    struct zkl__procedure procedure; /* first */
    struct zkl__survey survey;
    struct snapshot *snapshot;
    zkl_members **out;
};

static struct listing *listing_of(struct zkl__survey *survey)
{
    return (struct listing *)survey->by;
}

static bool make_snapshot(struct zkl__survey *survey, const struct zkl__reply *list)
{
    const zkl_heap *heap = zkl__session_heap(survey->by->session);
    size_t room = survey->names->count;
    struct snapshot *snapshot =
        zkl__zalloc(heap, sizeof *snapshot + room * sizeof *snapshot->members);
    (void)list;
    if (snapshot) {
        snapshot->heap = *heap;
        snapshot->room = room;
    }
    listing_of(survey)->snapshot = snapshot;
    return snapshot != NULL;
}

static void take_member(struct zkl__survey *survey, size_t index, const struct zkl__reply *reply)
{
    struct snapshot *snapshot = listing_of(survey)->snapshot;
    zkl_member *member = &snapshot->members[index];
    bool readable = reply->rc == ZKL__RC_OK;
    if (reply->rc == ZKL__RC_NONODE || (readable && reply->stat.ephemeral_owner == 0)) {
        return;
    }
    *member = (zkl_member){.id = survey->names->all[index].name, .readable = readable};
    if (readable && zkl__name_has_uuid(member->id)) {
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

/* Moves those that were there together. */
static void close_ranks(struct snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->room; i++) {
        if (snapshot->members[i].id) {
            zkl_member member = snapshot->members[i];
            snapshot->members[i] = (zkl_member){.id = NULL};
            snapshot->members[snapshot->public.count++] = member;
        }
    }
    snapshot->public.members = snapshot->members;
}

static int judge(struct listing *listing, zkl_error *err)
{
    struct snapshot *snapshot = listing->snapshot;
    const char *path = listing->procedure.path;
    if (snapshot->contender) {
        return zkl__fail(err, ZKL_ECONFLICT, 0, path,
                         "the path is in use as a lock or an election: %.80s", snapshot->contender);
    }
    if (snapshot->failed) {
        return zkl__fail(err, ZKL_ENOMEM, 0, path, "no memory for the members");
    }
    snapshot->names = listing->survey.names;
    listing->survey.names = NULL;
    listing->snapshot = NULL;
    close_ranks(snapshot);
    *listing->out = &snapshot->public;
    return ZKL_OK;
}

static int advance(struct zkl__procedure *procedure, zkl_error *err)
{
    struct listing *listing = (struct listing *)procedure;
    int rc = zkl__survey_advance(&listing->survey, err);
    return rc == ZKL_OK ? judge(listing, err) : rc;
}

static void end(struct zkl__procedure *procedure)
{
    struct listing *listing = (struct listing *)procedure;
    zkl__survey_end(&listing->survey);
    zkl_members_free(listing->snapshot ? &listing->snapshot->public : NULL);
}

/* Inside. */
static int begin(zkl_members **out, zkl_session *session, const char *path, int64_t timeout_ms,
                 const struct zkl__later *later, zkl_error *err)
{
    static const struct zkl__procedure_ops ops = {.advance = advance, .end = end};
    struct listing *listing =
        zkl__procedure_make(session, sizeof *listing, &ops, path, timeout_ms, err);
    if (!listing) {
        return ZKL_ENOMEM;
    }
    listing->out = out;
    listing->survey.dir = listing->procedure.path;
    listing->survey.refused = "its members may not be listed";
    listing->survey.listed = make_snapshot;
    listing->survey.read = take_member;
    zkl__survey_begin(&listing->survey, &listing->procedure);
    return zkl__procedure_go(&listing->procedure, later, err);
}

static int list_members(zkl_members **out, zkl_session *session, const char *path,
                        int64_t timeout_ms, const struct zkl__later *later, zkl_error *err)
{
    ZKL__CLEAR(out);
    if (!out || !session) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "%s is NULL", out ? "session" : "out");
    }
    int rc = zkl__session_enter_at(session, path, timeout_ms, err);
    if (rc == ZKL_OK) {
        rc = begin(out, session, path, timeout_ms, later, err);
        zkl__session_leave(session);
    }
    return rc;
}

int zkl_group_list(zkl_members **out, zkl_session *session, const char *path, int64_t timeout_ms,
                   zkl_error *err)
{
    return list_members(out, session, path, timeout_ms, NULL, err);
}

int zkl_group_list_async(zkl_members **out, zkl_session *session, const char *path,
                         int64_t timeout_ms, zkl_done_fn done, void *payload, zkl_error *err)
{
    const struct zkl__later later = {done, payload};
    return list_members(out, session, path, timeout_ms, &later, err);
}

void zkl_members_free(zkl_members *members)
{
    if (!members) {
        return;
    }
    struct snapshot *snapshot = (struct snapshot *)members;
    zkl_heap heap = snapshot->heap;
    for (size_t i = 0; i < snapshot->room; i++) {
        zkl__free(&heap, (void *)(uintptr_t)snapshot->members[i].data);
    }
    zkl__free(&heap, snapshot->names);
    zkl__free(&heap, snapshot);
}
