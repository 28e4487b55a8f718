#include "recorder.h"
#include "core_facts.h"
#include "wait.h"

#include <pthread.h>

#define RECORDS_MAX 65536
#define PATIENCE_MS 20000

struct recorder {
    const struct zkl__store_ops *ops;
    struct zkl__store *store;
    char *servers;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_mutex_t submit_mutex; /* keeps submits in order */
    pthread_t ticker;
    bool stop, stir;
    uint64_t last_id;
    size_t count;
    struct record *records[RECORDS_MAX];
};

struct zkl__store_config recorder_config(const char *servers)
{
    return (struct zkl__store_config){
        .servers = servers, .timeout_ms = 6000, .log_level = ZKL_LOG_DEBUG, .heap = plain_heap};
}

/* --- what the store tells ------------------------------------------------------------------------------------------ */

static char *copy_text(const char *text)
{
    return text ? strdup(text) : NULL;
}

void record_copy_reply(struct zkl__reply *to, const struct zkl__reply *from)
{
    *to = *from;
    to->name = copy_text(from->name);
    if (from->data) {
        void *data = malloc(from->size + 1);
        memcpy(data, from->data, from->size);
        to->data = data;
    }
    if (from->children) {
        char **names = calloc(from->child_count + 1, sizeof *names);
        for (size_t i = 0; i < from->child_count; i++) {
            names[i] = strdup(from->children[i]);
        }
        to->children = (const char *const *)names;
    }
    if (from->parts) {
        struct zkl__reply *parts = calloc(from->part_count, sizeof *parts);
        for (size_t i = 0; i < from->part_count; i++) {
            parts[i] = from->parts[i]; /* of a write: nothing to copy but the name */
            parts[i].name = copy_text(from->parts[i].name);
        }
        to->parts = parts;
    }
}

void record_free(struct record *record)
{
    struct zkl__reply *reply = &record->reply;
    for (size_t i = 0; i < reply->child_count; i++) {
        free((void *)(uintptr_t)reply->children[i]);
    }
    for (size_t i = 0; i < reply->part_count; i++) {
        free((void *)(uintptr_t)reply->parts[i].name);
    }
    free((void *)(uintptr_t)reply->children);
    free((void *)(uintptr_t)reply->parts);
    free((void *)(uintptr_t)reply->name);
    free((void *)(uintptr_t)reply->data);
    free(record->path);
    free(record);
}

static void note(struct recorder *r, struct record event)
{
    struct record *record = malloc(sizeof event);
    *record = event;
    pthread_mutex_lock(&r->mutex);
    if (r->count < RECORDS_MAX) {
        r->records[r->count++] = record;
    } else {
        record_free(record);
    }
    r->stir = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->mutex);
}

static void on_connected(void *ctx, const struct zkl__connection *connection)
{
    note(ctx, (struct record){.kind = RECORD_CONNECTED, .connection = *connection});
}

static void on_suspended(void *ctx)
{
    note(ctx, (struct record){.kind = RECORD_SUSPENDED});
}

static void on_expired(void *ctx, enum zkl__end end)
{
    note(ctx, (struct record){.kind = RECORD_EXPIRED, .end = end});
}

static void on_reply(void *ctx, uint64_t id, const struct zkl__reply *reply)
{
    struct record record = {.kind = RECORD_REPLY, .id = id};
    record_copy_reply(&record.reply, reply);
    note(ctx, record);
}

static void on_watch(void *ctx, enum zkl__watch_event event, const char *path)
{
    note(ctx, (struct record){.kind = RECORD_WATCH, .watch = event, .path = strdup(path)});
}

static void on_log(void *ctx, zkl_log_level level, const char *line)
{
    if (getenv("ZKLOCK_TEST_LOG")) {
        fprintf(stderr, "[%d] %s\n", (int)level, line);
    }
}

static const struct zkl__store_events events = {.connected = on_connected,
                                                .suspended = on_suspended,
                                                .expired = on_expired,
                                                .reply = on_reply,
                                                .watch = on_watch,
                                                .log = on_log};

/* --- ticks: at the time asked for, and after every event and submit -------------------------------------------------- */

static void sleep_until(struct recorder *r, int64_t wake)
{
    int64_t left = wake == INT64_MAX ? 3600000000000 : wake - clock_ns(CLOCK_BOOTTIME);
    int64_t at = clock_ns(CLOCK_MONOTONIC) + (left > 0 ? left : 0);
    struct timespec time = {.tv_sec = at / 1000000000, .tv_nsec = at % 1000000000};
    pthread_cond_timedwait(&r->changed, &r->mutex, &time);
}

static void *tick(void *arg)
{
    struct recorder *r = arg;
    int64_t next = 0;
    pthread_mutex_lock(&r->mutex);
    while (!r->stop) {
        if (r->stir || clock_ns(CLOCK_BOOTTIME) >= next) {
            r->stir = false;
            pthread_mutex_unlock(&r->mutex);
            next = r->ops->tick(r->store, clock_ns(CLOCK_BOOTTIME));
            pthread_mutex_lock(&r->mutex);
        } else {
            sleep_until(r, next);
        }
    }
    pthread_mutex_unlock(&r->mutex);
    return NULL;
}

