/* tree.c - znodes with the zxids of their birth and death: one tree that shows every server its own past. */

#include "name.h"
#include "sim.h"

/* --- paths ---------------------------------------------------------------------------------------------------------- */

/* Eight bytes at a time: every request looks for its path, and most are long. */
static int *bucket_of(struct sim *s, const char *text)
{
    size_t length = strlen(text), at = 0;
    uint64_t hash = length, word;
    for (; at + sizeof word <= length; at += sizeof word) {
        memcpy(&word, text + at, sizeof word);
        hash = (hash ^ word) * 0xbf58476d1ce4e5b9u;
        hash ^= hash >> 32;
    }
    for (; at < length; at++) {
        hash = (hash ^ (uint8_t)text[at]) * 0x100000001b3u;
    }
    return &s->path_hash[(hash ^ hash >> 32) % (SIM_PATHS * 2)];
}

static int path_find(struct sim *s, const char *text)
{
    int *bucket = bucket_of(s, text);
    for (int index = *bucket; index >= 0; index = s->paths[index].next) {
        if (strcmp(s->paths[index].text, text) == 0) {
            return index;
        }
    }
    char above[SIM_PATH_TEXT] = {0};
    int dir_length = (int)(strrchr(text, '/') - text);
    memcpy(above, text, dir_length > 0 ? dir_length : 1);
    int parent = text[1] ? path_find(s, above) : -1;
    int index = sim_next_of(&s->path_count, SIM_PATHS);
    struct sim_path *path = &s->paths[index];
    *path = (struct sim_path){.parent = parent,
                              .first_child = -1,
                              .sibling = parent < 0 ? -1 : s->paths[parent].first_child,
                              .node = -1,
                              .next = *bucket,
                              .dir_length = dir_length,
                              .queue = -1,
                              .leases = -1};
    for (int queue = 0; queue < s->plan->paths; queue++) {
        path->queue = strcmp(text, sim_plan_path(queue)) == 0 ? queue : path->queue;
        path->leases = strcmp(text, sim_semaphore_folder(queue, true)) == 0 ? queue : path->leases;
    }
    strcpy(path->text, text);
    *bucket = index;
    if (parent >= 0) {
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

/* What it is created with is the value of its own index. */
static int node_new(struct sim *s, const struct sim_part *part, int path, int session, int64_t zxid)
{
    bool ephemeral = part->mode == ZKL__EPHEMERAL || part->mode == ZKL__EPHEMERAL_SEQUENTIAL;
    int index = sim_next_of(&s->node_count, SIM_NODES);
    bool skewed = s->plan->skew && s->leader >= 0; /* by the wall clock of the server that leads */
    s->nodes[index] = (struct sim_node){.path = path,
                                        .older = s->paths[path].node,
                                        .czxid = zxid,
                                        .dzxid = SIM_NEVER,
                                        .owner = ephemeral ? session : -1,
                                        .container = part->mode == ZKL__CONTAINER,
                                        .readers = ephemeral ? part->readers : SIM_ANYBODY,
                                        .value = index};
    s->values[index] =
        (struct sim_value){.zxid = zxid,
                           .time = sim_now(s) + (skewed ? dice_at(s->seed, 8123, s->leader) % s->plan->skew : 0),
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
    node_new(s, &(struct sim_part){.path = 0}, 0, SIM_STRANGER, 0);
}

const char *sim_node_name(const struct sim *s, int node)
{
    const struct sim_path *path = &s->paths[s->nodes[node].path];
    return path->text + path->dir_length + 1;
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

int sim_first_living(const struct sim *s, int path, int64_t zxid)
{
    int node = -1;
    for (; path >= 0 && node < 0; path = s->paths[path].sibling) {
        node = sim_node_at(s, path, zxid);
    }
    return node;
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
    unsigned changes = (unsigned)cversion_at(s, n, zxid); /* an int of Java's, which wraps */
    *stat = (struct zkl__stat){.czxid = n->czxid,
                               .mzxid = value->zxid,
                               .pzxid = n->owner < 0 ? sim_tree_changed(s, n->path, zxid, true) : n->czxid,
                               .ctime_ms = s->values[node].time / SIM_MS,
                               .mtime_ms = value->time / SIM_MS,
                               .ephemeral_owner = n->owner < 0 ? 0 : n->owner + 1,
                               .version = value->version,
                               .cversion = (int)(2 * changes - (unsigned)children),
                               .child_count = children,
                               .data_size = value->size};
}

bool sim_node_readable(const struct sim *s, int node, int client)
{
    const struct sim_node *n = &s->nodes[node];
    return n->readers == SIM_ANYBODY || (n->readers == SIM_OWN_PROCESS && s->sessions[n->owner].client == client);
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

static void note_parent(struct sim *s, struct sim_effect *effect, int64_t zxid)
{
    effect->parent = s->paths[sim_dir_of(s, effect->node)].node;
    struct sim_node *parent = &s->nodes[effect->parent];
    int32_t now = head_cversion(s, parent);
    effect->old_cversion = parent->head_cversion;
    effect->old_head_zxid = parent->head_zxid;
    parent->head_cversion = (now + (uint32_t)(effect->kind == SIM_CREATED)); /* wraps, as Java does */
    parent->head_zxid = zxid;
    effect->cversion = parent->head_cversion;
}

static enum zkl__rc create(struct sim *s, struct sim_part *part, int parent, int session, int64_t zxid)
{
    int path = part->path;
    if (part->mode == ZKL__EPHEMERAL_SEQUENTIAL || part->mode == ZKL__PERSISTENT_SEQUENTIAL) {
        char text[SIM_PATH_TEXT + 16];
        snprintf(text, sizeof text, "%s%010d", s->paths[path].text, head_cversion(s, &s->nodes[parent]));
        path = path_find(s, text);
    }
    if (sim_node_at(s, path, SIM_HEAD) >= 0) {
        return ZKL__RC_NODEEXISTS;
    }
    if (s->nodes[parent].owner >= 0) {
        return ZKL__RC_EPHEMERALPARENT;
    }
    part->node = node_new(s, part, path, session, zxid);
    note_parent(s, effect_new(s, SIM_CREATED, part->node), zxid);
    return ZKL__RC_OK;
}

enum zkl__rc sim_tree_do(struct sim *s, struct sim_part *part, int session, int64_t zxid)
{
    static const uint32_t needed[] = {[ZKL__OP_CREATE] = ZKL_PERM_CREATE,
                                      [ZKL__OP_DELETE] = ZKL_PERM_DELETE,
                                      [ZKL__OP_SET] = ZKL_PERM_WRITE,
                                      [ZKL__OP_CHECK] = ZKL_PERM_READ};
    bool of_parent = part->op == ZKL__OP_CREATE || part->op == ZKL__OP_DELETE;
    int of = of_parent ? s->paths[part->path].parent : part->path;
    int there = sim_node_at(s, of, SIM_HEAD), node = sim_node_at(s, part->path, SIM_HEAD);
    if (there < 0) {
        return ZKL__RC_NONODE;
    }
    bool hidden = part->op == ZKL__OP_CHECK && !sim_node_readable(s, node, s->sessions[session].client);
    if (hidden || (s->paths[of].denied & needed[part->op])) {
        return ZKL__RC_NOAUTH;
    }
    if (part->op == ZKL__OP_CREATE) {
        return create(s, part, there, session, zxid);
    }
    if (node < 0) {
        return ZKL__RC_NONODE;
    }
    if (part->version != -1 && part->version != s->values[s->nodes[node].value].version) {
        return ZKL__RC_BADVERSION;
    }
    if (part->op == ZKL__OP_DELETE && sim_child_count(s, part->path, SIM_HEAD) > 0) {
        return ZKL__RC_NOTEMPTY;
    }
    part->node = node;
    if (part->op == ZKL__OP_DELETE) {
        s->nodes[node].dzxid = zxid;
        note_parent(s, effect_new(s, SIM_DELETED, node), zxid);
    } else if (part->op == ZKL__OP_SET) {
        int older = s->nodes[node].value, newest = sim_next_of(&s->value_count, SIM_VALUES);
        s->values[newest] = (struct sim_value){.zxid = zxid,
                                               .time = sim_now(s),
                                               .older = older,
                                               .version = s->values[older].version + 1,
                                               .size = part->size,
                                               .data = part->data};
        s->nodes[node].value = newest;
        effect_new(s, SIM_CHANGED, node);
    }
    return ZKL__RC_OK;
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
    SIM_EACH (effect, &s->effects[txn->first_effect], txn->effect_count) {
        if (effect->kind == SIM_CREATED) {
            struct sim_node *parent = &s->nodes[effect->parent];
            parent->cversion = (int32_t)sim_max(parent->cversion, effect->cversion);
        }
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
