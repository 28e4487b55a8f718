#include "script_store.h"

#include <string.h>

/* --- the tree ------------------------------------------------------------------------------------------------------ */

static void push_watch_news(struct script *s, const char *path, enum zkl__watch_event event)
{
    struct script_news *news = &s->news[s->news_count++];
    memset(news, 0, sizeof *news);
    news->is_watch = true;
    news->watch = event;
    strcpy(news->path, path);
}

static void fire(struct script *s, const char *path, enum zkl__watch_event event, enum script_watched what)
{
    int kept = 0;
    for (int i = 0; i < s->watch_count; i++) {
        if (strcmp(s->watches[i].path, path) == 0 && s->watches[i].what == what) {
            push_watch_news(s, path, event);
        } else {
            s->watches[kept++] = s->watches[i];
        }
    }
    s->watch_count = kept;
}

static void forget_watch(struct script *s, const char *path, enum script_watched what)
{
    int kept = 0;
    for (int i = 0; i < s->watch_count; i++) {
        if (strcmp(s->watches[i].path, path) != 0 || s->watches[i].what != what) {
            s->watches[kept++] = s->watches[i];
        }
    }
    s->watch_count = kept;
}

/* What is kept from us uses the watch up all the same. */
static void fire_of_node(struct script *s, const char *path, bool hidden, enum zkl__watch_event event)
{
    if (hidden && s->rules != SCRIPT_NOTHING_NEEDS_READ) {
        forget_watch(s, path, SCRIPT_DATA_OF);
    } else {
        fire(s, path, event, SCRIPT_DATA_OF);
    }
}

struct script_node *script_find(struct script *s, const char *path)
{
    for (int i = 0; i < s->node_count; i++) {
        if (strcmp(s->nodes[i].path, path) == 0) {
            return &s->nodes[i];
        }
    }
    return NULL;
}

static int64_t next_zxid(struct script *s)
{
    s->zxid += !s->in_multi;
    return s->zxid;
}

/* A child came or went. */
static void change_parent(struct script *s, const char *path, int children)
{
    char parent[SCRIPT_PATH];
    strcpy(parent, path);
    *strrchr(parent, '/') = '\0';
    struct script_node *node = script_find(s, parent);
    if (node) {
        node->pzxid = s->zxid;
        node->cversion++;
        node->children += children;
    }
    fire(s, parent[0] ? parent : "/", ZKL__WATCH_CHILDREN, SCRIPT_CHILDREN_OF);
}

struct script_node *script_put(struct script *s, const char *path, int64_t owner)
{
    struct script_node *node = &s->nodes[s->node_count++];
    if (s->node_count > SCRIPT_NODES) {
        abort();
    }
    *node = (struct script_node){.czxid = next_zxid(s), .owner = owner};
    node->mzxid = node->pzxid = node->czxid;
    strcpy(node->path, path);
    fire(s, path, ZKL__WATCH_CREATED, SCRIPT_MISSING);
    change_parent(s, path, 1);
    return node;
}

static void drop(struct script *s, struct script_node *node)
{
    char path[SCRIPT_PATH];
    bool hidden = node->hidden;
    strcpy(path, node->path);
    *node = s->nodes[--s->node_count];
    next_zxid(s);
    fire_of_node(s, path, hidden, ZKL__WATCH_DELETED);
    fire(s, path, ZKL__WATCH_DELETED, SCRIPT_CHILDREN_OF);
    change_parent(s, path, -1);
}

void script_remove(struct script *s, const char *path)
{
    struct script_node *node = script_find(s, path);
    CU_ASSERT_PTR_NOT_NULL_FATAL(node);
    drop(s, node);
    script_store_deliver_all(s);
}

static void write_node(struct script *s, struct script_node *node, const char *data)
{
    node->mzxid = next_zxid(s);
    snprintf(node->data, sizeof node->data, "%s", data);
    fire_of_node(s, node->path, node->hidden, ZKL__WATCH_CHANGED);
}

void script_write(struct script *s, const char *path, const char *data)
{
    struct script_node *node = script_find(s, path);
    CU_ASSERT_PTR_NOT_NULL_FATAL(node);
    write_node(s, node, data);
    script_store_deliver_all(s);
}

void script_change(struct script *s, const char *path)
{
    script_write(s, path, "changed");
}

