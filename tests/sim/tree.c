/* tree.c - znodes with the zxids of their birth and death: one tree that shows every server its own past. */
#include <stdio.h>
#include <string.h>

#include "name.h"
#include "path.h"
#include "sim.h"

/* --- paths ---------------------------------------------------------------------------------------------------------- */

const char *sim_path_name(const struct sim_path *path)
{
    return path->text + path->dir_length + 1;
}

static int path_find(struct sim *s, const char *text)
{
    int *bucket = &s->path_hash[zkl__path_hash(text) % (SIM_PATHS * 2)];
    for (int index = *bucket; index >= 0; index = s->paths[index].next) {
        if (strcmp(s->paths[index].text, text) == 0) {
            return index;
        }
    }
    char above[SIM_PATH_TEXT];
    size_t length = zkl__path_join(above, sizeof above, text, NULL);
    bool deep = length > 1 && zkl__path_shorten(above);
    int parent = length > 1 ? path_find(s, deep ? above : "/") : -1;
    int index = sim_next_of(&s->path_count, SIM_PATHS);
    struct sim_path *path = &s->paths[index];
    *path = (struct sim_path){.parent = parent,
                              .first_child = -1,
                              .sibling = -1,
                              .node = -1,
                              .next = *bucket,
                              .dir_length = deep ? (int)strlen(above) : 0};
    memcpy(path->text, text, length + 1);
    *bucket = index;
    if (parent >= 0) {
        path->sibling = s->paths[parent].first_child;
        s->paths[parent].first_child = index;
    }
    return index;
}

int sim_path_of(struct sim *s, const char *dir, const char *name)
{
    char text[SIM_PATH_TEXT];
    size_t length = zkl__path_join(text, sizeof text, dir, name);
    assert(length > 0);
    return path_find(s, text);
}

/* --- nodes ---------------------------------------------------------------------------------------------------------- */

/* By the wall clock of the server that leads. */
static int64_t wall_skew(const struct sim *s)
{
    return s->leader < 0 ? 0 : (dice_at(s->seed, 8123, s->leader) % s->plan->skew);
}

/* What it is created with is the value of its own index. */
static int node_new(struct sim *s, const struct sim_part *part, int path, int64_t zxid)
{
    int index = sim_next_of(&s->node_count, SIM_NODES);
    s->nodes[index] = (struct sim_node){
        .path = path, .older = s->paths[path].node, .czxid = zxid, .dzxid = SIM_NEVER, .owner = -1, .value = index};
    s->values[index] = (struct sim_value){.zxid = zxid,
                                          .time = sim_now(s) + (s->plan->skew ? wall_skew(s) : 0),
                                          .older = -1,
                                          .size = part->size,
                                          .data = part->data};
    s->paths[path].node = index;
    return index;
}

void sim_tree_init(struct sim *s)
{
    memset(s->path_hash, 0xff, sizeof s->path_hash);
    path_find(s, "/");
    node_new(s, &(struct sim_part){.path = 0}, 0, 0);
}

const char *sim_node_name(const struct sim *s, int node)
{
    return sim_path_name(&s->paths[s->nodes[node].path]);
}

int32_t sim_node_number(const struct sim *s, int node)
{
    return zkl__name_parse(sim_node_name(s, node)).sequence;
}

int sim_node_at(const struct sim *s, int path, int64_t zxid)
{
    int node = s->paths[path].node;
    while (node >= 0 && s->nodes[node].czxid > zxid) {
        node = s->nodes[node].older;
    }
    return node >= 0 && s->nodes[node].dzxid > zxid ? node : -1;
}

static int first_living(const struct sim *s, int child, int64_t zxid)
{
    int node = -1;
    for (; child >= 0 && node < 0; child = s->paths[child].sibling) {
        node = sim_node_at(s, child, zxid);
    }
    return node;
}

int sim_first_child(const struct sim *s, int path, int64_t zxid)
{
    return first_living(s, s->paths[path].first_child, zxid);
}

