/* call.h - a public call that waits for servers, written as one function that reads from top to
 * bottom.
 *
 * Such a function returns at each AWAIT when what it waits for is not there yet, and is called
 * again, from its first line, whenever something may have changed: a reply, the session's state, a
 * time. CALL_BEGIN is a `switch` on the line at which it returned, AWAIT has a `case` of that line:
 * so it goes on there, also from inside a loop. This is Simon Tatham's "Coroutines in C", and the
 * protothreads of Dunkels, Schmidt, Voigt and Ali (SenSys 2006).
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
 * The blocking form calls it in the caller's thread and sleeps between. The asynchronous form calls
 * it on the alarms' thread, and its one completion is a callback. Both are the same code, and
 * neither needs a thread of its own.
 *
 * Rules. What is needed after an AWAIT is in the struct; a local is computed before CALL_BEGIN, or
 * used up before the next AWAIT. The compiler refuses an initialised local that an AWAIT follows in
 * its block, for the `switch` would jump over it. Between CALL_BEGIN and CALL_END there is no other
 * `switch` around an AWAIT, and a line has one AWAIT.
 *
 * Whatever ends a call from outside, a stop token, a cancel, the time, the object's free or the
 * session's close, ends it at the AWAIT where it is: the function is not entered again, and
 * the kind's `end` gives back what it has. Everything inside enter/leave unless it says not. */
#ifndef ZKL_SESSION_CALL_H
#define ZKL_SESSION_CALL_H

#include "children.h"
#include "shell.h"

/* === calls ==================================================================================== */

#if defined __GNUC__ && !defined __clang__ && !defined __cplusplus
#pragma GCC diagnostic error "-Wjump-misses-init"
#endif

#define ZKL__PENDING 1 /* of run: it goes on later */

struct zkl__call;
struct zkl__call_kind {
    size_t size; /* of a struct that begins with the zkl__call */
    /* ZKL__PENDING, or the result with words in call->err. May set `again`. */
    int (*run)(struct zkl__call *call);
    /* Of a result that is no success, also when something outside brought it: what it is, with
     * words in call->err. NULL: that stays. */
    int (*conclude)(struct zkl__call *call, int rc);
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

/* In a step: takes more of a reply than the answer keeps. */
typedef void (*zkl__reply_fn)(struct zkl__call *call, const struct zkl__reply *reply);

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
    const struct zkl__call_kind *kind;
    zkl_session *session;
    const char *path;          /* its own; of errors that name none */
    struct zkl__object *owner; /* that it ends with; NULL: the session */
    zkl_stop *stop;            /* the object's; NULL: none */
    int64_t deadline;          /* CLOCK_BOOTTIME, ns; INT64_MAX: none */
    int late_code;             /* of the result then; ZKL_OK: ZKL_ETIMEOUT */
    const char *late;          /* and its words */
    int64_t again;             /* run wants to be called then, if nothing happens before */
    zkl_error *err;            /* of run: for its words */
    const char *doubt; /* what is said before the words of an error from now on; NULL: nothing */
    /* In its place, unless a request of AWAIT_ONCE was sent last and has no reply. NULL: doubt. */
    const char *unsent;
    struct zkl__answer answer; /* to the last AWAIT */
    struct zkl__child *child;  /* that a reply is about, of AWAIT_CHILDREN */
    /* its own: */
    int line;               /* where it goes on; 0: at the top */
    struct zkl__call *call; /* itself, as in the struct of a function that it awaits */
    struct zkl__op op, parts[2];
    struct zkl__requests requests;
    struct zkl__watch watches[2];
    bool changed; /* one of them has fired since the last wait */
    struct zkl__stops stops;
    bool stopped, blocking, over;
    struct zkl__signal news; /* blocking */
    struct zkl__alarm alarm; /* asynchronous, as the rest */
    struct zkl__callback callback;
    zkl_done_fn done;
    void *payload;
    int code;
    struct zkl__link links[2]; /* among the calls of the session, and of the owner */
    zkl_error error;           /* not zeroed: filled in when it is over */
};

/* --- a call begins, and ends ----------------------------------------------------------------- */

/* How the call of a user ends whose one function serves the blocking and the asynchronous form.
 * NULL, where a function takes one: the caller waits. */
struct zkl__later {
    zkl_done_fn done;
    void *payload;
};

/* The entry of every call. given: a struct of the kind, with what the user gave after the
 * zkl__call, all of which is copied. The session, the time and the path are checked, the path is
 * copied. later: ZKL_OK means that its done will be called exactly once, and nothing of it happens
 * before this returns. Errors of its own: ZKL_EINVAL (no done), ZKL_ECANCELED (a stop token is
 * raised), ZKL_ELIMIT, ZKL_ENOMEM. Not inside. */
