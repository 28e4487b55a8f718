/* inbox.c - what a handle tells its core, in order: at once, or later, as the completion thread of the library would. */
#include <stdlib.h>
#include <string.h>

#include "groups.h"

#include "session_inside.h"
#include "sim.h"

static const char *name_of_node(const struct sim *s, int node)
{
    return node < 0 ? NULL : sim_path_name(&s->paths[s->nodes[node].path]);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Names in no order at all: a HashSet has none. For explore.c, where equal worlds must be equal, in one. */
static size_t list_children(const struct sim *s, int path, int64_t zxid, const char **out, size_t room)
{
    size_t count = 0;
    for (int child = s->paths[path].first_child; child >= 0 && count < room; child = s->paths[child].sibling) {
        if (sim_node_at(s, child, zxid) >= 0) {
            out[count++] = sim_path_name(&s->paths[child]);
        }
    }
    if (s->plan->delay == 0) {
        qsort(out, count, sizeof *out, by_name);
        return count;
    }
    for (size_t i = count; i > 1; i--) {
        size_t other = dice_at(s->seed, zxid, i) % i;
        const char *name = out[i - 1];
        out[i - 1] = out[other];
        out[other] = name;
    }
    return count;
}

/* Of one that failed, the parts before the culprit are rolled back with code 0, those behind it with -2. */
static void fill_parts(const struct sim *s, const struct sim_message *message, struct zkl__reply *parts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct sim_part *part = &s->parts[message->parts + (int)i];
        bool done = part->rc == ZKL__RC_OK && message->rc == ZKL__RC_OK;
        parts[i] = (struct zkl__reply){.rc = part->rc == ZKL__RC_OK && !done ? ZKL__RC_ROLLEDBACK : part->rc,
                                       .zk_code = sim_zk_code(part->rc)};
        if (done && part->op == ZKL__OP_CREATE) {
            parts[i].name = name_of_node(s, part->node);
        } else if (done && part->op == ZKL__OP_SET) {
            sim_stat_at(s, part->node, message->zxid, &parts[i].stat);
        }
    }
}

/* A joint's contender lists for itself: of what it is told the others of its process in that queue learn nothing, nor it of theirs. */
static bool lists_apart(const struct zkl__core *core, const char *path)
{
    int count = 0;
    bool joint = false;
    for (const struct zkl__contender *c = core ? zkl__contenders_first(core) : NULL; c; c = zkl__contenders_after(c)) {
        bool there = strcmp(c->config.path, path) == 0;
        count += there;
        joint = joint || (there && c->joint);
    }
    return joint && count > 1;
}

/* What the core has been told of a queue: all that had happened there up to zxid. */
static void note_shown(struct sim *s, int client, int path, int64_t zxid, bool list)
{
    struct sim_client *it = &s->clients[client];
    for (int queue = 0; queue < s->plan->paths; queue++) {
        if (strcmp(s->paths[path].text, sim_plan_path(queue)) == 0 && !lists_apart(it->core, sim_plan_path(queue))) {
            it->shown_zxid[queue] = zxid;
            it->listed_zxid[queue] = list ? zxid : it->listed_zxid[queue];
        }
        if (list && strcmp(s->paths[path].text, sim_semaphore_folder(queue, true)) == 0) {
            it->leases_zxid[queue] = zxid;
        }
    }
}

/* A watch outlives the contender that set it: an event that nobody in the core waits for tells the core nothing. What only watchers of
 * the path wait for tells the contenders nothing. */
static bool is_awaited(const struct sim *s, const struct zkl__core *core, const char *path)
{
    if (!core || !s->plan->watchers) {
        return !core || zkl__watches_any(&core->watches, path);
    }
    bool awaited = false;
    for (const struct zkl__contender *c = zkl__contenders_first(core); c && !awaited; c = zkl__contenders_after(c)) {
        for (int i = 0; i < ZKL__WATCHED; i++) {
            awaited = awaited || (c->watches[i].on && strcmp(c->watches[i].path, path) == 0);
        }
    }
    return awaited;
}

