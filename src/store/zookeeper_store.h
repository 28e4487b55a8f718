/* zookeeper_store.h - what the files of the ZooKeeper adapter share. Nobody else includes it.
 *
 * Ownership of an operation. `struct zk_op` is handed to the client library as the context of its
 * completion, and belongs to the library until that completion ran or zookeeper_close returned: it
 * is freed at no other time. Told to the session is another matter: at a loss of connection we
 * answer ZKL__RC_UNKNOWN ourselves at once (the library may do so late, or never: ZOOKEEPER-2894,
 * ZOOKEEPER-3868), mark the op told, and its completion, if it comes, only frees it. */
#ifndef ZKL_STORE_ZOOKEEPER_STORE_H
#define ZKL_STORE_ZOOKEEPER_STORE_H

#include <pthread.h>
#include <sys/socket.h>

#include <zookeeper/zookeeper.h>

#include "heap.h"
#include "store.h"

struct zk_part {
    enum zkl__op_kind kind;
    char *path; /* sent */
    char *made; /* where the library writes the created path; NULL: not a create */
    struct Stat stat;
};

struct zk_op {
    struct zk_op *next, *prev;
    struct zkl__store *store;
    uint64_t id;
    int64_t sent_ns; /* CLOCK_BOOTTIME */
    enum zkl__op_kind kind;
    bool container; /* create of one */
    bool told;
    /* of a multi: they outlive the call, the library writes into them when the answer comes */
    size_t part_count;
    struct zk_part *parts;
    zoo_op_result_t *results;
    struct zkl__reply *replies;
};

struct zk_list {
    struct zk_op *head, *tail;
};

enum zk_phase {
    ZK_OPEN,
    ZK_CLOSING, /* close waits for the last answers: they are told, nothing new is taken */
    ZK_CLOSED   /* nothing is told any more */
};

struct zk_names;
struct zk_drive;

#define ZK_SOCKETS 64
/* The sockets that had the session's server as their peer when its connection came up: a later one
 * is not the session's. */
struct zk_candidates {
    unsigned long inodes[ZK_SOCKETS];
    int count; /* ZK_SOCKETS + 1: too many to tell */
};

struct zkl__store {
    zkl_heap heap;
    struct zkl__store_events events;
    void *ctx;
    zkl_log_level log_level;
    int log_slot; /* -1: none */
    log_callback_fn log_fn;
    pthread_mutex_t complaint_mutex;    /* nothing is called with it held */
    char complaint[ZKL_ERROR_TEXT_MAX]; /* the library's last error line about SASL */
    char *chroot;                       /* "/a/b", or "" */
    size_t chroot_length;
    char *auth_scheme;
    char *auth; /* NULL once the library has it */
    size_t auth_size;
    bool sealed; /* these are the session's seal, no credentials of the user's */
    char *tls, *tls_host;
    zkl_sasl *sasl;
    struct ACL_vector acl; /* default of creates; the entries are ours when own_acl */
    bool own_acl;
    char *hosts;
    struct zk_names *names;
    struct zk_drive *drive; /* where there is no thread, else NULL */
    int64_t timeout_ms;     /* asked for */

    /* Protects what follows, and keeps submits and probes out of zookeeper_close. Held while zoo_a*
     * functions run, never while a function of `events` does (the log apart, which only queues). */
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* for close, which waits for all answers */
    zhandle_t *zh;          /* NULL until an address is known */
    char *addresses;        /* all that are known */
    char *given;            /* those that zh was given */
    char *left_out;         /* those that an attempt of this round hung at; NULL: none */
    int64_t began_ns;       /* before zh was made */
    int64_t limit_ns;       /* of each attempt of this round to get a first connection */
    int64_t attempt_ns;     /* when the present one is given up */
    int parting;            /* threads that close handles that were given up */
    bool orphaned;          /* closed: the last of them frees the store */
    enum zk_phase phase;
    bool linked;     /* the library has a connection */
    bool up;         /* told connected, and not since suspended or expired */
    bool ever;       /* there has been a connection, so there may be a session */
    bool fresh_told; /* the first `connected` was told */
    bool ended;      /* expired, or credentials refused: which, says end */
    enum zkl__end end;
    bool drained;           /* closing: a probe was answered on this connection */
    int64_t answered_ns;    /* when the last op was sent that this connection answered; 0: none */
    bool no_containers;     /* the server does not know them */
    struct zk_list waiting; /* not answered, in order of submission */
    struct zk_list told;    /* answered by us, still the library's */
    size_t op_count;        /* of both */
    int64_t drain_ns;       /* closing: since when */
    size_t probe_count;     /* exists("/") of our own, unanswered */
    int64_t wheel_ns;       /* when to turn it next; 0: not decided */
    int64_t ask_ns;         /* when to ask for addresses next */
    int64_t nudge_ns;       /* when the last nudge was sent */
    bool inside;            /* the completion thread is in a callback of ours, and may be telling */
    int64_t part_deadline;  /* until then the server's goodbye is waited for */
    bool parted;            /* zookeeper_close has returned: */
    bool heard;             /* the server has said goodbye */
    bool abandoned;         /* close has not waited for that; who parts frees */
    struct zk_candidates candidates; /* of which one is the connection's socket */
};