int sim_next_child(const struct sim *s, int node, int64_t zxid)
{
    return first_living(s, s->paths[s->nodes[node].path].sibling, zxid);
}

int sim_child_count(const struct sim *s, int path, int64_t zxid)
{
    int count = 0;
    SIM_EACH_CHILD (s, node, path, zxid) {
        count++;
    }
    return count;
}

const struct sim_value *sim_value_at(const struct sim *s, int node, int64_t zxid)
{
    static const struct sim_value none = {.older = -1};
    const struct sim_value *value = node < 0 ? &none : &s->values[s->nodes[node].value];
    while (value->zxid > zxid && value->older >= 0) {
        value = &s->values[value->older];
    }
    return value;
}

/* mzxid of the living node, or pzxid: the last change to its list of children. */
int64_t sim_tree_changed(const struct sim *s, int path, int64_t zxid, bool children)
{
    int node = sim_node_at(s, path, zxid);
    if (!children) {
        return sim_value_at(s, node, zxid)->zxid;
    }
    int64_t last = s->nodes[node].czxid;
    for (int child = s->paths[path].first_child; child >= 0; child = s->paths[child].sibling) {
        for (int each = s->paths[child].node; each >= 0; each = s->nodes[each].older) {
            const struct sim_node *n = &s->nodes[each];
            last = sim_max(last, n->czxid <= zxid ? n->czxid : 0);
            last = sim_max(last, n->dzxid <= zxid ? n->dzxid : 0);
        }
    }
    return last;
}

/* The counter as it was at zxid: it goes up with every create. */
static int32_t cversion_at(const struct sim *s, const struct sim_node *n, int64_t zxid)
{
    int64_t committed = sim_committed_zxid(s);
    int32_t later = 0;
    for (int child = zxid < committed ? s->paths[n->path].first_child : -1; child >= 0;
         child = s->paths[child].sibling) {
        for (int each = s->paths[child].node; each >= 0; each = s->nodes[each].older) {
            int64_t made = s->nodes[each].czxid;
            later += made > zxid && made <= committed && made < n->dzxid;
        }
    }
    return n->cversion - later;
}

void sim_stat_at(const struct sim *s, int node, int64_t zxid, struct zkl__stat *stat)
{
    const struct sim_node *n = &s->nodes[node];
    const struct sim_value *value = sim_value_at(s, node, zxid);
    int children = n->owner < 0 ? sim_child_count(s, n->path, zxid) : 0;
    *stat = (struct zkl__stat){.czxid = n->czxid,
                               .mzxid = value->zxid,
                               .pzxid = n->owner < 0 ? sim_tree_changed(s, n->path, zxid, true) : n->czxid,
                               .ctime_ms = s->values[node].time / SIM_MS,
                               .mtime_ms = value->time / SIM_MS,
                               .ephemeral_owner = n->owner < 0 ? 0 : n->owner + 1,
                               .version = value->version,
                               .cversion = (2 * cversion_at(s, n, zxid) - children),
                               .child_count = children,
                               .data_size = value->size};
}

bool sim_node_readable(const struct sim *s, int node, int client)
{
    const struct sim_node *n = &s->nodes[node];
    return n->readers == SIM_ANYBODY || (n->readers == SIM_OWN_PROCESS && s->sessions[n->owner].client == client);
}

enum zkl__rc sim_tree_read(const struct sim *s, int client, enum zkl__op_kind op, int path, int64_t zxid, int *node)
{
    *node = sim_node_at(s, path, zxid);
    if (*node < 0) {
        return ZKL__RC_NONODE;
    }
    bool needed = op != ZKL__OP_EXISTS || s->plan->rules == ZKL__RULES_EXISTS_NEEDS_READ;
    bool hidden = (s->paths[path].denied & ZKL_PERM_READ) || !sim_node_readable(s, *node, client);
    return hidden && needed ? ZKL__RC_NOAUTH : ZKL__RC_OK;
}

