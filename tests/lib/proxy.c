#include "proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include "wait.h"

#define CONNECTIONS_MAX 64
#define FRAME_MAX (8 << 20)
#define MARKS_MAX 256
#define HOLD_MS 100

struct frame {
    struct frame *next;
    int64_t due_ns;
    size_t size, sent;
    unsigned char bytes[];
};

/* One way of a connection: bytes come in, are cut into frames, wait, go out. */
struct way {
    unsigned char *in;
    size_t in_size, in_capacity;
    struct frame *head, *tail;
    bool first_seen; /* the handshake has no header */
};

struct connection {
    int fd[2]; /* by proxy_way: where that way writes to */
    bool open, stalled;
    bool refusing; /* behind what waits for its client, */
    bool refused;  /* nothing is passed on any more, and its client is to close it */
    struct way ways[2];
    unsigned char session[32]; /* its timeout, id and password, as the server said them */
    struct mark {              /* requests whose answers have a fate */
        int32_t xid, type;
        enum proxy_fate fate;
    } marks[MARKS_MAX];
    size_t mark_count;
    int64_t held_until_ns;
};

struct proxy {
    pthread_t thread;
    pthread_mutex_t mutex;
    int listener, wake; /* an eventfd */
    int port;
    char address[32];
    struct sockaddr_in6 server; /* an IPv4 address in IPv6's form: see set_server */
    bool stop, hold[2], raw;
    int welcome; /* how many connections are yet to be let through; negative: all */
    int64_t delay_ns;
    int ordered; /* what becomes of the next request of this type; 0: nothing is ordered */
    enum proxy_fate order;
    struct proxy_script script;
    int requests;
    const char *garbage; /* instead of the next response; NULL: none */
    size_t garbage_size;
    bool reset;             /* behind the garbage */
    long hits, counts[256]; /* by the type's last byte: that of a close is negative */
    struct connection connections[CONNECTIONS_MAX];
};

static int32_t number_at(const unsigned char *bytes)
{
    return (int32_t)((uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3]);
}

/* --- connections --------------------------------------------------------------------------------------------------- */

static void way_clear(struct way *way)
{
    while (way->head) {
        struct frame *next = way->head->next;
        free(way->head);
        way->head = next;
    }
    free(way->in);
    *way = (struct way){0};
}

static void drop(struct connection *c)
{
    for (int i = 0; c->open && i < 2; i++) {
        close(c->fd[i]);
        way_clear(&c->ways[i]);
    }
    *c = (struct connection){0};
}

static int new_socket(int family)
{
    int one = 1;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void take(struct proxy *p)
{
    int client = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK); /* its TCP_NODELAY is the listener's */
    if (client < 0) {
        return;
    }
    struct connection *c = NULL;
    for (int i = 0; i < CONNECTIONS_MAX && !c; i++) {
        c = p->connections[i].open ? NULL : &p->connections[i];
    }
    int server = p->welcome == 0 || !c ? -1 : new_socket(AF_INET6);
    p->welcome -= p->welcome > 0;
    if (server < 0 || (connect(server, (struct sockaddr *)&p->server, sizeof p->server) != 0 && errno != EINPROGRESS)) {
        close(client);
        if (server >= 0) {
            close(server);
        }
        return;
    }
    *c = (struct connection){.fd = {[PROXY_TO_SERVER] = server, [PROXY_TO_CLIENT] = client}, .open = true};
}

/* --- frames -------------------------------------------------------------------------------------------------------- */

static enum proxy_fate fate_of(struct proxy *p, int32_t type)
{
    if (p->ordered && type == p->ordered) {
        p->ordered = 0;
        return p->order;
    }
    p->requests += type != PROXY_OP_PING;
    return type != PROXY_OP_PING && p->script.fate ? p->script.fate(p->script.payload, p->requests, type) : PROXY_SERVE;
}

/* Somebody else takes the session over, and closes it. */
static void expire(const struct proxy *p, const struct connection *c)
{
    unsigned char request[60] = {[3] = 44, [51] = 8, [55] = 1, [56] = 0xff, 0xff, 0xff, 0x100 + PROXY_OP_CLOSE};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memcpy(request + 16, c->session, sizeof c->session);
    if (connect(fd, (const struct sockaddr *)&p->server, sizeof p->server) == 0 &&
        send(fd, request, sizeof request, MSG_NOSIGNAL) == sizeof request) {
        while (recv(fd, request, sizeof request, 0) > 0) { /* until the server has done it */
        }
    }
    close(fd);
}

