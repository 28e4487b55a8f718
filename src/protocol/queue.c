/* queue.c - what is read in the list of a queue, and the contenders of this session in one queue:
 * they share lists, and hand over to each other.
 *
 * Lists. One list serves all contenders that wanted it before it was sent: the servers process what
 * such a contender has sent before, its create above all, before the list. A contender that wants a
 * list with its create waits while another list of the queue is under way. The contenders before it
 * are of this session, so it would not be first.
 *
 * Many. A list for each create would cost as much as there are contenders. From the ninth contender
 * on, some send a create alone: as many as an eighth of the others. Such a one follows the
 * contender that was made before it, if their numbers are neighbours, and reads the next list that
 * another one sends. Otherwise it sends a list of its own.
 *
 * Hand-over. If the list of a contender shows the znode of another one of this session as its
 * predecessor, it follows that one and sets no watch on the server. As soon as the delete of that
 * znode is under way, the follower lists again behind it; or, if the predecessor held until its
 * release, it is granted immediately. Everybody else still queues behind the two znodes.
 * may_hand_over has the conditions. */
#include "core_internal.h"

#include <string.h>

#define FEW 4                 /* to read a list once for each of so many is less than to sort it */
#define NEVER (INT64_MIN / 2) /* instead of the time of what has shown a znode */
#define WANTED UINT64_MAX     /* instead of the number of a list: not sent yet */
#define UNLISTED_PART 8       /* one of so many sends a create without a list, at the most */

/* === the list of a queue ====================================================================== */

bool zkl__kind_conflicts(const struct zkl__contender *c, const char *name, zkl_kind kind)
{
    if (!(c->config.rule->waits_for & ZKL__KIND(kind))) {
        return false;
    }
    const int64_t *czxid = zkl__names_find(&c->peer.queue->forged, name);
    return !czxid || (*czxid != ZKL__NEVER_A_CONTENDER &&
                      (!c->node.czxid || *czxid <= c->node.czxid || kind == ZKL_KIND_READ));
}

/* --- the index ------------------------------------------------------------------------------- */

static int compare_positions(const void *one, const void *other)
{
    int32_t a = ((const struct zkl__list_entry *)one)->position;
    int32_t b = ((const struct zkl__list_entry *)other)->position;
    return (a > b) - (a < b);
}

