/* await.h - what recipes that are no queues are made of: operations that may be repeated, and
 * waiting for something to be so on the servers. All inside enter/leave. */
#ifndef ZKL_SESSION_AWAIT_H
#define ZKL_SESSION_AWAIT_H

#include "call.h"

/* Waits until the session's state changes, for ns at most. False when the deadline has passed or
 * the session closed. */
bool zkl__session_pause(zkl_session *session, int64_t ns, int64_t deadline);

/* As zkl__session_call for an operation that does no harm when done twice: sent again when the
 * connection goes, and, later each time, when the server puts it off. look is called with the
 * server's answer, which is never ZKL__RC_NOTAPPLIED. */
int zkl__session_insist(zkl_session *session, const struct zkl__op *op, int64_t deadline,
                        void (*look)(void *arg, const struct zkl__reply *reply), void *arg,
                        zkl_error *err);

/* The same, of what ends something: no stop token ends it. */
int zkl__session_insist_to_end(zkl_session *session, const struct zkl__op *op, int64_t deadline,
                               void (*look)(void *arg, const struct zkl__reply *reply), void *arg,
                               zkl_error *err);

/* As insist, until the server has said ok, or what is as good (no node, node exists): then ZKL_OK.
 * Its other words are errors. */
int zkl__session_change(zkl_session *session, const struct zkl__op *op, enum zkl__rc as_good,
                        int64_t deadline, zkl_error *err);

/* Makes path, persistent, and what is above it, containers, as far as it is missing. path: checked.
 */
int zkl__session_make(zkl_session *session, const char *path, int64_t deadline, zkl_error *err);
/* What is above it alone. */
int zkl__session_make_above(zkl_session *session, const char *path, int64_t deadline,
                            zkl_error *err);

/* Waits until reads of up to two paths show what is wanted. A round: read each, then wait for a
 * change of any. */
struct zkl__vigil {
    zkl_session *session;
    struct zkl__signal signal;
    struct zkl__watch watches[2];
    bool changed; /* since the round began */
};
/* paths live as long as the vigil; the second may be NULL. ZKL_OK, ZKL_ENOMEM; ended on ZKL_OK
 * only. */
int zkl__vigil_begin(struct zkl__vigil *vigil, zkl_session *session, const char *first,
                     const char *second, zkl_error *err);
void zkl__vigil_end(struct zkl__vigil *vigil);
/* As insist, of a read (get, exists, children) of the path of that number, and watches it from then
 * on. */
int zkl__vigil_read(struct zkl__vigil *vigil, int number, const struct zkl__op *op,
                    int64_t deadline, void (*look)(void *arg, const struct zkl__reply *reply),
                    void *arg, zkl_error *err);
/* Until something that is watched has changed, the session too: the next round. ZKL_OK,
 * ZKL_ETIMEOUT, ZKL_ECLOSED. */
int zkl__vigil_wait(struct zkl__vigil *vigil, int64_t deadline, zkl_error *err);

/* Looks at those children of dir of which nothing is known, several at a time. ZKL_OK: all are
 * judged. Else as zkl__session_read. */
struct zkl__children;
int zkl__session_judge(zkl_session *session, const char *dir, struct zkl__children *children,
                       int64_t deadline, zkl_error *err);

#endif
