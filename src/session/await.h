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

#include "children.h"
#include "procedure.h"

#if defined __GNUC__ && !defined __clang__ && !defined __cplusplus
#pragma GCC diagnostic error "-Wjump-misses-init"
#endif

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

/* The server's reply to the last request. */
struct zkl__answer {
    enum zkl__rc rc;
    int zk_code;
    struct zkl__stat stat;
    bool empty;            /* no data */
    enum zkl__rc parts[2]; /* of a transaction of two; of one request both are rc */
};

/* In a step: more of a reply than the answer keeps. child: which one it is about, of
 * AWAIT_CHILDREN. */
typedef void (*zkl__reply_fn)(void *it, struct zkl__child *child, const struct zkl__reply *reply);

struct zkl__sent {
    struct zkl__request request;
    struct zkl__call *call;
    size_t index; /* of the child */
    enum { ZKL__SENT_NONE, ZKL__SENT_FLYING, ZKL__SENT_UNANSWERED } state;
};

/* What a call awaits: one request, or the same of many children, several on their way at a time. */
struct zkl__requests {
    struct zkl__children *children; /* NULL: one request */
    zkl__reply_fn on_reply;
    void *it;  /* of on_reply */
    bool once; /* it is not sent again, and */
    bool tried;
    size_t count, next; /* of the children: the next one to be sent */
    struct zkl__sent *sent, one;
    size_t window, flying;
    int failed;       /* why it cannot be awaited at all */
    int unsent;       /* why the last one was refused here; ZKL_OK: it was not */
    bool sending;     /* just now: what is refused is refused inside */
    int64_t pause;    /* since the server put some off: the last one, and */
    int64_t pause_to; /* its end: nothing is sent before */
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
    struct zkl__op op, parts[2];
    struct zkl__requests requests;
    struct zkl__watch watches[2];
    bool changed; /* one of them has fired since the last wait */
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

/* The same of one that waits, in the caller's memory: it needs no other. call is zeroed but for
 * what the user gave, path lives until it returns. */
int zkl__call_wait(const struct zkl__call_kind *kind, struct zkl__call *call, zkl_session *session,
                   const char *path, int64_t timeout_ms, zkl_error *err);

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

/* One request {...} that does no harm when it is done twice: it is sent again when the connection
 * goes before the reply comes, and, later each time, when the server asks for that. Of two, a
 * transaction: both or none. What they point to lives until then.
 *
 * With `watch`, of one whose path is dir alone, the call hears of the next change there: see
 * AWAIT_CHANGE. */
#define AWAIT(it, ...) AWAIT_REPLY(it, NULL, __VA_ARGS__)

/* The same; on_reply(it, NULL, reply) takes more of the reply than the answer keeps. */
#define AWAIT_REPLY(it, on_reply, ...)                                                         \
    ZKL__AWAIT_SENT(                                                                           \
        it,                                                                                    \
        zkl__call_send((it)->call, false, on_reply, it, (const struct zkl__op[]){__VA_ARGS__}, \
                       sizeof((const struct zkl__op[]){__VA_ARGS__}) / sizeof(struct zkl__op)))

/* One request that is sent once. The answer is ZKL__RC_UNSENT when there was no connection, and
 * ZKL__RC_UNKNOWN when it went before the reply came: the request was carried out, or it was not.
 */
#define AWAIT_ONCE(it, ...) \
    ZKL__AWAIT_SENT(        \
        it, zkl__call_send((it)->call, true, NULL, it, (const struct zkl__op[]){__VA_ARGS__}, 1))

/* One read {...} of each of the children of which nothing is known, as its name, several on their
 * way at a time. on_reply(it, child, reply) takes the replies, in any order; ZKL__RC_UNSENT is that
 * of a name for which no request has room. */
#define AWAIT_CHILDREN(it, children, on_reply, ...)                             \
    ZKL__AWAIT_SENT(it, zkl__call_send_each((it)->call, children, on_reply, it, \
                                            (const struct zkl__op)__VA_ARGS__))

#define ZKL__AWAIT_SENT(it, send)                       \
    do {                                                \
        send;                                           \
        AWAIT_CALL(it, zkl__call_answered((it)->call)); \
    } while (0)

/* Until something has changed, since the last time, where an AWAIT left a watch. */
#define AWAIT_CHANGE(it) AWAIT_CALL(it, zkl__call_changed((it)->call))

#define RETURN(it, code) \
    do {                 \
        (it)->line = 0;  \
        return (code);   \
    } while (0)

#define CALL_END(it) \
    }                \
    RETURN(it, ZKL_OK)

/* For the macros. */
void zkl__call_send(struct zkl__call *call, bool once, zkl__reply_fn on_reply, void *it,
                    const struct zkl__op *ops, size_t count);
void zkl__call_send_each(struct zkl__call *call, struct zkl__children *children,
                         zkl__reply_fn on_reply, void *it, struct zkl__op op);
int zkl__call_answered(struct zkl__call *call);
int zkl__call_changed(struct zkl__call *call);

/* For AWAIT_CHILDREN, of exists or get: zkl__child_judge. */
void zkl__judge_child(void *it, struct zkl__child *child, const struct zkl__reply *reply);

#endif
