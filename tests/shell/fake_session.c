#include "fake_inside.h"

#include "memory.h"
#include "wait.h"
#include "plain_heap.h"

#define HOLD_MS 100
#define CONNECTED_AGAIN 1000 /* so often that one comes while the client is at work on the end */

/* --- events of the store ------------------------------------------------------------------------------------------ */

enum { SESSION_EVENT = -1, CONNECTED = 3, EXPIRED = -112 };

static void put_event(struct jute_out *out, int32_t type, int32_t state, const char *path)
{
    size_t begin = jute_begin(out);
    jute_put_int(out, -1);
    jute_put_long(out, -1);
    jute_put_int(out, 0);
    jute_put_int(out, type);
    jute_put_int(out, state);
    fake_put_text(out, path);
    jute_end(out, begin);
}

static void put_lie_of_the_end(struct jute_out *out)
{
    put_event(out, SESSION_EVENT, EXPIRED, "");
    for (int i = 0; i < CONNECTED_AGAIN; i++) {
        put_event(out, SESSION_EVENT, CONNECTED, "");
    }
}

static void send_answer(struct session *s, const struct fake_request *request, const struct zkl__reply *reply)
{
    struct link *link = s->link;
    bool multi = request->type == MULTI && reply->part_count > 0;
    int32_t err = multi ? 0 : fake_code(reply);
    link->held_until_ms = request->fate == FAKE_HOLD ? now_ms() + HOLD_MS : link->held_until_ms;
    atomic_fetch_add(&s->fake->zxid, 1);
    if (request->fate == FAKE_SAYS_EXPIRED) {
        put_lie_of_the_end(&link->out);
    }
    size_t begin = fake_link_begin(s->fake, link, request->xid, err);
    if (multi) {
        fake_put_parts(&link->out, request, reply);
    } else if (err == 0) {
        fake_put_body(&link->out, request, reply);
    }
    jute_end(&link->out, begin);
    fake_link_flush(link);
}

/* The events of the store are told on threads of its own. */

static void on_reply(void *ctx, uint64_t id, const struct zkl__reply *reply)
{
    struct session *s = ctx;
    struct fake_request *request = (struct fake_request *)(uintptr_t)id;
    pthread_mutex_lock(&s->fake->mutex);
    bool there = s->link && s->link->number == request->link;
    if (request->type == CLOSE) {
        s->closing = true;
        s->close_xid = request->xid;
        fake_wake(s->fake);
    } else if (there && request->fate == FAKE_CUT_AFTER) {
        fake_link_cut(s->link);
    } else if (there && request->fate != FAKE_EXPIRE_AFTER && reply->rc != ZKL__RC_UNKNOWN) {
        send_answer(s, request, reply);
    }
    bool expire = request->fate == FAKE_EXPIRE_AFTER;
    pthread_mutex_unlock(&s->fake->mutex);
    if (expire) {
        zkl__memory_expire(s->id);
    }
    fake_request_free(request);
}

static void on_watch(void *ctx, enum zkl__watch_event event, const char *path)
{
    static const int32_t types[] = {
        [ZKL__WATCH_CREATED] = 1, [ZKL__WATCH_DELETED] = 2, [ZKL__WATCH_CHANGED] = 3, [ZKL__WATCH_CHILDREN] = 4};
    struct session *s = ctx;
    pthread_mutex_lock(&s->fake->mutex);
    put_event(s->link ? &s->link->out : &s->missed, types[event], CONNECTED, path);
    if (s->link) {
        fake_link_flush(s->link);
    }
    pthread_mutex_unlock(&s->fake->mutex);
}

static void greet(struct link *link, const struct session *s)
{
    static const char password[16] = "not a secret";
    int32_t lie = s ? atomic_load(&s->fake->timeout_ms) : 0;
    size_t begin = jute_begin(&link->out);
    jute_put_int(&link->out, 0);
    jute_put_int(&link->out, lie ? lie : s ? s->timeout_ms : 0);
    jute_put_long(&link->out, s ? s->id : 0);
    jute_put_bytes(&link->out, password, sizeof password);
    jute_put_number(&link->out, 0, 1);
    jute_end(&link->out, begin);
    fake_link_flush(link);
}

static void on_connected(void *ctx, const struct zkl__connection *connection)
{
    struct session *s = ctx;
    pthread_mutex_lock(&s->fake->mutex);
    s->id = connection->session_id;
    if (s->link) {
        greet(s->link, s);
    }
    pthread_mutex_unlock(&s->fake->mutex);
}

