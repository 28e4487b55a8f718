/* notify.h - words for the service manager, as sd_notify(3) has them: one datagram each. */
#ifndef CLI_NOTIFY_H
#define CLI_NOTIFY_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

struct notify {
    int socket; /* -1: no service manager asked for words */
    struct sockaddr_un to;
    socklen_t to_size;
};

/* Takes $NOTIFY_SOCKET out of the environment, so that CMD does not speak for us. False after it was said what is wrong with it. */
bool notify_open(struct notify *notify);
/* One or more lines KEY=VALUE. What cannot be sent is not: nobody's lock depends on it. notify may be NULL. */
void notify_say(const struct notify *notify, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
