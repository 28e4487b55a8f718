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
 *         AWAIT(call, {.kind = ZKL__OP_SYNC});
 *         AWAIT(call, {.kind = ZKL__OP_GET});
 *         if (call->answer.rc != ZKL__RC_OK) {
 *             REFUSED(call, "the data cannot be read");
 *         }
 *         CALL_END(call);
 *     }
 *
 * The blocking form calls it in the caller's thread and sleeps between. The asynchronous form calls
 * it first in the caller's thread. After that the alarms' thread calls it, or the thread that makes
 * the session's next call. It ends with one callback. Both are the same code, and neither needs a
 * thread of its own.
 *
 * Rules. What is needed after an AWAIT is in the struct; a local is computed before CALL_BEGIN, or
 * used up before the next AWAIT. The compiler refuses an initialised local that an AWAIT follows in
 * its block, for the `switch` would jump over it. Between CALL_BEGIN and CALL_END there is no other
 * `switch` around an AWAIT, and a line has one AWAIT.
 *
 * A call may end from outside: by a stop token, a cancel, its time, the free of its object, or the
 * close of its session. Then it ends at the AWAIT where it is. Its function is not entered again,
 * and its `end` releases what it has. The session mutex is held in all of these functions,
 * unless a comment says otherwise. */
#ifndef ZKL_SESSION_CALL_H
#define ZKL_SESSION_CALL_H

#include "children.h"
#include "shell.h"

/* === calls ==================================================================================== */

#if defined __GNUC__ && !defined __clang__ && !defined __cplusplus
#pragma GCC diagnostic error "-Wjump-misses-init"
#endif

#define ZKL__PENDING 1 /* the result of a run that goes on later */

struct zkl__call;

#define ZKL__ANSWER_ROOM 18 /* the digits of the longest number (zkl__decimal_parse) */

/* The server's reply to the last request. */
struct zkl__answer {
    enum zkl__rc rc;
    int zk_code;
    struct zkl__stat stat;
    size_t size; /* of the data, which is here if there is room for it: */
    char data[ZKL__ANSWER_ROOM];
    enum zkl__rc parts[2]; /* of a transaction of two; of one request both are rc */
};

/* Called in a step: copies what the call needs of a reply besides its zkl__answer. */
typedef void (*zkl__reply_fn)(struct zkl__call *call, const struct zkl__reply *reply);

struct zkl__sent {
    struct zkl__request request;
    struct zkl__call *call;
    struct zkl__child *child; /* NULL: one request */
    enum { ZKL__SENT_NONE, ZKL__SENT_FLYING, ZKL__SENT_UNANSWERED } state;
};

/* What a call awaits: one request, or one for each of many children, several of them under way at a
 * time. */
struct zkl__requests {
    struct zkl__children *children; /* NULL: one request */
    zkl__reply_fn on_reply;
    bool once;   /* AWAIT_ONCE: it is not sent again */
    bool tried;  /* it was sent, or there was no connection to send it on */
    bool some;   /* of the children have been read */
    size_t next; /* the index of the next child to be read */
    struct zkl__sent *sent, one;
    size_t window, flying; /* window 0: nothing is awaited */
    int unsent;            /* why this session refused to send the last one; ZKL_OK: it did not */
    bool sending;     /* a request is being sent: if it is refused, `done` is called meanwhile */
    int64_t pause;    /* ns: the last pause since the servers asked to try again; 0: none */
    int64_t pause_to; /* its end: nothing is sent before */
};

/* A function that a call awaits. */
struct zkl__part {
    int line; /* where it goes on; 0: at the top */
    struct zkl__call *call;
};

