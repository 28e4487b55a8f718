#include "fake.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "memory.h"
#include "plain_heap.h"
#include "store.h"
#include "wait.h"

/* --- ZooKeeper's bytes: big-endian numbers, strings and buffers with their length before them ----------------------------- */

/* What is read: text of it is used where it lies, so a frame has one more byte at its end. */
struct jute_in {
    char *at, *end;
    bool bad;
};

static uint64_t jute_get(struct jute_in *in, size_t size)
{
    uint64_t value = 0;
    if (in->bad || (size_t)(in->end - in->at) < size) {
        in->bad = true;
        return 0;
    }
    for (size_t i = 0; i < size; i++) {
        value = value << 8 | (uint8_t)*in->at++;
    }
    return value;
}

static int32_t jute_int(struct jute_in *in)
{
    return (int32_t)(uint32_t)jute_get(in, 4);
}
static int64_t jute_long(struct jute_in *in)
{
    return (int64_t)jute_get(in, 8);
}
static bool jute_bool(struct jute_in *in)
{
    return jute_get(in, 1) != 0;
}

/* Bytes with their length before them. */
static const char *jute_bytes(struct jute_in *in, size_t *size)
{
    int32_t length = jute_int(in);
    const char *bytes = in->at;
    *size = length > 0 ? (size_t)length : 0;
    if (in->bad || (size_t)(in->end - in->at) < *size) {
        in->bad = true;
        *size = 0;
    }
    in->at += *size;
    return bytes;
}

/* A copy, to be freed. */
static char *jute_text(struct jute_in *in)
{
    size_t size;
    const char *bytes = jute_bytes(in, &size);
    return strndup(bytes, size);
}

struct jute_out {
    char *bytes;
    size_t used, size;
};

static void jute_put(struct jute_out *out, const void *bytes, size_t size)
{
    if (out->used + size > out->size) {
        out->size = 2 * (out->used + size);
        out->bytes = realloc(out->bytes, out->size);
        if (!out->bytes) {
            abort();
        }
    }
    if (size > 0) {
        memcpy(out->bytes + out->used, bytes, size);
    }
    out->used += size;
}

static void jute_put_number(struct jute_out *out, uint64_t value, size_t size)
{
    char bytes[8];
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (char)(uint8_t)(value >> (8 * (size - 1 - i)));
    }
    jute_put(out, bytes, size);
}

static void jute_put_int(struct jute_out *out, int32_t value)
{
    jute_put_number(out, (uint32_t)value, 4);
}
static void jute_put_long(struct jute_out *out, int64_t value)
{
    jute_put_number(out, (uint64_t)value, 8);
}
static void jute_put_bytes(struct jute_out *out, const void *bytes, size_t size)
{
    jute_put_int(out, (int32_t)size);
    jute_put(out, bytes, size);
}

/* A frame: its length goes to where it begins when it is whole. */
static size_t jute_begin(struct jute_out *out)
{
    jute_put_int(out, 0);
    return out->used;
}
static void jute_end(struct jute_out *out, size_t begin)
{
    struct jute_out length = {.bytes = out->bytes + begin - 4, .size = 4};
    jute_put_int(&length, (int32_t)(out->used - begin));
}

/* --- the server ------------------------------------------------------------------------------------------------------- */

#define PARTS_MAX 8

enum {
    CREATE = 1,
    DELETE = 2,
    EXISTS = 3,
    GET = 4,
    SET = 5,
    SYNC = 9,
    PING = 11,
    CHILDREN = 12,
    CHECK = 13,
    MULTI = 14,
    CREATE2 = 15,
    UNWATCH = 18,
    CONTAINER = 19,
    AUTH = 100,
    SET_WATCHES = 101,
    CLOSE = -11
};

struct fake_request {
    int link;
    int32_t xid, type;
    enum fake_fate fate;
    char *path;
    size_t part_count;
    struct {
        int32_t type;
        char *path;
    } parts[PARTS_MAX];
};

