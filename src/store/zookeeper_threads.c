/* zookeeper_threads.c - the client library's threads, the adapter's own, and the descriptors that
 * the library opens on them. In its place libzklock_st has src/store_st/zookeeper_loop.c. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "zookeeper_store.h"

/* zookeeper_close waits 1500 ms for the server's word and does not say whether it came. */
#define WORD_NS (1400 * ZKL__MS)
#define DESCRIPTORS "/proc/self/fd"
#define ROUND_MS 60000            /* what poll waits at a time */
#define BRIEF_NS (1600 * ZKL__MS) /* zookeeper_close takes less when it can send */
#define PART_NS (5 * ZKL__MS)     /* what parting takes when nothing hinders it, and more */

/* --- descriptors ----------------------------------------------------------------------------- *
 *
 * The library opens its socket and its pipe without FD_CLOEXEC, and gives neither away: a program
 * that is started gets an authenticated connection. So they are looked for. Between the socket's
 * making and the session's coming up, some milliseconds, it stays open for others; nothing was
 * authenticated on it then. */

/* Two sessions that open at once would each take the other's pipe for a new one, which does no
 * harm, but not see their own. */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t forks = PTHREAD_ONCE_INIT;

/* In a child of fork no thread would unlock it, and it guards nothing that is in memory. A fork
 * does not wait for it: who has it may ask a name server, as SASL does for this machine's name. */
static void forget_opening(void)
{
    pthread_mutex_init(&opening, NULL);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, forget_opening);
}

/* For each open descriptor of the process, of a folder of them; -1 at the end, where the folder is
 * closed. No /proc, so no folder: none. */
static int next_descriptor(DIR *folder)
{
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] != '.' && fd != dirfd(folder)) {
            return fd;
        }
    }
    if (folder) {
        closedir(folder);
    }
    return -1;
}

/* 0: it is of another kind. A number that may be another thread's by now is asked for by name. */
static unsigned long inode_of(int fd, bool pipe)
{
    char name[32], link[64] = "";
    unsigned long inode = 0;
    snprintf(name, sizeof name, DESCRIPTORS "/%d", fd);
    if (readlink(name, link, sizeof link - 1) > 0) {
        sscanf(link, pipe ? "pipe:[%lu]" : "socket:[%lu]", &inode);
    }
    return inode;
}

static void *pass(void *gate)
{
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

/* The library ends the program when one of its two threads cannot be started (start_threads), so
 * two are started before, and ended. With signals held. */
static bool has_threads(void)
{
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_t threads[2];
    int count = 0;
    pthread_mutex_lock(&gate);
    while (count < 2 && pthread_create(&threads[count], NULL, pass, &gate) == 0) {
        count++;
    }
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
    }
    return count == 2;
}

/* Signals are blocked meanwhile, for the library's threads inherit the mask: the program's handlers
 * are not to run on them. They inherit the thread's name, too.
 *
 * The library's pipe does not block, and both ends are new. What another thread of the program
 * makes meanwhile is hardly such a pipe. */
zhandle_t *zkl__zk_init_hidden(const struct zkl__store *store, const char *list)
{
    char name[16];
    int count = 0; /* one more than the highest descriptor */
    zhandle_t *zh = NULL;
    zkl__signals_hold();
    if (!has_threads()) {
        zkl__signals_allow();
        errno = EAGAIN;
        return NULL;
    }
    pthread_once(&forks, watch_forks);
    pthread_mutex_lock(&opening);
    DIR *folder = opendir(DESCRIPTORS);
    for (int fd; (fd = next_descriptor(folder)) >= 0;) {
        count = fd < count ? count : fd + 1;
    }
    bool *before = zkl__zalloc(&store->heap, (size_t)count + 1);
    int error = ENOMEM;
    if (before) {
        folder = opendir(DESCRIPTORS);
        for (int fd; (fd = next_descriptor(folder)) >= 0;) {
            before[fd < count ? fd : count] = true;
        }
        prctl(PR_GET_NAME, name);
        prctl(PR_SET_NAME, "zklock");
        zh = zkl__zk_init(store, list);
        error = errno;
        prctl(PR_SET_NAME, name);
    }
    if (zh) {
        folder = opendir(DESCRIPTORS);
        for (int fd; (fd = next_descriptor(folder)) >= 0;) {
            if ((fd >= count || !before[fd]) && (fcntl(fd, F_GETFL) & O_NONBLOCK) &&
                inode_of(fd, true) != 0) {
                fcntl(fd, F_SETFD, FD_CLOEXEC);
            }
        }
    }
    zkl__free(&store->heap, before);
    pthread_mutex_unlock(&opening);
    zkl__signals_allow();
    errno = error;
    return zh;
}