const char *zkl__list_user(const struct zkl__reply *list)
{
    static const char *const directories[] = {"locks", "leases", "members", "pieces"};
    unsigned seen = 0;
    ZKL__EACH_NAME (name, list) {
        /* Most contenders' names begin with a character before 'l'. */
        for (int j = 0; name[0] >= 'l' && j < 4; j++) {
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
    index->user = zkl__list_user(list);
    index->count = index->own = 0;
    ZKL__EACH_NAME (name, list) {
        struct zkl__name parsed = zkl__name_parse(name);
        if (parsed.kind != ZKL_KIND_FOREIGN) {
            index->entries[index->count++] =
                (struct zkl__list_entry){.name = name,
                                         .position = zkl__sequence_diff(parsed.sequence, base),
                                         .kind = parsed.kind};
        }
    }
    zkl__sort(index->entries, index->count, sizeof *index->entries, compare_positions);
    for (size_t i = 1; i < index->count; i++) {
        bool same = index->entries[i].kind == index->entries[i - 1].kind;
        index->entries[i].same_from = same ? index->entries[i - 1].same_from : i;
    }
    return index;
}

size_t zkl__list_before(const struct zkl__list_index *index, const char *name)
{
    int32_t position = zkl__sequence_diff(zkl__name_sequence(name), index->base);
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

/* NULL: no contender has this name. */
static struct zkl__list_entry *index_find(struct zkl__list_index *index, const char *name)
{
    const size_t first = zkl__list_before(index, name); /* and others with the same number follow */
    for (size_t i = first;
         i < index->count && index->entries[i].position == index->entries[first].position; i++) {
        if (strcmp(index->entries[i].name, name) == 0) {
            return &index->entries[i];
        }
    }
    return NULL;
}

struct zkl__list_index *zkl__list_sorted(const struct zkl__contender *c,
                                         const struct zkl__reply *list)
{
    struct zkl__core *core = c->core;
    if (core->index) {
        return core->index;
    }
    core->index = zkl__list_index_new(&core->config.heap, list, zkl__name_sequence(c->node.name));
    ZKL__EACH (struct zkl__contender, own, &c->peer.queue->contenders, peer.in_queue) {
        struct zkl__list_entry *entry = core->index && zkl__node_known(&own->node)
                                            ? index_find(core->index, own->node.name)
                                            : NULL;
        if (entry) {
            entry->owner = own;
            core->index->own++;
        }
    }
    return core->index;
}

bool zkl__list_has(const struct zkl__reply *list, struct zkl__list_index *index, const char *name)
{
    if (index) {
        return index_find(index, name);
    }
    ZKL__EACH_NAME (child, list) {
        if (strcmp(child, name) == 0) {
            return true;
        }
    }
    return false;
}

const char *zkl__list_last(const struct zkl__reply *list)
{
    const char *last = NULL;
    ZKL__EACH_NAME (name, list) {
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
    ZKL__EACH_NAME (name, list) {
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

const char *zkl__list_predecessor(const struct zkl__contender *c, const struct zkl__reply *list,
                                  const struct zkl__list_index *index)
{
    int32_t own = zkl__name_sequence(c->node.name);
    for (size_t i = index ? zkl__list_before(index, c->node.name) : 0; i > 0;) {
        const struct zkl__list_entry *entry = &index->entries[i - 1];
        if (zkl__kind_conflicts(c, entry->name, entry->kind)) {
            return entry->name;
        }
        i = c->config.rule->waits_for & ZKL__KIND(entry->kind) ? i - 1 : entry->same_from;
    }
    if (index) {
        return NULL;
    }
    int32_t nearest = INT32_MIN;
    const char *predecessor = NULL;
    ZKL__EACH_NAME (name, list) {
        int32_t position = zkl__sequence_diff(zkl__name_sequence(name), own);
        bool nearer = position < 0 &&
                      (!predecessor || position > nearest); /* seldom: then the kind is looked at */
        if (nearer && zkl__kind_conflicts(c, name, zkl__name_parse(name).kind)) {
            nearest = position;
            predecessor = name;
        }
    }
    return predecessor;
}

/* === the contenders of this session ========================================================== */

/* --- the table ------------------------------------------------------------------------------- */

static void drop(struct zkl__core *core, struct zkl__peer_queue *q)
{
    zkl__map_remove(&core->queues, &q->entry);
    zkl__names_clear(&q->forged);
    zkl__free(&core->config.heap, q);
}

void zkl__peer_queues_deinit(struct zkl__core *core)
{
    struct zkl__peer_queue *q;
    while ((q = ZKL__OWNER(zkl__map_any(&core->queues), struct zkl__peer_queue, entry))) {
        drop(core, q);
    }
    zkl__map_deinit(&core->queues);
}

static void send_list(struct zkl__machine *machine);

static const struct zkl__machine_ops queue_ops = {.rank = ZKL__RANK_LATER, .step = send_list};

static struct zkl__peer_queue *find_or_make(struct zkl__core *core, const char *path)
{
    const zkl_heap *heap = &core->config.heap;
    size_t size = strlen(path) + 1;
    struct zkl__peer_queue *q =
        ZKL__OWNER(zkl__map_find(&core->queues, path), struct zkl__peer_queue, entry);
    if (q) {
        return q;
    }
    q = zkl__alloc(heap, sizeof *q + size);
    if (q) {
        *q = (struct zkl__peer_queue){.machine = {.ops = &queue_ops, .core = core},
                                      .forged = {.heap = heap, .key = core->config.names_key}};
        q->entry.path = memcpy(q->path, path, size);
        zkl__map_add(&core->queues, &q->entry);
    }
    return q;
}

static void drop_unused(struct zkl__core *core, struct zkl__peer_queue *q)
{
    if (!q->contenders.first && q->forged.count == 0 && q->lingerers == 0 && !q->members.first) {
        drop(core, q);
    }
}

bool zkl__peers_join(struct zkl__contender *c, const char *path)
{
    struct zkl__peer_queue *q = find_or_make(c->core, path);
    if (!q) {
        return false;
    }
    if (!q->contenders.first) {
        c->core->remembered -= q->forged.count;
    }
    c->peer.queue = q;
    q->lingers |= c->config.linger > 0;
    zkl__list_append(&q->contenders, &c->peer.in_queue);
    q->count++;
    return true;
}

void zkl__peers_leave(struct zkl__contender *c)
{
    struct zkl__peer_queue *q = c->peer.queue;
    if (!q) {
        return;
    }
    zkl__list_remove(&q->contenders, &c->peer.in_queue);
    c->peer.queue = NULL;
    q->count--;
    if (q->contenders.first) {
        return;
    }
    if (c->core->remembered + q->forged.count > ZKL__REMEMBERED_MOST) {
        zkl__names_clear(&q->forged);
    }
    c->core->remembered += q->forged.count;
    drop_unused(c->core, q);
}

struct zkl__peer_queue *zkl__peers_enroll(struct zkl__core *core, const char *path,
                                          struct zkl__link *member)
{
    struct zkl__peer_queue *q = find_or_make(core, path);
    if (q && member) {
        zkl__list_prepend(&q->members, member);
    } else if (q) {
        q->lingerers++;
    }
    return q;
}

void zkl__peers_resign(struct zkl__core *core, struct zkl__peer_queue *q, struct zkl__link *member)
{
    zkl__list_remove(&q->members, member);
    drop_unused(core, q);
}

void zkl__core_stop_lingering(struct zkl__core *core, const char *path)
{
    struct zkl__peer_queue *q =
        ZKL__OWNER(zkl__map_find(&core->queues, path), struct zkl__peer_queue, entry);
    ZKL__ENSURE(q); /* it is enrolled there */
    q->lingerers--;
    ZKL__EACH (struct zkl__contender, c, &q->contenders, peer.in_queue) {
        if (c->state == ZKL__LINGERING && q->lingerers == 0) {
            zkl__contender_post(c, ZKL__EV_CLOSE);
        }
    }
    drop_unused(core, q);
}

/* --- who follows whom ------------------------------------------------------------------------ */

/* The one that was made before c in this queue; NULL: c is the first. */
static struct zkl__contender *made_before(const struct zkl__contender *c)
{
    return ZKL__OWNER(c->peer.in_queue.prev, struct zkl__contender, peer.in_queue);
}

/* NULL: nobody any more. */
static void follow(struct zkl__contender *c, struct zkl__contender *follows)
{
    if (c->peer.follows) {
        zkl__list_remove(&c->peer.follows->peer.followers, &c->peer.following);
    }
    c->peer.follows = follows;
    c->peer.moved = false;
    if (follows) {
        zkl__list_prepend(&follows->peer.followers, &c->peer.following);
    }
}

bool zkl__peers_follow(struct zkl__contender *c, const char *name)
{
    /* Many may read one list, and their predecessors may all be other sessions'. So its index has
     * the owners. It may be of another queue, or the owner's znode another one by now. */
    struct zkl__list_index *index = c->core->index;
    const struct zkl__list_entry *entry = index ? index_find(index, name) : NULL;
    struct zkl__contender *other = entry ? entry->owner : made_before(c);
    if (!entry && (!other || strcmp(other->node.name, name) != 0)) {
        ZKL__EACH (struct zkl__contender, own, &c->peer.queue->contenders, peer.in_queue) {
            other = strcmp(own->node.name, name) == 0 ? own : other;
        }
    }
    /* A member of a multi-contender is removed with others, in a transaction of its own time. */
    if (c->multi || !other || other->multi || other->peer.queue != c->peer.queue ||
        strcmp(other->node.name, name) != 0 || !zkl__node_certain(&other->node)) {
        return false;
    }
    follow(c, other);
    zkl__contender_post(c, ZKL__EV_LOOK); /* it may be leaving already */
    return true;
}

/* It waits for every kind, and needs nothing else that a list of its own would give it: a position,
 * the result of a try, or a watch. */
static bool is_one_of_many(const struct zkl__contender *c)
{
    const struct zkl__contender_config *own = &c->config;
    return own->rule->waits_for == ZKL__KIND_ANY && !c->multi && !c->try_only && !own->position &&
           own->max_ahead == 0 && !c->peer.queue->lingers && made_before(c) &&
           !made_before(c)->multi;
}

bool zkl__peers_spares_list(struct zkl__contender *c)
{
    struct zkl__peer_queue *q = c->peer.queue;
    size_t part = c->core->config.unlisted_part ? c->core->config.unlisted_part : UNLISTED_PART;
    bool spares = is_one_of_many(c) && q->unlisted < (q->count - 1) / part;
    q->unlisted += spares;
    return spares;
}

/* The directory's counter gives each number once, in the order of the queue
 * (PrepRequestProcessor.pRequest2TxnCreate), so nobody is between two neighbours. But a directory
 * that was made anew counts from the beginning: before the lock is handed over to c, a list has to
 * show both. */
const char *zkl__peers_neighbour(struct zkl__contender *c)
{
    const struct zkl__contender *before = made_before(c);
    if (!is_one_of_many(c) || !zkl__node_certain(&c->node) || !zkl__node_certain(&before->node) ||
        zkl__sequence_diff(zkl__name_sequence(c->node.name),
                           zkl__name_sequence(before->node.name)) != 1) {
        return NULL;
    }
    c->listed_at = NEVER;
    return before->node.name;
}

void zkl__peers_unfollow(struct zkl__contender *c)
{
    follow(c, NULL);
    c->peer.handed = false;
}

void zkl__peers_replace(struct zkl__contender *follower, struct zkl__contender *c)
{
    for (struct zkl__contender *next; (next = zkl__peers_first_follower(follower));) {
        follow(next, c);
    }
    follow(follower, NULL);
}

void zkl__peers_stepped(struct zkl__contender *c)
{
    if (c->peer.handed && !zkl__node_known(&c->node)) {
        /* c is gone before the one that handed over to it, whose delete was put off: whom c handed
         * over to waits for that one. */
        ZKL__EACH_LEAVING (struct zkl__contender, follower, &c->peer.followers, peer.following) {
            if (follower->peer.handed) {
                follow(follower, c->peer.follows);
                zkl__contender_post(follower, ZKL__EV_LOOK); /* that one may be gone, too */
            }
        }
    }
    if (c->peer.follows && (c->peer.handed ? c->state == ZKL__ENDED : c->state != ZKL__WATCHING)) {
        zkl__peers_unfollow(c);
    }
}

bool zkl__peers_leaving(const struct zkl__contender *c)
{
    return zkl__under_way(c, ZKL__ROLE_DELETE) && !c->mail.unsent[ZKL__ROLE_DELETE];
}

void zkl__peers_notify_changes(struct zkl__contender *c, const char *node, bool leaving)
{
    bool moved = strcmp(c->node.name, node) != 0;
    c->peer.queue->held_up += leaving && !zkl__peers_leaving(c) && zkl__node_known(&c->node);
    if (!moved && (leaving || !zkl__peers_leaving(c))) {
        return;
    }
    ZKL__EACH (struct zkl__contender, follower, &c->peer.followers, peer.following) {
        follower->peer.moved |= moved;
        zkl__contender_post(follower, ZKL__EV_LOOK);
    }
}

bool zkl__peers_delete_waits(struct zkl__contender *c)
{
    const unsigned now = c->peer.queue->held_up + 1;
    const struct zkl__contender *at = c;
    while (at->peer.handed && at->peer.cleared != now && zkl__node_known(&at->peer.follows->node)) {
        at = at->peer.follows;
        if (!zkl__peers_leaving(at)) {
            return true;
        }
    }
    c->peer.cleared = now;
    return false;
}

/* `follows` held until its release, and its delete is under way. So nobody was before it, and
 * nobody is between the two:
 *  - The follower's list showed it right before the follower, among the kinds that the follower
 *    waits for. It had waited for all of these kinds, too; of others, some may hold beside it.
 *  - The session lives, by the lease. So both znodes have existed all the time, unless somebody
 *    deleted the follower's by hand. A holder learns of that within a heartbeat. So the follower's
 *    list must not be older than a heartbeat, nor than the connection: it lists anew then.
 *  - If the follower is to report a crash (config.mark), `follows` did that for the holder before.
 */
static bool may_hand_over(const struct zkl__contender *follows,
                          const struct zkl__contender *follower)
{
    const struct zkl__core *core = follower->core;
    return follows->grant.end == ZKL__GRANT_HANDED_OVER && zkl__core_grants(core) &&
           !(follower->config.rule->waits_for & ~follows->config.rule->waits_for) &&
           follower->node.czxid && (follows->config.mark || !follower->config.mark) &&
           follower->retry.at <= core->now && follower->listed_at >= core->connected_at &&
           core->now - follower->listed_at <= zkl__lease_heartbeat(core->timeout);
}

bool zkl__peers_hands_over(const struct zkl__contender *c)
{
    ZKL__EACH (struct zkl__contender, follower, &c->peer.followers, peer.following) {
        if (may_hand_over(c, follower)) {
            return true;
        }
    }
    return false;
}

enum zkl__event_kind zkl__peers_check(struct zkl__contender *follower)
{
    struct zkl__contender *follows = follower->peer.follows;
    bool handed = follower->peer.handed;
    /* The delete that its own one waits for has changed. The deletes of those that it handed the
     * lock to wait for the same. One whose delete is under way waits for nothing: those behind it
     * get mail when that delete has its reply, or is sent again after a refusal. */
    ZKL__EACH (struct zkl__contender, next, &follower->peer.followers, peer.following) {
        if (handed && next->peer.handed && !zkl__peers_leaving(next)) {
            zkl__contender_post(next, ZKL__EV_LOOK);
        }
    }
    // NOLINTNEXTLINE(bugprone-branch-clone): the order of the tests counts
    if (!zkl__node_known(&follows->node) || follower->peer.moved) {
        zkl__peers_unfollow(follower);
    } else if (!zkl__peers_leaving(follows) || (follower->core->closing && !handed)) {
        return ZKL__EV_LOOK; /* at a close whoever waits gives up */
    } else if (!handed && follows->mark.state != ZKL__MARK_WRITES &&
               may_hand_over(follows, follower)) {
        follower->peer.handed = true;
        return ZKL__EV_HANDED;
    } else if (!handed) {
        zkl__peers_unfollow(follower);
    }
    return handed ? ZKL__EV_TIME : ZKL__EV_WATCH; /* handed: its own delete may have waited */
}

/* --- lists ----------------------------------------------------------------------------------- */

void zkl__peers_want_list(struct zkl__contender *c)
{
    c->peer.list = WANTED;
    c->peer.queue->urgent |= c->state != ZKL__CREATING;
    zkl__core_post(&c->peer.queue->machine);
}

bool zkl__peers_on_list(struct zkl__contender *c, const struct zkl__reply *reply)
{
    struct zkl__peer_queue *q = c->peer.queue;
    struct zkl__core *core = c->core;
    uint64_t list = c->peer.list;
    int64_t sent = c->listed_at;
    bool shows = reply->rc == ZKL__RC_OK;
    /* A directory that was made anew counts from the beginning: then names say nothing any more. */
    if (shows && reply->stat.czxid != q->czxid) {
        q->czxid = reply->stat.czxid;
        zkl__names_clear(&q->forged);
    } else if (shows && q->forged.count > 2 * reply->child_count) {
        zkl__names_keep(&q->forged, reply->children, reply->child_count);
    }
    if (c->multi) {
        return false;
    }
    ZKL__ENSURE(!shows || !core->index);
    q->lists_under_way--;
    zkl__core_post(&q->machine);
    /* To read it once for each of few is less than to sort it. */
    const struct zkl__list_index *index =
        shows && (q->count > FEW || q->lingers) ? zkl__list_sorted(c, reply) : NULL;
    ZKL__EACH (struct zkl__contender, own, &q->contenders, peer.in_queue) {
        if (own->peer.list == list) {
            own->peer.list = 0;
            /* The contender itself looks for its znode in this list, and acts if it is not there.
             */
            own->shown_at = shows ? sent : own->shown_at;
            zkl__contender_post_reply(own, ZKL__ROLE_LIST, reply);
        } else if (shows &&
                   ((own->peer.follows && !own->peer.handed) ||
                    (zkl__contender_is_first(own) &&
                     (zkl__contender_keeps(own) ? own->config.linger > 0 : !own->multi)))) {
            /* Another contender sent this list. But since this one follows another, or is first,
             * its own list or create had its reply earlier, and so was sent earlier: the list has
             * to show its znode, and the znode of the contender that it follows by its number. If
             * not, it lists itself. A holder does so when it is to pass its znode on. */
            bool by_number = own->peer.follows && own->listed_at == NEVER;
            if (zkl__list_has(reply, core->index, own->node.name) &&
                (!by_number || zkl__list_has(reply, core->index, own->peer.follows->node.name))) {
                own->listed_at = own->shown_at = sent;
            } else if (zkl__contender_keeps(own)) {
                own->shown_at = NEVER;
            } else if (own->peer.follows) {
                zkl__peers_unfollow(own);
                zkl__contender_post(own, ZKL__EV_WATCH);
            } else {
                zkl__contender_post(own, ZKL__EV_LIST);
            }
        }
    }
    if (shows && q->lingers) { /* does it show others than contenders of this session? */
        q->strangers = !index || index->count > index->own;
        if (q->strangers && q->keeper) {
            zkl__contender_post(q->keeper, ZKL__EV_YIELD);
        }
    }
    return true;
}

static void send_list(struct zkl__machine *machine)
{
    struct zkl__core *core = machine->core;
    struct zkl__peer_queue *q = (struct zkl__peer_queue *)machine;
    struct zkl__op op = {.kind = ZKL__OP_CHILDREN, .dir = q->path};
    struct zkl__contender *sender = NULL;
    if (q->lists_under_way > 0 && !q->urgent) {
        return;
    }
    ZKL__EACH (struct zkl__contender, c, &q->contenders, peer.in_queue) {
        if (c->peer.list == WANTED) {
            c->peer.list = q->lists + 1;
            c->listed_at = core->now;
            op.watch = op.watch || c->watches[ZKL__WATCHED_QUEUE].entry.link ||
                       c->watches[ZKL__WATCHED_LINGER].entry.link;
            sender = c;
        }
    }
    if (sender) {
        q->lists++;
        q->lists_under_way++;
        q->unlisted = 0;
        q->urgent = false;
        zkl__core_send(core, &sender->machine, ZKL__ROLE_LIST, &op);
    }
}
