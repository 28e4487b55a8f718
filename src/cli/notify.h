/* notify.h - messages to the service manager (sd_notify(3)), one datagram each. */
#ifndef CLI_NOTIFY_H
#define CLI_NOTIFY_H

#include <zklock/zklock.h>

/* Takes $NOTIFY_SOCKET and the watchdog's variables out of the environment, so that CMD sends none
 * in our name. False after a message about it. */
bool notify_open(void);
/* A service manager wants messages. */
bool notify_is_open(void);
/* Notifies the watchdog when it is due; to be called from every loop that waits. Not when the
 * session is connected and has sent nothing for a session timeout: its thread hangs then, and a
 * restart helps. */
void notify_alive(zkl_session *session);
/* timeout_ms (-1: none), or less, so that the watchdog is notified in time. */
int notify_timeout(int timeout_ms);
/* One or more lines KEY=VALUE. Dropped if it cannot be sent: no lock depends on it. */
void notify_send(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