/* --- driving ------------------------------------------------------------------------------------------------------- */

struct recorder *recorder_open(const struct zkl__store_ops *ops, const struct zkl__store_config *config, int *code,
                               zkl_error *err)
{
    struct recorder *r = calloc(1, sizeof *r);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&r->changed, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&r->mutex, NULL);
    pthread_mutex_init(&r->submit_mutex, NULL);
    r->ops = ops;
    r->servers = copy_text(config->servers); /* they outlive the store */
    struct zkl__store_config kept = *config;
    kept.servers = r->servers;
    int rc = ops->open(&r->store, &kept, &events, r, err);
    if (code) {
        *code = rc;
    }
    if (rc != ZKL_OK) {
        r->ops = NULL;
        recorder_free(r);
        return NULL;
    }
    pthread_create(&r->ticker, NULL, tick, r);
    return r;
}

struct recorder *recorder_connect(const struct zkl__store_ops *ops, const char *servers)
{
    struct zkl__store_config config = recorder_config(servers);
    zkl_error err;
    config.timeout_ms = 60000;
    struct recorder *r = recorder_open(ops, &config, NULL, &err);
    if (!r || !recorder_nth(r, RECORD_CONNECTED, 0, PATIENCE_MS)) {
        fprintf(stderr, "recorder: no session with %s: %s\n", servers, r ? "no answer" : err.text);
        abort();
    }
    return r;
}

int recorder_close(struct recorder *r, int64_t timeout_ms)
{
    pthread_mutex_lock(&r->mutex);
    r->stop = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->mutex);
    pthread_join(r->ticker, NULL);
    int code = r->ops->close(r->store, timeout_ms, NULL);
    r->ops = NULL;
    return code;
}

void recorder_free(struct recorder *r)
{
    if (!r) {
        return;
    }
    if (r->ops) {
        recorder_close(r, PATIENCE_MS);
    }
    for (size_t i = 0; i < r->count; i++) {
        record_free(r->records[i]);
    }
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->mutex);
    pthread_mutex_destroy(&r->submit_mutex);
    free(r->servers);
    free(r);
}

uint64_t recorder_submit(struct recorder *r, const struct zkl__op *op, int *code)
{
    pthread_mutex_lock(&r->submit_mutex);
    uint64_t id = ++r->last_id;
    int rc = r->ops->submit(r->store, id, op);
    pthread_mutex_unlock(&r->submit_mutex);
    pthread_mutex_lock(&r->mutex);
    r->stir = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->mutex);
    if (code) {
        *code = rc;
    }
    return rc == ZKL_OK ? id : 0;
}

#define ANY_RECORD ((enum record_kind) - 1)

/* Waits for the nth record that is of the kind and, if id is not 0, has it. */
static const struct record *find(struct recorder *r, enum record_kind kind, uint64_t id, size_t n, int64_t timeout_ms)
{
    int64_t deadline = clock_ns(CLOCK_BOOTTIME) + timeout_ms * 1000000;
    size_t at = 0;
    pthread_mutex_lock(&r->mutex);
    for (;;) {
        for (; at < r->count; at++) {
            const struct record *record = r->records[at];
            if ((kind == ANY_RECORD || record->kind == kind) && (id == 0 || record->id == id) && n-- == 0) {
                pthread_mutex_unlock(&r->mutex);
                return record;
            }
        }
        if (clock_ns(CLOCK_BOOTTIME) >= deadline) {
            break;
        }
        sleep_until(r, deadline);
    }
    pthread_mutex_unlock(&r->mutex);
    return NULL;
}

const struct record *recorder_reply(struct recorder *r, uint64_t id, int64_t timeout_ms)
{
    return id ? find(r, RECORD_REPLY, id, 0, timeout_ms) : NULL;
}

const struct record *recorder_do(struct recorder *r, const struct zkl__op *op)
{
    static const struct record none = {.kind = RECORD_REPLY, .reply = {.rc = ZKL__RC_UNSENT}};
    const struct record *record = recorder_reply(r, recorder_submit(r, op, NULL), PATIENCE_MS);
    return record ? record : &none;
}

enum zkl__rc recorder_rc(struct recorder *r, struct zkl__op op)
{
    return recorder_do(r, &op)->reply.rc;
}

const struct record *recorder_nth(struct recorder *r, enum record_kind kind, size_t n, int64_t timeout_ms)
{
    return find(r, kind, 0, n, timeout_ms);
}

const struct record *recorder_at(struct recorder *r, size_t n, int64_t timeout_ms)
{
    return find(r, ANY_RECORD, 0, n, timeout_ms);
}

size_t recorder_count(struct recorder *r, enum record_kind kind)
{
    size_t n = 0;
    pthread_mutex_lock(&r->mutex);
    for (size_t i = 0; i < r->count; i++) {
        n += r->records[i]->kind == kind;
    }
    pthread_mutex_unlock(&r->mutex);
    return n;
}

size_t recorder_all(struct recorder *r, const struct record **out, size_t max)
{
    pthread_mutex_lock(&r->mutex);
    size_t n = r->count < max ? r->count : max;
    for (size_t i = 0; i < n; i++) {
        out[i] = r->records[i];
    }
    pthread_mutex_unlock(&r->mutex);
    return n;
}