#define LINKS_MAX 32
#define SESSIONS_MAX 64

struct link { /* a connection; fd -1: none */
    int fd;
    int number; /* of all connections: an answer goes where its request came from, or nowhere */
    struct jute_out in, out;
    int64_t held_until_ms;
    struct session *session;
};

struct session { /* lives until it is over and no connection knows it */
    struct fake *fake;
    struct zkl__store *store;
    int64_t id;
    int32_t timeout_ms;
    bool over;
    struct link *link;      /* NULL: its client is away */
    struct jute_out missed; /* watch events of that time */
    bool closing;           /* its client's wish, when all before it is answered */
    int32_t close_xid;
};

struct fake {
    pthread_mutex_t mutex; /* links' output, sessions */
    pthread_t thread;
    char tree[64], address[32];
    int listener, wake;
    fake_fate_fn fate_fn;
    void *payload;
    atomic_bool stop, refuses_auth;
    atomic_int requests;
    atomic_long zxid;
    atomic_int timeout_ms; /* said to clients; 0: what the session has */
    struct link links[LINKS_MAX];
    struct session *sessions[SESSIONS_MAX];
    int session_count, link_count;
};

/* --- output; with the mutex --------------------------------------------------------------------------------------- */

static void link_flush(struct link *link)
{
    if (link->fd < 0 || now_ms() < link->held_until_ms) {
        return;
    }
    size_t sent = 0;
    while (sent < link->out.used) {
        ssize_t got = send(link->fd, link->out.bytes + sent, link->out.used - sent, MSG_NOSIGNAL);
        if (got <= 0) {
            break; /* its reader sees the end */
        }
        sent += (size_t)got;
    }
    link->out.used = 0;
}

static void link_cut(struct link *link)
{
    if (link && link->fd >= 0) {
        link->out.used = 0;
        link->held_until_ms = 0;
        shutdown(link->fd, SHUT_RDWR);
    }
}

static size_t link_begin(struct fake *fake, struct link *link, int32_t xid, int32_t err)
{
    size_t begin = jute_begin(&link->out);
    jute_put_int(&link->out, xid);
    jute_put_long(&link->out, atomic_load(&fake->zxid));
    jute_put_int(&link->out, err);
    return begin;
}

static void link_plain(struct fake *fake, struct link *link, int32_t xid)
{
    jute_end(&link->out, link_begin(fake, link, xid, 0));
    link_flush(link);
}

