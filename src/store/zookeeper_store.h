/* zookeeper_store.h - what the files of the ZooKeeper adapter share. Nobody else includes it.
 *
 * Ownership of an operation. `struct zk_op` is handed to the client library as the context of its
 * completion, and belongs to the library until that completion ran or zookeeper_close returned: it
 * is freed at no other time. Told to the session is another matter: at a loss of connection we
 * reply ZKL__RC_UNKNOWN ourselves immediately (the library may do so late, or never:
 * ZOOKEEPER-2894, ZOOKEEPER-3868), mark the op replied, and its completion, if it comes, only frees
 * it. */
#ifndef ZKL_STORE_ZOOKEEPER_STORE_H
#define ZKL_STORE_ZOOKEEPER_STORE_H

#include <zookeeper/zookeeper.h>

#include "base.h"
#include "collections.h"
#include "store.h"
#include "thread.h"

struct zk_part {
    char *path; /* sent; of a create, where the library then writes the path that it made */
    struct ACL_vector acl; /* of a create */
    struct Stat stat;      /* of a set */
};

struct zk_op {
    struct zkl__link link; /* first of all in it */
    struct zkl__store *store;
    uint64_t id;
    int64_t sent_ns; /* CLOCK_BOOTTIME */
    enum zkl__op_kind kind;
    bool container; /* create of one */
    bool replied;
    /* Of a multi, in one block: they outlive the call, for the library writes into them when the
     * answer comes. */
    size_t part_count;
    struct zk_part *parts;
    zoo_op_t *zoo;
    zoo_op_result_t *results;
    struct zkl__reply *replies;
};

enum zk_phase {
    ZK_OPEN,
    ZK_CLOSING, /* close waits for the last responses: they are delivered, nothing new is accepted
                 */
    ZK_CLOSED   /* nothing is delivered any more */
};

#define ZK_ADDRESS_MAX 96 /* "fe80::...%interface:65535" */
#define ZK_ADDRESSES_MAX 255
#define ZK_LIST_MAX ((ZK_ADDRESSES_MAX + 1) * (ZK_ADDRESS_MAX + 1))
/* What the handshakes with the servers showed: what stands last counts. */
enum zk_trust {
    ZK_UNCHECKED,
    ZK_SILENT,
    ZK_UNTRUSTED,
    ZK_TRUSTED,
    ZK_MISNAMED /* the library would take it for the server it is not */
};
/* What is known of the servers' addresses, in lists as the library takes them. */
struct zk_names {
    pthread_mutex_t mutex;
    struct zkl__signal answered;
    size_t holders; /* the store, each thread that resolves a name, and the one that starts them */
    bool numeric;   /* addresses already: the list never changes */
    bool complete;  /* the list has the addresses of all names, not only of those that were quick */
    bool checked;   /* the servers' certificates are right, or there is no TLS */
    enum zk_trust trust;          /* since the last resolution began */
    char why[ZKL_ERROR_TEXT_MAX]; /* there is no list */
    void *tls;                    /* OpenSSL's context for the handshakes; NULL: there are none */
    const char *tls_host;         /* NULL: each server's own */
    size_t found_count;           /* since the last resolution of all names began */
    char found[ZK_ADDRESSES_MAX][ZK_ADDRESS_MAX];
    char list[ZK_LIST_MAX]; /* the last result; empty: none yet, or no name resolves */
    char servers[];         /* as zkl__store_find takes it, and behind it tls_host */
};
struct zk_drive;
struct addrinfo;

/* Handles that are being closed: a blocked SSL_connect may hold one up. */
#define ZK_PARTING_MOST 8
#define ZK_SOCKETS 64
/* The sockets that had the session's server as their peer when its connection came up: a later one
 * is not the session's. */
struct zk_candidates {
    struct zk_socket {
        int fd;
        unsigned long inode;
    } each[ZK_SOCKETS];
    int count; /* more than ZK_SOCKETS: none is known */
};

/* What has been read behind closeSession: frames, each with its length and its xid. */
struct zk_goodbye {
    unsigned char head[8];
    size_t have, skip; /* bytes of the head; of the rest of its frame */
};

