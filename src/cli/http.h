/* http.h - elect --listen: who leads, whether this candidate takes part, and its metrics, by HTTP.
 *
 * libmicrohttpd responds in a thread of its own, so a slow client does not delay heartbeats. That
 * thread reads what zklock has published here, and calls functions of the library that any thread
 * may call. It listens on the loopback address unless another one is named. */
#ifndef CLI_HTTP_H
#define CLI_HTTP_H

#include <stdbool.h>

/* The state of the candidate, as /healthz names it. */
enum http_state { HTTP_QUEUED, HTTP_LEADING, HTTP_PAUSED, HTTP_UNHEALTHY, HTTP_ENDING };

/* Takes the address, "[ADDR:]PORT". False after a message about it. */
bool http_take_address(const char *value);
/* Without an address these do nothing. */
/* Begins to listen, once there is a session. False after a message. */
bool http_open(void);
void http_set_state(enum http_state standing);
void http_close(void);

#endif
