/* procedure.h - a public call that waits for servers, as something that goes on by itself.
 *
 * Its `advance` is called whenever something may have changed: a response, the session's state, a
 * time. The blocking form calls it in the caller's thread and sleeps between; the asynchronous form
 * calls it on the alarms' thread, and its one completion is a callback. So both are the same code,
 * and neither needs a thread of its own. Everything inside enter/leave unless it says not. */
#ifndef ZKL_SESSION_PROCEDURE_H
#define ZKL_SESSION_PROCEDURE_H

#include "shell.h"

#define ZKL__PENDING 1 /* of advance: it goes on later */

struct zkl__procedure;
struct zkl__procedure_ops {
    /* Not in a step: sends what can be sent, and looks at what has come. ZKL__PENDING, or the
     * result with words in err. May set `again`. */
    int (*advance)(struct zkl__procedure *procedure, zkl_error *err);
    /* Of a result that is no success, also when time, a stop token or the session's end brought it:
     * says it in other words. Returns the code. NULL: as it is. */
    int (*explain)(struct zkl__procedure *procedure, int rc, const zkl_error *why, zkl_error *err);
    /* It is over, or given up: forgets its requests, frees what it has. */
    void (*end)(struct zkl__procedure *procedure);
};

struct zkl__procedure {
    const struct zkl__procedure_ops *ops;
    zkl_session *session;
    struct zkl__object *owner; /* that it ends with; NULL: the session */
    zkl_stop *stop;            /* the object's; NULL: none */
    bool finishes;             /* it ends something: no stop token ends it */
    bool goes_on;     /* what it waits for comes without it, too: whatever ends it, it succeeds */
    int64_t deadline; /* CLOCK_BOOTTIME, ns; INT64_MAX: none */
    int late_code;    /* of the result then; ZKL_OK: ZKL_ETIMEOUT */
    int64_t again;    /* advance wants to be called then, if nothing happens before */
    const char *late; /* and its words */
    const char *path; /* of errors that name none; NULL: of none */
    /* its own: */
    struct zkl__stops stops;
    bool stopped, blocking, over;
    struct zkl__signal changed; /* blocking */
    struct zkl__alarm alarm;    /* asynchronous, as the rest */
    struct zkl__callback callback;
    zkl_done_fn done;
    void *payload;
    int code;
    zkl_error err;                         /* not zeroed: filled in when it is over */
    char *path_copy;                       /* or NULL */
    struct zkl__link in_session, in_owner; /* among its calls; in_owner: with an owner */
};

/* Waits until it is over. Its memory is the caller's. */
int zkl__procedure_run(struct zkl__procedure *procedure, zkl_error *err);

/* Memory for one that zkl__procedure_start takes: it begins with the zkl__procedure. Zeroed; NULL:
 * none. */
void *zkl__procedure_new(zkl_session *session, size_t size);
/* The same with what most have: ops, a deadline from now, a copy of path that goes with the memory.
 * NULL: with words. */
void *zkl__procedure_make(zkl_session *session, size_t size, const struct zkl__procedure_ops *ops,
                          const char *path, int64_t timeout_ms, zkl_error *err);
/* Its deadline is so long from now. */
void zkl__procedure_limit(struct zkl__procedure *procedure, int64_t timeout_ms);
/* One that comes to nothing before it was run or started: ends it, frees the memory. Returns rc. */
int zkl__procedure_drop(struct zkl__procedure *procedure, int rc);
/* Takes the memory. ZKL_OK: done will be called exactly once, and nothing of it happens before this
 * returns. Else it has ended. Errors: ZKL_EINVAL (no done), ZKL_ECANCELED (a stop token is raised),
 * ZKL_ELIMIT. */
int zkl__procedure_start(struct zkl__procedure *procedure, zkl_done_fn done, void *payload,
                         zkl_error *err);

/* How the call of a user ends whose one function serves the blocking and the asynchronous form.
 * NULL, where a function takes one: the caller waits. */
struct zkl__later {
    zkl_done_fn done;
    void *payload;
};
/* Of memory of zkl__procedure_new, which it takes: zkl__procedure_run, or zkl__procedure_start. */
int zkl__procedure_go(struct zkl__procedure *procedure, const struct zkl__later *later,
                      zkl_error *err);

/* Something has changed. Also in a step. */
void zkl__procedure_poke(struct zkl__procedure *procedure);
/* The same for all with this owner, also those that block; NULL: all of the session. */
void zkl__procedures_poke(zkl_session *session, const struct zkl__object *owner);
/* Those that were started end with this code; how many. Their done is called later. A cancel leaves
 * those that end something alone. */
int zkl__procedures_end(zkl_session *session, const struct zkl__object *owner, int code);
int zkl__procedures_cancel(zkl_session *session, const struct zkl__object *owner);
/* Its owner is about to be freed. Their done has been called when this returns, but for the one
 * that this very thread is in, which has no owner any more. */
void zkl__procedures_deliver(zkl_session *session, struct zkl__object *owner);

#endif
