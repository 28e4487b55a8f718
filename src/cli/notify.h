/* notify.h - words for the service manager, as sd_notify(3) has them: one datagram each. */
#ifndef CLI_NOTIFY_H
#define CLI_NOTIFY_H

#include <zklock/zklock.h>

/* Takes $NOTIFY_SOCKET and the watchdog's variables out of the environment, so that CMD does not
 * speak for us. False after it was said what is wrong with it. */
bool notify_open(void);
/* A service manager asked for words. */
bool notify_is_open(void);
/* Tells the watchdog, when it is time, that we live; to be called from every loop that waits. Not
 * when the session is connected and has sent nothing for a session timeout, though it speaks four
 * times in that: then its thread hangs, and a restart is what helps. */
void notify_alive(zkl_session *session);
/* timeout_ms (-1: none), or less, so that the watchdog is told in time. */
int notify_patience(int timeout_ms);
/* One or more lines KEY=VALUE. What cannot be sent is not: nobody's lock depends on it. */
void notify_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
