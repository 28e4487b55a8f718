/* inside.h - the session's own memory, for the files of this folder only. */
#ifndef ZKL_SESSION_INSIDE_H
#define ZKL_SESSION_INSIDE_H

#include "digest.h"
#include "error.h"
#include "shell.h"
#include "store.h"

#include <zklock/session.h>

#include <stdatomic.h>
#include <sys/types.h>

/* === the seal ================================================================================= */

/* An identity that is this session's own and nobody else's, and the access list with which
 * only it may write a znode. */

#define ZKL__SEAL_USER "zklock:" /* what audit logs of the servers show */
#define ZKL__SEAL_DIGITS 32      /* hexadecimal: 128 random bits */

struct zkl__seal {
    bool on;
    char credentials[sizeof ZKL__SEAL_USER + ZKL__SEAL_DIGITS]; /* of the digest scheme */
    char identity[sizeof ZKL__SEAL_USER + ZKL__SEAL_DIGITS + ZKL__DIGEST_ROOM];
    zkl_acl_entry entries[2];
    zkl_acl acl; /* points into it: not to be moved */
};

/* Off where the user says who may do what: with credentials, a transport that brings them, or an
 * access list of his. False: the kernel has no random bytes. */
bool zkl__seal_make(struct zkl__seal *seal, const zkl_session_options *options);
void zkl__seal_wipe(struct zkl__seal *seal);

/* === the session ============================================================================== */

#define ZKL__NOTICES 16 /* changes of state kept for a state_fn that is slow */

/* A thread in zkl__session_wait. */
struct zkl__sleeper {
    struct zkl__signal *signal;
    struct zkl__sleeper *next, *prev;
};

/* zkl_session_close, or its asynchronous form. */
struct zkl__closing {
    int line; /* where it goes on */
    bool begun;
    int64_t deadline;
    zkl_done_fn done; /* NULL: it blocks. Else: */
    void *payload;
    struct zkl__alarm alarm;
    struct zkl__callback callback; /* the last one of the session */
    bool parting;                  /* store is no more the session's, and being closed: */
    struct zkl__store *store;
    bool nothing_left; /* the servers have ended the session */
    int code;
};

struct zkl_session {
    /* written at open, then only read */
    zkl_heap heap;
    pid_t pid;
    uint64_t process; /* zkl__process */
    struct zkl__settings settings;
    const struct zkl__store_ops *store_ops;
    char whoami[128];
    struct zkl__seal seal; /* switched off under the mutex, when the servers refuse it */

    atomic_uint refs;
    pthread_mutex_t mutex; /* guards everything below; taken before any lock of a store's */
    struct zkl__core *core;
    struct zkl__alarms alarms;
    struct zkl__alarm core_alarm; /* the core's next time */
    struct zkl__alarm tick_alarm; /* the store's */
    struct zkl__retry open;       /* a store has to be opened */
    struct zkl__alarm stop_alarm; /* a stop token was raised */
    struct zkl__list stop_waits, stop_raised;
    struct zkl__stops stops; /* the session's own: wakes who sleeps */
    struct zkl__callbacks callbacks;
    struct zkl__sleeper *sleepers;
    struct zkl__object *objects;
    struct zkl__task *tasks;
    struct zkl__list calls; /* calls; asynchronous ones until their done has returned */
    struct zkl__status status;
    struct zkl__closing closing;

    struct zkl__store *store; /* changed by the alarms' thread alone, while that runs */
    bool opening;             /* events of a new store wait until it is in its place */

    struct zkl__callback notice;
    zkl_connection_state notices[ZKL__NOTICES];
    unsigned notice_count;
};

/* shell.c; inside */
void zkl__session_wake(zkl_session *session); /* every sleeper */

/* events.c; inside */
struct zkl__port zkl__session_port(zkl_session *session);
void zkl__session_set_state(zkl_session *session, zkl_connection_state state, int why);
/* From now on state_fn is called for every change; also for one that has come already. */
void zkl__session_report_states(zkl_session *session);
/* The rings of the three alarms. */
void zkl__session_ring_core(void *session);
void zkl__session_ring_tick(void *session);
void zkl__session_ring_open(void *session);
int zkl__stop_watch(zkl_session *session, zkl_error *err);
void zkl__session_run_notice(void *session); /* not inside */

/* close.c; inside: what close waits for may be so. */
void zkl__session_poke_close(zkl_session *session);

/* make.c */
void zkl__session_free(zkl_session *session);
/* Inside. The store, which is the caller's to close; NULL: there is none. *nothing_left: the
 * servers have ended the last session, and the next one, if it comes to be, has made nothing. */
struct zkl__store *zkl__session_take_store(zkl_session *session, bool *nothing_left);
/* Inside: nothing will happen any more. */
void zkl__session_mark_closed(zkl_session *session);
/* Until the deadline, as a timeout. */
int64_t zkl__left_ms(int64_t deadline);

#endif
