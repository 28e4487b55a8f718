#include "notify.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define SEND_US 100000 /* a service manager that does not listen must not keep us from the lease */

/* An abstract address begins with a zero where a name has '@', and ends with its last character. */
static bool take_address(struct notify *notify, const char *name)
{
    size_t length = strlen(name);
    if ((name[0] != '/' && name[0] != '@') || length < 2 || length >= sizeof notify->to.sun_path) {
        cli_error("--notify: $NOTIFY_SOCKET is '%s': want an absolute path or @NAME, %zu bytes at most", name,
                  sizeof notify->to.sun_path - 1);
        return false;
    }
    notify->to = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(notify->to.sun_path, name, length);
    if (name[0] == '@') {
        notify->to.sun_path[0] = '\0';
    }
    notify->to_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + (name[0] == '/'));
    return true;
}

bool notify_open(struct notify *notify)
{
    struct timeval patience = {.tv_usec = SEND_US};
    const char *name = getenv("NOTIFY_SOCKET");
    *notify = (struct notify){.socket = -1};
    if (!name || !*name) {
        return true; /* started by hand */
    }
    if (!take_address(notify, name)) {
        return false;
    }
    unsetenv("NOTIFY_SOCKET");
    notify->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (notify->socket < 0 || setsockopt(notify->socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) != 0) {
        cli_error("--notify: %s", strerror(errno));
        return false;
    }
    return true;
}

void notify_say(const struct notify *notify, const char *format, ...)
{
    char text[512];
    va_list arguments;
    if (!notify || notify->socket < 0) {
        return;
    }
    va_start(arguments, format);
    int size = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    size_t length = size < 0 ? 0 : (size_t)size < sizeof text ? (size_t)size : sizeof text - 1;
    sendto(notify->socket, text, length, MSG_NOSIGNAL, (const struct sockaddr *)&notify->to, notify->to_size);
}