/* The server's thread looks up. With or without the mutex. */
static void wake(struct fake *fake)
{
    uint64_t one = 1;
    if (write(fake->wake, &one, sizeof one) != sizeof one) {
        abort();
    }
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

static void put_text(struct jute_out *out, const char *text)
{
    jute_put_bytes(out, text, strlen(text));
}

static void put_stat(struct jute_out *out, const struct zkl__stat *stat)
{
    jute_put_long(out, stat->czxid);
    jute_put_long(out, stat->mzxid);
    jute_put_long(out, stat->ctime_ms);
    jute_put_long(out, stat->mtime_ms);
    jute_put_int(out, stat->version);
    jute_put_int(out, stat->cversion);
    jute_put_int(out, 0);
    jute_put_long(out, stat->ephemeral_owner);
    jute_put_int(out, stat->data_size);
    jute_put_int(out, stat->child_count);
    jute_put_long(out, stat->mzxid);
}

static int32_t code_of(const struct zkl__reply *reply)
{
    static const int32_t codes[] = {[ZKL__RC_OK] = 0,
                                    [ZKL__RC_NONODE] = -101,
                                    [ZKL__RC_NODEEXISTS] = -110,
                                    [ZKL__RC_NOTEMPTY] = -111,
                                    [ZKL__RC_BADVERSION] = -103,
                                    [ZKL__RC_NOAUTH] = -102,
                                    [ZKL__RC_INVALIDACL] = -114,
                                    [ZKL__RC_EPHEMERALPARENT] = -108,
                                    [ZKL__RC_NOWATCH] = -121,
                                    [ZKL__RC_ROLLEDBACK] = -2,
                                    [ZKL__RC_REFUSED] = -8};
    return reply->rc <= ZKL__RC_REFUSED && (reply->rc == ZKL__RC_OK || codes[reply->rc]) ? codes[reply->rc] : -8;
}

/* The path that a create made: its directory, and the name that the store says. */
static void put_made(struct jute_out *out, const char *asked, const char *name)
{
    char path[1200];
    snprintf(path, sizeof path, "%.*s/%s", (int)(strrchr(asked, '/') - asked), asked, name);
    put_text(out, path);
}

static void put_parts(struct jute_out *out, const struct fake_request *request, const struct zkl__reply *reply)
{
    bool failed = reply->rc != ZKL__RC_OK;
    for (size_t i = 0; i < reply->part_count; i++) {
        const struct zkl__reply *part = &reply->parts[i];
        jute_put_int(out, failed ? -1 : request->parts[i].type);
        jute_put_number(out, 0, 1);
        jute_put_int(out, failed ? code_of(part) : 0);
        if (failed) {
            jute_put_int(out, code_of(part));
        } else if (request->parts[i].type == CREATE) {
            put_made(out, request->parts[i].path, part->name);
        } else if (request->parts[i].type == SET) {
            put_stat(out, &part->stat);
        }
    }
    jute_put_int(out, -1);
    jute_put_number(out, 1, 1);
    jute_put_int(out, -1);
}

static void put_body(struct jute_out *out, const struct fake_request *request, const struct zkl__reply *reply)
{
    switch (request->type) {
    case CREATE2:
    case CONTAINER:
        put_made(out, request->path, reply->name);
        put_stat(out, &reply->stat);
        break;
    case CREATE:
        put_made(out, request->path, reply->name);
        break;
    case GET:
        jute_put_bytes(out, reply->data, reply->size);
        put_stat(out, &reply->stat);
        break;
    case CHILDREN:
        jute_put_int(out, (int32_t)reply->child_count + (request->fate == FAKE_COUNT_TOO_HIGH));
        for (size_t i = 0; i < reply->child_count; i++) {
            put_text(out, reply->children[i]);
        }
        if (request->fate != FAKE_COUNT_TOO_HIGH) { /* it would be read as names */
            put_stat(out, &reply->stat);
        }
        break;
    case SYNC:
        put_text(out, request->path);
        break;
    case EXISTS:
    case SET:
        put_stat(out, &reply->stat);
        break;
    default:
        break;
    }
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

static void request_free(struct fake_request *request)
{
    for (size_t i = 0; i < request->part_count; i++) {
        free(request->parts[i].path);
    }
    free(request->path);
    free(request);
}

/* dir and name of a path, in a copy that lives as long as the request. */
static void set_path(struct zkl__op *op, char *path)
{
    char *slash = strrchr(path, '/');
    op->dir = path;
    if (slash && slash != path) {
        *slash = '\0';
        op->name = slash + 1;
    } else if (slash && slash[1]) {
        op->dir = "/";
        op->name = slash + 1;
    }
}

static void skip_acl(struct jute_in *in)
{
    size_t size;
    for (int32_t count = jute_int(in); count > 0 && !in->bad; count--) {
        jute_int(in);
        jute_bytes(in, &size);
        jute_bytes(in, &size);
    }
}

static void parse_create(struct jute_in *in, struct zkl__op *op)
{
    static const enum zkl__create_mode modes[] = {ZKL__PERSISTENT, ZKL__EPHEMERAL, ZKL__PERSISTENT_SEQUENTIAL,
                                                  ZKL__EPHEMERAL_SEQUENTIAL, ZKL__CONTAINER};
    op->kind = ZKL__OP_CREATE;
    op->data = jute_bytes(in, &op->size);
    skip_acl(in);
    int32_t flags = jute_int(in);
    in->bad = in->bad || flags < 0 || flags > 4;
    op->mode = in->bad ? ZKL__PERSISTENT : modes[flags];
}

/* What stands behind the path of a request of this type. */
static void parse_rest(struct jute_in *in, int32_t type, struct zkl__op *op)
{
    switch (type) {
    case CREATE:
    case CREATE2:
    case CONTAINER:
        parse_create(in, op);
        break;
    case DELETE:
    case CHECK:
        op->kind = type == DELETE ? ZKL__OP_DELETE : ZKL__OP_CHECK;
        op->version = jute_int(in);
        break;
    case SET:
        op->kind = ZKL__OP_SET;
        op->data = jute_bytes(in, &op->size);
        op->version = jute_int(in);
        break;
    case EXISTS:
    case GET:
    case CHILDREN:
        op->kind = type == GET ? ZKL__OP_GET : type == EXISTS ? ZKL__OP_EXISTS : ZKL__OP_CHILDREN;
        op->watch = jute_bool(in);
        break;
    case SYNC:
        op->kind = ZKL__OP_SYNC;
        break;
    case UNWATCH:
        op->kind = ZKL__OP_UNWATCH;
        jute_int(in);
        break;
    default:
        in->bad = true;
    }
}

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
    put_text(out, path);
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
    int32_t err = multi ? 0 : code_of(reply);
    link->held_until_ms = request->fate == FAKE_HOLD ? now_ms() + HOLD_MS : link->held_until_ms;
    atomic_fetch_add(&s->fake->zxid, 1);
    if (request->fate == FAKE_SAYS_EXPIRED) {
        put_lie_of_the_end(&link->out);
    }
    size_t begin = link_begin(s->fake, link, request->xid, err);
    if (multi) {
        put_parts(&link->out, request, reply);
    } else if (err == 0) {
        put_body(&link->out, request, reply);
    }
    jute_end(&link->out, begin);
    link_flush(link);
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
        wake(s->fake);
    } else if (there && request->fate == FAKE_CUT_AFTER) {
        link_cut(s->link);
    } else if (there && request->fate != FAKE_EXPIRE_AFTER && reply->rc != ZKL__RC_UNKNOWN) {
        send_answer(s, request, reply);
    }
    bool expire = request->fate == FAKE_EXPIRE_AFTER;
    pthread_mutex_unlock(&s->fake->mutex);
    if (expire) {
        zkl__memory_expire(s->id);
    }
    request_free(request);
}