/* The reply is made of the tree as the server had it when it answered. */
static void tell_reply(struct sim *s, int client, const struct sim_message *message)
{
    /* each process's own: in shell/ its thread may be switched away while it reads them */
    static const char *all_children[SIM_CLIENTS][SIM_PATHS];
    static struct zkl__reply all_parts[SIM_CLIENTS][SIM_PARTS];
    const char **children = all_children[client];
    struct zkl__reply *parts = all_parts[client];
    struct zkl__reply reply = {.rc = message->rc, .zk_code = message->zk_code};
    const struct sim_part *asked = &message->part;
    if (reply.rc == ZKL__RC_REFUSED && message->zk_code == -112) {
        reply.rc = ZKL__RC_UNKNOWN; /* the adapter cannot tell it from the library's own -112 */
    }
    bool told = asked->op != ZKL__OP_DELETE && asked->op != ZKL__OP_CHECK;
    if (reply.rc == ZKL__RC_OK && message->node >= 0 && told) {
        sim_stat_at(s, message->node, message->zxid, &reply.stat);
        reply.name = asked->op == ZKL__OP_CREATE ? name_of_node(s, message->node) : NULL;
        if (asked->op == ZKL__OP_GET) {
            uint32_t size;
            int32_t version;
            reply.data = sim_tree_data(s, message->node, message->zxid, &size, &version);
            reply.size = size;
        }
    }
    if (asked->op == ZKL__OP_CHILDREN && reply.rc == ZKL__RC_OK) {
        reply.children = children;
        reply.child_count = list_children(s, asked->path, message->zxid, children, SIM_PATHS);
        if (!sim_views_asked(s, client, message->id)) {
            note_shown(s, client, asked->path, message->zxid, true);
        }
        if (s->shell) {
            s->shell->listed(s, client, asked->path, message->zxid);
        }
    }
    if (asked->op == ZKL__OP_MULTI && message->parts >= 0) {
        reply.part_count = message->part_count;
        reply.parts = parts;
        fill_parts(s, message, parts, reply.part_count);
    }
    sim_say(s, "reply", "%d: %s %s %s", client, zkl__op_name(asked->op),
            asked->path >= 0 ? s->paths[asked->path].text : "", zkl__rc_name(reply.rc));
    sim_core_event(s, client, (struct zkl__event){.kind = ZKL__EV_REPLY, .id = message->id, .reply = &reply});
}

static void tell(struct sim *s, int client, const struct sim_message *message)
{
    struct sim_handle *handle = &s->clients[client].handle;
    struct zkl__event event = {.kind = ZKL__EV_SUSPENDED};
    switch (message->kind) {
    case SIM_MSG_REPLY:
        tell_reply(s, client, message);
        return;
    case SIM_MSG_EVENT:
        sim_say(s, "watch", "%d: %s", client, s->paths[message->path].text);
        s->judge.events_told++;
        if (s->paths[message->path].parent >= 0 &&
            is_awaited(s, s->clients[client].core, s->paths[message->path].text)) {
            note_shown(s, client, s->paths[message->path].parent, message->zxid, false);
        }
        event.kind = ZKL__EV_WATCH;
        event.watch = (enum zkl__watch_event)message->event;
        event.path = s->paths[message->path].text;
        break;
    case SIM_MSG_WELCOME:
        handle->connections_told++;
        event.kind = message->session < 0 ? ZKL__EV_EXPIRED : ZKL__EV_CONNECTED;
        event.code = ZKL_ELOST;
        event.session_id = message->session + 1;
        event.timeout = message->zxid;
        if (message->session >= 0 && (message->watch || event.timeout < handle->shortest_told)) {
            handle->shortest_told = event.timeout;
        }
        event.fresh = message->watch;
        event.began = message->timeout;
        sim_say(s, "handle", "%d: %s", client, message->session < 0 ? "expired" : "connected");
        break;
    default:
        s->clients[client].suspended = true;
        sim_say(s, "handle", "%d: suspended", client);
        break;
    }
    sim_core_event(s, client, event);
}

/* Kinds in the inbox: REPLY, EVENT, WELCOME (connected or expired), EOF (suspended). */
void sim_inbox_put(struct sim *s, int client, struct sim_message *message)
{
    struct sim_handle *handle = &s->clients[client].handle;
    if (s->shell || s->plan->inbox_delay > 0 || handle->inbox.head) {
        sim_channel_push(s, &handle->inbox, SLOT_INBOX + client, message);
        return;
    }
    tell(s, client, message);
    sim_message_free(s, message);
}

void sim_inbox_due(struct sim *s, int client)
{
    struct sim_message *message = sim_channel_pop(s, &s->clients[client].handle.inbox, SLOT_INBOX + client);
    tell(s, client, message);
    sim_message_free(s, message);
}
