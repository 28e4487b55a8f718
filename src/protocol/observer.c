#include "core_internal.h"

#include <string.h>

#define S(state) (1u << (ZKL__OBSERVER_##state))

/* Where it may go from here; to STALE from everywhere, when something changed. */
static const unsigned next_states[ZKL__OBSERVER_STATES] = {
    [ZKL__OBSERVER_STALE] = S(STALE) | S(MISSING) | S(EMPTY) | S(READS),
    [ZKL__OBSERVER_MISSING] = S(STALE) | S(SHOWN),
    [ZKL__OBSERVER_EMPTY] = S(STALE) | S(MISSING) | S(READS) | S(SHOWN),
    [ZKL__OBSERVER_READS] = S(STALE) | S(READS) | S(REFUSED) | S(SHOWN),
    [ZKL__OBSERVER_REFUSED] = S(STALE) | S(READS) | S(HIDDEN),
    [ZKL__OBSERVER_HIDDEN] = S(STALE) | S(SHOWN_HIDDEN),
    [ZKL__OBSERVER_SHOWN] = S(STALE),
    [ZKL__OBSERVER_SHOWN_HIDDEN] = S(STALE) | S(HIDDEN),
};

static const zkl_heap *heap_of(const struct zkl__observer *o)
{
    return &o->watcher.core->config.heap;
}

/* A candidate that is read, or may not be read, has a name. */
static void move(struct zkl__observer *o, enum zkl__observer_state state, const char *why)
{
    ZKL__ENSURE(next_states[o->state] & (1u << state));
    o->state = state;
    bool named = state == ZKL__OBSERVER_READS || state == ZKL__OBSERVER_REFUSED ||
                 state == ZKL__OBSERVER_HIDDEN || state == ZKL__OBSERVER_SHOWN_HIDDEN;
    ZKL__ENSURE(!named || o->first);
    zkl__core_trace_at(o->watcher.core, o->dir, 0, "%s", why);
}

/* --- what is sent ---------------------------------------------------------------------------- */

static bool next(struct zkl__watcher *watcher, struct zkl__op *op, int *look)
{
    struct zkl__observer *o = (struct zkl__observer *)watcher;
    (void)look;
    *op = (struct zkl__op){.kind = ZKL__OP_CHILDREN, .dir = o->dir, .watch = true};
    switch (o->state) {
    case ZKL__OBSERVER_STALE:
        zkl__watcher_unwatch(watcher);
        op->watch = false;
        return true;
    case ZKL__OBSERVER_EMPTY:
    case ZKL__OBSERVER_HIDDEN:
        return true;
    case ZKL__OBSERVER_MISSING:
        op->kind = ZKL__OP_EXISTS;
        return true;
    case ZKL__OBSERVER_READS:
        op->kind = ZKL__OP_GET;
        op->name = o->first;
        return true;
    case ZKL__OBSERVER_REFUSED:
        zkl__watcher_unwatch(watcher); /* the refused get has set none */
        op->kind = ZKL__OP_EXISTS;
        op->name = o->first;
        op->watch = false;
        return true;
    default:
        return false;
    }
}

/* --- what is seen ---------------------------------------------------------------------------- */

static void show(struct zkl__observer *o, const struct zkl__leader *leader, const char *why)
{
    if (!o->show(o->watcher.owner, leader)) {
        zkl__watcher_retry(&o->watcher);
        return;
    }
    bool hidden = leader->node && !leader->readable;
    move(o, hidden ? ZKL__OBSERVER_SHOWN_HIDDEN : ZKL__OBSERVER_SHOWN, why);
}

static void start_anew(struct zkl__observer *o, const char *why)
{
    move(o, ZKL__OBSERVER_STALE, why);
    zkl__name_set_clear(&o->skipped, heap_of(o));
}

static bool stands_before(const char *a, const char *b)
{
    int32_t diff = zkl__sequence_diff(zkl__name_sequence(a), zkl__name_sequence(b));
    return diff < 0 || (diff == 0 && strcmp(a, b) < 0); /* a forged one may have its number */
}

static int compare_order(const void *one, const void *other, const void *context)
{
    const struct zkl__child *a = one, *b = other;
    (void)context;
    return stands_before(b->name, a->name) - stands_before(a->name, b->name);
}

static bool may_lead(const struct zkl__observer *o, const char *name)
{
    struct zkl__name parsed = zkl__name_parse(name);
    return parsed.kind != ZKL_KIND_FOREIGN && !zkl__sequence_used_up(parsed.sequence) &&
           !zkl__name_set_find(&o->skipped, name);
}

static const char *find_first(const struct zkl__observer *o, const struct zkl__reply *list)
{
    const char *first = NULL;
    for (size_t i = 0; i < list->child_count; i++) {
        const char *name = list->children[i];
        if (may_lead(o, name) && (!first || stands_before(name, first))) {
            first = name;
        }
    }
    return first;
}

/* --- what the replies mean ------------------------------------------------------------------- */

static void read_first(struct zkl__observer *o, const char *name, const char *why)
{
    char *first = zkl__copy_text(heap_of(o), name);
    if (!first) {
        zkl__watcher_retry(&o->watcher);
        return;
    }
    zkl__free(heap_of(o), o->first);
    o->first = first;
    move(o, ZKL__OBSERVER_READS, why);
}