static void on_watch(void *ctx, enum zkl__watch_event event, const char *path)
{
    static const int32_t types[] = {
        [ZKL__WATCH_CREATED] = 1, [ZKL__WATCH_DELETED] = 2, [ZKL__WATCH_CHANGED] = 3, [ZKL__WATCH_CHILDREN] = 4};
    struct session *s = ctx;
    pthread_mutex_lock(&s->fake->mutex);
    put_event(s->link ? &s->link->out : &s->missed, types[event], CONNECTED, path);
    if (s->link) {
        link_flush(s->link);
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
    link_flush(link);
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
    link_cut(s->link);
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
    parse_rest(in, request->type, &op);
    set_path(&op, path);
    if (in->bad || zkl__store_memory.submit(s->store, (uint64_t)(uintptr_t)request, &op) != ZKL_OK) {
        request_free(request); /* the session is over, or will be told */
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
        parse_rest(in, type, &parts[i]);
        set_path(&parts[i], paths[i]);
    }
    op.part_count = request->part_count;
    size_t count = request->part_count;
    if (in->bad || zkl__store_memory.submit(s->store, (uint64_t)(uintptr_t)request, &op) != ZKL_OK) {
        request_free(request);
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
        request_free(request);
    }
}

static void set_watches_again(struct fake *fake, struct link *link, int32_t xid)
{
    struct session *s = link->session;
    pthread_mutex_lock(&fake->mutex);
    jute_put(&link->out, s->missed.bytes, s->missed.used); /* the store kept the watches */
    s->missed.used = 0;
    link_plain(fake, link, xid);
    pthread_mutex_unlock(&fake->mutex);
}

static void suffer(struct fake *fake, struct link *link, enum fake_fate fate)
{
    if (fate == FAKE_EXPIRE_BEFORE) {
        zkl__memory_expire(link->session->id);
    } else {
        pthread_mutex_lock(&fake->mutex);
        link_cut(link);
        pthread_mutex_unlock(&fake->mutex);
    }
}

/* Out of turn: a server does not put what it does not know behind what it works on. */
static void refuse_unknown(struct fake *fake, struct link *link, int32_t xid)
{
    pthread_mutex_lock(&fake->mutex);
    jute_end(&link->out, link_begin(fake, link, xid, -6));
    link_flush(link);
    link_cut(link);
    pthread_mutex_unlock(&fake->mutex);
}

static void session_serve(struct fake *fake, struct link *link, struct jute_in *in)
{
    int32_t xid = jute_int(in), type = jute_int(in);
    enum fake_fate fate = FAKE_SERVE;
    if (type == AUTH) {
        pthread_mutex_lock(&fake->mutex);
        jute_end(&link->out, link_begin(fake, link, xid, atomic_load(&fake->refuses_auth) ? -115 : 0));
        link_flush(link);
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

static void session_meet(struct fake *fake, struct link *link, struct jute_in *in)
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
            link_cut(s->link);
            s->link->session = NULL;
        }
        s->link = link;
        link->session = s;
    }
    greet(link, s);
    pthread_mutex_unlock(&fake->mutex);
}

