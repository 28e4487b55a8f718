#include "core_internal.h"

#define S(state) (1u << (ZKL__LIST_##state))

/* Where it may go from here; to STALE from everywhere, when something changed. */
static const unsigned next_states[ZKL__LIST_STATES] = {
    [ZKL__LIST_STALE] = S(STALE) | S(MISSING) | S(LOOKS),
    [ZKL__LIST_MISSING] = S(STALE) | S(LOOKS),
    [ZKL__LIST_LOOKS] = S(STALE) | S(SHOWN),
    [ZKL__LIST_SHOWN] = S(STALE),
};

static void move(struct zkl__member_list *list, enum zkl__member_list_state state, const char *why)
{
    ZKL__ENSURE(next_states[list->state] & (1u << state));
    list->state = state;
    zkl__core_trace_at(list->watcher.core, list->dir, 0, "%s", why);
    /* A list is shown only when each of its children has been read. */
    bool shown = state == ZKL__LIST_SHOWN;
    ZKL__ENSURE((!shown && state != ZKL__LIST_LOOKS) || list->children);
    ZKL__ENSURE(!shown || zkl__children_unknown(list->children, 0) == list->children->count);
    ZKL__ENSURE(list->watcher.looks <= ZKL__LOOKS_MOST);
}

/* --- what is sent ---------------------------------------------------------------------------- */

static bool next(struct zkl__watcher *watcher, struct zkl__op *op, int *look)
{
    struct zkl__member_list *list = (struct zkl__member_list *)watcher;
    struct zkl__children *children = list->children;
    *op = (struct zkl__op){.kind = ZKL__OP_CHILDREN, .dir = list->dir, .watch = true};
    if (list->state == ZKL__LIST_SHOWN || (list->wanted && !list->wanted(watcher->owner))) {
        return false;
    }
    if (list->state == ZKL__LIST_MISSING) {
        op->kind = ZKL__OP_EXISTS;
    }
    if (list->state != ZKL__LIST_LOOKS) {
        return true;
    }
    /* Children whose read got no reply are read again when no read is under way. */
    list->looked = zkl__children_unknown(children, watcher->looks > 0 ? list->looked : 0);
    if (list->looked < children->count && watcher->looks < ZKL__LOOKS_MOST) {
        *look = (int)list->looked;
        *op = (struct zkl__op){
            .kind = ZKL__OP_EXISTS, .dir = list->dir, .name = children->all[list->looked].name};
        list->looked++;
        return true;
    }
    if (watcher->looks == 0) { /* all are judged */
        struct zkl__names *members = zkl__children_names(&watcher->core->config.heap, children);
        if (members) {
            move(list, ZKL__LIST_SHOWN, "each child was looked at: shown");
            list->show(watcher->owner, members);
        } else {
            zkl__watcher_retry(watcher);
        }
    }
    return false;
}

/* --- what the replies mean ------------------------------------------------------------------- */

static void take(struct zkl__member_list *list, const struct zkl__reply *reply, const char *why)
{
    const zkl_heap *heap = &list->watcher.core->config.heap;
    if (zkl__children_renew(heap, &list->children, reply, list->counts)) {
        move(list, ZKL__LIST_LOOKS, why);
    } else {
        zkl__watcher_retry(&list->watcher);
    }
}

static void answered(struct zkl__watcher *watcher, const struct zkl__reply *reply)
{
    struct zkl__member_list *list = (struct zkl__member_list *)watcher;
    bool missing = reply->rc == ZKL__RC_NONODE, lists = list->state == ZKL__LIST_STALE;
    if (!missing && reply->rc != ZKL__RC_OK) {
        zkl__watcher_retry(watcher);
        if (list->refused) {
            list->refused(watcher->owner, reply->rc);
        }
    } else if (missing) {
        lists ? move(list, ZKL__LIST_MISSING, "nothing there: its making is watched")
              : take(list, reply, "still nothing there: nobody");
    } else if (lists) {
        take(list, reply, "listed");
    } else {
        move(list, ZKL__LIST_STALE, "made meanwhile");
    }
}

static void looked(struct zkl__watcher *watcher, int look, const struct zkl__reply *reply)
{
    struct zkl__member_list *list = (struct zkl__member_list *)watcher;
    zkl__child_judge(&list->children->all[look], reply);
}

static void changed(struct zkl__watcher *watcher, bool session_over)
{
    move((struct zkl__member_list *)watcher, ZKL__LIST_STALE,
         session_over ? "the session is over: look again" : "changed: look again");
}

/* --- life ------------------------------------------------------------------------------------ */

void zkl__member_list_begin(struct zkl__member_list *list, struct zkl__core *core, void *owner)
{
    static const struct zkl__watcher_ops ops = {
        .next = next, .answered = answered, .looked = looked, .changed = changed};
    zkl__watcher_begin(&list->watcher, core, &ops, owner);
}

void zkl__member_list_end(struct zkl__member_list *list)
{
    if (list->watcher.core) {
        zkl__free(&list->watcher.core->config.heap, list->children);
        list->children = NULL;
        zkl__watcher_end(&list->watcher);
    }
}

void zkl__member_list_renew(struct zkl__member_list *list)
{
    if (list->watcher.core) {
        move(list, ZKL__LIST_STALE, "to be listed");
    }
}
