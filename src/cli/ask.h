/* ask.h - ZooKeeper's four-letter questions ("srvr", "conf"): what a server says of itself. */
#ifndef CLI_ASK_H
#define CLI_ASK_H

#include <stdbool.h>
#include <stddef.h>

/* Asks host:port; the answer is what arrives until the server hangs up. timeout_ms: for the
 * connection and for each silence. False, with *why (static), when nobody answers. */
bool ask(const char *host, const char *port, const char *question, int timeout_ms, char *answer,
         size_t size, const char **why);

#endif
