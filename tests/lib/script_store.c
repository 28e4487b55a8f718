#include "script_store.h"

#include <string.h>

/* --- the tree ------------------------------------------------------------------------------------------------------ */

static void push_watch_news(const char *path, enum zkl__watch_event event)
{
    struct script_news *news = &script.news[script.news_count++];
    memset(news, 0, sizeof *news);
    news->is_watch = true;
    news->watch = event;
    strcpy(news->path, path);
}

static void add_watch(const char *path, struct script_watch watch)
{
    strcpy(watch.path, path);
    script.watches[script.watch_count++] = watch;
}

/* Of one or more kinds. False: there was none. */
static bool use_up_watches(const char *path, unsigned kinds)
{
    int kept = 0, had = script.watch_count;
    for (int i = 0; i < had; i++) {
        if (strcmp(script.watches[i].path, path) != 0 || !(script.watches[i].what & kinds)) {
            script.watches[kept++] = script.watches[i];
        }
    }
    script.watch_count = kept;
    return kept < had;
}

static void fire(const char *path, enum zkl__watch_event event, enum script_watched what)
{
    if (use_up_watches(path, what)) {
        push_watch_news(path, event);
    }
}

/* What is kept from us uses the watch up all the same. */
static void fire_of_node(const char *path, bool hidden, enum zkl__watch_event event)
{
    if (use_up_watches(path, SCRIPT_DATA_OF) && (!hidden || script.rules == ZKL__RULES_NOTHING_NEEDS_READ)) {
        push_watch_news(path, event);
    }
}

struct script_node *script_find(const char *path)
{
    for (int i = 0; i < script.node_count; i++) {
        if (strcmp(script.nodes[i].path, path) == 0) {
            return &script.nodes[i];
        }
    }
    return NULL;
}

static int64_t next_zxid(void)
{
    script.zxid += !script.in_multi;
    return script.zxid;
}

/* The path above, "" for the root, and its node. */
static struct script_node *find_parent(const char *path, char parent[SCRIPT_PATH])
{
    strcpy(parent, path);
    *strrchr(parent, '/') = '\0';
    return script_find(parent);
}

/* A child came or went. */
static void change_parent(const char *path, int children)
{
    char parent[SCRIPT_PATH];
    struct script_node *node = find_parent(path, parent);
    if (node) {
        node->pzxid = script.zxid;
        node->cversion++;
        node->children += children;
    }
    fire(parent[0] ? parent : "/", ZKL__WATCH_CHILDREN, SCRIPT_CHILDREN_OF);
}

struct script_node *script_put(const char *path, int64_t owner)
{
    struct script_node *node = &script.nodes[script.node_count++];
    if (script.node_count > SCRIPT_NODES) {
        abort();
    }
    *node = (struct script_node){.czxid = next_zxid(), .owner = owner};
    node->mzxid = node->pzxid = node->czxid;
    strcpy(node->path, path);
    fire(path, ZKL__WATCH_CREATED, SCRIPT_MISSING);
    change_parent(path, 1);
    return node;
}

static void drop(struct script_node *node)
{
    char path[SCRIPT_PATH];
    bool hidden = node->hidden;
    strcpy(path, node->path);
    *node = script.nodes[--script.node_count];
    next_zxid();
    fire_of_node(path, hidden, ZKL__WATCH_DELETED);
    fire(path, ZKL__WATCH_DELETED, SCRIPT_CHILDREN_OF);
    change_parent(path, -1);
}

void script_remove(const char *path)
{
    struct script_node *node = script_find(path);
    CU_ASSERT_PTR_NOT_NULL_FATAL(node);
    drop(node);
    script_store_deliver_all();
}

static void write_node(struct script_node *node, const char *data)
{
    node->mzxid = next_zxid();
    snprintf(node->data, sizeof node->data, "%s", data);
    fire_of_node(node->path, node->hidden, ZKL__WATCH_CHANGED);
}

void script_write(const char *path, const char *data)
{
    struct script_node *node = script_find(path);
    CU_ASSERT_PTR_NOT_NULL_FATAL(node);
    write_node(node, data);
    script_store_deliver_all();
}

void script_change(const char *path)
{
    script_write(path, "changed");
}

int script_ours(void)
{
    int count = 0;
    for (int i = 0; i < script.node_count; i++) {
        count += script.session_id && script.nodes[i].owner == script.session_id;
    }
    return count;
}