/* Other connections of this process to the same server are a ZooKeeper client's, too. */
void zkl__zk_hide_socket(struct zkl__store *store)
{
    struct zk_candidates *candidates = &store->candidates;
    struct sockaddr_storage server, peer;
    socklen_t server_size = sizeof server, size = sizeof peer;
    candidates->count = 0;
    bool found =
        zookeeper_get_connected_host(store->zh, (struct sockaddr *)&server, &server_size) != NULL;
    DIR *folder = found ? opendir(DESCRIPTORS) : NULL;
    for (int fd; (fd = next_descriptor(folder)) >= 0; size = sizeof peer) {
        if (getpeername(fd, (struct sockaddr *)&peer, &size) != 0 || size != server_size ||
            memcmp(&peer, &server, size) != 0) {
            continue;
        }
        fcntl(fd, F_SETFD, FD_CLOEXEC);
        if (candidates->count < ZK_SOCKETS) {
            candidates->each[candidates->count] = (struct zk_socket){fd, inode_of(fd, false)};
        }
        candidates->count++;
    }
}

/* --- threads --------------------------------------------------------------------------------- */

/* The library's threads are its own. */
int zkl__zk_drive_start(struct zkl__store *store)
{
    (void)store;
    return ZKL_OK;
}

void zkl__zk_drive_end(struct zkl__store *store)
{
    (void)store;
}

bool zkl__zk_apart(void *(*run)(void *), void *arg)
{
    pthread_t thread;
    bool started = zkl__thread_start(&thread, run, arg) == ZKL_OK;
    if (started) {
        pthread_detach(thread);
    }
    return started;
}

/* A handle is closed: the store's own, or one that was given up. Who is the last, when the store
 * was closed meanwhile, frees it. */
static void end_parting(struct zkl__store *store, bool own, bool heard)
{
    pthread_mutex_lock(&store->mutex);
    store->parted = store->parted || own;
    store->confirmed = store->confirmed || heard;
    store->parting--;
    bool last = store->parting == 0 && store->orphaned;
    zkl__signal_raise(&store->changed);
    pthread_mutex_unlock(&store->mutex);
    if (last) {
        zkl__zk_free(store);
    }
}

/* A handle that was given up. */
static void *part_from(void *given_up)
{
    struct zkl__store *store = (struct zkl__store *)(uintptr_t)zoo_get_context(given_up);
    zookeeper_close(given_up);
    end_parting(store, false, false);
    return NULL;
}

void zkl__zk_part_from(struct zkl__store *store, zhandle_t *given_up)
{
    /* Not here: zookeeper_close joins the handle's threads, and these may wait for the mutex that
     * is held. If no thread can be started, the handle is closed with the store. */
    bool apart = zkl__zk_apart(part_from, given_up);
    store->parting += apart;
    if (!apart) {
        store->unclosed[store->unclosed_count++] = given_up;
    }
}

/* --- the goodbye ----------------------------------------------------------------------------- */

/* Whether the response to closeSession comes, before the connection's end or the deadline. What is
 * there is left there: it may belong to another session, which looks at it itself. */
static bool hears_goodbye(int fd, int64_t deadline)
{
    char bytes[16384];
    for (int got = 0;;) {
        struct zk_goodbye goodbye = {0};
        struct pollfd poller = {.fd = fd, .events = POLLIN | POLLRDHUP};
        int64_t left_ms = (deadline - zkl__clock_now()) / ZKL__MS;
        left_ms = left_ms < 0 ? 0 : left_ms < ROUND_MS ? left_ms : ROUND_MS;
        int more = got + 1; /* than there was */
        setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &more, sizeof more);
        int ready = poll(&poller, 1, (int)left_ms);
        got = (int)recv(fd, bytes, sizeof bytes, MSG_DONTWAIT | MSG_PEEK);
        got = got < 0 ? 0 : got;
        if (zkl__zk_goodbye(&goodbye, bytes, (size_t)got)) {
            return true;
        }
        bool over =
            got == sizeof bytes || (ready > 0 && poller.revents & (POLLRDHUP | POLLHUP | POLLERR));
        if (over || (ready <= 0 && left_ms == 0)) {
            return false;
        }
    }
}

/* The library waits 1.5 s for the first byte of the response to closeSession, or for the
 * connection's end, and does not say which it was (wait_for_session_to_be_closed). A server that
 * steps down ends it too, and has not ended the session; one with a slow disk takes longer. So the
 * connection is kept open, and looked at. Every other response was read: the session was drained.
 *
 * Nobody says which of the candidates is the session's connection: a descriptor is kept of each.
 * The session's is one that a library has closed behind zookeeper_close. Others that were open when
 * it came up may have been closed at the same time: then each must have its response. When a socket
 * is not known, it counts whether zookeeper_close was quick. */