static void session_free(struct session *s)
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
        link_plain(fake, s->link, s->close_xid);
        link_cut(s->link);
    }
    pthread_mutex_unlock(&fake->mutex);
}

/* Those that are closed or over go: no answer of theirs is under way once the store is closed, and no connection knows them. */
static void session_bury(struct fake *fake)
{
    for (int i = 0; i < fake->session_count; i++) {
        struct session *s = fake->sessions[i];
        pthread_mutex_lock(&fake->mutex);
        bool closing = s->closing && !s->over && s->store, over = s->over && !s->link;
        pthread_mutex_unlock(&fake->mutex);
        if (closing) {
            close_session(fake, s);
        } else if (over) {
            session_free(s);
            fake->sessions[i--] = fake->sessions[--fake->session_count];
        }
    }
}

/* --- connections -------------------------------------------------------------------------------------------------- */

static void drop_link(struct fake *fake, struct link *link)
{
    pthread_mutex_lock(&fake->mutex);
    if (link->session) {
        link->session->link = NULL;
    }
    close(link->fd);
    free(link->in.bytes);
    free(link->out.bytes);
    *link = (struct link){.fd = -1};
    pthread_mutex_unlock(&fake->mutex);
}

/* Takes whole frames off the input. */
static void eat(struct fake *fake, struct link *link)
{
    size_t at = 0;
    while (link->in.used - at >= 4) {
        struct jute_in in = {.at = link->in.bytes + at, .end = link->in.bytes + link->in.used};
        int32_t length = jute_int(&in);
        if (length < 0 || (size_t)(in.end - in.at) < (size_t)length) {
            break;
        }
        in.end = in.at + length;
        at += 4 + (size_t)length;
        (link->session ? session_serve : session_meet)(fake, link, &in);
    }
    memmove(link->in.bytes, link->in.bytes + at, link->in.used - at);
    link->in.used -= at;
}

static void read_link(struct fake *fake, struct link *link)
{
    char bytes[8192];
    ssize_t got = recv(link->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got > 0) {
        jute_put(&link->in, bytes, (size_t)got);
        eat(fake, link);
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
        drop_link(fake, link);
    }
}