/* zookeeper_log.c: the library gives its log callback no context, so each store has a function of
 * its own from a fixed set. When all are taken, lines are dropped. */
void zkl__zk_log_open(struct zkl__store *store);
/* Nothing is logged any more, nor being logged when it returns. Not with a lock held that a log
 * function takes. */
void zkl__zk_log_mute(struct zkl__store *store);
void zkl__zk_log_close(struct zkl__store *store);
void zkl__zk_complaint(struct zkl__store *store, char *text, size_t size);

/* zookeeper_secure.c: TLS and SASL, where the library has them. */
int zkl__zk_secure_check(const struct zkl__store_config *config, zkl_error *err);
/* Whether a client library of that version speaks TLS without a certificate of its own: from 3.10
 * on (zookeeper.c, init_ssl_for_socket). Older ones load a file that was not named, and never
 * connect. */
bool zkl__zk_takes_ca_alone(const char *version);
/* SASL failed, of which the library tells nobody: it sets the state of the handle, and its I/O
 * thread ends (zk_sasl.c, zoo_sasl_mark_failed). With the mutex held. */
bool zkl__zk_sasl_failed(const struct zkl__store *store);
/* zookeeper_init2, or what is in its place; NULL with errno. */
zhandle_t *zkl__zk_init(const struct zkl__store *store, int timeout_ms);

/* zookeeper_tls.c: a handshake with each server that can be reached. ZKL_OK: one at least has a
 * certificate that is trusted and has its name, and none has one of another name; or there is no
 * TLS. ZKL_ECONNECT, with what is wrong; ZKL_EINVAL: the files are bad. Takes a second for each
 * server that hangs, and may wait for a name server. */
int zkl__zk_tls_check(const struct zkl__store *store, zkl_error *err);

/* zookeeper_fds.c: nobody else's program gets the library's descriptors. */
/* zkl__zk_init; the pipe that it makes is closed at an exec. */
zhandle_t *zkl__zk_init_hidden(const struct zkl__store *store, int timeout_ms);
/* The connection's, which has just come up; on the library's completion thread, with the mutex
 * held. It becomes one of the store's candidates. */
void zkl__zk_hide_socket(struct zkl__store *store);
/* Descriptors that keep connections open when the library has closed its own: of each connection
 * of this process that may be the session's, for nobody says which of them is. */
struct zk_sockets {
    struct zk_peer {
        struct sockaddr_storage address;
        socklen_t size;
    } peer;
    const struct zk_candidates *candidates;
    int count;
    bool full; /* there were more, or no descriptor was left: then none is kept */
    struct zk_socket {
        int fd, kept;
        unsigned long inode;
    } each[ZK_SOCKETS];
    struct zk_sockets *next;
};
/* With the mutex held; dropped before *sockets goes. */
void zkl__zk_keep_sockets(const struct zkl__store *store, struct zk_sockets *sockets);
void zkl__zk_drop_sockets(struct zk_sockets *sockets);
/* Its library has closed it since. */
bool zkl__zk_is_closed(const struct zk_socket *socket);

/* zookeeper_close.c */
int zkl__zk_close(struct zkl__store *store, int64_t timeout_ms);
/* One look: false while answers are still to be read and there is time; again at *wake then. With
 * the mutex held. CLOCK_MONOTONIC, ns; *ask: when to ask next, now at first. */
bool zkl__zk_drain(struct zkl__store *store, int64_t now, int64_t deadline, int64_t *ask,
                   int64_t *wake);
/* The state of the session when it was drained, as far as the result depends on it. */
struct zk_close {
    bool drained, linked, expired;
};
struct zk_close zkl__zk_drained(struct zkl__store *store); /* with the mutex held */
int zkl__zk_close_result(const struct zk_close *close, bool heard);

/* zookeeper_threads.c; where there is no thread, src/store_st/zookeeper_loop.c. */
/* Who calls the library when there is something to do; end: before the store is freed. ZKL_OK,
 * ZKL_ENOMEM, ZKL_ELIMIT. */
int zkl__zk_drive_start(struct zkl__store *store);
void zkl__zk_drive_end(struct zkl__store *store);
/* Runs it on a thread of its own, on which the program's signal handlers do not run and which
 * nobody joins; or here and now, as the constant says. False: no thread could be started. */
bool zkl__zk_apart(void *(*run)(void *), void *arg);
extern const bool zkl__zk_apart_is_here;
/* Until `changed`, or the deadline (CLOCK_MONOTONIC, ns), or for no reason. With the mutex held. */
void zkl__zk_wait(struct zkl__store *store, int64_t deadline);
/* Closes a handle that was given up, without waiting for that; with the mutex held. From the
 * store's heap, and freed. */
struct zk_parting {
    struct zkl__store *store;
    zhandle_t *zh;
};
void zkl__zk_part_from(struct zk_parting *parting);
/* Ends the session and the handle; drained: every answer has been read. Sets `heard` when the
 * server has said goodbye. False: that goes on by itself, and the store is its own now. */
