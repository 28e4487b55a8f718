/* ask.h - ZooKeeper's four-letter commands ("srvr", "conf"). */
#ifndef CLI_ASK_H
#define CLI_ASK_H

#include <stdbool.h>
#include <stddef.h>

/* Sends a command to host:port; the response is all that arrives until the server closes the
 * connection. timeout_ms: for each connection, and for the whole response. False, with *why
 * (static), when there is no response. */
bool ask(const char *host, const char *port, const char *question, int timeout_ms, char *answer,
         size_t size, const char **why);

#endif