struct zkl__call {
    /* The public function fills in these, and zeroes the rest: */
    /* Returns ZKL__PENDING, or the result with its text in call->err. */
    int (*run)(struct zkl__call *call);
    /* Called before the first run. Returns why the call cannot begin, with its text in call->err.
     * NULL: nothing keeps it from that. */
    int (*begin)(struct zkl__call *call);
    /* Called once when a call that has begun is over, with its result, also if it was ended from
     * outside. Gives back what run has taken. Returns the result that the caller gets, with its
     * text in call->err. NULL: the result stays. */
    int (*end)(struct zkl__call *call, int rc);
    bool finishes; /* it releases or records something, so no stop token and no cancel ends it */
    bool any_path; /* zkl__call_go does not check the path: its caller has */
    /* The object that it is a call of, whose path was checked when it was made. The object's stop
     * token and its free end the call, and its memory lives until the call is over. NULL: none. */
    struct zkl__object *owner;
    bool (*counts)(const char *name); /* which children are kept of a list; NULL: all */
    /* Filled in here: */
    zkl_session *session;
    int64_t number;   /* among the calls of the session, from 1 */
    const char *path; /* its own; also of an error that names no other */
    int64_t deadline; /* CLOCK_BOOTTIME, ns; INT64_MAX: none */
    int late_code;    /* the result at the deadline; ZKL_OK: ZKL_ETIMEOUT */
    const char *late; /* its text */
    int64_t again;    /* when run is called again if nothing happens before; at most the deadline */
    zkl_error err[1]; /* where run writes the text of its result */
    const char *doubt; /* begins the text of each error from now on; NULL: nothing does */
    /* Begins it instead of doubt, unless the last request was an AWAIT_ONCE that was sent and has
     * no reply. NULL: doubt does. */
    const char *unsent;
    struct zkl__answer answer; /* to the last AWAIT */
    struct zkl__child *child;  /* the child that a reply of AWAIT_CHILDREN is about */
    /* Of the last list that AWAIT got, none if there was no such znode; freed at the end. A list
     * that is refused leaves them as they are. NULL: there was none, or no memory. */
    struct zkl__children *children;
    void *block; /* of the session's heap; freed at the end. NULL: none */
    /* The rest is for call.c and the macros. */
    int line;               /* where it goes on; 0: at the top */
    struct zkl__call *call; /* itself, as its part has it */
    struct zkl__part part;  /* of what it awaits: one function at a time */
    struct zkl__op op, parts[2];
    struct zkl__requests requests;
    struct zkl__watch watches[2];
    bool changed; /* one of them has fired since the last wait */
    struct zkl__stops stops;
    const char *ended; /* why, by a stop token, or when its object is freed; NULL: it is not */
    bool blocking, over;
    struct zkl__signal news; /* blocking */
    struct zkl__alarm alarm; /* asynchronous, as the rest */
    struct zkl__timer turn;  /* its place among those that go on: its number */
    struct zkl__callback callback;
    zkl_done_fn done;
    void *payload;
    struct zkl__link in_session, in_owner; /* among the calls there */
};

/* --- a call begins, and ends ----------------------------------------------------------------- */

/* The asynchronous form of a call serves the blocking one, too, which gives it this as its done:
 * the function returns when the call is over, with its result. It is never called. */
void zkl__caller_waits(int code, const zkl_error *err, void *payload);

/* The entry of every call, session mutex not held. given: a struct that begins with a zkl__call,
 * with the functions of the call in that and the arguments of the user behind it. Checks the
 * session, the timeout and the path. A call whose caller waits runs in that struct, and allocates
 * nothing. Else the struct and the path are copied, and ZKL_OK means that done will be called
 * exactly once, and not before this returns. Errors of its own: ZKL_EINVAL (no done), ZKL_ECANCELED
 * (a stop token is raised), ZKL_ELIMIT, ZKL_ENOMEM. */
int zkl__call_go(void *given, size_t size, zkl_session *session, const char *path,
                 int64_t timeout_ms, zkl_done_fn done, void *payload, zkl_error *err);
/* The same with the session mutex held, for arguments that are checked. */
int zkl__call_begin(void *given, size_t size, zkl_session *session, const char *path,
                    int64_t timeout_ms, zkl_done_fn done, void *payload, zkl_error *err);

/* Something has changed: the calls of this owner run again, also those that block. Also in a step.
 */
void zkl__calls_poke(const struct zkl__object *owner);
/* Ends the asynchronous calls of this owner with ZKL_ECANCELED. False: there was none. Their done
 * is called later. all: also those that finish, and those that block, which return soon and do not
 * count. */
bool zkl__calls_end(const struct zkl__object *owner, bool all);
/* Ends all asynchronous calls of the session with ZKL_ECLOSED. */
void zkl__calls_close(zkl_session *session);
/* Their owner is about to be freed: ends them all with ZKL_ECANCELED. When this returns, the done
 * of each call that is over has been called, except the one that this thread is in. When one of
 * them forks, no other is called in the child, where this returns without the mutex. */
void zkl__calls_finish(const struct zkl__object *owner);

/* --- of run ---------------------------------------------------------------------------------- */

/* Makes an error of the last answer, about the path that the last request, or the last part of it,
 * was for: the servers refused it, or its reply is lost. */
int zkl__call_refused(struct zkl__call *call, const char *what);
/* The next request is sent after a pause, which is longer each time. last: the last pause, 0 at
 * first. */
void zkl__call_pause(struct zkl__call *call, int64_t *last);