const char *script_our_path(void)
{
    const char *path = "";
    int64_t newest = 0;
    for (int i = 0; i < script.node_count; i++) {
        if (script.nodes[i].owner == script.session_id && script.nodes[i].czxid > newest) {
            newest = script.nodes[i].czxid;
            path = script.nodes[i].path;
        }
    }
    return path;
}

/* --- what the store does ------------------------------------------------------------------------------------------- */

static bool parent_missing(const char *path)
{
    char parent[SCRIPT_PATH];
    return script.chroot_missing || (!find_parent(path, parent) && parent[0]);
}

static struct zkl__stat stat_of(const struct script_node *node)
{
    return (struct zkl__stat){.czxid = node->czxid,
                              .mzxid = node->mzxid,
                              .pzxid = node->pzxid,
                              .cversion = node->cversion,
                              .child_count = node->children,
                              .ephemeral_owner = node->owner};
}

static enum zkl__rc do_create(const struct script_part *part, char name[SCRIPT_PATH], struct zkl__stat *stat)
{
    char path[SCRIPT_PATH];
    if (parent_missing(part->path)) {
        return ZKL__RC_NONODE;
    }
    if (part->mode == ZKL__EPHEMERAL_SEQUENTIAL) {
        if (script.next_sequence > INT32_MAX) {
            return ZKL__RC_NODEEXISTS;
        }
        snprintf(path, sizeof path, "%.300s%010d", part->path, (int)script.next_sequence++);
    } else {
        strcpy(path, part->path);
    }
    if (script_find(path)) {
        return ZKL__RC_NODEEXISTS;
    }
    bool lives =
        part->mode == ZKL__PERSISTENT || part->mode == ZKL__PERSISTENT_SEQUENTIAL || part->mode == ZKL__CONTAINER;
    struct script_node *node = script_put(path, lives ? 0 : script.session_id);
    strcpy(node->data, part->data);
    node->hidden = script.hide_ours && !lives;
    strcpy(name, strrchr(path, '/') + 1);
    *stat = stat_of(node);
    return ZKL__RC_OK;
}

/* A write, alone or in a multi. */
static enum zkl__rc do_write(const struct script_part *part, char name[SCRIPT_PATH], struct zkl__stat *stat)
{
    struct script_node *node = script_find(part->path);
    if (part->kind == ZKL__OP_CREATE) {
        return do_create(part, name, stat);
    }
    if (!node && !(part->kind == ZKL__OP_CHECK && strcmp(part->path, "/") == 0)) {
        return ZKL__RC_NONODE;
    }
    if (part->kind == ZKL__OP_CHECK && node && node->hidden) {
        return ZKL__RC_NOAUTH;
    }
    if (part->kind == ZKL__OP_DELETE) {
        if (node->fixed) {
            return ZKL__RC_NOAUTH;
        }
        drop(node);
    } else if (part->kind == ZKL__OP_SET) {
        write_node(node, part->data);
        *stat = stat_of(node);
    }
    return ZKL__RC_OK;
}

/* All or nothing; a created part answers its name and no stat. */
static void do_multi(const struct script_op *op, struct script_news *news)
{
    static struct script before;
    before = script;
    script.zxid++;
    script.in_multi = true;
    for (int i = 0; i < op->part_count; i++) {
        struct zkl__reply *mine = &news->parts[i];
        struct zkl__stat stat;
        mine->rc = do_write(&op->parts[i], news->part_names[i], &stat);
        if (mine->rc != ZKL__RC_OK && news->reply.rc == ZKL__RC_OK) {
            news->reply.rc = mine->rc;
            for (int j = 0; j < op->part_count; j++) {
                news->parts[j].rc = j == i ? mine->rc : ZKL__RC_ROLLEDBACK;
            }
            script = before;
            script.zxid++; /* a failed multi is a transaction, too */
            break;
        }
    }
    script.in_multi = false;
    news->reply.part_count = (size_t)op->part_count;
}

static void set_watch(const struct script_op *op, enum script_watched what, int64_t zxid)
{
    for (int i = 0; op->watch && i < script.watch_count; i++) {
        if (strcmp(script.watches[i].path, op->path) == 0 && script.watches[i].what == what) {
            return;
        }
    }
    if (op->watch) {
        add_watch(op->path, (struct script_watch){.what = what, .zxid = zxid});
    }
}

