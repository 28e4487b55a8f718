/* queue.c - what a contender reads of its queue: the list, the contender before it, and znodes that
 * are no contenders. */

#include "core_internal.h"

#include <stdio.h>
#include <string.h>

/* === the list of a queue ====================================================================== */

#define PERSISTENT INT64_MAX /* instead of a czxid: forged, whoever reads it */

/* Of a kind that must go first, and not known as forged.
 *
 * Numbers of a directory do not come twice, so what was made by hand at one stays forged for all
 * who stand behind it and are older. But a writer that is downgraded makes a reader's name by
 * itself, of its uuid and number: such a name may be a forgery now and a reader's later, so it is
 * looked at each time. */
static bool conflicts(const struct zkl__contender *c, const char *name, zkl_kind kind)
{
    if (!(c->config.rule->waits_for & ZKL__KIND(kind))) {
        return false;
    }
    const int64_t *czxid = zkl__names_find(&c->peer.queue->forged, name);
    return !czxid || (*czxid != PERSISTENT &&
                      (!c->node.czxid || *czxid <= c->node.czxid || kind == ZKL_KIND_READ));
}

static bool name_conflicts(const struct zkl__contender *c, const char *name)
{
    return conflicts(c, name, zkl__name_parse(name).kind);
}

/* --- the index ------------------------------------------------------------------------------- */

static int compare_positions(const void *one, const void *other, const void *context)
{
    int32_t a = ((const struct zkl__list_entry *)one)->position;
    int32_t b = ((const struct zkl__list_entry *)other)->position;
    (void)context;
    return (a > b) - (a < b);
}

/* "leases" for a path that also has "locks", a semaphore's (Curator's InterProcessSemaphoreV2);
 * "members" for one that also has "pieces", a partition's; else NULL. */
static const char *user_of(const struct zkl__reply *list)
{
    static const char *const directories[] = {"locks", "leases", "members", "pieces"};
    unsigned seen = 0;
    for (size_t i = 0; i < list->child_count; i++) {
        const char *name = list->children[i];
        for (int j = 0; (name[0] == 'l' || name[0] == 'm' || name[0] == 'p') && j < 4; j++) {
            seen |= strcmp(name, directories[j]) == 0 ? 1u << j : 0;
        }
    }
    return (seen & 3) == 3 ? directories[1] : (seen & 12) == 12 ? directories[2] : NULL;
}

struct zkl__list_index *zkl__list_index_new(const zkl_heap *heap, const struct zkl__reply *list,
                                            int32_t base)
{
    struct zkl__list_index *index =
        zkl__alloc(heap, sizeof *index + list->child_count * sizeof(struct zkl__list_entry));
    if (!index) {
        return NULL;
    }
    index->base = base;
    index->user = user_of(list);
    index->count = 0;
    for (size_t i = 0; i < list->child_count; i++) {
        struct zkl__name name = zkl__name_parse(list->children[i]);
        if (name.kind != ZKL_KIND_FOREIGN) {
            index->entries[index->count++] =
                (struct zkl__list_entry){.name = list->children[i],
                                         .position = zkl__sequence_diff(name.sequence, base),
                                         .kind = name.kind};
        }
    }
    zkl__sort(index->entries, index->count, sizeof *index->entries, compare_positions, NULL);
    for (size_t i = 1; i < index->count; i++) {
        bool same = index->entries[i].kind == index->entries[i - 1].kind;
        index->entries[i].same_from = same ? index->entries[i - 1].same_from : i;
    }
    return index;
}