/* `it`: the call, or its part. */
#define CALL_BEGIN(it)           \
    switch ((it)->line) {        \
    default:                     \
        __builtin_unreachable(); \
    case 0:

/* Awaits another such function, or one that need not wait: the expression is evaluated until it is
 * not ZKL__PENDING any more. An error of it ends this function, too. */
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

/* Awaits that the condition holds. */
#define AWAIT_UNTIL(it, condition) AWAIT_CALL(it, (condition) ? ZKL_OK : ZKL__PENDING)

/* Sends one request {...} and awaits its reply. Without a dir it is for the call's path. It must do
 * no harm when it is done twice: it is sent again when the connection is lost before the reply
 * comes, and after a pause when the server asks for that. Two requests {...}, {...} are one
 * transaction. What they point to lives until the reply.
 *
 * A request for dir alone, without a name, may have `watch`: AWAIT_CHANGE then awaits the next
 * change there. */
#define AWAIT(it, ...) AWAIT_REPLY(it, NULL, __VA_ARGS__)

/* The same, and on_reply copies what the call needs of the reply. */
#define AWAIT_REPLY(it, on_reply, ...) ZKL__AWAIT_SENT(it, NULL, false, on_reply, __VA_ARGS__)

/* The same for a request that is sent once. The answer is ZKL__RC_UNSENT if there was no
 * connection, and ZKL__RC_UNKNOWN if it was lost before the reply came: the server has carried the
 * request out, or it has not. on_reply: NULL, or as above. */
#define AWAIT_ONCE(it, on_reply, ...) ZKL__AWAIT_SENT(it, NULL, true, on_reply, __VA_ARGS__)

#define ZKL__AWAIT_SENT(it, children, once, on_reply, ...)                        \
    AWAIT_CALL(it, zkl__call_send((it)->call, children, once, on_reply,           \
                                  (const struct zkl__op[]){__VA_ARGS__},          \
                                  sizeof((const struct zkl__op[]){__VA_ARGS__}) / \
                                      sizeof(struct zkl__op)))

/* Sends one read {...} for each child of the call's path of which nothing is known, several of them
 * under way at a time. The replies, in any order, say whether a session owns the child. on_reply:
 * gets each, too, with call->child. NULL: nobody does. The reply is ZKL__RC_UNSENT for a name that
 * is too long for a request. */
#define AWAIT_CHILDREN(it, children, on_reply, ...) \
    ZKL__AWAIT_SENT(it, children, false, on_reply, __VA_ARGS__)

/* Awaits a change of a path on which an AWAIT has left a watch. A change since the last
 * AWAIT_CHANGE counts. */
#define AWAIT_CHANGE(it) AWAIT_CALL(it, zkl__call_changed((it)->call))

/* Ends a part, which begins at the top the next time. A call is not entered again: it may return as
 * any function does. */
#define RETURN(it, code) \
    do {                 \
        (it)->line = 0;  \
        return (code);   \
    } while (0)

/* Ends it with an error that no server has sent, about the call's path. The rest is as of printf.
 */
#define FAIL(it, code, ...) RETURN(it, zkl__fail_at((it)->call->err, code, NULL, __VA_ARGS__))

/* The same, with the servers' code of the last reply. */
#define FAIL_REPLY(it, code, ...) \
    RETURN(it, zkl__fail((it)->call->err, code, (it)->call->answer.zk_code, NULL, __VA_ARGS__))

/* The same, with what the servers said to the last request: as zkl__call_refused. */
#define REFUSED(it, what) RETURN(it, zkl__call_refused((it)->call, what))

/* The same, unless the reply says that the znode is there, or that it is not. */
#define CHECK_REPLY(it, what)                                       \
    do {                                                            \
        enum zkl__rc answered = (it)->call->answer.rc;              \
        if (answered != ZKL__RC_OK && answered != ZKL__RC_NONODE) { \
            REFUSED(it, what);                                      \
        }                                                           \
    } while (0)

#define CALL_END(it) \
    }                \
    RETURN(it, ZKL_OK)

/* For the macros. The one that sends looks at what it is given only when nothing is awaited.
 * children: one request for each of them; NULL: one alone. */
int zkl__call_send(struct zkl__call *call, struct zkl__children *children, bool once,
                   zkl__reply_fn on_reply, const struct zkl__op *ops, size_t count);
int zkl__call_changed(struct zkl__call *call);

/* === a znode that the servers do not delete =================================================== */

/* To be awaited: creates the call's path as `znode` says, persistent, if it is missing, and the
 * directories above it, as containers. A path that was a lock's before, or above one, is a
 * container, which the servers delete when it has been empty for a while (ContainerManager). No
 * stat tells it from a persistent znode. So one that is there and holds no data gets a persistent
 * child with the name `keeper`, with which no server deletes it; a child of that name that another
 * client made is replaced, for it may end with its session. keeper NULL: if it had children and has
 * none now, it is created again. What the servers refuse ends the call, for the znode would not
 * last or may not be read. The call's answer is the last reply: cversion 0, if no child was ever
 * there. level: ZKL_PATH_MAX + 1 bytes in the call's struct, for the directory that is being made,
 * then the path. */
int zkl__make_persistent(struct zkl__call *call, char *level, const struct zkl__op *znode,
                         const char *keeper);

/* === the deletion of one znode ================================================================ */

struct zkl__removal {
    const char *name; /* of a child of the call's path; NULL: the path itself */
    int64_t czxid;    /* of the znode that is meant; 0: the one that is there now */
    /* The rest is for zkl__remove. */
    bool sent; /* a delete, and its reply is lost */
    int64_t pause;
};

/* To be awaited: deletes this znode and no other of its name. The call's answer is ZKL__RC_OK if
 * the znode is deleted and our request may have done that, ZKL__RC_NONODE if it was not there or
 * another one was, else what the server said last. */
int zkl__remove(struct zkl__call *call, struct zkl__removal *removal);

#endif
