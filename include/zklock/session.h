/* zklock/session.h - a session with the ensemble: what locks are made from.
 *
 * One session per process is the usual thing: all its locks share one connection, one heartbeat and
 * one lease.
 *
 * Threads. Every function here may be called from any thread. Callbacks run on a thread of the
 * session's own (or in zkl_session_dispatch), one at a time, never with a lock of the library held;
 * a callback may call anything but zkl_session_close. One rule has to be known: calls that END an
 * object (its free, zkl_session_close, zkl_partition_stop) deliver what that object still owes
 * (done of a pending acquire, revoked) before they return, in both modes, and where the session has
 * no thread that could, or from a callback, they run it inline: freeing B in A's callback runs B's
 * inside A's. So do not hold a mutex of yours, which such a callback takes, around them. On an
 * object that is being freed nothing begins again (ZKL_ECANCELED). No other call runs a callback,
 * but zkl_session_dispatch. A callback that blocks delays other callbacks and nothing else: no
 * heartbeat, no grant. The library's threads, named "zklock", block all signals but those of their
 * own faults: a callback that starts another program has to set that program's signal mask.
 *
 * libzklock_st has no thread of its own: what is said here of the library's threads is done, in the
 * thread that all sessions belong to, by calls that wait and by zkl_session_dispatch
 * (docs/packaging.md#libzklock_st-no-thread-of-its-own).
 *
 * pthread_cancel. No call is a cancellation point: a thread that is cancelled in one, or in a
 * function of the user's that the call runs (under zkl_with_lock, zkl_election_run, zkl_once_run,
 * in zkl_session_dispatch), goes on until the call has returned, and ends at the next cancellation
 * point of its own. What it holds then stays held. Waits are ended by zkl_lock_cancel. Neither
 * PTHREAD_CANCEL_ASYNCHRONOUS nor pthread_exit is for such a function.
 *
 * fork. In the child of a fork every call on the parent's session fails with ZKL_EFORKED and
 * touches nothing; the child opens its own session. The C library does not repair its own locks
 * there: if another thread is in getaddrinfo at the fork, as a session's is that looks for a
 * server, that open gets no connection. Where the parent has had a session, it ends by its time all
 * the same, or half a second later, and leaves a thread behind, as zkl_session_close does (the done
 * of zkl_session_close_async is not called then); else, and in libzklock_st, it may hang. Fork
 * while the sessions are connected, or execute a program. A callback may fork; when the child
 * returns from it, no other callback runs there: zkl_session_dispatch, zkl_session_close or
 * zkl_partition_stop returns ZKL_EFORKED, a free returns, or, on a thread of the session, the child
 * process ends.
 *
 * Errors. Each function names its own. Besides those, a function that returns a code may return
 * ZKL_EINVAL (an argument is NULL or out of range: the text says which), ZKL_EFORKED, and
 * ZKL_ECLOSED once the session is closed. One that returns something else gives 0, false or the
 * value of an idle object then. */
#ifndef ZKLOCK_SESSION_H
#define ZKLOCK_SESSION_H

#include <zklock/stop.h>
#include <zklock/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum zkl_connection_state {
    ZKL_SESSION_CONNECTED, /* talking to a server */
    ZKL_SESSION_SUSPENDED, /* no server; the session may still be alive: holders are in jeopardy */
    ZKL_SESSION_LOST,  /* the servers ended the session; what was held is lost. A new one is being
                          opened */
    ZKL_SESSION_CLOSED /* by zkl_session_close, or for good (authentication refused) */
} zkl_connection_state;

typedef void (*zkl_session_state_fn)(zkl_session *session, zkl_connection_state state,
                                     void *payload);

typedef enum zkl_log_level {
    ZKL_LOG_ERROR = 1,
    ZKL_LOG_WARN,
    ZKL_LOG_INFO,
    ZKL_LOG_DEBUG
} zkl_log_level;
/* What there is to log, as one line and in parts. No newline, control characters escaped, never a
 * secret. */