/* As ZooKeeper's servers (NIOServerCnxn): a reply must not wait for the acknowledgement of the one before it. */
static void accept_link(struct fake *fake)
{
    int one = 1, fd = accept4(fake->listener, NULL, NULL, SOCK_CLOEXEC);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); /* of -1: refused */
    for (int i = 0; fd >= 0 && i < LINKS_MAX; i++) {
        if (fake->links[i].fd < 0) {
            pthread_mutex_lock(&fake->mutex);
            fake->links[i] = (struct link){.fd = fd, .number = ++fake->link_count};
            pthread_mutex_unlock(&fake->mutex);
            return;
        }
    }
    if (fd >= 0) {
        close(fd);
    }
}

static void *run(void *arg)
{
    struct fake *fake = arg;
    while (!atomic_load(&fake->stop)) {
        struct pollfd fds[LINKS_MAX + 2] = {{.fd = fake->listener, .events = POLLIN},
                                            {.fd = fake->wake, .events = POLLIN}};
        for (int i = 0; i < LINKS_MAX; i++) {
            fds[2 + i] = (struct pollfd){.fd = fake->links[i].fd, .events = POLLIN};
        }
        poll(fds, LINKS_MAX + 2, 10); /* what is held is looked at now and then */
        for (int i = 0; i < LINKS_MAX; i++) {
            if (fds[2 + i].fd >= 0 && fds[2 + i].revents) {
                read_link(fake, &fake->links[i]);
            }
            pthread_mutex_lock(&fake->mutex);
            link_flush(&fake->links[i]);
            pthread_mutex_unlock(&fake->mutex);
        }
        if (fds[1].revents) {
            uint64_t count;
            (void)!read(fake->wake, &count, sizeof count);
        }
        session_bury(fake);
        if (fds[0].revents) {
            accept_link(fake);
        }
    }
    return NULL;
}

/* --- whole -------------------------------------------------------------------------------------------------------- */

struct fake *fake_start(const char *tree, fake_fate_fn fate_fn, void *payload)
{
    struct fake *fake = calloc(1, sizeof *fake);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    snprintf(fake->tree, sizeof fake->tree, "%s", tree);
    fake->fate_fn = fate_fn;
    fake->payload = payload;
    atomic_store(&fake->zxid, 1);
    pthread_mutex_init(&fake->mutex, NULL);
    for (int i = 0; i < LINKS_MAX; i++) {
        fake->links[i].fd = -1;
    }
    fake->wake = eventfd(0, EFD_CLOEXEC);
    fake->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fake->listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(fake->listener, 16) != 0 ||
        getsockname(fake->listener, (struct sockaddr *)&address, &size) != 0 ||
        pthread_create(&fake->thread, NULL, run, fake) != 0) {
        perror("fake");
        abort();
    }
    snprintf(fake->address, sizeof fake->address, "127.0.0.1:%d", (int)ntohs(address.sin_port));
    return fake;
}

void fake_stop(struct fake *fake)
{
    atomic_store(&fake->stop, true);
    wake(fake);
    pthread_join(fake->thread, NULL);
    for (int i = 0; i < LINKS_MAX; i++) {
        if (fake->links[i].fd >= 0) {
            drop_link(fake, &fake->links[i]);
        }
    }
    for (int i = 0; i < fake->session_count; i++) {
        session_free(fake->sessions[i]);
    }
    close(fake->listener);
    close(fake->wake);
    pthread_mutex_destroy(&fake->mutex);
    free(fake);
}

void fake_set_timeout(struct fake *fake, int32_t timeout_ms)
{
    atomic_store(&fake->timeout_ms, timeout_ms);
}

void fake_refuse_auth(struct fake *fake)
{
    atomic_store(&fake->refuses_auth, true);
}

const char *fake_address(const struct fake *fake)
{
    return fake->address;
}
int fake_requests(struct fake *fake)
{
    return atomic_load(&fake->requests);
}
