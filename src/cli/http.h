/* http.h - elect --listen: who leads, whether this candidate takes part, and its metrics, by HTTP.
 *
 * libmicrohttpd answers in a thread of its own, so a slow client costs the lease nothing. That
 * thread reads what zklock has published here, and asks the library's functions that any thread may
 * call. It listens on the loopback address unless another one is named. */
#ifndef CLI_HTTP_H
#define CLI_HTTP_H

#include <stdbool.h>

/* What the candidate is doing, in the words of /healthz. */
enum http_standing { HTTP_QUEUED, HTTP_LEADING, HTTP_PAUSED, HTTP_UNHEALTHY, HTTP_ENDING };

/* Takes the address, "[ADDR:]PORT". False after it was said what is wrong with it. */
bool http_take_address(const char *value);
/* Without an address nobody listens, and these do nothing. */
/* Begins to listen, once there is a session. False after it was said why. */
bool http_open(void);
void http_stands(enum http_standing standing);
void http_close(void);

#endif