static void on_suspended(void *ctx)
{
    (void)ctx;
}

static void on_expired(void *ctx, enum zkl__end end)
{
    struct session *s = ctx;
    (void)end;
    pthread_mutex_lock(&s->fake->mutex);
    s->over = true;
    fake_link_cut(s->link);
    pthread_mutex_unlock(&s->fake->mutex);
}

static void on_log(void *ctx, zkl_log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

static void submit_one(struct session *s, struct fake_request *request, struct jute_in *in)
{
    struct zkl__op op = {.kind = ZKL__OP_NONE};
    request->path = jute_text(in);
    char *path = strdup(request->path);
    fake_parse_rest(in, request->type, &op);
    fake_set_path(&op, path);
    if (in->bad || zkl__store_memory.submit(s->store, (uint64_t)(uintptr_t)request, &op) != ZKL_OK) {
        fake_request_free(request); /* the session is over, or will be told */
    }
    free(path);
}

static void submit_multi(struct session *s, struct fake_request *request, struct jute_in *in)
{
    struct zkl__op parts[PARTS_MAX] = {{.kind = ZKL__OP_NONE}};
    struct zkl__op op = {.kind = ZKL__OP_MULTI, .dir = "/", .parts = parts};
    char *paths[PARTS_MAX];
    for (int32_t type = jute_int(in); !jute_bool(in) && !in->bad; type = jute_int(in)) {
        jute_int(in);
        size_t i = request->part_count++;
        if (i == PARTS_MAX - 1) {
            abort(); /* nobody sends so many */
        }
        request->parts[i].type = type;
        request->parts[i].path = jute_text(in);
        paths[i] = strdup(request->parts[i].path);
        fake_parse_rest(in, type, &parts[i]);
        fake_set_path(&parts[i], paths[i]);
    }
    op.part_count = request->part_count;
    size_t count = request->part_count;
    if (in->bad || zkl__store_memory.submit(s->store, (uint64_t)(uintptr_t)request, &op) != ZKL_OK) {
        fake_request_free(request);
    }
    for (size_t i = 0; i < count; i++) {
        free(paths[i]);
    }
}

/* Answers come in the order of requests, those to pings and closes too: they wait behind a sync of the store. */
static void submit_sync(struct session *s, struct fake_request *request)
{
    struct zkl__op op = {.kind = ZKL__OP_SYNC, .dir = "/"};
    if (zkl__store_memory.submit(s->store, (uint64_t)(uintptr_t)request, &op) != ZKL_OK) {
        fake_request_free(request);
    }
}

static void set_watches_again(struct fake *fake, struct link *link, int32_t xid)
{
    struct session *s = link->session;
    pthread_mutex_lock(&fake->mutex);
    jute_put(&link->out, s->missed.bytes, s->missed.used); /* the store kept the watches */
    s->missed.used = 0;
    fake_link_plain(fake, link, xid);
    pthread_mutex_unlock(&fake->mutex);
}

static void suffer(struct fake *fake, struct link *link, enum fake_fate fate)
{
    if (fate == FAKE_EXPIRE_BEFORE) {
        zkl__memory_expire(link->session->id);
    } else {
        pthread_mutex_lock(&fake->mutex);
        fake_link_cut(link);
        pthread_mutex_unlock(&fake->mutex);
    }
}

/* Out of turn: a server does not put what it does not know behind what it works on. */
static void refuse_unknown(struct fake *fake, struct link *link, int32_t xid)
{
    pthread_mutex_lock(&fake->mutex);
    jute_end(&link->out, fake_link_begin(fake, link, xid, -6));
    fake_link_flush(link);
    fake_link_cut(link);
    pthread_mutex_unlock(&fake->mutex);
}

void fake_session_serve(struct fake *fake, struct link *link, struct jute_in *in)
{
    int32_t xid = jute_int(in), type = jute_int(in);
    enum fake_fate fate = FAKE_SERVE;
    if (type == AUTH) {
        pthread_mutex_lock(&fake->mutex);
        jute_end(&link->out, fake_link_begin(fake, link, xid, atomic_load(&fake->refuses_auth) ? -115 : 0));
        fake_link_flush(link);
        pthread_mutex_unlock(&fake->mutex);
        if (atomic_load(&fake->refuses_auth) && link->session) {
            /* A server leaves it to expire, soon; nobody here would, and what the session made would stay before others. */
            zkl__memory_expire(link->session->id);
        }
        return;
    }
    if (type != PING) {
        fate = fake->fate_fn(fake->payload, atomic_fetch_add(&fake->requests, 1) + 1, type);
    }
    if (fate == FAKE_CUT_BEFORE || fate == FAKE_EXPIRE_BEFORE) {
        suffer(fake, link, fate);
    } else if (fate == FAKE_UNIMPLEMENTED) {
        refuse_unknown(fake, link, xid);
    } else if (type == SET_WATCHES) {
        set_watches_again(fake, link, xid);
    } else if (link->session->store) {
        struct fake_request *request = calloc(1, sizeof *request);
        request->link = link->number;
        request->xid = xid;
        request->type = type;
        request->fate = fate;
        if (type == PING || type == CLOSE) {
            submit_sync(link->session, request);
        } else {
            (type == MULTI ? submit_multi : submit_one)(link->session, request, in);
        }
    }
}

/* --- begin and end ------------------------------------------------------------------------------------------------ */

static struct session *session_find(struct fake *fake, int64_t id)
{
    for (int i = 0; i < fake->session_count; i++) {
        if (fake->sessions[i]->id == id && !fake->sessions[i]->over) {
            return fake->sessions[i];
        }
    }
    return NULL;
}

static bool session_open(struct fake *fake, struct link *link, int32_t timeout_ms)
{
    static const struct zkl__store_events events = {.connected = on_connected,
                                                    .suspended = on_suspended,
                                                    .expired = on_expired,
                                                    .reply = on_reply,
                                                    .watch = on_watch,
                                                    .log = on_log};
    struct zkl__store_config config = {.servers = fake->tree, .timeout_ms = timeout_ms, .heap = plain_heap};
    struct session *s = fake->session_count < SESSIONS_MAX ? calloc(1, sizeof *s) : NULL;
    if (!s) {
        fprintf(stderr, "fake: too many sessions\n");
        abort();
    }
    s->fake = fake;
    s->timeout_ms = timeout_ms;
    pthread_mutex_lock(&fake->mutex);
    s->link = link;
    link->session = s;
    fake->sessions[fake->session_count++] = s;
    pthread_mutex_unlock(&fake->mutex);
    return zkl__store_memory.open(&s->store, &config, &events, s, NULL) == ZKL_OK;
}

void fake_session_meet(struct fake *fake, struct link *link, struct jute_in *in)
{
    jute_int(in);
    jute_long(in);
    int32_t timeout_ms = jute_int(in);
    int64_t id = jute_long(in);
    if (id == 0) {
        if (!session_open(fake, link, timeout_ms)) {
            abort();
        }
        return;
    }
    pthread_mutex_lock(&fake->mutex);
    struct session *s = session_find(fake, id);
    if (s) {
        if (s->link) {
            fake_link_cut(s->link);
            s->link->session = NULL;
        }
        s->link = link;
        link->session = s;
    }
    greet(link, s);
    pthread_mutex_unlock(&fake->mutex);
}

void fake_session_free(struct session *s)
{
    if (s->store) {
        zkl__store_memory.close(s->store, 1000);
    }
    free(s->missed.bytes);
    free(s);
}

/* The end of a session by its client's wish. Its store is closed without the mutex, for it waits for its threads. */
static void close_session(struct fake *fake, struct session *s)
{
    struct zkl__store *store = s->store;
    s->store = NULL;
    zkl__store_memory.close(store, 1000);
    pthread_mutex_lock(&fake->mutex);
    s->over = true;
    if (s->link) {
        s->link->held_until_ms = 0;
        fake_link_plain(fake, s->link, s->close_xid);
        fake_link_cut(s->link);
    }
    pthread_mutex_unlock(&fake->mutex);
}

/* Those that are closed or over go: no answer of theirs is under way once the store is closed, and no connection knows them. */
void fake_session_bury(struct fake *fake)
{
    for (int i = 0; i < fake->session_count; i++) {
        struct session *s = fake->sessions[i];
        pthread_mutex_lock(&fake->mutex);
        bool closing = s->closing && !s->over && s->store, over = s->over && !s->link;
        pthread_mutex_unlock(&fake->mutex);
        if (closing) {
            close_session(fake, s);
        } else if (over) {
            fake_session_free(s);
            fake->sessions[i--] = fake->sessions[--fake->session_count];
        }
    }
}
