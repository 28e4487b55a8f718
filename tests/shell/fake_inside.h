/* fake_inside.h - what the parts of fake.h share: its connections (fake.c), and its sessions (fake_session.c). */
#ifndef ZKL_SHELL_FAKE_INSIDE_H
#define ZKL_SHELL_FAKE_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include "fake_wire.h"

#define LINKS_MAX 32
#define SESSIONS_MAX 64

struct link { /* a connection; fd -1: none */
    int fd;
    int number; /* of all connections: an answer goes where its request came from, or nowhere */
    struct jute_out in, out;
    int64_t held_until_ms;
    struct session *session;
};

struct session { /* lives until it is over and no connection knows it */
    struct fake *fake;
    struct zkl__store *store;
    int64_t id;
    int32_t timeout_ms;
    bool over;
    struct link *link;      /* NULL: its client is away */
    struct jute_out missed; /* watch events of that time */
    bool closing;           /* its client's wish, when all before it is answered */
    int32_t close_xid;
};

struct fake {
    pthread_mutex_t mutex; /* links' output, sessions */
    pthread_t thread;
    char tree[64], address[32];
    int listener, wake;
    fake_fate_fn fate_fn;
    void *payload;
    atomic_bool stop, refuses_auth;
    atomic_int requests;
    atomic_long zxid;
    atomic_int timeout_ms; /* said to clients; 0: what the session has */
    struct link links[LINKS_MAX];
    struct session *sessions[SESSIONS_MAX];
    int session_count, link_count;
};

/* With the mutex. */
void fake_link_flush(struct link *link);
void fake_link_cut(struct link *link);                                                  /* NULL is fine */
size_t fake_link_begin(struct fake *fake, struct link *link, int32_t xid, int32_t err); /* for jute_end */
void fake_link_plain(struct fake *fake, struct link *link, int32_t xid);                /* an answer without a body */

/* The server's thread looks up. With or without the mutex. */
void fake_wake(struct fake *fake);
/* Without it: the first frame of a connection, and each later one. */
void fake_session_meet(struct fake *fake, struct link *link, struct jute_in *in);
void fake_session_serve(struct fake *fake, struct link *link, struct jute_in *in);
/* Those that are closed or over go. */
void fake_session_bury(struct fake *fake);
void fake_session_free(struct session *s);

#endif
