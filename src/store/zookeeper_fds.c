/* zookeeper_fds.c - the client library's descriptors are not for other programs.
 *
 * The library (3.8.0) opens its socket and its pipe without FD_CLOEXEC, and gives neither away: a
 * program that is started gets an authenticated connection. So they are looked for. Between the
 * socket's making and the session's coming up, some milliseconds, it stays open for others; nothing
 * was authenticated on it then. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>

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

struct peer {
    struct sockaddr_storage address;
    socklen_t size;
};

/* Other connections of this process to the same server are a ZooKeeper client's, too. */
static void hide_if_peer(int fd, void *arg)
{
    const struct peer *wanted = arg;
    struct peer peer = {.size = sizeof peer.address};
    if (getpeername(fd, (struct sockaddr *)&peer.address, &peer.size) == 0 &&
        peer.size == wanted->size && memcmp(&peer.address, &wanted->address, peer.size) == 0) {
        close_on_exec(fd);
    }
}

void zkl__zk_hide_socket(struct zkl__store *store)
{
    struct peer peer = {.size = sizeof peer.address};
    if (zookeeper_get_connected_host(store->zh, (struct sockaddr *)&peer.address, &peer.size)) {
        for_each(hide_if_peer, &peer);
    }
}