typedef struct zkl_log_record {
    zkl_log_level level;
    const char *line;   /* "/locks/backup#3: held -> lost: the lease ended" */
    const char *source; /* "session"; an object: "lock", "read lock", ...; "contender"; "client":
                           libzookeeper */
    const char *path;   /* of the object, or the contender's queue; NULL: it is about none */
    unsigned contender; /* number of the contender among the session's; 0: it is about none */
    const char *text;   /* what happened */
} zkl_log_record;
/* The record lives until the function returns. Called on threads of the library, possibly with its
 * locks held: copy and return; call nothing of the library. */
typedef void (*zkl_log_fn)(const zkl_log_record *record, void *payload);

typedef enum zkl_callbacks {
    ZKL_CALLBACKS_THREAD,  /* on a thread of the session, started with the first callback wanted */
    ZKL_CALLBACKS_DISPATCH /* in zkl_session_dispatch, when zkl_session_fd is readable */
} zkl_callbacks;

/* Whether an observer of the ensemble follows a follower (observerMasterPort) instead of the
 * leader. The lease then rests on a chain of two stages, which leaves a holder less: 2.7 s instead
 * of 5.9 s with the defaults (docs/lease.md#what-it-costs). */
typedef enum zkl_observer_masters {
    /* no server has an observerMasterPort. Not true, and the lease is unsound */
    ZKL_OBSERVER_MASTERS_NONE = -1,
    /* two stages if the servers' configuration lists an observer or is not readable */
    ZKL_OBSERVER_MASTERS_DETECT = 0,
    ZKL_OBSERVER_MASTERS_SOME = 1 /* some may: two stages, whatever the configuration says */
} zkl_observer_masters;

/* How to authenticate by SASL. Copied, but for the callbacks. */
typedef struct zkl_sasl {
    const char *mechanisms; /* "GSSAPI", "DIGEST-MD5", ... */
    const char *service;    /* "zookeeper"; NULL: that */
    const char *host;       /* the servers' name in their credentials */
    const void *callbacks; /* sasl_callback_t[] of Cyrus SASL, the caller's until close; NULL: none.
                              The caller calls sasl_client_init */
} zkl_sasl;

typedef struct zkl_session_options {
    size_t size;                /* sizeof(zkl_session_options): set by the _INIT */
    int64_t session_timeout_ms; /* requested. The lock of a dead holder is free after this and 1.5
                                   ticks: 13 s with the defaults
                                   (docs/failure-model.md#after-a-crash). 100 at least. 10000 */
    /* the servers' tickTime: not below the real one, or the lease is unsound. 2000 */
    int64_t tick_ms;
    int64_t leader_pause_ms;    /* the longest freeze of the ZooKeeper leader that the lease must
                                   survive. 500 */
    int64_t connect_timeout_ms; /* for zkl_session_open, and the bound of a try's wait for the
                                   server. 10000 */
    const char *auth_scheme;    /* "digest"; NULL: none */
    const void *auth;           /* credentials, copied and wiped at close */
    size_t auth_size;
    /* Of everything created. NULL: creator-only with credentials, else world:anyone:all. A few
     * entries that stay the same: see docs/ensemble.md#access-lists. */
    const zkl_acl *acl;
    /* Called for every change, in order. If it blocks while more than 16 changes wait for it, 16 of
     * them are kept: losses before all others, then the latest. */
    zkl_session_state_fn state_fn;
    void *state_payload;
    zkl_log_fn log_fn; /* NULL: silence */
    void *log_payload;
    zkl_log_level log_level; /* the most verbose level wanted. ZKL_LOG_INFO */
    zkl_callbacks callbacks;
    const zkl_heap *heap; /* NULL: malloc and free */
    /* Only where the ZooKeeper client library that is linked has them, else zkl_session_open
     * returns ZKL_EUNSUPPORTED; one of the two. Debian 12's has neither: see
     * SECURITY.md#tls-and-sasl for TLS by stunnel. "memory:" ignores both. */
    /* Files: "ca.pem,cert.pem,key.pem[,password of the key]"; from ZooKeeper 3.10 on "ca.pem"
     * alone, too. That library checks the chain of the servers' certificates, not their names;
     * tls_host does, when a session opens. Copied and wiped at close. */
    const char *tls;          /* NULL: no TLS */
    const zkl_sasl *sasl;     /* NULL: no SASL */
    int64_t observer_masters; /* a zkl_observer_masters. ZKL_OBSERVER_MASTERS_DETECT */
    /* The name or address in the servers' certificates. NULL: each has the one by which servers
     * names it; "": any will do. Compared whenever a session is opened, with every server that can
     * be reached, and not again when the client library reconnects (SECURITY.md#tls-and-sasl). */
    const char *tls_host;
    zkl_stop *stop; /* ends every wait of the session (zklock/stop.h); NULL: none */
} zkl_session_options;