struct zkl__store {
    zkl_heap heap;
    struct zkl__store_events events;
    void *ctx;
    struct zkl__store_config config; /* with its default list */
    int log_slot;                    /* -1: none */
    log_callback_fn log_fn;
    pthread_mutex_t complaint_mutex;    /* nothing is called with it held */
    char complaint[ZKL_ERROR_TEXT_MAX]; /* the library's last error line about SASL */
    const char *chroot;                 /* "/a/b", or ""; the servers string's, until close */
    bool auth_given;                    /* the library has the credentials, and sends them itself */
    size_t part_bytes;                  /* of each operation, for its chroot and its default list */
    struct zk_names *names;
    struct zk_drive *drive; /* where there is no thread, else NULL */

    /* Protects what follows, and keeps submits and probes out of zookeeper_close. Held while zoo_a*
     * functions run, never while a function of `events` does (the log apart, which only queues). */
    pthread_mutex_t mutex;
    struct zkl__signal changed; /* for close, which waits for all responses */
    zhandle_t *zh;              /* NULL until an address is known */
    /* Lists of addresses; NULL: none yet. */
    char *addresses;    /* the last result that was seen */
    char *given;        /* those that zh was given: no attempt of this round hung at them */
    int64_t began_ns;   /* before zh was made */
    int64_t limit_ns;   /* of each attempt of this round to get a first connection */
    int64_t attempt_ns; /* when the present one is given up */
    int parting;        /* threads that close handles */
    zhandle_t *unclosed[ZK_PARTING_MOST]; /* given up, and there was no thread to close them */
    int unclosed_count;
    bool parted;   /* zh is closed */
    bool orphaned; /* closed: the last of them frees the store */
    enum zk_phase phase;
    bool linked;        /* the library has a connection */
    bool up;            /* `connected` was delivered, and neither `suspended` nor `expired` since */
    bool ever;          /* there has been a connection, so there may be a session */
    int64_t timeout_ms; /* the shortest that its connections negotiated */
    bool fresh_reported; /* the first `connected` was delivered */
    enum zkl__end end;   /* expired, or credentials refused */
    bool drained;        /* closing: a probe had its response on this connection */
    int64_t answered_ns; /* when the last op was sent to which this connection had a response; 0:
                            none */
    bool no_containers;  /* the server does not know them */
    struct zkl__list waiting; /* without a reply, in order of submission */
    struct zkl__list replied; /* replied by us, still the library's */
    size_t op_count;          /* of both */
    int64_t drain_ns;         /* closing: since when */
    int64_t probe_ns;         /* and when to ask next */
    bool all_read;            /* closed: every response was read before */
    int close_code;           /* and what close returns, if the server does not confirm that */
    size_t probe_count;       /* exists("/") of our own, unanswered */
    int64_t resolve_ns;       /* when to ask for addresses next */
    int64_t nudge_ns;         /* when the last nudge was sent */
    bool inside;           /* the completion thread is in a callback of ours, and may be telling */
    int64_t part_deadline; /* until then close waits for the response to closeSession */
    bool confirmed;        /* the response came */
    struct zk_candidates candidates; /* of which one is the connection's socket */
};

/* zookeeper.c */
/* The one watcher of everything; its context is the store, which outlives the handle. */
void zkl__zk_watcher(zhandle_t *zh, int type, int state, const char *path, void *ctx);
/* When no other thread uses it any more. */
void zkl__zk_free(struct zkl__store *store);

/* The library gives its log callback no context, so each store has a function of its own from a
 * fixed set. When all are taken, lines are dropped. */
void zkl__zk_log_open(struct zkl__store *store);
/* Nothing is logged any more, nor being logged when it returns. Not with a lock held that a log
 * function takes. */
void zkl__zk_log_mute(struct zkl__store *store);
void zkl__zk_log_close(struct zkl__store *store);