/* --- writes: carried out in the proposed tree ----------------------------------------------------------------------- */

static struct sim_effect *effect_new(struct sim *s, enum sim_effect_kind kind, int node)
{
    struct sim_effect *effect = &s->effects[sim_next_of(&s->effect_count, SIM_EFFECTS)];
    *effect = (struct sim_effect){.kind = kind, .node = node, .parent = -1};
    return effect;
}

/* The parent's counter as outstandingChanges has it, or as applied when nothing is outstanding. */
static int32_t head_cversion(const struct sim *s, const struct sim_node *parent)
{
    return parent->head_zxid > sim_committed_zxid(s) ? parent->head_cversion : parent->cversion;
}

static void note_parent(struct sim *s, struct sim_effect *effect, int path, int64_t zxid, int32_t add)
{
    effect->parent = s->paths[s->paths[path].parent].node;
    struct sim_node *parent = &s->nodes[effect->parent];
    int32_t now = head_cversion(s, parent);
    effect->old_cversion = parent->head_cversion;
    effect->old_head_zxid = parent->head_zxid;
    parent->head_cversion = (now + (uint32_t)add); /* wraps, as Java does */
    parent->head_zxid = zxid;
    effect->cversion = parent->head_cversion;
}

static enum zkl__rc do_create(struct sim *s, struct sim_part *part, int session, int64_t zxid)
{
    const struct sim_path *wanted = &s->paths[part->path];
    int parent = sim_node_at(s, wanted->parent, SIM_HEAD);
    if (parent < 0) {
        return ZKL__RC_NONODE;
    }
    if (s->paths[wanted->parent].denied & ZKL_PERM_CREATE) {
        return ZKL__RC_NOAUTH;
    }
    int path = part->path;
    if (part->mode == ZKL__EPHEMERAL_SEQUENTIAL || part->mode == ZKL__PERSISTENT_SEQUENTIAL) {
        char text[SIM_PATH_TEXT + 16];
        snprintf(text, sizeof text, "%s%010d", wanted->text, head_cversion(s, &s->nodes[parent]));
        path = path_find(s, text);
    }
    if (sim_node_at(s, path, SIM_HEAD) >= 0) {
        return ZKL__RC_NODEEXISTS;
    }
    if (s->nodes[parent].owner >= 0) {
        return ZKL__RC_EPHEMERALPARENT;
    }
    int node = node_new(s, part, path, zxid);
    bool ephemeral = part->mode == ZKL__EPHEMERAL || part->mode == ZKL__EPHEMERAL_SEQUENTIAL;
    s->nodes[node].owner = ephemeral ? session : -1;
    s->nodes[node].container = part->mode == ZKL__CONTAINER;
    s->nodes[node].readers = ephemeral ? part->readers : SIM_ANYBODY;
    note_parent(s, effect_new(s, SIM_CREATED, node), path, zxid, 1);
    part->node = node;
    return ZKL__RC_OK;
}

static bool is_other_version(const struct sim *s, const struct sim_part *part, int node)
{
    return part->version != -1 && part->version != s->values[s->nodes[node].value].version;
}

static enum zkl__rc do_delete(struct sim *s, struct sim_part *part, int64_t zxid)
{
    int parent = s->paths[part->path].parent;
    if (sim_node_at(s, parent, SIM_HEAD) < 0) {
        return ZKL__RC_NONODE;
    }
    if (s->paths[parent].denied & ZKL_PERM_DELETE) {
        return ZKL__RC_NOAUTH;
    }
    int node = sim_node_at(s, part->path, SIM_HEAD);
    if (node < 0) {
        return ZKL__RC_NONODE;
    }
    if (is_other_version(s, part, node)) {
        return ZKL__RC_BADVERSION;
    }
    if (sim_child_count(s, part->path, SIM_HEAD) > 0) {
        return ZKL__RC_NOTEMPTY;
    }
    s->nodes[node].dzxid = zxid;
    note_parent(s, effect_new(s, SIM_DELETED, node), part->path, zxid, 0);
    part->node = node;
    return ZKL__RC_OK;
}