int zkl__call_go(const struct zkl__call_kind *kind, const void *given, zkl_session *session,
                 const char *path, int64_t timeout_ms, const struct zkl__later *later,
                 zkl_error *err);
/* Inside, of what is checked: the same. */
int zkl__call_begin(const struct zkl__call_kind *kind, const void *given, zkl_session *session,
                    const char *path, int64_t timeout_ms, const struct zkl__later *later,
                    zkl_error *err);

/* The same of one that waits, in the caller's memory: it needs no other. path lives until it
 * returns. */
int zkl__call_wait(const struct zkl__call_kind *kind, struct zkl__call *call, zkl_session *session,
                   const char *path, int64_t timeout_ms, zkl_error *err);

/* The same for all with this owner, also those that block; NULL: all of the session. */
void zkl__calls_poke(zkl_session *session, const struct zkl__object *owner);
/* Those that nobody waits for end with this code; how many. Their done is called later. A cancel
 * leaves those that end something alone. */
int zkl__calls_end(zkl_session *session, const struct zkl__object *owner, int code);
int zkl__calls_cancel(zkl_session *session, const struct zkl__object *owner);
/* Their owner is about to be freed. Their done has been called when this returns, but for the one
 * that this very thread is in, which has no owner any more. */
void zkl__calls_deliver(zkl_session *session, struct zkl__object *owner);

/* --- of run ---------------------------------------------------------------------------------- */

/* That the last request was refused, or its reply is lost, as an error about path; NULL: the call's
 * path. */
int zkl__call_refused(const struct zkl__call *call, const char *path, const char *what);
/* The next request is sent after a pause. It is longer each time; last: 0 at first. */
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

/* The same; on_reply takes more of the reply than the answer keeps. */
#define AWAIT_REPLY(it, on_reply, ...) ZKL__AWAIT_SENT(it, false, on_reply, __VA_ARGS__)

/* One request that is sent once. The answer is ZKL__RC_UNSENT when there was no connection, and
 * ZKL__RC_UNKNOWN when it went before the reply came: the request was carried out, or it was not.
 * on_reply: NULL, or as above. */
#define AWAIT_ONCE(it, on_reply, ...) ZKL__AWAIT_SENT(it, true, on_reply, __VA_ARGS__)

#define ZKL__AWAIT_SENT(it, once, on_reply, ...)                                                \
    do {                                                                                        \
        zkl__call_send((it)->call, once, on_reply, (const struct zkl__op[]){__VA_ARGS__},       \
                       sizeof((const struct zkl__op[]){__VA_ARGS__}) / sizeof(struct zkl__op)); \
        AWAIT_CALL(it, zkl__call_answered((it)->call));                                         \
    } while (0)

/* One read {...} of each of the children of which nothing is known, as its name, several on their
 * way at a time. on_reply takes the replies, in any order, each with call->child; ZKL__RC_UNSENT is
 * that of a name for which no request has room. */
#define AWAIT_CHILDREN(it, children, on_reply, ...)                                             \
    do {                                                                                        \
        zkl__call_send_each((it)->call, children, on_reply, (const struct zkl__op)__VA_ARGS__); \
        AWAIT_CALL(it, zkl__call_answered((it)->call));                                         \
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
void zkl__call_send(struct zkl__call *call, bool once, zkl__reply_fn on_reply,
                    const struct zkl__op *ops, size_t count);
void zkl__call_send_each(struct zkl__call *call, struct zkl__children *children,
                         zkl__reply_fn on_reply, struct zkl__op op);
int zkl__call_answered(struct zkl__call *call);
int zkl__call_changed(struct zkl__call *call);

/* For AWAIT_CHILDREN, of exists or get: does the child live with a session? */
void zkl__judge_child(struct zkl__call *call, const struct zkl__reply *reply);

/* === the directories above a znode ============================================================ */

/* The directories above a znode. */

struct zkl__parents {
    int line;
    struct zkl__call *call;
    char above[ZKL_PATH_MAX + 1];
    char level[ZKL_PATH_MAX + 1]; /* the one that is being made */
};

/* To be awaited: makes what is above path, containers, as far as it is missing. path: checked. */
int zkl__make_parents(struct zkl__parents *it, struct zkl__call *call, const char *path);

/* === the deletion of one znode ================================================================ */

/* Deleting one znode and no other. */

struct zkl__removal {
    int line;
    struct zkl__call *call;
    const char *dir, *name; /* name NULL: dir itself. Both live until the end */
    int64_t czxid;          /* of the znode that is meant; 0: the one that stands there now */
    /* its own: */
    bool sent; /* a delete */
    int64_t pause;
};

/* To be awaited. The call's answer is the server's last word then: ZKL__RC_OK when the znode is
 * deleted and we may have done it, ZKL__RC_NONODE when it was not there, or another one was. */
int zkl__remove(struct zkl__removal *it);

#endif