static void do_children(const struct script_op *op, struct script_news *news)
{
    struct script_node *node = script_find(op->path);
    if (script.chroot_missing || (strcmp(op->path, "/") != 0 && !node)) {
        news->reply.rc = ZKL__RC_NONODE;
        return;
    }
    size_t length = strcmp(op->path, "/") == 0 ? 0 : strlen(op->path);
    news->reply.stat.czxid = length > 0 ? script_find(op->path)->czxid : 0;
    news->names = calloc((size_t)script.node_count + 1, SCRIPT_PATH);
    news->children = calloc((size_t)script.node_count + 1, sizeof *news->children);
    for (int i = 0; i < script.node_count; i++) {
        const char *path = script.nodes[i].path;
        if (strncmp(path, op->path, length) == 0 && path[length] == '/' && !strchr(path + length + 1, '/')) {
            char *name = news->names + news->reply.child_count * SCRIPT_PATH;
            strcpy(name, path + length + 1);
            news->children[news->reply.child_count++] = name;
        }
    }
    set_watch(op, SCRIPT_CHILDREN_OF, node ? node->pzxid : 0);
}

static bool may_see(const struct script_op *op, const struct script_node *node)
{
    bool needs = op->kind == ZKL__OP_GET || script.rules == ZKL__RULES_EXISTS_NEEDS_READ;
    return !node->hidden || !needs;
}

static void do_look(const struct script_op *op, struct script_news *news)
{
    struct script_node *node = script_find(op->path);
    if (!node) {
        news->reply.rc = ZKL__RC_NONODE;
        if (op->kind == ZKL__OP_EXISTS) {
            set_watch(op, SCRIPT_MISSING, 0);
        }
    } else if (!may_see(op, node)) {
        news->reply.rc = ZKL__RC_NOAUTH;
    } else {
        news->reply.stat = stat_of(node);
        if (op->kind == ZKL__OP_GET) {
            strcpy(news->data, node->data);
            news->reply.size = strlen(news->data);
        }
        set_watch(op, SCRIPT_DATA_OF, node->mzxid);
    }
}

static void carry_out(const struct script_op *op, struct script_news *news)
{
    struct script_part part = {.kind = op->kind, .mode = op->mode};
    switch (op->kind) {
    case ZKL__OP_CREATE:
    case ZKL__OP_DELETE:
    case ZKL__OP_SET:
    case ZKL__OP_CHECK:
        strcpy(part.path, op->path);
        strcpy(part.data, op->data);
        news->reply.rc = do_write(&part, news->name, &news->reply.stat);
        break;
    case ZKL__OP_MULTI:
        do_multi(op, news);
        break;
    case ZKL__OP_CHILDREN:
        do_children(op, news);
        break;
    case ZKL__OP_GET:
    case ZKL__OP_EXISTS:
        do_look(op, news);
        break;
    case ZKL__OP_UNWATCH:
        news->reply.rc = use_up_watches(op->path, ~0u) ? ZKL__RC_OK : ZKL__RC_NOWATCH;
        break;
    case ZKL__OP_NONE:
    case ZKL__OP_SYNC:
        break;
    }
}

static struct script_op take_op(void)
{
    CU_ASSERT_FATAL(script.op_count > 0);
    struct script_op op = script.ops[0];
    memmove(script.ops, script.ops + 1, (size_t)(script.op_count - 1) * sizeof op);
    script.op_count--;
    return op;
}

static void free_news(struct script_news *news)
{
    free(news->names);
    free(news->children);
}

/* Done into a place of its own first: the watches it fires are told before its reply. */
static void do_one(const enum zkl__rc *refusal)
{
    struct script_op op = take_op();
    struct script_news *news = calloc(1, sizeof *news);
    news->op = op;
    if (refusal) {
        news->reply.rc = *refusal;
        news->reply.zk_code = -100;
    } else {
        carry_out(&op, news);
    }
    script.news[script.news_count++] = *news;
    free(news);
}

void script_do(void)
{
    do_one(NULL);
}

void script_deliver(void)
{
    CU_ASSERT_FATAL(script.news_count > 0);
    struct script_news news = script.news[0];
    memmove(script.news, script.news + 1, (size_t)(script.news_count - 1) * sizeof news);
    script.news_count--;
    if (news.is_watch) {
        script_step((struct zkl__event){.kind = ZKL__EV_WATCH, .watch = news.watch, .path = news.path});
        return;
    }
    for (int i = 0; i < script.watch_count; i++) {
        if (news.op.watch && strcmp(script.watches[i].path, news.op.path) == 0) {
            script.watches[i].known = true;
        }
    }
    news.reply.name = news.no_name ? NULL : news.name;
    news.reply.data = news.data;
    news.reply.children = news.children;
    news.reply.parts = news.parts;
    for (int i = 0; i < SCRIPT_PARTS; i++) {
        news.parts[i].name = news.part_names[i];
    }
    script_step((struct zkl__event){.kind = ZKL__EV_REPLY, .id = news.op.id, .reply = &news.reply});
    free_news(&news);
}

