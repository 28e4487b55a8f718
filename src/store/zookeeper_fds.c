/* zookeeper_fds.c - the client library's descriptors are not for other programs.
 *
 * The library (3.8.0) opens its socket and its pipe without FD_CLOEXEC, and gives neither away: a
 * program that is started gets an authenticated connection. So they are looked for. Between the
 * socket's making and the session's coming up, some milliseconds, it stays open for others; nothing
 * was authenticated on it then. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zookeeper_store.h"

/* Two sessions that open at once would each take the other's pipe for a new one, which does no
 * harm, but not see their own. */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

/* Calls look with each open descriptor. No /proc: with none. */
static void for_each(void (*look)(int fd, void *arg), void *arg)
{
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] != '.' && fd != dirfd(folder)) {
            look(fd, arg);
        }
    }
    if (folder) {
        closedir(folder);
    }
}

static void close_on_exec(int fd)
{
    int flags = fcntl(fd, F_GETFD);
    if (flags >= 0) {
        fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
    }
}

/* --- the pipe -------------------------------------------------------------------------------- */

struct seen {
    fd_set before;
    int fds[16]; /* new ones that may be an end of the pipe */
    ino_t inodes[16];
    size_t count;
};

/* The library's pipe does not block. It is one of the first descriptors that are free, or the
 * process has more than a set has room for. */
static bool may_be_the_pipe(int fd, ino_t *inode)
{
    struct stat status;
    int flags = fcntl(fd, F_GETFL);
    if (fd >= FD_SETSIZE || flags < 0 || !(flags & O_NONBLOCK) || fstat(fd, &status) != 0 ||
        !S_ISFIFO(status.st_mode)) {
        return false;
    }
    *inode = status.st_ino;
    return true;
}

static void note(int fd, void *arg)
{
    struct seen *seen = arg;
    if (fd < FD_SETSIZE) {
        FD_SET(fd, &seen->before);
    }
}

static void note_new(int fd, void *arg)
{
    struct seen *seen = arg;
    if (seen->count < 16 && fd < FD_SETSIZE && !FD_ISSET(fd, &seen->before) &&
        may_be_the_pipe(fd, &seen->inodes[seen->count])) {
        seen->fds[seen->count++] = fd;
    }
}

/* Both ends are new: what another thread of the program makes meanwhile is hardly such a pipe. */
static void hide_pipes(const struct seen *seen)
{
    for (size_t i = 0; i < seen->count; i++) {
        for (size_t j = 0; j < seen->count; j++) {
            if (i != j && seen->inodes[i] == seen->inodes[j]) {
                close_on_exec(seen->fds[i]);
            }
        }
    }
}

zhandle_t *zkl__zk_init_hidden(const struct zkl__store *store, int timeout_ms)
{
    struct seen seen = {.count = 0};
    FD_ZERO(&seen.before);
    pthread_mutex_lock(&opening);
    for_each(note, &seen);
    zhandle_t *zh = zkl__zk_init(store, timeout_ms);
    int error = errno;
    for_each(note_new, &seen);
    hide_pipes(&seen);
    pthread_mutex_unlock(&opening);
    errno = error;
    return zh;
}

/* --- the socket ------------------------------------------------------------------------------ */

static bool is_peer(int fd, const struct zk_peer *wanted)
{
    struct zk_peer peer = {.size = sizeof peer.address};
    return getpeername(fd, (struct sockaddr *)&peer.address, &peer.size) == 0 &&
           peer.size == wanted->size && memcmp(&peer.address, &wanted->address, peer.size) == 0;
}

static bool find_peer(const struct zkl__store *store, struct zk_peer *peer)
{
    *peer = (struct zk_peer){.size = sizeof peer->address};
    return zookeeper_get_connected_host(store->zh, (struct sockaddr *)&peer->address, &peer->size);
}

/* 0: no socket. A number that may be another thread's by now is asked for by name. */
static unsigned long inode_of(int fd)
{
    char name[32], link[64] = "";
    unsigned long inode = 0;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    return readlink(name, link, sizeof link - 1) > 0 && sscanf(link, "socket:[%lu]", &inode) == 1
               ? inode
               : 0;
}

static bool is_candidate(const struct zk_candidates *candidates, unsigned long inode)
{
    bool found = candidates->count > ZK_SOCKETS;
    for (int i = 0; i < candidates->count && !found; i++) {
        found = candidates->inodes[i] == inode;
    }
    return found;
}

struct peers {
    struct zk_peer peer;
    struct zk_candidates *candidates;
};

/* Other connections of this process to the same server are a ZooKeeper client's, too. */
static void hide_if_peer(int fd, void *arg)
{
    struct peers *peers = arg;
    if (is_peer(fd, &peers->peer)) {
        close_on_exec(fd);
        if (peers->candidates->count < ZK_SOCKETS) {
            peers->candidates->inodes[peers->candidates->count++] = inode_of(fd);
        } else {
            peers->candidates->count = ZK_SOCKETS + 1;
        }
    }
}

void zkl__zk_hide_socket(struct zkl__store *store)
{
    struct peers peers = {.candidates = &store->candidates};
    store->candidates.count = 0;
    if (find_peer(store, &peers.peer)) {
        for_each(hide_if_peer, &peers);
    }
}

/* --- the socket, kept beyond the library's close --------------------------------------------- */

/* Those of all sessions that are being closed now, so that none takes another's for a connection of
 * its own. */
static struct zk_sockets *all_kept;
static pthread_mutex_t keeping = PTHREAD_MUTEX_INITIALIZER;

static bool is_kept(int fd)
{
    for (const struct zk_sockets *sockets = all_kept; sockets; sockets = sockets->next) {
        for (int i = 0; i < sockets->count; i++) {
            if (sockets->each[i].kept == fd) {
                return true;
            }
        }
    }
    return false;
}

static void drop(struct zk_sockets *sockets)
{
    for (int i = 0; i < sockets->count; i++) {
        close(sockets->each[i].kept);
    }
    sockets->count = 0;
}

static void keep_if_peer(int fd, void *arg)
{
    struct zk_sockets *sockets = arg;
    if (!sockets->full && !is_kept(fd) && is_peer(fd, &sockets->peer) &&
        is_candidate(sockets->candidates, inode_of(fd))) {
        int kept = sockets->count < ZK_SOCKETS ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
        if (kept >= 0) {
            sockets->each[sockets->count++] = (struct zk_socket){fd, kept, inode_of(kept)};
        }
        sockets->full = kept < 0;
    }
}

void zkl__zk_keep_sockets(const struct zkl__store *store, struct zk_sockets *sockets)
{
    *sockets = (struct zk_sockets){.candidates = &store->candidates};
    pthread_mutex_lock(&keeping);
    sockets->next = all_kept;
    all_kept = sockets;
    if (find_peer(store, &sockets->peer)) {
        for_each(keep_if_peer, sockets);
    }
    if (sockets->full) {
        drop(sockets);
    }
    pthread_mutex_unlock(&keeping);
}

bool zkl__zk_is_closed(const struct zk_socket *socket)
{
    pthread_mutex_lock(&keeping);
    bool closed = inode_of(socket->fd) != socket->inode || is_kept(socket->fd);
    pthread_mutex_unlock(&keeping);
    return closed;
}

void zkl__zk_drop_sockets(struct zk_sockets *sockets)
{
    pthread_mutex_lock(&keeping);
    struct zk_sockets **at = &all_kept;
    while (*at != sockets) {
        at = &(*at)->next;
    }
    *at = sockets->next;
    drop(sockets);
    pthread_mutex_unlock(&keeping);
}
