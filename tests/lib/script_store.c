#include "script_store.h"
#include "acl.h"
#include "plain_heap.h"

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

/* Of one or more kinds. False: there was none, or no connection: the client sets it again later (see missed). */
static bool use_up_watches(const char *path, unsigned kinds)
{
    if (!script.connected) {
        return false;
    }
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

/* Somebody without credentials. */
static const struct zkl__memory_who stranger = {.session_id = 0};
static const zkl_acl_entry all_but_read = {ZKL_PERM_ALL & ~ZKL_PERM_READ, "world", "anyone"};
static const zkl_acl unreadable = {1, &all_but_read};

static bool is_hidden(const struct zkl__memory_node *node)
{
    return !zkl__memory_permits(node, &stranger, ZKL_PERM_READ);
}

void script_hide(struct zkl__memory_node *node)
{
    node->acl = zkl__acl_copy(&plain_heap, &unreadable);
}

/* What is kept from us uses the watch up all the same. */
static void fire_of_node(const struct zkl__memory_node *node, enum zkl__watch_event event)
{
    if (use_up_watches(node->path, SCRIPT_DATA_OF) &&
        (!is_hidden(node) || script.rules == ZKL__RULES_NOTHING_NEEDS_READ)) {
        push_watch_news(node->path, event);
    }
}

static void fire_change(const struct zkl__memory_node *node, enum zkl__op_kind kind)
{
    if (kind == ZKL__OP_SET) {
        fire_of_node(node, ZKL__WATCH_CHANGED);
        return;
    }
    if (kind == ZKL__OP_CREATE) {
        fire(node->path, ZKL__WATCH_CREATED, SCRIPT_MISSING);
    } else {
        fire_of_node(node, ZKL__WATCH_DELETED);
        fire(node->path, ZKL__WATCH_DELETED, SCRIPT_CHILDREN_OF);
    }
    fire(node->parent->path, ZKL__WATCH_CHILDREN, SCRIPT_CHILDREN_OF);
}

struct zkl__memory_node *script_find(const char *path)
{
    return zkl__memory_find(&script.tree, path);
}

/* Which digits a name gets is the test's to say. */
static enum zkl__rc put_number(struct script_part *part)
{
    size_t length = strlen(part->path);
    if (script.next_sequence > INT32_MAX) {
        return ZKL__RC_NODEEXISTS;
    }
    part->mode = ZKL__EPHEMERAL;
    snprintf(part->path + length, sizeof part->path - length, "%010d", (int)script.next_sequence++);
    return ZKL__RC_OK;
}

static enum zkl__rc apply(struct zkl__memory_change *change, struct zkl__op *op, struct script_part *part,
                          int64_t session_id)
{
    const struct zkl__memory_node *node = script_find(part->path);
    bool create = part->kind == ZKL__OP_CREATE, sequential = create && part->mode == ZKL__EPHEMERAL_SEQUENTIAL;
    if (create && script.chroot_missing) {
        return ZKL__RC_NONODE;
    }
    if (part->kind == ZKL__OP_DELETE && node && node->own) {
        return ZKL__RC_NOAUTH;
    }
    enum zkl__rc rc = sequential ? put_number(part) : ZKL__RC_OK;
    bool hides = script.hide_ours && part->mode == ZKL__EPHEMERAL;
    const struct zkl__memory_who who = {.session_id = session_id, .acl = hides ? &unreadable : NULL};
    *op = (struct zkl__op){.kind = part->kind,
                           .dir = part->path,
                           .mode = part->mode,
                           .data = part->data,
                           .size = strlen(part->data),
                           .version = -1};
    return rc == ZKL__RC_OK ? zkl__memory_apply(change, &script.tree, &who, op) : rc;
}

/* All or none; what each replies. One of several that creates replies its name and no stat. */
static enum zkl__rc write_all(struct script_part *parts, int count, int64_t session_id, struct zkl__reply *replies,
                              char names[][SCRIPT_PATH])
{
    struct zkl__op ops[SCRIPT_PARTS];
    struct zkl__memory_change changes[SCRIPT_PARTS];
    int64_t next_sequence = script.next_sequence;
    enum zkl__rc rc = ZKL__RC_OK;
    int done = 0;
    zkl__memory_begin(&script.tree);
    while (done < count && (rc = apply(&changes[done], &ops[done], &parts[done], session_id)) == ZKL__RC_OK) {
        const struct zkl__memory_node *node = changes[done].node;
        if (node && (count == 1 || ops[done].kind == ZKL__OP_SET)) {
            zkl__memory_stat(&replies[done].stat, node);
        }
        if (ops[done].kind == ZKL__OP_CREATE) {
            strcpy(names[done], zkl__memory_base(node->path));
        }
        done++;
    }
    for (int i = 0; i < count; i++) {
        replies[i].rc = rc == ZKL__RC_OK || i == done ? rc : ZKL__RC_ROLLEDBACK;
        if (rc == ZKL__RC_OK && changes[i].node) {
            fire_change(changes[i].node, ops[i].kind);
            zkl__memory_settle(&changes[i], &script.tree, true);
        }
    }
    while (rc != ZKL__RC_OK && done > 0) {
        zkl__memory_settle(&changes[--done], &script.tree, false);
    }
    script.next_sequence = rc == ZKL__RC_OK ? script.next_sequence : next_sequence;
    return rc;
}

/* By somebody else, or as part of our session's end. */
static void write_one(enum zkl__op_kind kind, const char *path, const char *data, int64_t owner)
{
    struct script_part part = {.kind = kind, .mode = owner ? ZKL__EPHEMERAL : ZKL__PERSISTENT};
    struct zkl__reply reply;
    char name[1][SCRIPT_PATH];
    strcpy(part.path, path);
    strcpy(part.data, data);
    CU_ASSERT_EQUAL_FATAL(write_all(&part, 1, owner, &reply, name), ZKL__RC_OK);
}

struct zkl__memory_node *script_put(const char *path, int64_t owner)
{
    write_one(ZKL__OP_CREATE, path, "", owner);
    return script_find(path);
}

void script_remove(const char *path)
{
    write_one(ZKL__OP_DELETE, path, "", 0);
    script_store_deliver_all();
}

void script_write(const char *path, const char *data)
{
    write_one(ZKL__OP_SET, path, data, 0);
    script_store_deliver_all();
}

void script_change(const char *path)
{
    script_write(path, "changed");
}

/* The newest node of our session, and how many there are. */
static struct zkl__memory_node *newest_of_ours(int *count)
{
    struct zkl__memory_node *newest = NULL;
    *count = 0;
    for (size_t i = 0; i < script.tree.nodes.bucket_count && script.session_id; i++) {
        for (struct zkl__map_entry *entry = script.tree.nodes.buckets[i]; entry; entry = entry->next) {
            struct zkl__memory_node *node = (struct zkl__memory_node *)entry;
            bool ours = node->stat.ephemeral_owner == script.session_id;
            *count += ours;
            newest = ours && (!newest || node->stat.czxid > newest->stat.czxid) ? node : newest;
        }
    }
    return newest;
}

int script_ours(void)
{
    int count;
    newest_of_ours(&count);
    return count;
}

const char *script_our_path(void)
{
    int count;
    const struct zkl__memory_node *newest = newest_of_ours(&count);
    return newest ? newest->path : "";
}

/* --- what the store does ------------------------------------------------------------------------------------------- */

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
    const struct zkl__memory_node *node = script_find(op->path);
    if (script.chroot_missing || !node) {
        news->reply.rc = ZKL__RC_NONODE;
        return;
    }
    zkl__memory_stat(&news->reply.stat, node);
    news->names = calloc((size_t)node->stat.child_count + 1, SCRIPT_PATH);
    news->children = calloc((size_t)node->stat.child_count + 1, sizeof *news->children);
    ZKL__EACH (const struct zkl__memory_node, child, &node->children, sibling) {
        char *name = news->names + news->reply.child_count * SCRIPT_PATH;
        strcpy(name, zkl__memory_base(child->path));
        news->children[news->reply.child_count++] = name;
    }
    set_watch(op, SCRIPT_CHILDREN_OF, node->stat.pzxid);
}