void script_store_deliver_all(void)
{
    while (script.connected && script.news_count > 0) {
        script_deliver();
    }
}

void script_answer_named(const char *name)
{
    CU_ASSERT_FATAL(script.op_count > 0 && script.news_count == 0);
    do_one(NULL);
    script.news[0].no_name = !name;
    strcpy(script.news[0].name, name ? name : "");
    script_deliver();
}

struct script_op script_answer(void)
{
    CU_ASSERT_FATAL(script.op_count > 0);
    struct script_op op = script.ops[0];
    do_one(NULL);
    script_store_deliver_all();
    return op;
}

struct script_op script_answer_with(enum zkl__rc rc)
{
    CU_ASSERT_FATAL(script.op_count > 0);
    struct script_op op = script.ops[0];
    do_one(&rc);
    script_store_deliver_all();
    return op;
}

void script_answer_all(void)
{
    int answered = 0;
    script_store_deliver_all();
    while (script.connected && script.op_count > 0) {
        script_answer();
        CU_ASSERT_FATAL(++answered < 10000);
    }
}

void script_answer_granted(const struct script_owner *owner)
{
    script_answer_all();
    CU_ASSERT_EQUAL(owner->granted, 1);
}

const char *script_ops(void)
{
    script.line[0] = '\0';
    for (int i = 0; i < script.op_count; i++) {
        const struct script_op *op = &script.ops[i];
        strcat(script.line, i ? " " : "");
        strcat(script.line, zkl__op_name(op->kind));
        for (int j = 0; j < op->part_count; j++) {
            strcat(script.line, j ? "," : "(");
            strcat(script.line, zkl__op_name(op->parts[j].kind));
        }
        strcat(script.line, op->part_count > 0 ? ")" : "");
    }
    return script.line;
}

/* --- connections and sessions ------------------------------------------------------------------------------------------- */

/* What the server says to a client that sets its watches again (DataTree.setWatches, which looks at no access list). */
static bool missed(const struct script_watch *watch, const struct script_node *node, enum zkl__watch_event *event)
{
    if (watch->what == SCRIPT_MISSING) {
        *event = ZKL__WATCH_CREATED;
        return node;
    }
    bool children = watch->what == SCRIPT_CHILDREN_OF;
    *event = !node ? ZKL__WATCH_DELETED : children ? ZKL__WATCH_CHILDREN : ZKL__WATCH_CHANGED;
    return !node || (children ? node->pzxid : node->mzxid) != watch->zxid;
}

void script_store_connect(void)
{
    int kept = 0;
    for (int i = 0; i < script.watch_count; i++) {
        struct script_watch *watch = &script.watches[i];
        enum zkl__watch_event event;
        if (watch->known && missed(watch, script_find(watch->path), &event)) {
            push_watch_news(watch->path, event);
        } else if (watch->known) {
            script.watches[kept++] = *watch;
        }
    }
    script.watch_count = kept;
}

void script_store_forget(void)
{
    for (int i = 0; i < script.news_count; i++) {
        free_news(&script.news[i]);
    }
    script.news_count = 0;
}

void script_store_disconnect(void)
{
    script.connected = false;
    script.op_count = 0;
    for (int i = 0; i < script.news_count; i++) {
        if (script.news[i].is_watch) { /* the client has not heard: it sets the watch again, and hears then */
            enum zkl__watch_event event = script.news[i].watch;
            add_watch(script.news[i].path,
                      (struct script_watch){.known = true,
                                            .what = event == ZKL__WATCH_CREATED    ? SCRIPT_MISSING
                                                    : event == ZKL__WATCH_CHILDREN ? SCRIPT_CHILDREN_OF
                                                                                   : SCRIPT_DATA_OF});
        }
    }
    script_store_forget();
}

void script_store_end_session(void)
{
    script.watch_count = 0;
    for (int i = script.node_count - 1; i >= 0 && script.session_id; i--) {
        if (script.nodes[i].owner == script.session_id) {
            drop(&script.nodes[i]);
        }
    }
    script.session_id = 0;
}