#define ZKL_SESSION_OPTIONS_INIT                                                               \
    {                                                                                          \
        sizeof(zkl_session_options), 10000, 2000, 500, 10000, NULL, NULL, 0, NULL, NULL, NULL, \
            NULL, NULL, ZKL_LOG_INFO, ZKL_CALLBACKS_THREAD, NULL, NULL, NULL,                  \
            ZKL_OBSERVER_MASTERS_DETECT, NULL, NULL                                            \
    }

/* Opens a session and waits for it, connect_timeout_ms at most.
 * servers: "host:port[,host:port...][/chroot]", or "memory:NAME" for the in-process store that
 * needs no server (sessions of one process that open the same NAME see the same tree). The string
 * and the options are copied. Errors: ZKL_ECONNECT (no server responded in time), ZKL_EAUTH,
 * ZKL_ENOENT (no such chroot; it is never created), ZKL_EINVAL (servers, options, or a session
 * timeout too short for a lease: the text has the numbers), ZKL_ELIMIT (threads, descriptors),
 * ZKL_EUNSUPPORTED (TLS or SASL, not in the client library), ZKL_ENOMEM. *out is NULL on any
 * failure, as for every constructor; the caller closes it with zkl_session_close. After a failure a
 * thread of the client library may take five seconds more to end, with memory from the heap and
 * sasl->callbacks. */
ZKL_API int zkl_session_open(zkl_session **out, const char *servers,
                             const zkl_session_options *options, zkl_error *err);

/* Opens a session without waiting for a server. When this returns ZKL_OK, the caller may make locks
 * from *out and call their functions: a call that needs a server waits for one until its own
 * timeout. The session connects in the background until a server responds; connect_timeout_ms
 * bounds only tries (zkl_lock_acquire with timeout_ms 0). done is called once, as callbacks
 * run: with ZKL_OK when the session is connected, else with the error that
 * zkl_session_open would have returned, but never ZKL_ECONNECT: when the session is closed before a
 * server has responded it is ZKL_ECLOSED, and the text says why none has. The state callback
 * reports every change from now on. After an error the session stays ZKL_SESSION_CLOSED, and calls
 * on what was made from it return ZKL_ECLOSED. The caller closes it with zkl_session_close in
 * either case. Errors of this call itself, with *out NULL: ZKL_EINVAL, ZKL_ECANCELED (options.stop
 * is raised), ZKL_ELIMIT, ZKL_ENOMEM. */
ZKL_API int zkl_session_open_async(zkl_session **out, const char *servers,
                                   const zkl_session_options *options, zkl_done_fn done,
                                   void *payload, zkl_error *err);

/* Ends everything. First the flag of each function under zkl_with_lock, zkl_election_run or
 * zkl_once_run is raised. Such a function keeps its lock until it has returned; in that time it may
 * still record and commit, and no acquire begins. If it has not returned when the time is up, it
 * goes on without protection, and its call ends with ZKL_ECLOSED. Then pending acquires end with
 * ZKL_ECLOSED, held locks are released, callbacks finish, and the session is closed on the server.
 *
 * Waits timeout_ms at most for the server's response (ZKL_WAIT_FOREVER: no limit). ZKL_OK: the
 * server confirmed that every znode of ours is deleted, or the servers said that the session has
 * expired. (With TLS, or where the process has more than 64 connections to that server, a server
 * that ends the connection without a word is taken for one that confirms.) A leader that has been
 * replaced and does not know it yet may say that some seconds before the znodes are deleted. The
 * new leader deletes them when the session times out there, at the latest. ZKL_ETIMEOUT: there was
 * no response in time. The servers then delete the rest when the session times out, and a thread of
 * the client library may take five seconds more to end, with memory from the heap and
 * sasl->callbacks; or, in a handshake of TLS with a server that is silent, as long as that server
 * is. The session is closed either way.
 *
 * Objects made from it stay valid until freed, and return ZKL_ECLOSED. The session's own memory is
 * freed with the last of them, or immediately when there is none: after that the pointer must not
 * be used, not even for its statistics or state. Not from a callback, nor from a function under a
 * grant as above (ZKL_EDEADLK). ZKL_EDEADLK, ZKL_EINVAL (timeout_ms is below ZKL_WAIT_FOREVER):
 * nothing has happened. NULL is fine. */
