/* store.h - the port: a session with a znode store.
 *
 * A store object is one session, from its first connection to its end. It is never re-used: after
 * `expired` or close a new one is opened. Two adapters: zookeeper.c and memory.c.
 *
 * Contract, which both adapters keep and tests/ compare:
 *  1. Functions of zkl__store_events are called one at a time, in the order in which things
 *     happened, on threads of the store's own, never inside a call of zkl__store_ops, and with no
 *     lock of the store held: they may submit.
 *  2. Operations of one session are applied, and get their replies, in the order submitted; a list
 *     submitted behind a create shows what the create made. A watch event is delivered before any
 *     reply that shows the new state.
 *  3. Every op for which submit returned ZKL_OK gets exactly one reply, unless close came first.
 *     When the connection is lost: first `suspended`, then a reply ZKL__RC_UNKNOWN for each op
 *     outstanding, and only then `connected` again.
 *  4. Watches outlive reconnects. A watch fires once; the same path watched twice fires once.
 *  5. After `expired` (and replies ZKL__RC_UNKNOWN for what was outstanding) nothing more is
 *     delivered.
 *  6. close ends the session on the server immediately if a server can be reached, joins every
 *     thread, delivers nothing more once it has returned, and frees the store. Not from a store's
 *     own thread. */
#ifndef ZKL_STORE_STORE_H
#define ZKL_STORE_STORE_H

#include "name.h"
#include "op.h"

#include <zklock/session.h>

struct zkl__store;

struct zkl__connection {
    int64_t session_id;
    int64_t timeout_ms; /* negotiated */
    bool fresh;         /* first connection of this session */
    int64_t began_ns;   /* fresh: CLOCK_BOOTTIME before the connect was sent: the session lives from
                           then on */
};

enum zkl__end {
    ZKL__END_NONE, /* the session goes on */
    ZKL__END_EXPIRED,
    ZKL__END_AUTH /* the credentials were refused */
};

struct zkl__store_events {
    void (*connected)(void *ctx, const struct zkl__connection *connection);
    void (*suspended)(void *ctx);
    void (*expired)(void *ctx, enum zkl__end end);
    void (*reply)(void *ctx, uint64_t id, const struct zkl__reply *reply);
    void (*watch)(void *ctx, enum zkl__watch_event event,
                  const char *path); /* path under the chroot */
    /* NULL: not wanted. `close` may have something to go on with. */
    void (*closing)(void *ctx);
    /* May be called with locks of the client library held and on any thread: only queue or copy. */
    void (*log)(void *ctx, zkl_log_level level, const char *line);
};

/* What it points to outlives the store, and close is the last to look at it. */
struct zkl__store_config {
    const char *servers; /* as zkl_session_open takes it, checked by zkl__store_find */
    int64_t timeout_ms;
    const char *auth_scheme;
    const void *auth;
    size_t auth_size;
    const zkl_acl *acl; /* default of creates; NULL: open, or creator-only with auth */
    const char *tls;    /* as in the options of a session; the in-process store takes no notice */
    const char *tls_host;
    const zkl_sasl *sasl;
    zkl_log_level log_level;
    zkl_heap heap;
    bool at_once; /* open must not wait, as for a name server or a server's certificate */
};

