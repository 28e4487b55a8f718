#include "notify.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli.h"
#include "clock.h"

/* A service manager that does not listen must not keep us from the lease. */
#define SEND_US 100000

static struct {
    int socket; /* -1: no service manager asked for words */
    struct sockaddr_un to;
    socklen_t to_size;
    /* Of the watchdog: */
    int64_t every_ms; /* half of what it allows; 0: there is none */
    int64_t said_ms;  /* CLOCK_MONOTONIC, as the next one */
    int64_t moved_ms; /* when the session was last seen to do something by itself */
    uint64_t requests;
} notify = {.socket = -1};

/* An abstract address begins with a zero where a name has '@', and ends with its last character. */
static bool take_address(const char *name)
{
    size_t length = strlen(name);
    if ((name[0] != '/' && name[0] != '@') || length < 2 || length >= sizeof notify.to.sun_path) {
        cli_error(
            "--notify: $NOTIFY_SOCKET is '%s': want an absolute path or @NAME, %zu bytes at most",
            name, sizeof notify.to.sun_path - 1);
        return false;
    }
    notify.to = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(notify.to.sun_path, name, length);
    if (name[0] == '@') {
        notify.to.sun_path[0] = '\0';
    }
    notify.to_size =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + (name[0] == '/'));
    return true;
}

/* As sd_watchdog_enabled(3): what is not for this process, or no number, is not for us. */
static int64_t take_watchdog(void)
{
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    char *end = NULL;
    bool ours = !pid || strtoll(pid, NULL, 10) == (long long)getpid();
    int64_t allowed_us = usec ? strtoll(usec, &end, 10) : 0;
    bool fine = ours && end && !*end && allowed_us > 0;
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    return fine ? allowed_us / 2000 + 1 : 0;
}

bool notify_open(void)
{
    struct timeval patience = {.tv_usec = SEND_US};
    const char *name = getenv("NOTIFY_SOCKET");
    notify.every_ms = take_watchdog();
    if (!name || !*name) {
        return true; /* started by hand */
    }
    if (!take_address(name)) {
        return false;
    }
    unsetenv("NOTIFY_SOCKET");
    notify.socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (notify.socket < 0 ||
        setsockopt(notify.socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) != 0) {
        cli_error("--notify: %s", strerror(errno));
        return false;
    }
    return true;
}

bool notify_is_open(void)
{
    return notify.socket >= 0;
}

/* A look at the session takes its lock: who holds that for ever keeps us from saying anything, too.
 */
static bool lives(zkl_session *session, int64_t now)
{
    zkl_stats stats = ZKL_STATS_INIT;
    bool connected = zkl_session_state(session) == ZKL_SESSION_CONNECTED;
    if (zkl_session_stats(session, &stats) != ZKL_OK || !connected ||
        stats.requests != notify.requests) {
        notify.requests = stats.requests;
        notify.moved_ms = now;
    }
    return now - notify.moved_ms <= zkl_session_timeout_ms(session);
}

void notify_alive(zkl_session *session)
{
    if (notify.socket < 0 || notify.every_ms == 0 || !session) {
        return;
    }
    int64_t now = now_ms();
    if (now - notify.said_ms >= notify.every_ms && lives(session, now)) {
        notify.said_ms = now;
        notify_send("WATCHDOG=1");
    }
}

int notify_timeout(int timeout_ms)
{
    if (notify.socket < 0 || notify.every_ms == 0) {
        return timeout_ms;
    }
    int64_t left_ms = notify.said_ms + notify.every_ms - now_ms();
    left_ms = left_ms > 100 ? left_ms : 100; /* it may have been withheld: no hurry */
    return timeout_ms < 0 || left_ms < timeout_ms ? (int)left_ms : timeout_ms;
}

void notify_send(const char *format, ...)
{
    char text[512];
    va_list arguments;
    if (notify.socket < 0) {
        return;
    }
    va_start(arguments, format);
    int size = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    size_t length = size < 0 ? 0 : (size_t)size < sizeof text ? (size_t)size : sizeof text - 1;
    sendto(notify.socket, text, length, MSG_NOSIGNAL, (const struct sockaddr *)&notify.to,
           notify.to_size);
}