ZKL_API int zkl_session_close(zkl_session *session, int64_t timeout_ms);

/* The same without waiting (zkl_done_fn in zklock/types.h), from any thread, also from a callback
 * and from a function under a grant. Everything that zkl_session_close does happens in its order,
 * within the same timeout_ms: from the return on, calls on the session and its objects end with
 * ZKL_ECLOSED. What waited is called back with ZKL_ECLOSED, what was held is released, and a
 * function under a grant has until then to return. done is the session's last callback, with what
 * zkl_session_close would have returned: ZKL_OK or ZKL_ETIMEOUT. When it is called the session is
 * closed, and the pointer must not be used any more, as behind zkl_session_close.
 *
 * ZKL_CALLBACKS_DISPATCH: keep calling zkl_session_dispatch until it returns ZKL_ECLOSED: that call
 * has called done, and there must be none after it. The descriptor is closed when it returns: done
 * is the place to take it out of an event loop. ZKL_CALLBACKS_THREAD: threads of the session may
 * take a moment more to end, with memory from the heap. If it returns another code than ZKL_OK,
 * nothing has happened. Errors: ZKL_EINVAL, ZKL_ECLOSED (closed, or being closed), ZKL_ELIMIT (no
 * thread for callbacks), ZKL_EFORKED. */
ZKL_API int zkl_session_close_async(zkl_session *session, int64_t timeout_ms, zkl_done_fn done,
                                    void *payload, zkl_error *err);

/* ZKL_CALLBACKS_DISPATCH: an eventfd, readable while callbacks wait. Owned by the session: do not
 * read or close it. -1 with ZKL_CALLBACKS_THREAD. In libzklock_st, with either: an epoll
 * descriptor, readable while there is anything to go on with; -1 when no descriptor is left. */
ZKL_API int zkl_session_fd(zkl_session *session);
/* Runs the waiting callbacks in this thread; returns how many ran, or ZKL_EUNSUPPORTED,
 * ZKL_EFORKED, ZKL_ECLOSED (all have run, and no more follow: behind zkl_session_close_async the
 * session is freed then, and the pointer must not be used again). In libzklock_st it also does
 * whatever is due before that. From several threads together, and from a callback: since callbacks
 * run one at a time, it returns 0 while one of them runs, and the descriptor is silent until that
 * one is done.
 */
ZKL_API int zkl_session_dispatch(zkl_session *session);

/* The session's state now. */
ZKL_API zkl_connection_state zkl_session_state(zkl_session *session);
/* ZooKeeper's id of the session; 0 while there is none. It is no secret: by itself it gives no
 * access. */
ZKL_API int64_t zkl_session_id(zkl_session *session);
/* What the ensemble granted of session_timeout_ms. */
ZKL_API int64_t zkl_session_timeout_ms(zkl_session *session);
/* The least lease, in ms, that a holder has between two heartbeats while all is well; in *jeopardy*
 * only a quarter of it may be left (docs/lease.md#what-it-costs). 0 before the first connection. */
ZKL_API int64_t zkl_session_least_lease_ms(zkl_session *session);
/* What the lease will have left just before its next renewal, while the servers respond. It is less
 * than the least lease when the connection is young or was idle. Work that needs N ms of lease at
 * all times may begin when this is N. 0 without a connection. */
ZKL_API int64_t zkl_session_low_lease_ms(zkl_session *session);

#ifdef __cplusplus
}
#endif
#endif
