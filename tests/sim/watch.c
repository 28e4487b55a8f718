/* watch.c - one-shot watches of a server's clients, and setting them again after a reconnect. */
#include <stdio.h>

#include "sim.h"

static struct sim_watch *find_watch(struct sim_conn *conn, int path)
{
    for (int i = 0; i < conn->watch_count; i++) {
        if (conn->watches[i].path == path) {
            return &conn->watches[i];
        }
    }
    return NULL;
}

void sim_watch_add(struct sim *s, struct sim_conn *conn, int path, unsigned bits)
{
    struct sim_watch *watch = find_watch(conn, path);
    if (!watch) {
        if (conn->watch_count == SIM_WATCHES) {
            s->overflow = true;
            return;
        }
        watch = &conn->watches[conn->watch_count++];
        *watch = (struct sim_watch){.path = path};
    }
    watch->bits |= bits;
}

unsigned sim_watch_take(struct sim_conn *conn, int path, unsigned bits)
{
    struct sim_watch *watch = find_watch(conn, path);
    if (!watch) {
        return 0;
    }
    unsigned had = watch->bits & bits;
    watch->bits &= ~bits;
    if (!watch->bits) {
        *watch = conn->watches[--conn->watch_count];
    }
    return had;
}

static void tell(struct sim *s, int index, int path, enum zkl__watch_event event, int64_t zxid)
{
    struct sim_message *message = sim_message_new(s, SIM_MSG_EVENT);
    message->path = path;
    message->event = (uint8_t)event;
    message->zxid = zxid;
    sim_server_send(s, index, message);
}

/* That a node went, or was written because it goes. Whose node it is may hear of it as well: that wakes nobody. */
static void note_told(struct sim *s, const struct sim_conn *conn, int node)
{
    s->nodes[node].end_told += conn->session != s->nodes[node].owner;
}

/* What becomes of a node is told to who may read it. */
static bool is_told(const struct sim *s, const struct sim_conn *conn, int node)
{
    return s->plan->rules == SIM_NOTHING_NEEDS_READ || sim_node_readable(s, node, conn->client);
}

static void fire_effect(struct sim *s, int index, const struct sim_effect *effect, int64_t zxid)
{
    struct sim_conn *conn = &s->conns[index];
    int path = s->nodes[effect->node].path;
    if (effect->kind == SIM_DELETED) {
        if (sim_watch_take(conn, path, SIM_WATCH_DATA | SIM_WATCH_CHILD) && is_told(s, conn, effect->node)) {
            note_told(s, conn, effect->node);
            tell(s, index, path, ZKL__WATCH_DELETED, zxid);
        }
    } else if (sim_watch_take(conn, path, SIM_WATCH_DATA) && is_told(s, conn, effect->node)) {
        note_told(s, conn, effect->node);
        tell(s, index, path, effect->kind == SIM_CREATED ? ZKL__WATCH_CREATED : ZKL__WATCH_CHANGED, zxid);
    }
    int parent = s->paths[path].parent;
    if (effect->kind != SIM_CHANGED && parent >= 0 && sim_watch_take(conn, parent, SIM_WATCH_CHILD)) {
        tell(s, index, parent, ZKL__WATCH_CHILDREN, zxid);
    }
}

void sim_server_fire(struct sim *s, int server, const struct sim_txn *txn)
{
    if (txn->effect_count == 0) {
        return;
    }
    for (int i = 0; i < SIM_CONNS; i++) {
        const struct sim_conn *conn = &s->conns[i];
        for (int k = 0; k < txn->effect_count && conn->used && conn->server == server && conn->watch_count > 0; k++) {
            fire_effect(s, i, &s->effects[txn->first_effect + k], txn->zxid);
        }
    }
}

/* DataTree.setWatches: what changed since the client last heard is told at once. */
static void reset_watch(struct sim *s, int index, const struct sim_watch *watch, int64_t since)
{
    struct sim_conn *conn = &s->conns[index];
    int64_t zxid = sim_server_zxid(s, conn->server);
    bool there = sim_node_at(s, watch->path, zxid) >= 0;
    if (watch->bits & SIM_WATCH_EXIST) {
        if (there) {
            tell(s, index, watch->path, ZKL__WATCH_CREATED, zxid);
        } else {
            sim_watch_add(s, conn, watch->path, SIM_WATCH_DATA);
        }
    }
    if (watch->bits & SIM_WATCH_DATA) {
        if (!there) {
            tell(s, index, watch->path, ZKL__WATCH_DELETED, zxid);
        } else if (sim_tree_changed(s, watch->path, zxid, false) > since) {
            tell(s, index, watch->path, ZKL__WATCH_CHANGED, zxid);
        } else {
            sim_watch_add(s, conn, watch->path, SIM_WATCH_DATA);
        }
    }
    if (watch->bits & SIM_WATCH_CHILD) {
        if (!there) {
            tell(s, index, watch->path, ZKL__WATCH_DELETED, zxid);
        } else if (sim_tree_changed(s, watch->path, zxid, true) > since) {
            tell(s, index, watch->path, ZKL__WATCH_CHILDREN, zxid);
        } else {
            sim_watch_add(s, conn, watch->path, SIM_WATCH_CHILD);
        }
    }
}

void sim_server_set_watches(struct sim *s, int index, int64_t since)
{
    const struct sim_handle *handle = &s->clients[s->conns[index].client].handle;
    for (int i = 0; handle->conn == index && i < handle->watch_count; i++) {
        reset_watch(s, index, &handle->watches[i], since);
    }
}
