/* await.h - a public call that waits for servers, written as one function that reads from top to
 * bottom.
 *
 * Such a function returns at each AWAIT when what it waits for is not there yet, and is called
 * again, from its first line, whenever something may have changed. CALL_BEGIN is a `switch` on the
 * line at which it returned, AWAIT has a `case` of that line: so it goes on there, also from inside
 * a loop. This is Simon Tatham's "Coroutines in C", and the protothreads of Dunkels, Schmidt, Voigt
 * and Ali (SenSys 2006).
 *
 *     static int run(struct zkl__call *call)
 *     {
 *         struct reading *r = (struct reading *)call;      evaluated at each entry
 *         CALL_BEGIN(call);
 *         AWAIT(call, {.kind = ZKL__OP_SYNC, .dir = r->path});
 *         AWAIT(call, {.kind = ZKL__OP_GET, .dir = r->path});
 *         if (call->answer.rc != ZKL__RC_OK) {
 *             RETURN(call, zkl__call_refused(call, NULL, "the data cannot be read"));
 *         }
 *         CALL_END(call);
 *     }
 *
 * Rules. What is needed after an AWAIT is in the struct; a local is computed before CALL_BEGIN, or
 * used up before the next AWAIT. The compiler refuses an initialised local that an AWAIT follows in
 * its block, for the `switch` would jump over it. Between CALL_BEGIN and CALL_END there is no other
 * `switch` around an AWAIT, and a line has one AWAIT.
 *
 * Whatever ends a call from outside, a stop token, a cancel, the time, the object's free or the
 * session's close, ends it at the AWAIT where it is: the function is not entered again, and
 * the kind's `end` gives back what it has. Everything inside enter/leave unless it says not. */
#ifndef ZKL_SESSION_AWAIT_H
#define ZKL_SESSION_AWAIT_H

#include "call.h"

#if defined __GNUC__ && !defined __clang__ && !defined __cplusplus
#pragma GCC diagnostic error "-Wjump-misses-init"
#endif

/* What a server has said. */
struct zkl__answer {
    enum zkl__rc rc;
    int zk_code;
    struct zkl__stat stat;
    bool empty;            /* no data */
    enum zkl__rc parts[2]; /* of a transaction of two; of one request both are rc */
};

struct zkl__call;
struct zkl__call_kind {
    size_t size; /* of a struct that begins with the zkl__call */
    int (*run)(struct zkl__call *call);
    /* In a step: more of an answer than is kept. NULL: nothing. */
    void (*look)(struct zkl__call *call, const struct zkl__reply *reply);
    /* Before it is begun: ZKL_OK, and what it needs is kept alive until `end`, or why not. NULL:
     * nothing is needed. */
    int (*begin)(struct zkl__call *call, zkl_error *err);
    /* It is over, or given up. Only after begin has returned ZKL_OK. NULL: nothing is to be freed.
     */
    void (*end)(struct zkl__call *call);
    bool finishes; /* it ends something: no stop token ends it */
};

struct zkl__call {
    struct zkl__procedure procedure; /* first */
    const struct zkl__call_kind *kind;
    zkl_error *err;    /* of run: for its words */
    const char *doubt; /* what is said before the words of an error from now on; NULL: nothing */
    /* In its place, unless a request of AWAIT_ONCE was sent last and has no reply. NULL: doubt. */
    const char *unsent;
    struct zkl__answer answer; /* to the last AWAIT */
    /* its own: */
    int line;               /* where it goes on; 0: at the top */
    struct zkl__call *call; /* itself, as in the struct of a function that it awaits */
    struct zkl__single single;
    struct zkl__op op, parts[2];
    int64_t pause_to; /* nothing is sent before */
};

/* The entry of every call. given: a struct of the kind, with what the user gave after the
 * zkl__call, all of which is copied. The session, the time and the path are checked, the path is
 * copied. later: NULL when the caller waits. Not inside. */
int zkl__call_go(const struct zkl__call_kind *kind, const void *given, zkl_session *session,
                 const char *path, int64_t timeout_ms, const struct zkl__later *later,
                 zkl_error *err);
/* Inside, of what is checked: the same. */
int zkl__call_begin(const struct zkl__call_kind *kind, const void *given, zkl_session *session,
                    const char *path, int64_t timeout_ms, const struct zkl__later *later,
                    zkl_error *err);

/* Of run: that the last request was refused, or its reply is lost, as an error about path; NULL:
 * the call's path. */
int zkl__call_refused(const struct zkl__call *call, const char *path, const char *what);
/* Of run: the next request is sent after a pause. It is longer each time; last: 0 at first. */
void zkl__call_pause(struct zkl__call *call, int64_t *last);

/* Of a function that a call awaits. */
struct zkl__part {
    int line; /* 0: at the top */
    struct zkl__call *call;
};

/* `it` is the call, or what has the members of a zkl__part. */
#define CALL_BEGIN(it)           \
    switch ((it)->line) {        \
    default:                     \
        __builtin_unreachable(); \
    case 0:

/* Until the expression, which is evaluated each time, is no longer ZKL__PENDING: another such
 * function, or one that need not wait. An error ends this one, too. */
#define AWAIT_CALL(it, expression)    \
    do {                              \
        (it)->line = __LINE__;        \
        __attribute__((fallthrough)); \
    case __LINE__: {                  \
        int awaited = (expression);   \
        if (awaited != ZKL_OK) {      \
            return awaited;           \
        }                             \
    }                                 \
    } while (0)

/* Until the condition holds. */
#define AWAIT_UNTIL(it, condition) AWAIT_CALL(it, (condition) ? ZKL_OK : ZKL__PENDING)

/* One request {...}, sent again until it is answered; of two, a transaction: both or none. What
 * they point to lives until then. */
#define AWAIT(it, ...) ZKL__AWAIT_SENT(it, ZKL__INSIST, __VA_ARGS__)

/* One request that is sent once. The answer is ZKL__RC_UNSENT when there was no connection, and
 * ZKL__RC_UNKNOWN when it went before the reply came: the request was carried out, or it was not.
 */
#define AWAIT_ONCE(it, ...) ZKL__AWAIT_SENT(it, ZKL__ONCE, __VA_ARGS__)

#define ZKL__AWAIT_SENT(it, mode, ...)                                                          \
    do {                                                                                        \
        zkl__call_send((it)->call, mode, (const struct zkl__op[]){__VA_ARGS__},                 \
                       sizeof((const struct zkl__op[]){__VA_ARGS__}) / sizeof(struct zkl__op)); \
        AWAIT_CALL(it, zkl__call_answered((it)->call));                                         \
    } while (0)

#define RETURN(it, code) \
    do {                 \
        (it)->line = 0;  \
        return (code);   \
    } while (0)

#define CALL_END(it) \
    }                \
    RETURN(it, ZKL_OK)

/* For the macros. */
void zkl__call_send(struct zkl__call *call, enum zkl__run_mode mode, const struct zkl__op *ops,
                    size_t count);
int zkl__call_answered(struct zkl__call *call);

#endif
