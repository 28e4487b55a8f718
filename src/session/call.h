/* call.h - operations that a thread waits for: one, or many reads with several on their way at a
 * time. All inside enter/leave. */
#ifndef ZKL_SESSION_CALL_H
#define ZKL_SESSION_CALL_H

#include "shell.h"

/* ns to wait before what the server put off (ZKL__RC_NOTAPPLIED) is sent again: longer each time.
 * pause: the last one, 0 at first. */
int64_t zkl__session_longer(int64_t pause);

/* Submits op and waits for the answer until the deadline. look is called with the reply (its
 * pointers end with it); may be NULL. ZKL_OK when the server answered, whatever it said;
 * ZKL_ETIMEOUT, ZKL_ECONNECT (not sent, or the connection went first: then the fate of a write is
 * unknown), ZKL_ECLOSED, ZKL_ECANCELED (by the session's stop token), ZKL_ENOMEM, with words in
 * err. */
int zkl__session_call(zkl_session *session, const struct zkl__op *op, int64_t deadline,
                      void (*look)(void *arg, const struct zkl__reply *reply), void *arg,
                      zkl_error *err);

/* The same, of what ends something: no stop token ends it. */
int zkl__session_finish(zkl_session *session, const struct zkl__op *op, int64_t deadline,
                        void (*look)(void *arg, const struct zkl__reply *reply), void *arg,
                        zkl_error *err);

struct zkl__reads {
    size_t count;
    void (*make)(void *arg, size_t index,
                 struct zkl__op *op); /* op is zeroed; its pointers live until the next make */
    void (*look)(void *arg, size_t index,
                 const struct zkl__reply *reply); /* in any order: the server's answer, or
                                                     ZKL__RC_UNSENT of what can never be sent */
    void *arg;
};
/* Reads, of which one that can never be sent (its path is too long) does not stop the others. Those
 * that a lost connection left unanswered, or that the server put off, are sent again, until the
 * deadline. ZKL_OK when all were answered, whatever was said; ZKL_ETIMEOUT, ZKL_ECLOSED,
 * ZKL_ENOMEM, with words in err. */
int zkl__session_read(zkl_session *session, const struct zkl__reads *reads, int64_t deadline,
                      zkl_error *err);

#endif