int script_ours(const struct script *s)
{
    int count = 0;
    for (int i = 0; i < s->node_count; i++) {
        count += s->session_id && s->nodes[i].owner == s->session_id;
    }
    return count;
}

const char *script_our_path(const struct script *s)
{
    const char *path = "";
    int64_t newest = 0;
    for (int i = 0; i < s->node_count; i++) {
        if (s->nodes[i].owner == s->session_id && s->nodes[i].czxid > newest) {
            newest = s->nodes[i].czxid;
            path = s->nodes[i].path;
        }
    }
    return path;
}

/* --- what the store does ------------------------------------------------------------------------------------------- */

static bool parent_missing(struct script *s, const char *path)
{
    char parent[SCRIPT_PATH];
    strcpy(parent, path);
    *strrchr(parent, '/') = '\0';
    return s->chroot_missing || (parent[0] && !script_find(s, parent));
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

static enum zkl__rc do_create(struct script *s, const struct script_part *part, char name[SCRIPT_PATH],
                              struct zkl__stat *stat)
{
    char path[SCRIPT_PATH];
    if (parent_missing(s, part->path)) {
        return ZKL__RC_NONODE;
    }
    if (part->mode == ZKL__EPHEMERAL_SEQUENTIAL) {
        if (s->next_sequence > INT32_MAX) {
            return ZKL__RC_NODEEXISTS;
        }
        snprintf(path, sizeof path, "%.300s%010d", part->path, (int)s->next_sequence++);
    } else {
        strcpy(path, part->path);
    }
    if (script_find(s, path)) {
        return ZKL__RC_NODEEXISTS;
    }
    bool lives =
        part->mode == ZKL__PERSISTENT || part->mode == ZKL__PERSISTENT_SEQUENTIAL || part->mode == ZKL__CONTAINER;
    struct script_node *node = script_put(s, path, lives ? 0 : s->session_id);
    strcpy(node->data, part->data);
    node->hidden = s->hide_ours && !lives;
    strcpy(name, strrchr(path, '/') + 1);
    *stat = stat_of(node);
    return ZKL__RC_OK;
}

/* A write, alone or in a multi. */
static enum zkl__rc do_write(struct script *s, const struct script_part *part, char name[SCRIPT_PATH],
                             struct zkl__stat *stat)
{
    struct script_node *node = script_find(s, part->path);
    if (part->kind == ZKL__OP_CREATE) {
        return do_create(s, part, name, stat);
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
        drop(s, node);
    } else if (part->kind == ZKL__OP_SET) {
        write_node(s, node, part->data);
        *stat = stat_of(node);
    }
    return ZKL__RC_OK;
}

/* All or nothing; a created part answers its name and no stat. */
static void do_multi(struct script *s, const struct script_op *op, struct script_news *news)
{
    static struct script before;
    before = *s;
    s->zxid++;
    s->in_multi = true;
    for (int i = 0; i < op->part_count; i++) {
        struct zkl__reply *mine = &news->parts[i];
        struct zkl__stat stat;
        mine->rc = do_write(s, &op->parts[i], news->part_names[i], &stat);
        if (mine->rc != ZKL__RC_OK && news->reply.rc == ZKL__RC_OK) {
            news->reply.rc = mine->rc;
            for (int j = 0; j < op->part_count; j++) {
                news->parts[j].rc = j == i ? mine->rc : ZKL__RC_ROLLEDBACK;
            }
            *s = before;
            s->zxid++; /* a failed multi is a transaction, too */
            break;
        }
    }
    s->in_multi = false;
    news->reply.part_count = (size_t)op->part_count;
}

static void set_watch(struct script *s, const struct script_op *op, enum script_watched what, int64_t zxid)
{
    for (int i = 0; op->watch && i < s->watch_count; i++) {
        if (strcmp(s->watches[i].path, op->path) == 0 && s->watches[i].what == what) {
            return;
        }
    }
    if (op->watch) {
        struct script_watch *watch = &s->watches[s->watch_count++];
        *watch = (struct script_watch){.what = what, .zxid = zxid};
        strcpy(watch->path, op->path);
    }
}

static void do_children(struct script *s, const struct script_op *op, struct script_news *news)
{
    struct script_node *node = script_find(s, op->path);
    if (s->chroot_missing || (strcmp(op->path, "/") != 0 && !node)) {
        news->reply.rc = ZKL__RC_NONODE;
        return;
    }
    size_t length = strcmp(op->path, "/") == 0 ? 0 : strlen(op->path);
    news->reply.stat.czxid = length > 0 ? script_find(s, op->path)->czxid : 0;
    news->names = calloc((size_t)s->node_count + 1, SCRIPT_PATH);
    news->children = calloc((size_t)s->node_count + 1, sizeof *news->children);
    for (int i = 0; i < s->node_count; i++) {
        const char *path = s->nodes[i].path;
        if (strncmp(path, op->path, length) == 0 && path[length] == '/' && !strchr(path + length + 1, '/')) {
            char *name = news->names + news->reply.child_count * SCRIPT_PATH;
            strcpy(name, path + length + 1);
            news->children[news->reply.child_count++] = name;
        }
    }
    set_watch(s, op, SCRIPT_CHILDREN_OF, node ? node->pzxid : 0);
}

static bool may_see(const struct script *s, const struct script_op *op, const struct script_node *node)
{
    bool needs = op->kind == ZKL__OP_GET || s->rules == SCRIPT_EXISTS_NEEDS_READ;
    return !node->hidden || !needs;
}

static void do_look(struct script *s, const struct script_op *op, struct script_news *news)
{
    struct script_node *node = script_find(s, op->path);
    if (!node) {
        news->reply.rc = ZKL__RC_NONODE;
        if (op->kind == ZKL__OP_EXISTS) {
            set_watch(s, op, SCRIPT_MISSING, 0);
        }
    } else if (!may_see(s, op, node)) {
        news->reply.rc = ZKL__RC_NOAUTH;
    } else {
        news->reply.stat = stat_of(node);
        if (op->kind == ZKL__OP_GET) {
            strcpy(news->data, node->data);
            news->reply.size = strlen(news->data);
        }
        set_watch(s, op, SCRIPT_DATA_OF, node->mzxid);
    }
}

static void do_unwatch(struct script *s, const struct script_op *op, struct script_news *news)
{
    int kept = 0;
    for (int i = 0; i < s->watch_count; i++) {
        if (strcmp(s->watches[i].path, op->path) != 0) {
            s->watches[kept++] = s->watches[i];
        }
    }
    news->reply.rc = kept == s->watch_count ? ZKL__RC_NOWATCH : ZKL__RC_OK;
    s->watch_count = kept;
}

static void carry_out(struct script *s, const struct script_op *op, struct script_news *news)
{
    struct script_part part = {.kind = op->kind, .mode = op->mode};
    switch (op->kind) {
    case ZKL__OP_CREATE:
    case ZKL__OP_DELETE:
    case ZKL__OP_SET:
    case ZKL__OP_CHECK:
        strcpy(part.path, op->path);
        strcpy(part.data, op->data);
        news->reply.rc = do_write(s, &part, news->name, &news->reply.stat);
        break;
    case ZKL__OP_MULTI:
        do_multi(s, op, news);
        break;
    case ZKL__OP_CHILDREN:
        do_children(s, op, news);
        break;
    case ZKL__OP_GET:
    case ZKL__OP_EXISTS:
        do_look(s, op, news);
        break;
    case ZKL__OP_UNWATCH:
        do_unwatch(s, op, news);
        break;
    case ZKL__OP_NONE:
    case ZKL__OP_SYNC:
        break;
    }
}

static struct script_op take_op(struct script *s)
{
    CU_ASSERT_FATAL(s->op_count > 0);
    struct script_op op = s->ops[0];
    memmove(s->ops, s->ops + 1, (size_t)(s->op_count - 1) * sizeof op);
    s->op_count--;
    return op;
}

static void free_news(struct script_news *news)
{
    free(news->names);
    free(news->children);
}

/* Done into a place of its own first: the watches it fires are told before its reply. */
static void do_one(struct script *s, const enum zkl__rc *refusal)
{
    struct script_op op = take_op(s);
    struct script_news *news = calloc(1, sizeof *news);
    news->op = op;
    if (refusal) {
        news->reply.rc = *refusal;
        news->reply.zk_code = -100;
    } else {
        carry_out(s, &op, news);
    }
    s->news[s->news_count++] = *news;
    free(news);
}

void script_do(struct script *s)
{
    do_one(s, NULL);
}

void script_deliver(struct script *s)
{
    CU_ASSERT_FATAL(s->news_count > 0);
    struct script_news news = s->news[0];
    memmove(s->news, s->news + 1, (size_t)(s->news_count - 1) * sizeof news);
    s->news_count--;
    if (news.is_watch) {
        script_step(s, (struct zkl__event){.kind = ZKL__EV_WATCH, .watch = news.watch, .path = news.path});
        return;
    }
    for (int i = 0; i < s->watch_count; i++) {
        if (news.op.watch && strcmp(s->watches[i].path, news.op.path) == 0) {
            s->watches[i].known = true;
        }
    }
    news.reply.name = news.no_name ? NULL : news.name;
    news.reply.data = news.data;
    news.reply.children = news.children;
    news.reply.parts = news.parts;
    for (int i = 0; i < SCRIPT_PARTS; i++) {
        news.parts[i].name = news.part_names[i];
    }
    script_step(s, (struct zkl__event){.kind = ZKL__EV_REPLY, .id = news.op.id, .reply = &news.reply});
    free_news(&news);
}

void script_store_deliver_all(struct script *s)
{
    while (s->connected && s->news_count > 0) {
        script_deliver(s);
    }
}

void script_answer_named(struct script *s, const char *name)
{
    CU_ASSERT_FATAL(s->op_count > 0 && s->news_count == 0);
    do_one(s, NULL);
    s->news[0].no_name = !name;
    strcpy(s->news[0].name, name ? name : "");
    script_deliver(s);
}

struct script_op script_answer(struct script *s)
{
    CU_ASSERT_FATAL(s->op_count > 0);
    struct script_op op = s->ops[0];
    do_one(s, NULL);
    script_store_deliver_all(s);
    return op;
}

struct script_op script_answer_with(struct script *s, enum zkl__rc rc)
{
    CU_ASSERT_FATAL(s->op_count > 0);
    struct script_op op = s->ops[0];
    do_one(s, &rc);
    script_store_deliver_all(s);
    return op;
}

void script_answer_all(struct script *s)
{
    int answered = 0;
    script_store_deliver_all(s);
    while (s->connected && s->op_count > 0) {
        script_answer(s);
        CU_ASSERT_FATAL(++answered < 10000);
    }
}

const char *script_ops(struct script *s)
{
    s->line[0] = '\0';
    for (int i = 0; i < s->op_count; i++) {
        const struct script_op *op = &s->ops[i];
        strcat(s->line, i ? " " : "");
        strcat(s->line, zkl__op_name(op->kind));
        for (int j = 0; j < op->part_count; j++) {
            strcat(s->line, j ? "," : "(");
            strcat(s->line, zkl__op_name(op->parts[j].kind));
        }
        strcat(s->line, op->part_count > 0 ? ")" : "");
    }
    return s->line;
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

void script_store_connect(struct script *s)
{
    int kept = 0;
    for (int i = 0; i < s->watch_count; i++) {
        struct script_watch *watch = &s->watches[i];
        enum zkl__watch_event event;
        if (watch->known && missed(watch, script_find(s, watch->path), &event)) {
            push_watch_news(s, watch->path, event);
        } else if (watch->known) {
            s->watches[kept++] = *watch;
        }
    }
    s->watch_count = kept;
}

void script_store_forget(struct script *s)
{
    for (int i = 0; i < s->news_count; i++) {
        free_news(&s->news[i]);
    }
    s->news_count = 0;
}

void script_store_disconnect(struct script *s)
{
    s->connected = false;
    s->op_count = 0;
    for (int i = 0; i < s->news_count; i++) {
        if (s->news[i].is_watch) { /* the client has not heard: it sets the watch again, and hears then */
            struct script_watch *watch = &s->watches[s->watch_count++];
            *watch = (struct script_watch){.known = true,
                                           .what = s->news[i].watch == ZKL__WATCH_CREATED    ? SCRIPT_MISSING
                                                   : s->news[i].watch == ZKL__WATCH_CHILDREN ? SCRIPT_CHILDREN_OF
                                                                                             : SCRIPT_DATA_OF};
            strcpy(watch->path, s->news[i].path);
        }
    }
    script_store_forget(s);
}

void script_store_end_session(struct script *s)
{
    s->watch_count = 0;
    for (int i = s->node_count - 1; i >= 0 && s->session_id; i--) {
        if (s->nodes[i].owner == s->session_id) {
            drop(s, &s->nodes[i]);
        }
    }
    s->session_id = 0;
}