static enum zkl__rc do_set_or_check(struct sim *s, struct sim_part *part, int session, int64_t zxid)
{
    bool set = part->op == ZKL__OP_SET;
    int node = sim_node_at(s, part->path, SIM_HEAD);
    if (node < 0) {
        return ZKL__RC_NONODE;
    }
    bool hidden = !set && !sim_node_readable(s, node, s->sessions[session].client);
    if (hidden || (s->paths[part->path].denied & (set ? ZKL_PERM_WRITE : ZKL_PERM_READ))) {
        return ZKL__RC_NOAUTH;
    }
    if (is_other_version(s, part, node)) {
        return ZKL__RC_BADVERSION;
    }
    part->node = node;
    if (!set) {
        return ZKL__RC_OK;
    }
    int older = s->nodes[node].value, newest = sim_next_of(&s->value_count, SIM_VALUES);
    s->values[newest] = (struct sim_value){.zxid = zxid,
                                           .time = sim_now(s),
                                           .older = older,
                                           .version = s->values[older].version + 1,
                                           .size = part->size,
                                           .data = part->data};
    s->nodes[node].value = newest;
    effect_new(s, SIM_CHANGED, node);
    return ZKL__RC_OK;
}

enum zkl__rc sim_tree_do(struct sim *s, struct sim_part *part, int session, int64_t zxid)
{
    switch (part->op) {
    case ZKL__OP_CREATE:
        return do_create(s, part, session, zxid);
    case ZKL__OP_DELETE:
        return do_delete(s, part, zxid);
    case ZKL__OP_SET:
    case ZKL__OP_CHECK:
        return do_set_or_check(s, part, session, zxid);
    default:
        return ZKL__RC_REFUSED;
    }
}

/* closeSession: every ephemeral node that the proposed tree has of it (PrepRequestProcessor). The parents' records stay as they are. */
void sim_tree_close_session(struct sim *s, int session, int64_t zxid)
{
    for (int node = 0; node < s->node_count; node++) {
        if (s->nodes[node].owner == session && s->nodes[node].dzxid == SIM_NEVER) {
            s->nodes[node].dzxid = zxid;
            effect_new(s, SIM_DELETED, node);
        }
    }
}

/* The counter sticks at INT32_MAX: DataTree.createNode takes the new value only if it is greater. */
void sim_tree_commit(struct sim *s, const struct sim_txn *txn)
{
    for (int i = txn->first_effect; i < txn->first_effect + txn->effect_count; i++) {
        const struct sim_effect *effect = &s->effects[i];
        if (effect->kind != SIM_CREATED) {
            continue;
        }
        struct sim_node *parent = &s->nodes[effect->parent];
        parent->cversion = (int32_t)sim_max(parent->cversion, effect->cversion);
    }
}

/* Takes back the effects from the newest to first_effect: a multi that failed, or proposals that a new leader has not. */
void sim_tree_undo(struct sim *s, int first_effect)
{
    while (s->effect_count > first_effect) {
        struct sim_effect *effect = &s->effects[--s->effect_count];
        struct sim_node *node = &s->nodes[effect->node];
        struct sim_path *path = &s->paths[node->path];
        if (effect->kind == SIM_CREATED) {
            path->node = node->older;
            node->dzxid = node->czxid; /* it never was */
            node->owner = -1;
        } else if (effect->kind == SIM_DELETED) {
            node->dzxid = SIM_NEVER;
        } else {
            node->value = s->values[node->value].older;
        }
        if (effect->parent >= 0) {
            struct sim_node *parent = &s->nodes[effect->parent];
            parent->head_cversion = effect->old_cversion;
            parent->head_zxid = effect->old_head_zxid;
        }
    }
}