bool zkl__zk_part(struct zkl__store *store, int64_t deadline, bool drained);
/* store.h, close_on. */
bool zkl__zk_close_on(struct zkl__store *store, int64_t timeout_ms, int *rc, int64_t *again_ms);

/* zookeeper.c: a handle for the addresses in `given`; with the mutex held. ZKL_OK, or errno is why
 * not. */
int zkl__zk_start(struct zkl__store *store);

/* zookeeper_attempts.c; with the mutex held. */
/* A handle was made. */
void zkl__zk_attempt_begins(struct zkl__store *store);
/* Gives up an attempt that takes too long, and begins the next one. When to call it again;
 * INT64_MAX: there is a session. */
int64_t zkl__zk_attempt_next(struct zkl__store *store, int64_t now);
/* Frees the store, or leaves that to the last handle that is being closed; without the mutex. */
void zkl__zk_release(struct zkl__store *store);

/* zookeeper_servers.c */
/* "hosts/chroot" into its halves, both the caller's to free, on failure too. ZKL_OK, ZKL_EINVAL,
 * ZKL_ENOMEM, with words. */
int zkl__zk_split(char **hosts, char **chroot, const zkl_heap *heap, const char *servers,
                  zkl_error *err);
/* The server at *at in such a list of hosts, and *at behind it; false at the end. */
bool zkl__zk_next_server(const char **at, char *host, size_t host_size, char *port,
                         size_t port_size);
/* What is known of the addresses of hosts. None of these but _wait waits. NULL: no memory. */
struct zk_names *zkl__zk_names_new(const char *hosts);
void zkl__zk_names_drop(struct zk_names *names);
/* Asks the name service, on a thread for each name; nothing to ask when hosts are addresses, or
 * when it is being asked. */
void zkl__zk_names_ask(struct zk_names *names);
/* Waits until nothing is being asked; false at the timeout. */
bool zkl__zk_names_wait(struct zk_names *names, int64_t timeout_ms);
/* The list for the library: addresses in order, an odd number; NULL when none is known. ZKL_OK,
 * ZKL_ENOMEM. */
int zkl__zk_names_list(char **list, struct zk_names *names, const zkl_heap *heap);

/* zookeeper_ops.c: the table of operations, and completions into replies. */
/* Into the table; with the mutex held, as the next three. */
void zkl__zk_op_add(struct zkl__store *store, struct zk_op *op);
void zkl__zk_op_remove(struct zk_op *op);
void zkl__zk_op_mark_told(struct zk_op *op);
/* exists("/") for nobody. Its answer proves that all earlier ones are in. */
bool zkl__zk_probe(struct zkl__store *store);
/* Not in the table any more. */
void zkl__zk_op_free(struct zk_op *op);
/* Tells ZKL__RC_UNKNOWN for every op that waits, in order. On the library's completion thread,
 * without the mutex. */
void zkl__zk_tell_unknown(struct zkl__store *store);
/* Frees what the library never completed; after zookeeper_close. */
void zkl__zk_drop_all(struct zkl__store *store);
/* Around every callback of the library's, on its completion thread. After leave nothing of the
 * store is touched. False: it is one of a handle that was given up, and there is nothing to leave.
 */
bool zkl__zk_enter(struct zkl__store *store, const zhandle_t *zh);
void zkl__zk_leave(struct zkl__store *store);
/* Completions, for zookeeper_submit.c. Their context is the op. */
void zkl__zk_created(int rc, const char *path, const struct Stat *stat, const void *data);
void zkl__zk_done(int rc, const void *data);
void zkl__zk_synced(int rc, const char *path, const void *data);
void zkl__zk_stat_came(int rc, const struct Stat *stat, const void *data);
void zkl__zk_data_came(int rc, const char *value, int length, const struct Stat *stat,
                       const void *data);
void zkl__zk_children_came(int rc, const struct String_vector *names, const struct Stat *stat,
                           const void *data);
void zkl__zk_multi_done(int rc, const void *data);

/* zookeeper_submit.c: operations into zoo_a* calls. */
int zkl__zk_submit(struct zkl__store *store, uint64_t id, const struct zkl__op *op);
/* Default list of creates, with sealed known; ZKL_OK, ZKL_ENOMEM. */
int zkl__zk_acl_copy(struct zkl__store *store, const zkl_acl *acl);
void zkl__zk_acl_free(struct zkl__store *store);

/* zookeeper_codes.c: the one table of ZooKeeper's codes. */
enum zkl__rc zkl__zk_rc(int zk_code);
/* What submit returns for a code with which a zoo_a* function refused; dead: the handle is. */
int zkl__zk_refusal(int zk_code, bool dead);

/* zookeeper.c: the one watcher of everything; its context is the store, which outlives the handle.
 */
void zkl__zk_watcher(zhandle_t *zh, int type, int state, const char *path, void *ctx);
/* On the completion thread: a probe was answered; rc is the library's. */
void zkl__zk_probed(struct zkl__store *store, int rc);
/* When nobody else knows it any more. */
void zkl__zk_free(struct zkl__store *store);

#endif
