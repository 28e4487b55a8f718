#include "store_client.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PATIENCE_S = 10 };

/* --- copies of what is told --------------------------------------------------------------------------------------- */

static void *copy_bytes(const void *data, size_t size)
{
    char *copy = malloc(size + 1);
    if (!copy) {
        abort();
    }
    if (size > 0) {
        memcpy(copy, data, size);
    }
    copy[size] = '\0';
    return copy;
}

static char *copy_text(const char *text)
{
    return text ? copy_bytes(text, strlen(text)) : NULL;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void copy_reply(struct zkl__reply *out, const struct zkl__reply *in)
{
    *out = *in;
    out->name = copy_text(in->name);
    out->data = in->data ? copy_bytes(in->data, in->size) : NULL;
    char **children = copy_bytes(in->children, in->child_count * sizeof *children);
    for (size_t i = 0; i < in->child_count; i++) {
        children[i] = copy_text(in->children[i]);
    }
    qsort(children, in->child_count, sizeof *children, by_name);
    out->children = (const char *const *)children;
    struct zkl__reply *parts = copy_bytes(in->parts, in->part_count * sizeof *parts);
    for (size_t i = 0; i < in->part_count; i++) {
        copy_reply(&parts[i], &in->parts[i]);
    }
    out->parts = parts;
}

static void free_reply(const struct zkl__reply *reply)
{
    for (size_t i = 0; i < reply->child_count; i++) {
        free((char *)reply->children[i]);
    }
    for (size_t i = 0; i < reply->part_count; i++) {
        free_reply(&reply->parts[i]);
    }
    free((void *)reply->children);
    free((void *)reply->parts);
    free((char *)reply->name);
    free((void *)reply->data);
}

/* --- events ------------------------------------------------------------------------------------------------------- */

/* Functions of the events are called one at a time: a second one at once is counted. */
static void enter(struct client *client)
{
    pthread_mutex_lock(&client->mutex);
    client->overlaps += client->inside;
    client->inside = true;
    pthread_mutex_unlock(&client->mutex);
}

static void note(struct client *client, const struct told *told)
{
    pthread_mutex_lock(&client->mutex);
    client->told = realloc(client->told, (client->count + 1) * sizeof *client->told);
    if (!client->told) {
        abort();
    }
    client->told[client->count++] = copy_bytes(told, sizeof *told);
    client->inside = false;
    pthread_cond_broadcast(&client->cond);
    pthread_mutex_unlock(&client->mutex);
}

static void on_connected(void *ctx, const struct zkl__connection *connection)
{
    enter(ctx);
    note(ctx, &(struct told){.kind = TOLD_CONNECTED, .connection = *connection});
}

static void on_suspended(void *ctx)
{
    enter(ctx);
    note(ctx, &(struct told){.kind = TOLD_SUSPENDED});
}

static void on_expired(void *ctx, enum zkl__end end)
{
    enter(ctx);
    note(ctx, &(struct told){.kind = TOLD_EXPIRED, .end = end});
}

static void on_reply(void *ctx, uint64_t id, const struct zkl__reply *reply)
{
    struct told told = {.kind = TOLD_REPLY, .id = id};
    enter(ctx);
    copy_reply(&told.reply, reply);
    note(ctx, &told);
}

static void on_watch(void *ctx, enum zkl__watch_event event, const char *path)
{
    enter(ctx);
    note(ctx, &(struct told){.kind = TOLD_WATCH, .event = event, .path = copy_text(path)});
}

static void on_log(void *ctx, zkl_log_level level, const char *line)
{
    (void)ctx, (void)level, (void)line;
}

static const struct zkl__store_events events = {on_connected, on_suspended, on_expired, on_reply, on_watch, on_log};

/* --- waiting ------------------------------------------------------------------------------------------------------ */

static struct timespec patience(void)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += PATIENCE_S;
    return until;
}

/* With the mutex: false when the time is up. */
static bool wait_more(struct client *client, const struct timespec *until)
{
    return pthread_cond_timedwait(&client->cond, &client->mutex, until) == 0;
}

const struct told *client_next(struct client *client)
{
    struct timespec until = patience();
    pthread_mutex_lock(&client->mutex);
    while (client->seen == client->count && wait_more(client, &until)) {
    }
    const struct told *told = client->seen < client->count ? client->told[client->seen++] : NULL;
    pthread_mutex_unlock(&client->mutex);
    return told;
}