/* zookeeper_secure.c */
int zkl__zk_secure_check(const struct zkl__store_config *config, zkl_error *err);
/* Whether a client library of that version speaks TLS without a certificate of its own: from 3.10
 * on (zookeeper.c, init_ssl_for_socket). Older ones load a file that was not named, and never
 * connect. */
bool zkl__zk_takes_ca_alone(const char *version);
/* zookeeper_init2, or what is in its place; NULL with errno. */
zhandle_t *zkl__zk_init(const struct zkl__store *store, const char *list);
/* An OpenSSL context with these files; NULL without TLS. ZKL_EINVAL: the files are bad. */
int zkl__zk_tls_load(void **ctx, const char *tls, zkl_error *err);
void zkl__zk_tls_unload(void *ctx);
/* A handshake with a server of that name at each address: why it is not trusted. Takes a second for
 * each address that is silent, up to four for one that goes on sending. */
enum zk_trust zkl__zk_tls_judge(void *ctx, const char *name, const struct zkl__server *server,
                                const struct addrinfo *list, zkl_error *why);

/* zookeeper_addresses.c */
/* None of these but _wait waits. ZKL_OK, ZKL_ENOMEM, ZKL_EINVAL: the files for TLS are bad. */
int zkl__zk_names_new(struct zk_names **names, const struct zkl__store_config *config,
                      zkl_error *err);
void zkl__zk_names_drop(struct zk_names *names);
/* Asks the name service, and with TLS the servers for their certificates until these are right, on
 * a thread for each name; nothing to ask when these are addresses, or when it is being asked. The
 * list stays empty until one server at least has a certificate that is trusted and has its name,
 * and none that can be reached has one of another name. */
void zkl__zk_names_resolve(struct zk_names *names);
/* Waits until nothing is being asked; false at the timeout. */
bool zkl__zk_names_wait(struct zk_names *names, int64_t timeout_ms);
/* Why there is no list. */
void zkl__zk_names_why(struct zk_names *names, char *text, size_t size);
/* New addresses, if there are any: to the library, or for a start with them. With the mutex held.
 */
int zkl__zk_take_addresses(struct zkl__store *store, zkl_error *err);
/* Gives up an attempt that takes too long, and begins the next one; with the mutex held. When to
 * call it again; INT64_MAX: there is a session. */
int64_t zkl__zk_attempt_next(struct zkl__store *store, int64_t now);

/* zookeeper_threads.c; where there is no thread, src/store_st/zookeeper_loop.c. */
/* Who calls the library when there is something to do; end: before the store is freed. ZKL_OK,
 * ZKL_ENOMEM, ZKL_ELIMIT. */
int zkl__zk_drive_start(struct zkl__store *store);
void zkl__zk_drive_end(struct zkl__store *store);
/* Runs it on a thread of its own, on which the program's signal handlers do not run and which
 * nobody joins; without threads here and now. False: no thread could be started. */
bool zkl__zk_apart(void *(*run)(void *), void *arg);
/* zkl__zk_init; nobody else's program gets the library's descriptors. */
zhandle_t *zkl__zk_init_hidden(const struct zkl__store *store, const char *list);
/* The connection's socket, which has just come up; on the library's completion thread, with the
 * mutex held. It becomes one of the store's candidates. */
void zkl__zk_hide_socket(struct zkl__store *store);
/* Whether these bytes have a response: that of closeSession, for every other one has been read. The
 * event of a watch may come before it, and is none. */
bool zkl__zk_goodbye(struct zk_goodbye *goodbye, const void *bytes, size_t size);
/* exists("/"), with the mutex held. Its response proves that all earlier ones have arrived. */
void zkl__zk_probe(struct zkl__store *store);
/* Closes a handle that was given up, without waiting for that; with the mutex held. */
void zkl__zk_part_from(struct zkl__store *store, zhandle_t *given_up);
/* Ends the session and the handle. Sets `heard` when the
 * server has said goodbye. With threads, they may go on with it beyond the deadline. Without,
 * false: to be called again when the loop tells `closing`, and at the deadline. */
bool zkl__zk_part(struct zkl__store *store, int64_t deadline);

#endif