/* False: the connection ends. */
static bool see_request(struct proxy *p, struct connection *c, unsigned char *body)
{
    int32_t xid = number_at(body), type = number_at(body + 4);
    p->counts[type & 0xff]++;
    c->stalled = false;
    enum proxy_fate fate = fate_of(p, type);
    if (fate == PROXY_CUT_BEFORE) {
        return false;
    }
    if (fate == PROXY_EXPIRE_BEFORE) {
        expire(p, c);
        return false;
    }
    if (fate == PROXY_UNIMPLEMENTED) { /* in its turn: the server is asked for something else about the same path */
        memcpy(body + 4, (const unsigned char[]){0, 0, 0, PROXY_OP_EXISTS}, 4);
    }
    if (fate != PROXY_SERVE && c->mark_count < MARKS_MAX) {
        c->marks[c->mark_count++] = (struct mark){xid, type, fate};
    }
    return true;
}

/* The same. */
static bool see_answer(struct proxy *p, struct connection *c, unsigned char *body, size_t *size)
{
    size_t i = 0;
    while (i < c->mark_count && c->marks[i].xid != number_at(body)) {
        i++;
    }
    if (i == c->mark_count) {
        return true;
    }
    struct mark mark = c->marks[i];
    c->marks[i] = c->marks[--c->mark_count];
    p->hits++;
    if (mark.fate == PROXY_STALL) {
        c->stalled = true;
    } else if (mark.fate == PROXY_HOLD_ANSWER) {
        c->held_until_ns = clock_ns(CLOCK_MONOTONIC) + HOLD_MS * MS;
    } else if (mark.fate == PROXY_LIE) {
        p->script.lie(p->script.payload, mark.type, body, size);
    } else if (mark.fate == PROXY_UNIMPLEMENTED) { /* as of a server that does not know the request */
        memcpy(body + 12, (const unsigned char[]){0xff, 0xff, 0xff, 0x100 - 6}, 4);
        *size = 16;
        c->refusing = true;
    } else if (mark.fate == PROXY_EXPIRE_AFTER) {
        expire(p, c);
    }
    return mark.fate != PROXY_CUT_AFTER && mark.fate != PROXY_EXPIRE_AFTER;
}

