/* store_client.h - a session with a store (either adapter) that writes down all it is told, for tests to wait on and
 * to read. */
#ifndef ZKL_TESTS_STORE_CLIENT_H
#define ZKL_TESTS_STORE_CLIENT_H

#include <pthread.h>

#include "store.h"

enum told_kind { TOLD_CONNECTED, TOLD_SUSPENDED, TOLD_EXPIRED, TOLD_REPLY, TOLD_WATCH };

/* One thing told. Its pointers live until client_close. */
struct told {
    enum told_kind kind;
    struct zkl__connection connection;
    enum zkl__end end;
    uint64_t id;
    struct zkl__reply reply; /* a deep copy, children sorted */
    enum zkl__watch_event event;
    char *path;
};

struct client {
    struct zkl__store *store;
    const struct zkl__store_ops *ops;
    int64_t session_id; /* of the first connection */
    uint64_t ids;
    size_t seen; /* how many of the told were taken by client_next */
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    struct told **told;
    size_t count;
    bool inside; /* an event function is running */
    size_t overlaps;
};

/* Opens and waits for `connected` (which client_next then skips). config->servers says where. NULL heap: malloc. A
 * ZKL_ code. */
int client_open(struct client *client, const struct zkl__store_config *config);
/* The same with nothing but the servers string. */
int client_open_plain(struct client *client, const char *servers);
int client_close(struct client *client);

/* Next thing told that was not taken yet; NULL after ten seconds of silence. */
const struct told *client_next(struct client *client);
/* Whether nothing is told that was not taken yet, now. */
bool client_quiet(struct client *client);
/* The reply of that id, whatever else is told; NULL after ten seconds. Takes nothing. */
const struct told *client_reply(struct client *client, uint64_t id);

/* Submits; its id, or 0 when refused (*code says why, if not NULL). */
uint64_t client_send(struct client *client, const struct zkl__op *op, int *code);
/* Submits and waits for the reply; takes nothing. A reply of ZKL__RC_UNSENT when submit refused or ten seconds went
 * by. */
const struct zkl__reply *client_call(struct client *client, const struct zkl__op *op);

/* --- ops in one line ---------------------------------------------------------------------------------------------- */

struct zkl__op op_create(const char *path, const char *text, enum zkl__create_mode mode);
struct zkl__op op_delete(const char *path, int32_t version);
struct zkl__op op_set(const char *path, const char *text, int32_t version);
struct zkl__op op_check(const char *path, int32_t version);
struct zkl__op op_read(enum zkl__op_kind kind, const char *path, bool watch);
struct zkl__op op_multi(const struct zkl__op *parts, size_t count);

#endif
