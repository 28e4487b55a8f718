/* http.h - elect --listen: who leads, whether this candidate takes part, and its metrics, by HTTP.
 *
 * libmicrohttpd answers in a thread of its own, so a slow client costs the lease nothing. That
 * thread reads what zklock has published here, and asks the library's functions that any thread may
 * call. It listens on the loopback address unless another one is named. */
#ifndef CLI_HTTP_H
#define CLI_HTTP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "contend.h"

struct MHD_Daemon;

/* What the candidate is doing, in the words of /healthz. */
enum http_standing { HTTP_QUEUED, HTTP_LEADING, HTTP_PAUSED, HTTP_UNHEALTHY, HTTP_ENDING };

struct http {
    const char *address; /* "[ADDR:]PORT"; NULL: nobody listens, and every function does nothing */
    struct MHD_Daemon *daemon;
    const struct contend *contend;
    zkl_election_observer *observer;
    pthread_mutex_t mutex; /* over what follows */
    enum http_standing standing;
    int64_t token; /* of our term; 0: we do not lead */
    bool known;    /* who leads */
    char leader_node[256], leader_value[512];
    int64_t leader_token; /* 0: nobody stands */
};

/* Says what is wrong with the address, before anything is started. */
bool http_check(const char *address);
/* Begins to listen, once there is a session. False after it was said why. */
bool http_open(struct http *http, const struct contend *contend);
void http_stands(struct http *http, enum http_standing standing);
void http_close(struct http *http);

#endif
