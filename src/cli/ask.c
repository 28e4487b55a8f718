#include <netdb.h>
#include <sys/socket.h>

#include "cli.h"

/* -1 with errno. */
static int connect_one(const struct addrinfo *address, int timeout_ms)
{
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -1;
    }
    int reason = connect(fd, address->ai_addr, address->ai_addrlen) == 0 ? 0 : errno;
    if (reason == EINPROGRESS) {
        struct pollfd writable = {.fd = fd, .events = POLLOUT};
        socklen_t size = sizeof reason;
        reason = ETIMEDOUT;
        if (poll(&writable, 1, timeout_ms) == 1) {
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &reason, &size);
        }
    }
    if (reason == 0) {
        return fd;
    }
    close(fd);
    errno = reason;
    return -1;
}

static int connect_any(const char *host, const char *port, int timeout_ms, const char **why)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    int fd = -1;
    int failed = getaddrinfo(host, port, &hints, &found);
    if (failed) {
        *why = gai_strerror(failed);
        return -1;
    }
    for (struct addrinfo *address = found; address && fd < 0; address = address->ai_next) {
        fd = connect_one(address, timeout_ms);
        *why = fd < 0 ? strerror(errno) : NULL;
    }
    freeaddrinfo(found);
    return fd;
}

bool ask(const char *host, const char *port, const char *question, int timeout_ms, char *answer,
         size_t size, const char **why)
{
    int fd = connect_any(host, port, timeout_ms, why);
    if (fd < 0) {
        return false;
    }
    size_t got = 0;
    ssize_t piece = send(fd, question, strlen(question), MSG_NOSIGNAL);
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    int64_t end = now_ms() + timeout_ms, left;
    while (piece > 0 && got + 1 < size && (left = end - now_ms()) > 0 &&
           poll(&readable, 1, (int)left) == 1) {
        piece = recv(fd, answer + got, size - 1 - got, 0);
        got += piece > 0 ? (size_t)piece : 0;
    }
    answer[got] = '\0';
    close(fd);
    *why = piece == 0 ? NULL : "no response";
    return piece == 0;
}