/* How many stand before that position. */
static size_t count_before(const struct zkl__list_index *index, int32_t position)
{
    size_t low = 0, high = index->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (index->entries[middle].position < position) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* --- what is read in it ---------------------------------------------------------------------- */

struct zkl__list_entry *zkl__list_index_find(struct zkl__list_index *index, const char *name)
{
    int32_t position = zkl__sequence_diff(zkl__name_sequence(name), index->base);
    for (size_t i = count_before(index, position);
         i < index->count && index->entries[i].position == position; i++) {
        if (strcmp(index->entries[i].name, name) == 0) {
            return &index->entries[i];
        }
    }
    return NULL;
}

bool zkl__list_has(const struct zkl__reply *list, struct zkl__list_index *index, const char *name)
{
    if (index) {
        return zkl__list_index_find(index, name);
    }
    for (size_t i = 0; i < list->child_count; i++) {
        if (strcmp(list->children[i], name) == 0) {
            return true;
        }
    }
    return false;
}

const char *zkl__list_last(const struct zkl__reply *list)
{
    const char *last = NULL;
    for (size_t i = 0; i < list->child_count; i++) {
        const char *name = list->children[i];
        bool later =
            !last || zkl__sequence_diff(zkl__name_sequence(name), zkl__name_sequence(last)) > 0;
        if (later && zkl__name_parse(name).kind != ZKL_KIND_FOREIGN) {
            last = name;
        }
    }
    return last;
}

void zkl__list_mine(const struct zkl__contender *c, const struct zkl__reply *list,
                    const char **lowest, const char **other)
{
    *lowest = *other = NULL;
    for (size_t i = 0; i < list->child_count; i++) {
        const char *name = list->children[i];
        /* In a long queue nearly all are others': what only ours have is looked at before the whole
         * name is. */
        if (strncmp(name, c->node.prefix, strlen("_c_") + ZKL__UUID_LENGTH) != 0 ||
            !zkl__name_parse(name).uuid || strlen(name) >= ZKL__NAME_MAX ||
            zkl__names_find(&c->peer.queue->forged, name)) {
            continue;
        }
        if (!*lowest) {
            *lowest = name;
        } else if (zkl__sequence_diff(zkl__name_sequence(name), zkl__name_sequence(*lowest)) < 0) {
            *other = *lowest;
            *lowest = name;
        } else {
            *other = name;
        }
    }
}

/* How many entries stand before ours. */
static size_t list_before(const struct zkl__contender *c, const struct zkl__list_index *index)
{
    return count_before(index, zkl__sequence_diff(zkl__name_sequence(c->node.name), index->base));
}

const char *zkl__list_predecessor(const struct zkl__contender *c, const struct zkl__reply *list,
                                  const struct zkl__list_index *index)
{
    int32_t own = zkl__name_sequence(c->node.name);
    for (size_t i = index ? list_before(c, index) : 0; i > 0;) {
        const struct zkl__list_entry *entry = &index->entries[i - 1];
        if (conflicts(c, entry->name, entry->kind)) {
            return entry->name;
        }
        i = c->config.rule->waits_for & ZKL__KIND(entry->kind) ? i - 1 : entry->same_from;
    }
    if (index) {
        return NULL;
    }
    int32_t nearest = INT32_MIN;
    const char *predecessor = NULL;
    for (size_t i = 0; i < list->child_count; i++) {
        const char *name = list->children[i];
        int32_t position = zkl__sequence_diff(zkl__name_sequence(name), own);
        bool nearer = position < 0 &&
                      (!predecessor || position > nearest); /* seldom: then the kind is looked at */
        if (nearer && name_conflicts(c, name)) {
            nearest = position;
            predecessor = name;
        }
    }
    return predecessor;
}

/* zkl__stat_forged, as this contender sees it. */
static bool list_forged(const struct zkl__contender *c, const char *name,
                        const struct zkl__stat *stat)
{
    /* No czxid is a reply without a stat: every znode but the root has one (PrepRequestProcessor,
     * StatPersisted). */
    return stat->czxid != 0 && zkl__stat_forged(zkl__name_parse(name).kind, stat, c->node.czxid);
}

/* From now on the contenders of this session in the queue pass it over, as far as it is forged for
 * them. False: no memory. */
static bool list_pass_over(struct zkl__contender *c, const char *name, const struct zkl__stat *stat)
{
    int64_t since = stat->ephemeral_owner == 0 ? PERSISTENT : stat->czxid;
    struct zkl__name parsed = zkl__name_parse(name);
    if (parsed.kind == ZKL_KIND_READ && parsed.uuid) {
        return true;
    }
    return zkl__names_put(&c->peer.queue->forged, name, since);
}

/* === many znodes that may be forged =========================================================== */

/* Finds forged znodes among those before a contender, many at a time, nearest first.
 *
 * A client with CREATE on the queue can create thousands of persistent znodes with contenders'
 * names. A contender must know that a znode is forged before it ignores it, and the C client has no
 * request that returns the owners of several znodes. So after the first forged znode, each further
 * one is read by an exists of its own. A batch of them is sent together, and batches grow up to
 * 500: their replies take some milliseconds, far less than a heartbeat. The queue keeps the result
 * (peers.c): a later contender of the session inspects none of them again. */

#define FIRST 8 /* two have been read alone */
#define GROWTH 8
#define MOST 500

/* --- life ------------------------------------------------------------------------------------ */

void zkl__inspection_free(struct zkl__contender *c)
{
    zkl__free(c->heap, c->suspicion.inspection);
    c->suspicion.inspection = NULL;
}

void zkl__inspection_drop(struct zkl__contender *c)
{
    if (c->suspicion.inspection && c->suspicion.inspection->under_way > 0) {
        c->suspicion.inspection->dropped = true;
    } else {
        zkl__inspection_free(c);
    }
    if (c->suspicion.state == ZKL__SUSPICION_INSPECTED) {
        c->suspicion.state = ZKL__SUSPICION_NONE;
    }
}

/* --- whether there is one -------------------------------------------------------------------- */

bool zkl__inspection_begin(struct zkl__contender *c)
{
    bool suspected = c->suspicion.state == ZKL__SUSPICION_ARISEN;
    zkl__inspection_drop(c);
    c->suspicion.state = ZKL__SUSPICION_NONE;
    if (!suspected || c->suspicion.inspection) {
        return false;
    }
    struct zkl__list_index *own =
        c->core->index
            ? NULL
            : zkl__list_index_new(c->heap, c->event->reply, zkl__name_sequence(c->node.name));
    const struct zkl__list_index *index = c->core->index ? c->core->index : own;
    if (!index) {
        return false;
    }
    size_t before = list_before(c, index), bytes = 0;
    for (size_t i = 0; i < before; i++) {
        bytes += strlen(index->entries[i].name) + 1;
    }
    struct zkl__inspection *inspection =
        zkl__zalloc(c->heap, sizeof *inspection + sizeof *inspection->candidates +
                                 before * sizeof *inspection->candidates->all + bytes);
    if (inspection) {
        struct zkl__children *candidates = (struct zkl__children *)(inspection + 1);
        char *names = (char *)&candidates->all[before];
        for (size_t i = before; i > 0; i--) {
            if (name_conflicts(c, index->entries[i - 1].name)) {
                candidates->all[candidates->count++].name =
                    zkl__text_put(&names, index->entries[i - 1].name);
            }
        }
        inspection->batch = FIRST;
        inspection->candidates = candidates;
    }
    zkl__free(c->heap, own);
    c->suspicion.inspection = inspection;
    return inspection;
}

/* --- what is known --------------------------------------------------------------------------- */

const struct zkl__child *zkl__inspection_nearest(const struct zkl__contender *c)
{
    struct zkl__inspection *inspection = c->suspicion.inspection;
    const struct zkl__children *candidates = inspection->candidates;
    while (inspection->nearest < candidates->count &&
           candidates->all[inspection->nearest].verdict == ZKL__CHILD_PERSISTENT) {
        inspection->nearest++;
    }
    return inspection->nearest < candidates->count ? &candidates->all[inspection->nearest] : NULL;
}

/* --- requests and replies -------------------------------------------------------------------- */

static void end_batch(struct zkl__contender *c)
{
    struct zkl__inspection *inspection = c->suspicion.inspection;
    if (inspection->dropped) {
        zkl__inspection_free(c);
    } else if (!inspection->broken) {
        inspection->batch = inspection->batch * GROWTH < MOST ? inspection->batch * GROWTH : MOST;
    }
    zkl__contender_post(c, ZKL__CE_INSPECTED);
}

void zkl__inspection_answered(struct zkl__contender *c, size_t which,
                              const struct zkl__reply *reply)
{
    struct zkl__inspection *inspection = c->suspicion.inspection;
    struct zkl__child *candidate = &inspection->candidates->all[which];
    bool unsent = reply->rc == ZKL__RC_UNSENT && reply->unsent != ZKL_EINVAL;
    if (inspection->dropped) {
    } else if (unsent || reply->rc == ZKL__RC_NOTAPPLIED || reply->rc == ZKL__RC_UNKNOWN) {
        inspection->broken = true;
    } else if (reply->rc == ZKL__RC_NONODE) {
        inspection->stale = true;
        candidate->verdict = ZKL__CHILD_PERSISTENT;
    } else if (reply->rc == ZKL__RC_OK && list_forged(c, candidate->name, &reply->stat)) {
        /* no memory: the next one reads it again */
        (void)list_pass_over(c, candidate->name, &reply->stat);
        candidate->verdict = ZKL__CHILD_PERSISTENT;
    } else { /* NOAUTH does not prove absence: the watch on it will say more */
        candidate->verdict = ZKL__CHILD_EPHEMERAL;
    }
    if (--inspection->under_way == 0) {
        end_batch(c);
    }
}

void zkl__inspection_send(struct zkl__contender *c)
{
    struct zkl__inspection *inspection = c->suspicion.inspection;
    if (!inspection || inspection->under_way > 0) {
        return;
    }
    inspection->under_way = 1; /* until all are sent */
    inspection->broken = false;
    const struct zkl__children *candidates = inspection->candidates;
    size_t i = zkl__children_unknown(candidates, inspection->nearest);
    for (size_t sent = 0; i < candidates->count && sent < inspection->batch; sent++) {
        const struct zkl__op op = {
            .kind = ZKL__OP_EXISTS, .dir = c->config.path, .name = candidates->all[i].name};
        inspection->under_way++;
        zkl__core_send(c->core, &c->machine, ZKL__ROLES + (int)i, &op);
        i = zkl__children_unknown(candidates, i + 1);
    }
    if (--inspection->under_way == 0) {
        end_batch(c);
    }
}

/* === the predecessor ========================================================================== */

/* --- which znode it is ------------------------------------------------------------------------ */

void zkl__predecessor_unwatch(struct zkl__contender *c, bool forget)
{
    struct zkl__watch *node = &c->watches[ZKL__WATCHED_PREDECESSOR];
    struct zkl__watch *queue = &c->watches[ZKL__WATCHED_QUEUE];
    if (forget) {
        zkl__watches_remove(&c->core->watches, node);
        zkl__watches_remove(&c->core->watches, queue);
    }
    zkl__watch_remove(c->core, node);
    zkl__watch_remove(c->core, queue);
    c->predecessor.armed = false;
}

/* Sets the predecessor: this child of the queue. False: no memory. */
static bool predecessor_set(struct zkl__contender *c, const char *name)
{
    bool done =
        zkl__path_put(c->heap, &c->predecessor.path, &c->predecessor.room, c->config.path, name);
    c->watches[ZKL__WATCHED_PREDECESSOR].entry.path = c->predecessor.path;
    return done;
}

const char *zkl__predecessor_name(const struct zkl__contender *c)
{
    return c->predecessor.path + strlen(c->config.path) + 1;
}

const char *zkl__predecessor_hidden(const struct zkl__contender *c)
{
    const char *name = c->predecessor.access == ZKL__ACCESS_NONE ? zkl__predecessor_name(c) : NULL;
    bool stands =
        name && zkl__list_has(c->event->reply, c->core->index, name) && name_conflicts(c, name);
    return stands ? name : NULL;
}

void zkl__predecessor_wait_for(struct zkl__contender *c, const char *name)
{
    bool hidden =
        c->predecessor.access != ZKL__ACCESS_GET && strcmp(zkl__predecessor_name(c), name) == 0;
    if (hidden) { /* the one that may not be read: this list watches the queue */
        c->predecessor.armed = c->watches[ZKL__WATCHED_QUEUE].entry.link && !c->predecessor.changed;
        zkl__contender_move(c, ZKL__WATCHING, name);
        return;
    }
    zkl__predecessor_unwatch(c, false);
    c->predecessor.access = ZKL__ACCESS_GET;
    if (zkl__peers_follow(c, name)) {
        zkl__mark_behind(c, name);
        zkl__contender_move(c, ZKL__WATCHING, name);
        if (c->try_only) {
            zkl__contender_fail(c, ZKL_EBUSY, "somebody is before us");
        }
        return;
    }
    if (!predecessor_set(c, name)) {
        zkl__contender_fail(c, ZKL_ENOMEM, "out of memory");
        return;
    }
    zkl__contender_move(c, ZKL__WATCHING, zkl__predecessor_name(c));
}

/* How many may be before us. A try fails behind any. */
static size_t limit_of(const struct zkl__contender *c)
{
    return c->config.max_ahead > 0 && !c->try_only ? c->config.max_ahead : SIZE_MAX;
}

static void report_position(struct zkl__contender *c, size_t follows)
{
    if (c->config.position && follows + 1 != c->predecessor.reported) {
        c->predecessor.reported = follows + 1;
        c->config.position(c->config.owner, follows);
    }
}

/* The contenders before ours are counted only if the owner wants the number: a queue may be long.
 */
bool zkl__predecessor_position(struct zkl__contender *c)
{
    if (!c->config.position && limit_of(c) == SIZE_MAX) {
        return true;
    }
    const struct zkl__reply *list = c->event->reply;
    const struct zkl__list_index *index = c->core->index;
    int32_t own = zkl__name_sequence(c->node.name);
    size_t follows = 0, before = index ? list_before(c, index) : 0;
    for (size_t i = 0; i < before; i++) {
        follows += conflicts(c, index->entries[i].name, index->entries[i].kind);
    }
    for (size_t i = 0; !index && i < list->child_count; i++) {
        const char *name = list->children[i];
        follows += zkl__sequence_diff(zkl__name_sequence(name), own) < 0 && name_conflicts(c, name);
    }
    if (follows <= limit_of(c)) {
        report_position(c, follows);
        return true;
    }
    if (zkl__predecessor_hidden(c)) {
        return true;
    }
    /* More names are before us than max_ahead. Anybody may make names, so we refuse only when as
     * many znodes stand. Without memory, or while replies for an earlier inspection are due, it
     * lists again later. */
    c->waited = true;
    c->suspicion.state = ZKL__SUSPICION_ARISEN;
    if (zkl__inspection_begin(c)) {
        c->suspicion.inspection->batch = limit_of(c) < MOST ? limit_of(c) + 1 : MOST;
        c->suspicion.state = ZKL__SUSPICION_INSPECTED;
        zkl__predecessor_unwatch(c, false);
        c->predecessor.access = ZKL__ACCESS_GET;
        zkl__contender_move(c, ZKL__WATCHING, "max_ahead: which of those before us stand?");
        return false;
    }
    if (c->state != ZKL__LISTING) {
        zkl__contender_move(c, ZKL__LISTING, "max_ahead: no inspection yet");
    }
    zkl__contender_retry_later(c);
    return false;
}

void zkl__predecessor_none(struct zkl__contender *c)
{
    zkl__predecessor_unwatch(c, false);
    c->predecessor.access = ZKL__ACCESS_GET;
    zkl__grant_prove(c, "nobody is before us");
    zkl__contender_advance(c); /* the grant comes before what its list means to a lingering lock */
}

/* --- the request that watches it -------------------------------------------------------------- */

void zkl__predecessor_look(struct zkl__contender *c)
{
    bool asked = zkl__under_way(c, ZKL__ROLE_WATCH);
    if (c->predecessor.access == ZKL__ACCESS_STAT && !asked) {
        zkl__contender_send_of_node(c, ZKL__ROLE_WATCH, ZKL__OP_EXISTS, zkl__predecessor_name(c));
    }
    bool gets = c->predecessor.access == ZKL__ACCESS_GET;
    if (c->predecessor.armed || (gets && asked)) {
        return;
    }
    if (gets) {
        struct zkl__op get = {.kind = ZKL__OP_GET,
                              .dir = c->config.path,
                              .name = zkl__predecessor_name(c),
                              .watch = !c->try_only};
        if (get.watch) {
            zkl__contender_watch(c, ZKL__WATCHED_PREDECESSOR);
        }
        zkl__contender_send(c, ZKL__ROLE_WATCH, get);
    } else if (!c->try_only) {
        zkl__contender_move(c, ZKL__LISTING,
                            "who is before us may not be read: the queue is watched");
        zkl__contender_send_list(c);
    }
}

/* --- many that may be forged ----------------------------------------------------------------- */

/* The nearest ones of the inspection, until one stands, and until no more can stand than max_ahead.
 * Its list is good enough: no contender can have come before ours since. */
static void look_further(struct zkl__contender *c)
{
    const struct zkl__child *nearest = zkl__inspection_nearest(c);
    const struct zkl__children *candidates = c->suspicion.inspection->candidates;
    size_t most = candidates->count - zkl__children_count(candidates, ZKL__CHILD_PERSISTENT);
    /* One after the other. */
    bool watched = c->event->kind == ZKL__CE_REPLY && !c->try_only;
    c->suspicion.state = ZKL__SUSPICION_NONE;
    if (!nearest) {
        zkl__predecessor_none(c);
    } else if (nearest->verdict == ZKL__CHILD_EPHEMERAL && !watched && most <= limit_of(c)) {
        report_position(c, most);
        zkl__predecessor_wait_for(c, nearest->name);
    } else {
        c->suspicion.state = ZKL__SUSPICION_INSPECTED;
    }
}

/* For another inspection. */
static void list_again(struct zkl__contender *c, const char *why)
{
    c->suspicion.state = ZKL__SUSPICION_ARISEN;
    zkl__contender_move(c, ZKL__LISTING, why);
}

/* The znode that we wanted to watch is no contender. */
static void on_forged(struct zkl__contender *c)
{
    if (!list_pass_over(c, zkl__predecessor_name(c), &c->event->reply->stat)) {
        zkl__contender_fail(c, ZKL_ENOMEM, "out of memory");
    } else if (c->state != ZKL__WATCHING) {
        c->suspicion.state = ZKL__SUSPICION_ARISEN; /* the list under way is read without it */
    } else {
        struct zkl__inspection *inspection = c->suspicion.inspection;
        zkl__predecessor_unwatch(c, false);
        if (inspection && !inspection->dropped) {
            inspection->candidates->all[inspection->nearest].verdict = ZKL__CHILD_PERSISTENT;
            look_further(c);
        } else {
            list_again(c, "what is before us is no contender");
        }
    }
}

void zkl__predecessor_on_inspected(struct zkl__contender *c)
{
    const struct zkl__inspection *inspection = c->suspicion.inspection;
    if (zkl__children_count(inspection->candidates, ZKL__CHILD_EPHEMERAL) > limit_of(c)) {
        zkl__contender_fail(c, ZKL_EBUSY, "more are before us than max_ahead");
    } else if (inspection->broken) {
        zkl__contender_retry_later(c);
    } else if (inspection->stale) {
        list_again(c, "one of those before us is gone");
    } else {
        c->retry.pause = 0;
        look_further(c);
    }
}

/* --- the replies about it --------------------------------------------------------------------- */

/* To a get, for an exists leaves its watch on a missing node (DataTree: statNode adds the watch
 * before it looks whether the node is there, getData after that); or to the exists of a predecessor
 * that may not be read. */
void zkl__predecessor_on_reply(struct zkl__contender *c)
{
    enum zkl__rc rc = c->event->reply->rc;
    bool watching = c->state == ZKL__WATCHING;
    bool hidden =
        c->predecessor.access == ZKL__ACCESS_STAT && (watching || c->state == ZKL__LISTING);
    // NOLINTBEGIN(bugprone-branch-clone): the order of the tests counts
    if (!watching && !hidden) {
        return; /* it went meanwhile */
    } else if (rc == ZKL__RC_OK &&
               list_forged(c, zkl__predecessor_name(c), &c->event->reply->stat)) {
        on_forged(c);
    } else if (rc == ZKL__RC_NONODE && watching) {
        if (!hidden) {
            zkl__predecessor_unwatch(c, true);
        }
        zkl__contender_move(c, ZKL__LISTING, "who was before us is gone already");
    } else if (!zkl__rc_decides(rc)) {
        zkl__contender_fail_by_reply(c);
    } else if (c->try_only && (rc == ZKL__RC_OK || (hidden && rc != ZKL__RC_NONODE))) {
        zkl__contender_fail(c, ZKL_EBUSY, "somebody is before us");
    } else if (hidden) {
        c->predecessor.access = ZKL__ACCESS_NONE; /* NOAUTH does not prove absence: it counts */
    } else if (rc == ZKL__RC_OK) {
        c->predecessor.armed = true;
        zkl__mark_behind(c, zkl__predecessor_name(c));
    } else if (rc == ZKL__RC_NOAUTH) {
        /* It may not be read. The exists goes before the list, so its answer is here when that is
         * read. The refused get has set no watch. */
        c->predecessor.access = ZKL__ACCESS_STAT;
        zkl__predecessor_unwatch(c, true);
    } else {
        zkl__contender_fail_by_reply(c);
    }
    // NOLINTEND(bugprone-branch-clone)
}

/* === is the path another recipe's? ============================================================ */

/* Refuses a lock at the path of a semaphore or of a partition.
 *
 * The list that a contender reads anyway shows the two directories of either. The names alone prove
 * nothing: a client that may only create could deny the lock for ever with two persistent znodes.
 * A semaphore of ours has its limit in the data of the path, and the stat of the list has the
 * length of these data: no request more, and nobody without WRITE can forge it. A partition, and a
 * semaphore of Curator's, write no data there. For these the contender asks whether a session owns
 * the newest znode in `members` or `leases`. A lock beside a semaphore is a mistake that is
 * reported, and endangers neither. */

static void fail_by_conflict(struct zkl__contender *c)
{
    bool semaphore = strcmp(c->conflict.directory, "leases") == 0;
    zkl__contender_fail(c, ZKL_ECONFLICT,
                        semaphore
                            ? "the path is in use as a semaphore, with locks and leases below"
                            : "the path is in use as a partition, with members and pieces below");
}

/* A contender that waited already was there before the semaphore, which finds it in a list of its
 * own and fails. */
bool zkl__path_conflict_seen(struct zkl__contender *c)
{
    if (c->waited || c->conflict.stage == ZKL__CONFLICT_NONE) {
        return false;
    }
    const struct zkl__list_index *index = c->core->index;
    const char *directory = index ? index->user : user_of(c->event->reply);
    int32_t size = c->event->reply->stat.data_size;
    if (directory != c->conflict.directory) {
        c->conflict.stage = ZKL__CONFLICT_LISTS;
        c->conflict.directory = directory;
    }
    if (!directory) {
        return false;
    }
    if (strcmp(directory, "leases") == 0 && size > 0 && size <= ZKL__LIMIT_LONGEST) {
        fail_by_conflict(c);
        return true;
    }
    if (c->state != ZKL__LISTING) {
        zkl__contender_move(c, ZKL__LISTING,
                            "the path has the directories of a semaphore or a partition");
    }
    return true;
}

/* What no session owns, or may not be read, is anybody's. */
void zkl__path_conflict_on_reply(struct zkl__contender *c)
{
    const struct zkl__reply *reply = c->event->reply;
    bool lists = c->conflict.stage == ZKL__CONFLICT_LISTS,
         stats = c->conflict.stage == ZKL__CONFLICT_STATS;
    if (c->state != ZKL__LISTING || !c->conflict.directory || !(lists || stats)) {
    } else if (!zkl__rc_decides(reply->rc)) {
        zkl__contender_fail_by_reply(c);
    } else if (stats && reply->rc == ZKL__RC_OK && zkl__is_ephemeral(&reply->stat)) {
        fail_by_conflict(c);
    } else {
        char name[sizeof "members/" + ZKL__NAME_LONGEST];
        const char *newest = lists && reply->rc == ZKL__RC_OK ? zkl__list_last(reply) : NULL;
        if (newest) {
            snprintf(name, sizeof name, "%s/%s", c->conflict.directory, newest);
        }
        c->conflict.stage =
            newest && predecessor_set(c, name) ? ZKL__CONFLICT_STATS : ZKL__CONFLICT_NONE;
        /* At the end the list once more: what stands before us may have changed. */
    }
}