struct zkl__store_ops {
    bool has_observers;     /* there may be servers that do not vote: they are listed in
                               /zookeeper/config */
    size_t watch_bytes_max; /* sum of the lengths of watched paths that one session may have; 0: no
                               limit */
    size_t ops_max;         /* outstanding operations that one session may have */
    /* Starts; `connected` follows when a server responds. config, events: copied, and nothing
     * behind their pointers. ZKL_EINVAL, ZKL_ENOMEM, ZKL_ELIMIT, ZKL_ECONNECT (no name of the list
     * resolves), ZKL_EUNSUPPORTED (TLS, SASL), with words in err. *out is written before the first
     * event. May wait for a name server, unless at_once: then ZKL_EBUSY, and nothing was opened. */
    int (*open)(struct zkl__store **out, const struct zkl__store_config *config,
                const struct zkl__store_events *events, void *ctx, zkl_error *err);
    /* ZKL_OK: a reply with this id follows. Else the op was not sent: ZKL_ELIMIT (too many, too
     * large), ZKL_ENOMEM, ZKL_ECONNECT (not told connected, or dying), ZKL_EINVAL (path, a multi of
     * nothing), ZKL_EUNSUPPORTED (a container in a multi). Any thread; the caller keeps submits in
     * order. */
    int (*submit)(struct zkl__store *store, uint64_t id, const struct zkl__op *op);
    /* Periodic work of the adapter. To be called when the time
     * comes that the last call returned (INT64_MAX: it does not); at once after open and after
     * `suspended`; and within 100 ms after a submit when the last call returned INT64_MAX. More
     * often does no harm. CLOCK_BOOTTIME, ns. Not with a lock held that an event function takes;
     * may wait for a name server while there is no connection. */
    int64_t (*tick)(struct zkl__store *store, int64_t now_ns);
    /* ZKL_OK: the server ended the session. ZKL_ETIMEOUT, ZKL_ECONNECT: it will end by its timeout.
     * again_ms: NULL, or 0 where the caller need not wait. Then a store without threads
     * (libzklock_st), whose loop others run, may set it: nothing is closed yet, and close is to be
     * called again, with the time that is left, when `closing` was told, and after *again_ms at
     * most. Nothing else is called meanwhile. */
    int (*close)(struct zkl__store *store, int64_t timeout_ms, int64_t *again_ms);
    /* The reason why the session has no server, as text: the name service is silent, SASL failed.
     * Empty: nothing is known. NULL: nothing ever is. */
    void (*complaint)(struct zkl__store *store, char *text, size_t size);
};

extern const struct zkl__store_ops zkl__store_zookeeper;
extern const struct zkl__store_ops zkl__store_memory;

/* What a session learns of a znode that it may not READ. Two things changed in ZooKeeper 3.8.4 and
 * 3.9.2; Debian has added only one of them to its 3.8.0. */
enum zkl__memory_rules {
    ZKL__RULES_EVENTS_NEED_READ,   /* the default, as Debian's 3.8.0-11+deb12u2: its stat, but no
                                      watch event (CVE-2024-23944) */
    ZKL__RULES_NOTHING_NEEDS_READ, /* before that, as 3.8.0: both */
    ZKL__RULES_EXISTS_NEEDS_READ   /* as 3.8.4 and 3.9.2: neither (ZOOKEEPER-2590) */
};

/* Checks a servers string and finds its adapter: NULL with a message in err (ZKL_EINVAL) for a bad
 * one.
 */
const struct zkl__store_ops *zkl__store_find(const char *servers, zkl_error *err);
#define ZKL__HOST_LONGEST 255 /* bytes, a DNS name's limit */
/* host, host:port, [IPv6] or [IPv6]:port */
struct zkl__server {
    const char *entry; /* of this length, in the servers string */
    size_t length;
    char host[ZKL__HOST_LONGEST + 2]; /* without the brackets; cut if it is longer */
    char port[8];                     /* 2181 if it has none */
    bool has_port;
};
/* The entry at *at, which goes to the next one; NULL: there is none. It may have any form in a
 * string that zkl__store_find does not take. */
struct zkl__server zkl__server_at(const char **at);
/* The path of an op into out (ZKL__STORE_PATH bytes); false: its form is bad, or it is too long.
 * The form is that of a server: relative, an empty or dotted component, a slash at the end are bad,
 * but a sequential create may end so. */
enum { ZKL__STORE_PATH = ZKL_PATH_MAX + ZKL__NAME_LONGEST + 3 };
bool zkl__store_path(char *out, const struct zkl__op *op);
bool zkl__store_is_sequential(const struct zkl__op *op);
/* What submit says of an op whatever the state of the session is: ZKL_OK, ZKL_EINVAL,
 * ZKL_EUNSUPPORTED, ZKL_ELIMIT. part_bytes: what the store adds to each on the wire. */
int zkl__store_check(const struct zkl__op *op, size_t part_bytes);
/* What a session with credentials creates when its options name no list. */
extern const zkl_acl zkl__store_creator_only;
/* ZooKeeper's number for what became of an op; 0: none. */
int zkl__store_code(enum zkl__rc rc);
/* The first server in it that is named without a port, so that 2181 is tried, and the length of
 * that name; NULL: there is none. servers: one that zkl__store_find takes. */
const char *zkl__store_without_port(const char *servers, size_t *length);

#endif
