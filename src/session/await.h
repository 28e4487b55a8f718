/* await.h - what recipes that are no queues are made of: operations that may be repeated, and waiting for something to be so on the
 * servers. All inside enter/leave. */
#ifndef ZKL_SESSION_AWAIT_H
#define ZKL_SESSION_AWAIT_H

#include "call.h"

/* As zkl__session_call for an operation that does no harm when done twice: sent again when the connection goes, until the server has
 * answered. */
int zkl__session_insist(zkl_session *session, const struct zkl__op *op, int64_t deadline,
                        void (*look)(void *arg, const struct zkl__reply *reply), void *arg, zkl_error *err);

/* As insist, until the server has said ok, or what is as good (no node, node exists): then ZKL_OK. Its other words are errors. */
int zkl__session_change(zkl_session *session, const struct zkl__op *op, enum zkl__rc as_good, int64_t deadline,
                        zkl_error *err);

/* Makes path, persistent, and what is above it, containers, as far as it is missing. path: checked. */
int zkl__session_make(zkl_session *session, const char *path, int64_t deadline, zkl_error *err);

/* Reads, with op (get, exists or children; dir alone), until enough says true of an answer; looks again whenever a watch tells of a change, and
 * after each change of the session. enough is asked about an ok and about no node; any other word (no permission) ends it with its code. */
int zkl__session_await(zkl_session *session, const struct zkl__op *op,
                       bool (*enough)(void *arg, const struct zkl__reply *reply), void *arg, int64_t deadline,
                       zkl_error *err);

#endif
