/* store_client.h - a recorder read in order: each test takes what a store told one thing after the other. */
#ifndef ZKL_TESTS_STORE_CLIENT_H
#define ZKL_TESTS_STORE_CLIENT_H

#include "recorder.h"

struct client {
    struct recorder *recorder;
    int64_t session_id; /* of the first connection */
    size_t seen;        /* how many records were taken by client_next */
};

/* Opens what config->servers says and waits for `connected`, which client_next then skips. Without a heap: malloc. A ZKL_ code. */
int client_open(struct client *client, const struct zkl__store_config *config);
int client_open_plain(struct client *client, const char *servers);
int client_close(struct client *client);

/* The first record that was not taken yet; NULL after ten seconds of silence. */
const struct record *client_next(struct client *client);
/* Whether there is none, now. */
bool client_quiet(struct client *client);
/* Takes all records so far and up to the answer of one more operation. */
void client_drain(struct client *client);

/* Submits and waits for the reply; takes nothing. ZKL__RC_UNSENT when submit refused or the reply did not come. */
const struct zkl__reply *client_call(struct client *client, struct zkl__op op);
enum zkl__rc client_rc(struct client *client, struct zkl__op op);
/* Submits; its id, or 0 when refused. */
uint64_t client_send(struct client *client, struct zkl__op op);
/* The code of a submit. */
int client_try(struct client *client, struct zkl__op op);

/* --- ops in one line, by path; a NULL text is no data ---------------------------------------------------------------- */

struct zkl__op op_create(const char *path, const char *text, enum zkl__create_mode mode);
struct zkl__op op_delete(const char *path, int32_t version);
struct zkl__op op_set(const char *path, const char *text, int32_t version);
struct zkl__op op_check(const char *path, int32_t version);
struct zkl__op op_read(enum zkl__op_kind kind, const char *path, bool watch);
struct zkl__op op_multi(const struct zkl__op *parts, size_t count);

#endif
