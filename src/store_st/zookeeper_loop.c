/* zookeeper_loop.c - the client library without threads: the loop calls it when there is something
 * to do.
 *
 * Its callbacks run inside zookeeper_interest, zookeeper_process and zookeeper_close, which are
 * called here alone, and without the store's mutex. Seen in its source (3.8.0): an operation that
 * cannot be sent closes the socket without an event (nonblocking_send); every other function that
 * closes it returns an error. zookeeper_close would wait in poll for 3 s and 1.5 s: closeSession is
 * sent here instead, and the loop reads the response. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "loop.h"
#include "zookeeper_store.h"

#define AT_A_TIME 64             /* responses in one iteration: alarms ring between them */
#define AGAIN_NS (100 * ZKL__MS) /* for a descriptor that could not be had */

struct zk_drive {
    struct zkl__source source;
    struct zkl__store *store;
    int64_t rest_ns; /* every server was tried: until then the library is not called */
    bool parting;    /* closeSession is sent, and its response is waited for */
    bool gone;       /* the connection has ended, or is not read */
    struct zk_goodbye goodbye;
};

/* --- iterations of the loop ------------------------------------------------------------------ */

static int64_t prepare(struct zkl__source *source, int64_t now)
{
    struct zk_drive *drive = (struct zk_drive *)source;
    struct zkl__store *store = drive->store;
    int fd = -1, interest = 0;
    struct timeval tv = {0};
    if (!store->zh || drive->parting || is_unrecoverable(store->zh) != ZOK) {
        return INT64_MAX;
    }
    int state = zoo_state(store->zh);
    if (store->linked && state != ZOO_CONNECTED_STATE) { /* it was closed without an event */
        zkl__source_drop(source);
        zkl__zk_watcher(store->zh, ZOO_SESSION_EVENT, ZOO_CONNECTING_STATE, "", store);
    }
    if (state == ZOO_READONLY_STATE) {
        /* No server of ours gives such a session: something else is at the address.
         * zookeeper_interest would look for another server by a connection of its own, and wait for
         * its response without a limit (ping_rw_server). */
        shutdown(source->fd, SHUT_RDWR);
        zookeeper_process(store->zh, ZOOKEEPER_READ);
        zkl__source_drop(source);
    }
    if (now < drive->rest_ns) {
        return drive->rest_ns;
    }
    drive->rest_ns = 0;
    if (zookeeper_interest(store->zh, &fd, &interest, &tv) != ZOK) {
        zkl__source_drop(source);
        return now; /* the next server */
    }
    int64_t due = now + (int64_t)tv.tv_sec * 1000 * ZKL__MS + (int64_t)tv.tv_usec * 1000;
    if (fd < 0) {
        drive->rest_ns = due;
        return due;
    }
    if (source->fd < 0) { /* a program that is executed does not inherit the connection */
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
    uint32_t wanted = (interest & ZOOKEEPER_READ ? (uint32_t)EPOLLIN : 0) |
                      (interest & ZOOKEEPER_WRITE ? (uint32_t)EPOLLOUT : 0);
    return zkl__source_watch(source, fd, wanted) ? due : now + AGAIN_NS;
}

static void go_on(struct zkl__source *source, uint32_t ready)
{
    struct zk_drive *drive = (struct zk_drive *)source;
    struct zkl__store *store = drive->store;
    if (!ready || !store->zh) {
        return;
    }
    if (drive->parting) {
        /* The server responds to closeSession, and then closes the connection. One that steps down
         * closes it, too, and has not ended the session. Every other response has been read (drain
         * in zookeeper.c). */
        char rest[512];
        ssize_t got = 1;
        while (got > 0) {
            got = recv(source->fd, rest, sizeof rest, MSG_DONTWAIT);
            store->confirmed = store->confirmed ||
                               (got > 0 && zkl__zk_goodbye(&drive->goodbye, rest, (size_t)got));
        }
        if (got == 0) {
            drive->gone = true;
            zkl__loop_news();
        }
    } else {
        /* A connection that has failed is found out by reading and writing. */
        uint32_t failed = EPOLLERR | EPOLLHUP;
        int events = (ready & (EPOLLIN | failed) ? ZOOKEEPER_READ : 0) |
                     (ready & (EPOLLOUT | failed) ? ZOOKEEPER_WRITE : 0);
        int rc = zookeeper_process(store->zh, events);
        for (int i = 1; i < AT_A_TIME && rc == ZOK && events == ZOOKEEPER_READ; i++) {
            rc = zookeeper_process(store->zh, events);
        }
        if (rc != ZOK && rc != ZNOTHING) {
            zkl__source_drop(source);
            zkl__source_wake(source); /* the next server */
        }
    }
    if (store->phase != ZK_OPEN && store->events.closing) {
        store->events.closing(store->ctx);
    }
}

/* --- life ------------------------------------------------------------------------------------ */

int zkl__zk_drive_start(struct zkl__store *store)
{
    struct zk_drive *drive = zkl__zalloc(&store->heap, sizeof *drive);
    if (!drive) {
        return ZKL_ENOMEM;
    }
    *drive = (struct zk_drive){.source = {.prepare = prepare, .go_on = go_on}, .store = store};
    int rc = zkl__source_add(&drive->source);
    if (rc != ZKL_OK) {
        zkl__free(&store->heap, drive);
        return rc;
    }
    store->drive = drive;
    return ZKL_OK;
}

void zkl__zk_drive_end(struct zkl__store *store)
{
    if (store->drive) {
        zkl__source_remove(&store->drive->source);
        zkl__free(&store->heap, store->drive);
        store->drive = NULL;
    }
}

bool zkl__zk_apart(void *(*run)(void *), void *arg)
{
    run(arg);
    return true;
}

/* It makes no pipe, and its socket is hidden when the loop first sees it. */
zhandle_t *zkl__zk_init_hidden(const struct zkl__store *store, const char *list)
{
    return zkl__zk_init(store, list);
}

void zkl__zk_hide_socket(struct zkl__store *store)
{
    (void)store;
}

/* --- parting --------------------------------------------------------------------------------- */

/* Nothing was asked of a handle that never had a connection, so nothing is told when it is closed.
 */
void zkl__zk_part_from(struct zkl__store *store, zhandle_t *given_up)
{
    zkl__source_drop(&store->drive->source);
    store->drive->rest_ns = 0;
    zookeeper_close(given_up);
}

bool zkl__zk_part(struct zkl__store *store, int64_t deadline)
{
    struct zk_drive *drive = store->drive;
    if (!store->zh) {
        return true;
    }
    if (!drive->parting) {
        /* closeSession, as the library sends it (zookeeper_close): length, xid, type -11. Behind
         * half a request it does no harm, for the connection ends. */
        const uint32_t goodbye[] = {htonl(8), 0, htonl((uint32_t)-11)};
        int fd = drive->source.fd;
        drive->parting = true;
        drive->gone =
            !store->linked || fd < 0 ||
            send(fd, goodbye, sizeof goodbye, MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof goodbye ||
            !store->all_read || !zkl__source_watch(&drive->source, fd, EPOLLIN);
    }
    if (!drive->gone && zkl__clock_now() < deadline) {
        return false;
    }
    if (drive->source.fd >= 0) {
        shutdown(drive->source.fd, SHUT_RDWR); /* zookeeper_close finds nobody to wait for */
    }
    zkl__source_drop(&drive->source);
    zookeeper_close(store->zh);
    store->zh = NULL;
    return true;
}