static bool may_see(const struct script_op *op, const struct zkl__memory_node *node)
{
    bool needs = op->kind == ZKL__OP_GET || script.rules == ZKL__RULES_EXISTS_NEEDS_READ;
    return !needs || !is_hidden(node);
}

static void do_look(const struct script_op *op, struct script_news *news)
{
    const struct zkl__memory_node *node = script_find(op->path);
    if (!node) {
        news->reply.rc = ZKL__RC_NONODE;
        if (op->kind == ZKL__OP_EXISTS) {
            set_watch(op, SCRIPT_MISSING, 0);
        }
    } else if (!may_see(op, node)) {
        news->reply.rc = ZKL__RC_NOAUTH;
    } else {
        zkl__memory_stat(&news->reply.stat, node);
        if (op->kind == ZKL__OP_GET && node->data) {
            news->reply.size = (size_t)node->stat.data_size;
            memcpy(news->data, node->data, news->reply.size);
        }
        set_watch(op, SCRIPT_DATA_OF, node->stat.mzxid);
    }
}

static void carry_out(struct script_op *op, struct script_news *news)
{
    struct script_part part = {.kind = op->kind, .mode = op->mode};
    switch (op->kind) {
    case ZKL__OP_CREATE:
    case ZKL__OP_DELETE:
    case ZKL__OP_SET:
    case ZKL__OP_CHECK:
        strcpy(part.path, op->path);
        strcpy(part.data, op->data);
        write_all(&part, 1, script.session_id, &news->reply, &news->name);
        break;
    case ZKL__OP_MULTI:
        news->reply.rc = write_all(op->parts, op->part_count, script.session_id, news->parts, news->part_names);
        news->reply.part_count = (size_t)op->part_count;
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
static bool missed(const struct script_watch *watch, const struct zkl__memory_node *node, enum zkl__watch_event *event)
{
    if (watch->what == SCRIPT_MISSING) {
        *event = ZKL__WATCH_CREATED;
        return node;
    }
    bool children = watch->what == SCRIPT_CHILDREN_OF;
    *event = !node ? ZKL__WATCH_DELETED : children ? ZKL__WATCH_CHILDREN : ZKL__WATCH_CHANGED;
    return !node || (children ? node->stat.pzxid : node->stat.mzxid) != watch->zxid;
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
    struct zkl__memory_node *node;
    for (int count; (node = newest_of_ours(&count));) {
        node->own = false;
        write_one(ZKL__OP_DELETE, node->path, "", 0);
    }
    script.session_id = 0;
}
