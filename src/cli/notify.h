/* notify.h - words for the service manager, as sd_notify(3) has them: one datagram each. */
#ifndef CLI_NOTIFY_H
#define CLI_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <zklock/zklock.h>

struct notify {
    int socket; /* -1: no service manager asked for words */
    struct sockaddr_un to;
    socklen_t to_size;
    /* Of the watchdog: */
    int64_t every_ms; /* half of what it allows; 0: there is none */
    int64_t said_ms;  /* CLOCK_MONOTONIC, as the next one */
    int64_t moved_ms; /* when the session was last seen to do something by itself */
    uint64_t requests;
};

/* Takes $NOTIFY_SOCKET and the watchdog's variables out of the environment, so that CMD does not
 * speak for us. False after it was said what is wrong with it. */
bool notify_open(struct notify *notify);
/* Tells the watchdog, when it is time, that we live; to be called from every loop that waits. Not
 * when the session is connected and has sent nothing for a session timeout, though it speaks four
 * times in that: then its thread hangs, and a restart is what helps. */
void notify_alive(struct notify *notify, zkl_session *session);
/* timeout_ms (-1: none), or less, so that the watchdog is told in time. */
int notify_patience(const struct notify *notify, int timeout_ms);
/* One or more lines KEY=VALUE. What cannot be sent is not: nobody's lock depends on it. notify may
 * be NULL. */
void notify_say(const struct notify *notify, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