bool client_quiet(struct client *client)
{
    pthread_mutex_lock(&client->mutex);
    bool quiet = client->seen == client->count;
    pthread_mutex_unlock(&client->mutex);
    return quiet;
}

const struct told *client_reply(struct client *client, uint64_t id)
{
    struct timespec until = patience();
    const struct told *found = NULL;
    size_t at = 0;
    pthread_mutex_lock(&client->mutex);
    do {
        for (; at < client->count && !found; at++) {
            const struct told *told = client->told[at];
            found = told->kind == TOLD_REPLY && told->id == id ? told : NULL;
        }
    } while (!found && wait_more(client, &until));
    pthread_mutex_unlock(&client->mutex);
    return found;
}

/* --- sessions ----------------------------------------------------------------------------------------------------- */

static void *plain_alloc(void *payload, size_t size)
{
    (void)payload;
    return malloc(size);
}

static void *plain_resize(void *payload, void *ptr, size_t size)
{
    (void)payload;
    return realloc(ptr, size);
}

static void plain_release(void *payload, void *ptr)
{
    (void)payload;
    free(ptr);
}

static void forget(struct client *client)
{
    for (size_t i = 0; i < client->count; i++) {
        if (client->told[i]->kind == TOLD_REPLY) {
            free_reply(&client->told[i]->reply);
        }
        free(client->told[i]->path);
        free(client->told[i]);
    }
    free(client->told);
    pthread_cond_destroy(&client->cond);
    pthread_mutex_destroy(&client->mutex);
}

int client_open(struct client *client, const struct zkl__store_config *config)
{
    struct zkl__store_config full = *config;
    pthread_condattr_t attr;
    memset(client, 0, sizeof *client);
    pthread_mutex_init(&client->mutex, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&client->cond, &attr);
    pthread_condattr_destroy(&attr);
    if (!full.heap.alloc) {
        full.heap = (zkl_heap){plain_alloc, plain_resize, plain_release, NULL};
    }
    client->ops = zkl__store_find(full.servers, NULL);
    int code = client->ops ? client->ops->open(&client->store, &full, &events, client, NULL) : ZKL_EINVAL;
    if (code != ZKL_OK) {
        forget(client);
        return code;
    }
    const struct told *first = client_next(client);
    client->session_id = first ? first->connection.session_id : 0;
    return first && first->kind == TOLD_CONNECTED ? ZKL_OK : ZKL_ECONNECT;
}

int client_open_plain(struct client *client, const char *servers)
{
    return client_open(client, &(struct zkl__store_config){.servers = servers, .timeout_ms = 10000});
}

int client_close(struct client *client)
{
    int code = client->ops->close(client->store, 5000);
    forget(client);
    return code;
}

uint64_t client_send(struct client *client, const struct zkl__op *op, int *code)
{
    uint64_t id = ++client->ids;
    int result = client->ops->submit(client->store, id, op);
    if (code) {
        *code = result;
    }
    return result == ZKL_OK ? id : 0;
}

const struct zkl__reply *client_call(struct client *client, const struct zkl__op *op)
{
    static const struct zkl__reply unsent = {.rc = ZKL__RC_UNSENT};
    uint64_t id = client_send(client, op, NULL);
    const struct told *told = id ? client_reply(client, id) : NULL;
    return told ? &told->reply : &unsent;
}

/* --- ops in one line ---------------------------------------------------------------------------------------------- */

struct zkl__op op_create(const char *path, const char *text, enum zkl__create_mode mode)
{
    return (struct zkl__op){
        .kind = ZKL__OP_CREATE, .dir = path, .data = text, .size = text ? strlen(text) : 0, .mode = mode};
}

struct zkl__op op_delete(const char *path, int32_t version)
{
    return (struct zkl__op){.kind = ZKL__OP_DELETE, .dir = path, .version = version};
}

struct zkl__op op_set(const char *path, const char *text, int32_t version)
{
    return (struct zkl__op){
        .kind = ZKL__OP_SET, .dir = path, .data = text, .size = text ? strlen(text) : 0, .version = version};
}

struct zkl__op op_check(const char *path, int32_t version)
{
    return (struct zkl__op){.kind = ZKL__OP_CHECK, .dir = path, .version = version};
}

struct zkl__op op_read(enum zkl__op_kind kind, const char *path, bool watch)
{
    return (struct zkl__op){.kind = kind, .dir = path, .watch = watch};
}

struct zkl__op op_multi(const struct zkl__op *parts, size_t count)
{
    return (struct zkl__op){.kind = ZKL__OP_MULTI, .parts = parts, .part_count = count};
}