static bool close_and_confirm(struct zkl__store *store)
{
    struct zk_candidates sockets = {0};
    int kept[ZK_SOCKETS]; /* -1: it was closed since, or no descriptor is left */
    int64_t began = zkl__clock_now();
    pthread_mutex_lock(&store->mutex);
    /* Without a connection the library says no goodbye, and is quick. */
    bool linked = store->linked && zoo_state(store->zh) == ZOO_CONNECTED_STATE;
    if (linked && !store->config.tls && store->candidates.count <= ZK_SOCKETS) {
        sockets = store->candidates;
    }
    bool guessed = linked && sockets.count == 0;
    for (int i = 0; i < sockets.count; i++) {
        kept[i] = fcntl(sockets.each[i].fd, F_DUPFD_CLOEXEC, 0);
        guessed = guessed || (kept[i] < 0 && errno == EMFILE);
        if (kept[i] >= 0 && inode_of(kept[i], false) != sockets.each[i].inode) {
            close(kept[i]);
            kept[i] = -1;
        }
    }
    pthread_mutex_unlock(&store->mutex);
    /* A signal would end what it waits for: its goodbye is not sent then. */
    zkl__signals_hold();
    zookeeper_close(store->zh);
    zkl__signals_allow();
    bool heard = guessed && zkl__clock_now() - began < WORD_NS, silent = false;
    for (int i = 0; i < sockets.count; i++) {
        bool closed = inode_of(sockets.each[i].fd, false) != sockets.each[i].inode;
        // NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): each was set above
        if (kept[i] >= 0 && closed && !silent) {
            heard = hears_goodbye(kept[i], store->part_deadline);
            silent = !heard;
        }
        close(kept[i]);
    }
    return heard;
}

static void *part(void *arg)
{
    struct zkl__store *store = arg;
    bool heard = store->zh && close_and_confirm(store);
    while (store->unclosed_count > 0) { /* no more come: the session is closed */
        zookeeper_close(store->unclosed[--store->unclosed_count]);
    }
    end_parting(store, true, heard);
    return NULL;
}

/* The library takes 3 s to send its goodbye, if it must, and 1.5 s more to hear the server's,
 * whatever time we are given: so it does that on a thread of its own, which may go on beyond the
 * deadline. When the server has read and answered everything, the goodbye finds room to be sent,
 * and with time for the rest no thread is needed. But when the connection has just been lost, the
 * library's I/O thread, which it waits for, may be in a handshake of TLS or SASL with another
 * server, and the goodbye by TLS raises SIGPIPE (SSL_write), which the thread never takes. Handles
 * that were given up on the way to the first connection are usually closed long since. But one that
 * is in a handshake of TLS with a silent server stays there (init_ssl_for_socket): it is not waited
 * for any longer than a goodbye takes. */
bool zkl__zk_part(struct zkl__store *store, int64_t deadline)
{
    int64_t least = zkl__clock_now() + PART_NS;
    int64_t until = deadline > least ? deadline : least;
    pthread_t thread;
    store->part_deadline = deadline;
    pthread_mutex_lock(&store->mutex);
    store->parting++;
    /* An ended session has nobody to say goodbye to. */
    bool brief = store->linked && store->all_read && !store->config.tls && !store->config.sasl &&
                 deadline - zkl__clock_now() > BRIEF_NS;
    bool apart = store->end == ZKL__END_NONE && store->zh && !brief;
    pthread_mutex_unlock(&store->mutex);
    apart = apart && zkl__thread_start(&thread, part, store) == ZKL_OK;
    if (!apart) {
        part(store);
    }
    pthread_mutex_lock(&store->mutex);
    for (bool rest = false; store->parting > 0 && zkl__clock_now() < until;) {
        if (store->parted && !rest) {
            rest = true;
            int64_t enough = zkl__clock_now() + BRIEF_NS;
            until = enough < until ? enough : until;
        }
        zkl__signal_wait(&store->changed, &store->mutex, until);
    }
    /* Nobody is told anything any more, and nobody is being told. */
    while (store->parting > 0 && store->inside) {
        zkl__signal_wait(&store->changed, &store->mutex, INT64_MAX);
    }
    bool parted = store->parting == 0;
    pthread_mutex_unlock(&store->mutex);
    if (!parted) {
        zkl__zk_log_mute(store);
    }
    if (apart && parted) {
        pthread_join(thread, NULL);
    } else if (apart) {
        pthread_detach(thread);
    }
    return true;
}
