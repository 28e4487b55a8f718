/* recorder.h - one store, driven by hand: what a session's shell does for a store (ticks, order), and a record of what it told.
 *
 * Waiting functions take a deadline and return NULL or false when it passes; records live until recorder_free. */
#ifndef ZKL_TESTS_RECORDER_H
#define ZKL_TESTS_RECORDER_H

#include "store.h"

enum record_kind { RECORD_CONNECTED, RECORD_SUSPENDED, RECORD_EXPIRED, RECORD_REPLY, RECORD_WATCH };

struct record {
    enum record_kind kind;
    struct zkl__connection connection;
    enum zkl__end end;
    enum zkl__watch_event watch;
    char *path; /* of a watch */
    uint64_t id;
    struct zkl__reply reply; /* a copy, the record's */
};

struct recorder;

/* For stores that are driven in another way: a deep copy, and what frees a record with it. */
void record_copy_reply(struct zkl__reply *to, const struct zkl__reply *from);
void record_free(struct record *record);

/* The usual configuration for servers: 6 s session timeout, no credentials, malloc. */
struct zkl__store_config recorder_config(const char *servers);
/* NULL when open fails; the code then is in *code and words in err (both may be NULL). */
struct recorder *recorder_open(const struct zkl__store_ops *ops, const struct zkl__store_config *config, int *code,
                               zkl_error *err);
/* Opens and waits 20 s for connected; aborts the program otherwise. */
struct recorder *recorder_connect(const struct zkl__store_ops *ops, const char *servers);
/* Closes the store: what close returned. Records stay. */
int recorder_close(struct recorder *r, int64_t timeout_ms);
/* Frees; closes first if that was not done. */
void recorder_free(struct recorder *r);

/* 0 when the store refused; code (may be NULL) says why. */
uint64_t recorder_submit(struct recorder *r, const struct zkl__op *op, int *code);
/* The reply to id. */
const struct record *recorder_reply(struct recorder *r, uint64_t id, int64_t timeout_ms);
/* Submits and waits 20 s; a reply that never comes or a refusal is a record with ZKL__RC_UNSENT. */
const struct record *recorder_do(struct recorder *r, const struct zkl__op *op);
enum zkl__rc recorder_rc(struct recorder *r, struct zkl__op op);
/* The nth (from 0) record of that kind. */
const struct record *recorder_nth(struct recorder *r, enum record_kind kind, size_t n, int64_t timeout_ms);
/* The nth (from 0) record of any kind. */
const struct record *recorder_at(struct recorder *r, size_t n, int64_t timeout_ms);
size_t recorder_count(struct recorder *r, enum record_kind kind);
/* All records so far, in order of telling. */
size_t recorder_all(struct recorder *r, const struct record **out, size_t max);

#endif