/* The next one of the list is first then: a candidate that came after the list stands behind each
 * that the server had numbered before. */
static void skip_first(struct zkl__observer *o)
{
    struct zkl__children *listed = o->listed;
    bool added = zkl__name_set_put(&o->skipped, heap_of(o), o->first, 0);
    while (listed && o->next < listed->count && !may_lead(o, listed->all[o->next].name)) {
        o->next++;
    }
    if (!added) {
        zkl__watcher_retry(&o->watcher);
    } else if (listed && o->next < listed->count) {
        read_first(o, listed->all[o->next].name, "no session owns it: the next is read");
    } else {
        move(o, ZKL__OBSERVER_STALE, "the first lives with no session: no candidate");
    }
}

static void answered(struct zkl__watcher *watcher, const struct zkl__reply *reply)
{
    struct zkl__observer *o = (struct zkl__observer *)watcher;
    bool of_first = o->state == ZKL__OBSERVER_READS || o->state == ZKL__OBSERVER_REFUSED;
    bool done = reply->rc == ZKL__RC_OK, missing = reply->rc == ZKL__RC_NONODE;
    const struct zkl__leader nobody = {.node = NULL};
    const char *first;
    /* NOAUTH to a read shows that the znode exists; to a list it shows nothing. */
    if (!done && !missing && !(of_first && reply->rc == ZKL__RC_NOAUTH)) {
        zkl__watcher_retry(watcher);
        return;
    }
    switch (o->state) {
    case ZKL__OBSERVER_STALE:
    case ZKL__OBSERVER_EMPTY:
        first = find_first(o, reply);
        if (missing) {
            move(o, ZKL__OBSERVER_MISSING, "nothing there: its making is watched");
        } else if (first) {
            /* Behind one that is no candidate may be thousands. Then the whole list is kept, in its
             * order. */
            zkl__free(heap_of(o), o->listed);
            o->listed = NULL;
            o->next = 0;
            if (o->skipped.count > 0 &&
                zkl__children_renew(heap_of(o), &o->listed, reply, zkl__name_contends)) {
                zkl__sort(o->listed->all, o->listed->count, sizeof *o->listed->all, compare_order,
                          NULL);
            }
            read_first(o, first, "listed: the first is read");
        } else if (o->state == ZKL__OBSERVER_STALE) {
            move(o, ZKL__OBSERVER_EMPTY, "no candidate: the list is watched");
        } else {
            show(o, &nobody, "still no candidate: nobody leads");
        }
        break;
    case ZKL__OBSERVER_MISSING:
        if (missing) {
            show(o, &nobody, "still nothing there: nobody leads");
        } else {
            move(o, ZKL__OBSERVER_STALE, "made meanwhile");
        }
        break;
    case ZKL__OBSERVER_READS:
        if (missing) {
            move(o, ZKL__OBSERVER_STALE, "the first was deleted");
        } else if (!done) {
            move(o, ZKL__OBSERVER_REFUSED, "the first may not be read");
        } else if (!zkl__is_ephemeral(&reply->stat)) {
            skip_first(o);
        } else {
            show(o,
                 &(struct zkl__leader){.node = o->first,
                                       .readable = true,
                                       .stat = reply->stat,
                                       .data = reply->data,
                                       .size = reply->size},
                 "the first leads");
        }
        break;
    case ZKL__OBSERVER_REFUSED:
        /* A stat that is refused, too, says nothing: it counts as a candidate. */
        if (missing) {
            start_anew(o, "the first was deleted");
        } else if (done && !zkl__is_ephemeral(&reply->stat)) {
            skip_first(o);
        } else {
            o->stat = reply->stat;
            move(o, ZKL__OBSERVER_HIDDEN, "the first is hidden: the list is watched");
        }
        break;
    default:
        /* The list is watched from here on. Another one may be first by now: then all begins anew.
         */
        first = find_first(o, reply);
        if (first && strcmp(first, o->first) == 0) {
            show(o, &(struct zkl__leader){.node = o->first, .stat = o->stat},
                 "the hidden one leads");
        } else {
            start_anew(o, "the hidden one is not the first any more");
        }
    }
}

/* Somebody came or went behind a hidden one, most likely: what was refused is not asked again. */
static void changed(struct zkl__watcher *watcher, bool session_over)
{
    struct zkl__observer *o = (struct zkl__observer *)watcher;
    if (o->state == ZKL__OBSERVER_SHOWN_HIDDEN && !session_over) {
        move(o, ZKL__OBSERVER_HIDDEN, "the list changed: is the hidden one still the first?");
    } else {
        start_anew(o, session_over ? "the session is over: look again" : "changed: look again");
    }
}

/* --- life ------------------------------------------------------------------------------------ */

void zkl__observer_begin(struct zkl__observer *o, struct zkl__core *core, void *owner)
{
    static const struct zkl__watcher_ops ops = {
        .next = next, .answered = answered, .changed = changed};
    zkl__watcher_begin(&o->watcher, core, &ops, owner);
    o->skipped.key = core->queues.names_key;
}

void zkl__observer_end(struct zkl__observer *o)
{
    if (o->watcher.core) {
        zkl__free(heap_of(o), o->first);
        zkl__free(heap_of(o), o->listed);
        o->first = NULL;
        o->listed = NULL;
        zkl__name_set_clear(&o->skipped, heap_of(o));
        zkl__watcher_end(&o->watcher);
    }
}