/* The same. */
static bool see(struct proxy *p, struct connection *c, int which, unsigned char *body, size_t *size)
{
    struct way *way = &c->ways[which];
    if (which == PROXY_TO_SERVER && p->garbage) {
        const struct linger hard = {1, 0};
        int client = c->fd[PROXY_TO_CLIENT];
        (void)!send(client, p->garbage, p->garbage_size, MSG_NOSIGNAL);
        if (p->reset) {
            setsockopt(client, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
        }
        p->garbage = NULL;
        p->hits++;
        return false;
    }
    if (!way->first_seen) {
        way->first_seen = true;
        if (which == PROXY_TO_CLIENT && *size >= 4 + sizeof c->session) {
            memcpy(c->session, body + 4, sizeof c->session);
        }
        if (which == PROXY_TO_CLIENT && p->script.lie) {
            p->script.lie(p->script.payload, PROXY_OP_NONE, body, size);
        }
        return true;
    }
    if (*size < 8) {
        return true;
    }
    return which == PROXY_TO_SERVER ? see_request(p, c, body) : see_answer(p, c, body, size);
}

static void keep(struct proxy *p, struct connection *c, int which, const void *bytes, size_t size)
{
    if (c->refused) {
        return;
    }
    struct way *way = &c->ways[which];
    struct frame *frame = malloc(sizeof *frame + size);
    *frame = (struct frame){.due_ns = clock_ns(CLOCK_MONOTONIC) + p->delay_ns, .size = size};
    if (which == PROXY_TO_CLIENT && frame->due_ns < c->held_until_ns) {
        frame->due_ns = c->held_until_ns;
    }
    memcpy(frame->bytes, bytes, size);
    *(way->head ? &way->tail->next : &way->head) = frame;
    way->tail = frame;
}

/* Cuts what came in into frames; false when the connection is to go. */
static bool cut_frames(struct proxy *p, struct connection *c, int which)
{
    struct way *way = &c->ways[which];
    size_t at = 0;
    if (p->raw && way->in_size > 0) {
        keep(p, c, which, way->in, way->in_size);
        way->in_size = 0;
    }
    while (way->in_size - at >= 4) {
        size_t size = (size_t)(uint32_t)number_at(way->in + at);
        if (size > FRAME_MAX) {
            return false;
        }
        if (way->in_size - at < 4 + size) {
            break;
        }
        size_t shown = size;
        if (!see(p, c, which, way->in + at + 4, &shown)) {
            return false;
        }
        uint32_t length = htonl((uint32_t)shown);
        memcpy(way->in + at, &length, sizeof length);
        keep(p, c, which, way->in + at, 4 + shown);
        at += 4 + size;
    }
    memmove(way->in, way->in + at, way->in_size - at);
    way->in_size -= at;
    return true;
}

static bool ready(const struct proxy *p, const struct connection *c, int which, int64_t now)
{
    const struct frame *head = c->ways[which].head;
    return head && !p->hold[which] && !(which == PROXY_TO_CLIENT && c->stalled) && head->due_ns <= now;
}

static bool push(struct proxy *p, struct connection *c, int which)
{
    struct way *way = &c->ways[which];
    while (ready(p, c, which, clock_ns(CLOCK_MONOTONIC))) {
        struct frame *frame = way->head;
        ssize_t put = send(c->fd[which], frame->bytes + frame->sent, frame->size - frame->sent, MSG_NOSIGNAL);
        if (put < 0) {
            return errno == EAGAIN || errno == EINTR;
        }
        frame->sent += (size_t)put;
        if (frame->sent == frame->size) {
            way->head = frame->next;
            free(frame);
        }
    }
    if (c->refusing && which == PROXY_TO_CLIENT && !way->head) {
        shutdown(c->fd[which], SHUT_WR); /* a reset might overtake the answer */
        c->refused = true;
    }
    return true;
}

/* Delayed no longer. */
static void hurry(struct way *way)
{
    for (struct frame *frame = way->head; frame; frame = frame->next) {
        frame->due_ns = 0;
    }
}

static bool pull(struct proxy *p, struct connection *c, int which)
{
    struct way *way = &c->ways[which];
    for (;;) {
        if (way->in_capacity - way->in_size < 65536) {
            way->in_capacity = way->in_capacity * 2 + 131072;
            way->in = realloc(way->in, way->in_capacity);
        }
        ssize_t got = read(c->fd[!which], way->in + way->in_size, way->in_capacity - way->in_size);
        if (got < 0) {
            return (errno == EAGAIN || errno == EINTR) && cut_frames(p, c, which);
        }
        if (got == 0) {
            bool whole = cut_frames(p, c, which);
            hurry(way);
            (void)(whole && push(p, c, which)); /* last words */
            return false;
        }
        way->in_size += (size_t)got;
    }
}

/* --- the thread ---------------------------------------------------------------------------------------------------- */

static void serve(struct proxy *p, struct connection *c)
{
    bool ok = true;
    for (int way = 0; ok && way < 2; way++) {
        ok = pull(p, c, way) && push(p, c, way); /* EAGAIN as well while the server's connection is being made */
    }
    /* A request seen just now may have set free what waits for the client. */
    if (!ok || !push(p, c, PROXY_TO_CLIENT)) {
        drop(c);
    }
}

static int watch_for(const struct proxy *p, struct pollfd *fds, int64_t *due)
{
    int n = 0;
    int64_t now = clock_ns(CLOCK_MONOTONIC);
    fds[n++] = (struct pollfd){.fd = p->wake, .events = POLLIN};
    fds[n++] = (struct pollfd){.fd = p->listener, .events = POLLIN};
    for (int i = 0; i < CONNECTIONS_MAX; i++) {
        const struct connection *c = &p->connections[i];
        for (int way = 0; c->open && way < 2; way++) {
            short out = ready(p, c, way, now) ? POLLOUT : 0;
            fds[n++] = (struct pollfd){.fd = c->fd[way], .events = (short)(POLLIN | out)};
            const struct frame *head = c->ways[way].head;
            if (head && head->due_ns > now && head->due_ns < *due) {
                *due = head->due_ns;
            }
        }
    }
    return n;
}

static void *run(void *arg)
{
    struct proxy *p = arg;
    struct pollfd fds[2 + 2 * CONNECTIONS_MAX];
    pthread_mutex_lock(&p->mutex);
    while (!p->stop) {
        int64_t due = INT64_MAX;
        int n = watch_for(p, fds, &due);
        pthread_mutex_unlock(&p->mutex);
        int64_t left = due == INT64_MAX ? -1 : (due - clock_ns(CLOCK_MONOTONIC) + 999999) / 1000000;
        poll(fds, (nfds_t)n, due == INT64_MAX ? -1 : left < 0 ? 0 : (int)left);
        pthread_mutex_lock(&p->mutex);
        eventfd_t woken;
        eventfd_read(p->wake, &woken);
        for (int i = 0; i < CONNECTIONS_MAX; i++) {
            if (p->connections[i].open) {
                serve(p, &p->connections[i]);
            }
        }
        take(p);
    }
    pthread_mutex_unlock(&p->mutex);
    return NULL;
}

/* --- control ------------------------------------------------------------------------------------------------------- */

/* By IPv6, so that no session of this process takes a connection of the proxy's to its server for its own when it is closed
 * (src/store/zookeeper_threads.c compares the peers). */
static void set_server(struct proxy *p, const char *address)
{
    char host[64], mapped[80];
    int port = 0;
    sscanf(address, "%63[^:]:%d", host, &port);
    snprintf(mapped, sizeof mapped, "::ffff:%s", host);
    p->server = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    inet_pton(AF_INET6, mapped, &p->server.sin6_addr);
}

static bool listen_at(struct proxy *p, const char *host, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int one = 1;
    inet_pton(AF_INET, host, &address.sin_addr);
    socklen_t size = sizeof address;
    p->listener = new_socket(AF_INET);
    setsockopt(p->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(p->listener, (struct sockaddr *)&address, size) != 0 || listen(p->listener, 64) != 0 ||
        getsockname(p->listener, (struct sockaddr *)&address, &size) != 0) {
        perror("proxy");
        return false;
    }
    p->port = ntohs(address.sin_port);
    snprintf(p->address, sizeof p->address, "%s:%d", host, p->port);
    p->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return p->wake >= 0;
}

struct proxy *proxy_start_at(const char *host, int port, const char *address)
{
    struct proxy *p = calloc(1, sizeof *p);
    pthread_mutex_init(&p->mutex, NULL);
    p->welcome = -1;
    set_server(p, address);
    if (!listen_at(p, host, port) || pthread_create(&p->thread, NULL, run, p) != 0) {
        free(p);
        return NULL;
    }
    return p;
}

struct proxy *proxy_start(const char *address)
{
    return proxy_start_at("127.0.0.1", 0, address);
}

static void enter(struct proxy *p)
{
    pthread_mutex_lock(&p->mutex);
}

static void leave(struct proxy *p)
{
    pthread_mutex_unlock(&p->mutex);
    eventfd_write(p->wake, 1);
}

static void drop_all(struct proxy *p)
{
    for (int i = 0; i < CONNECTIONS_MAX; i++) {
        drop(&p->connections[i]);
    }
}

void proxy_stop(struct proxy *p)
{
    if (!p) {
        return;
    }
    enter(p);
    p->stop = true;
    leave(p);
    pthread_join(p->thread, NULL);
    drop_all(p);
    close(p->listener);
    close(p->wake);
    pthread_mutex_destroy(&p->mutex);
    free(p);
}

const char *proxy_address(const struct proxy *p)
{
    return p->address;
}

int proxy_port(const struct proxy *p)
{
    return p->port;
}

void proxy_hold(struct proxy *p, enum proxy_way way, bool on)
{
    enter(p);
    p->hold[way] = on;
    leave(p);
}

void proxy_pass_bytes(struct proxy *p)
{
    enter(p);
    p->raw = true;
    leave(p);
}

void proxy_silence(struct proxy *p, bool on)
{
    proxy_hold(p, PROXY_TO_SERVER, on);
    proxy_hold(p, PROXY_TO_CLIENT, on);
}

void proxy_delay(struct proxy *p, int64_t ms)
{
    enter(p);
    p->delay_ns = ms * 1000000;
    leave(p);
}

void proxy_cut(struct proxy *p)
{
    enter(p);
    drop_all(p);
    leave(p);
}

void proxy_refuse(struct proxy *p, bool on)
{
    proxy_refuse_after(p, on ? 0 : -1);
}

void proxy_down(struct proxy *p)
{
    proxy_refuse(p, true);
    proxy_cut(p);
}

void proxy_refuse_after(struct proxy *p, int connections)
{
    enter(p);
    p->welcome = connections;
    leave(p);
}

void proxy_order_next(struct proxy *p, enum proxy_op op, enum proxy_fate fate)
{
    enter(p);
    p->ordered = op;
    p->order = fate;
    leave(p);
}

void proxy_garble_next(struct proxy *p, const char *bytes, size_t size, bool reset)
{
    enter(p);
    p->garbage = bytes;
    p->garbage_size = size;
    p->reset = reset;
    leave(p);
}

void proxy_follow(struct proxy *p, struct proxy_script script)
{
    enter(p);
    p->script = script;
    leave(p);
}

void proxy_say(struct proxy *p, const void *bytes, size_t size)
{
    enter(p);
    for (int i = 0; i < CONNECTIONS_MAX; i++) {
        if (p->connections[i].open) {
            keep(p, &p->connections[i], PROXY_TO_CLIENT, bytes, size);
        }
    }
    leave(p);
}

int proxy_requests(struct proxy *p)
{
    enter(p);
    int n = p->requests;
    leave(p);
    return n;
}

long proxy_count(struct proxy *p, enum proxy_op op)
{
    enter(p);
    long n = p->counts[op & 0xff];
    leave(p);
    return n;
}

long proxy_hits(struct proxy *p)
{
    enter(p);
    long n = p->hits;
    leave(p);
    return n;
}

int proxy_connections(struct proxy *p)
{
    int n = 0;
    enter(p);
    for (int i = 0; i < CONNECTIONS_MAX; i++) {
        n += p->connections[i].open;
    }
    leave(p);
    return n;
}
