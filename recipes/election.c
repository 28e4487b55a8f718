/* election.c - the candidate: the first in the queue leads. */
#include "guarded.h"
#include "lock_internal.h"
#include "section.h"

#include "heap.h"
#include "name.h"
#include "text.h"

#include <zklock/election.h>

#include <string.h>

/* Curator's LeaderLatch: _c_<uuid>-latch-<ten digits>. */
static const struct zkl__rule rule = {"latch-", ZKL__KIND_ANY};

static const struct zkl__recipe election = {
    .object = {.noun = "election", .give_up = zkl__lock_give_up, .describe = zkl__lock_describe},
    .id = ZKL_RECIPE_ELECTION,
    .size = sizeof(zkl_lock),
    .takes = ZKL__TAKES_RECURSIVE | ZKL__TAKES_RECOVER | ZKL__TAKES_REVOKE_FN |
             ZKL__TAKES_POSITION | ZKL__TAKES_DELAY,
    .rule = &rule,
};

int zkl_election_new(zkl_lock **out, zkl_session *session, const char *path,
                     const zkl_lock_options *options, zkl_error *err)
{
    return zkl__lock_make(out, &election, session, &path, 1, options, err);
}

int zkl__election_check(const zkl_lock *lock, zkl_error *err)
{
    return zkl__lock_check(lock, &election, err);
}

/* --- run while leader ------------------------------------------------------------------------ */

static int begin_run(zkl_lock *lock, zkl_cancel *cancel, zkl_error *err)
{
    int rc = zkl__session_enter(lock->session, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    if (lock->run || lock->acquisition || lock->stand) {
        rc = zkl__fail(err, ZKL_EDEADLK, 0, lock->path,
                       "an acquire or a run of this object is under way");
    } else {
        lock->run = cancel;
    }
    zkl__session_leave(lock->session);
    return rc;
}

static void end_run(zkl_lock *lock)
{
    if (zkl__session_enter_even_closed(lock->session, NULL) == ZKL_OK) {
        lock->run = NULL;
        lock->barred = false;
        zkl__session_leave(lock->session);
    }
}

/* Terms, until one ends it or no campaign can follow. */
static int run_terms(zkl_lock *lock, zkl_section_fn lead, void *payload, int *result,
                     zkl_error *err)
{
    zkl_cancel *cancel = lock->run;
    bool keeps_on = lock->options.on_expiry == ZKL_ON_EXPIRY_REQUEUE;
    zkl_error last;
    int rc, value = 0;
    do {
        rc = zkl__section_run(cancel, ZKL_WAIT_FOREVER, lead, payload, &value, &last);
    } while (value == 0 && (cancel->ran || (rc == ZKL_ELOST && keeps_on)));
    if (value != 0 && result) {
        *result = value;
    }
    if (rc != ZKL_OK && err) {
        *err = last;
    }
    return rc;
}

int zkl_election_run(zkl_lock *lock, int64_t margin_ms, zkl_section_fn lead, void *payload,
                     int *result, zkl_error *err)
{
    zkl_cancel cancel;
    int rc = zkl__lock_check(lock, &election, err);
    if (rc == ZKL_OK && !lead) {
        rc = zkl__fail(err, ZKL_EINVAL, 0, NULL, "lead is NULL");
    }
    rc = rc == ZKL_OK ? zkl__section_init(&cancel, lock, margin_ms, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    rc = begin_run(lock, &cancel, err);
    if (rc == ZKL_OK) {
        rc = run_terms(lock, lead, payload, result, err);
        end_run(lock);
    }
    zkl__section_deinit(&cancel);
    return rc;
}

/* --- the value ------------------------------------------------------------------------------- */

struct publishing {
    struct zkl__call call; /* first */
    zkl_lock *lock;
    const char *given; /* the user's memory, until it has begun */
    char *value;       /* ours; of later campaigns, too, once it is published */
    char node[ZKL__NAME_MAX];
    int64_t token;
};

/* When the reply is lost, the same value is written again: the znode is the leader's own, and
 * nobody else writes to it. */
static int run_publish(struct zkl__call *call)
{
    struct publishing *publishing = (struct publishing *)call;
    zkl_lock *lock = publishing->lock;
    CALL_BEGIN(call);
    AWAIT(call, {.kind = ZKL__OP_SET,
                 .dir = lock->path,
                 .name = publishing->node,
                 .data = publishing->value,
                 .size = strlen(publishing->value),
                 .version = -1});
    if (call->answer.rc == ZKL__RC_NONODE || zkl__lock_look(lock).token != publishing->token) {
        RETURN(call, zkl__fail(call->err, ZKL_ELOST, call->answer.zk_code, NULL,
                               "leadership was lost meanwhile"));
    }
    if (call->answer.rc != ZKL__RC_OK) {
        RETURN(call, zkl__fail(call->err, zkl__rc_code(call->answer.rc), call->answer.zk_code, NULL,
                               "%s", zkl__rc_why(call->answer.rc)));
    }
    zkl__free(zkl__session_heap(lock->session), (void *)(uintptr_t)lock->options.metadata);
    lock->options.metadata = publishing->value;
    publishing->value = NULL;
    CALL_END(call);
}

static int begin_publish(struct zkl__call *call, zkl_error *err)
{
    struct publishing *publishing = (struct publishing *)call;
    zkl_lock *lock = publishing->lock;
    struct zkl__standing now = zkl__lock_look(lock);
    if (now.token == 0) {
        return zkl__fail(err, ZKL_ENOTHELD, 0, lock->path, "only the leader publishes a value");
    }
    publishing->value =
        zkl__copy(zkl__session_heap(lock->session), publishing->given, strlen(publishing->given));
    if (!publishing->value) {
        return zkl__fail(err, ZKL_ENOMEM, 0, lock->path, "no memory for the value");
    }
    publishing->token = now.token;
    zkl__name_copy(publishing->node, now.node);
    zkl__call_bind(call, lock);
    return ZKL_OK;
}

static void end_publish(struct zkl__call *call)
{
    const struct publishing *publishing = (const struct publishing *)call;
    zkl__free(zkl__session_heap(call->session), publishing->value);
    zkl__lock_unref(publishing->lock);
}

static int publish(zkl_lock *lock, const char *value, int64_t timeout_ms,
                   const struct zkl__later *later, zkl_error *err)
{
    static const struct zkl__call_kind kind = {
        sizeof(struct publishing), run_publish, NULL, begin_publish, end_publish, false};
    const struct publishing given = {.lock = lock, .given = value};
    int rc = zkl__lock_check(lock, &election, err);
    if (rc == ZKL_OK && !value) {
        rc = zkl__fail(err, ZKL_EINVAL, 0, NULL, "value is NULL");
    }
    rc = rc == ZKL_OK ? zkl__text_check("value", value, err) : rc;
    return rc == ZKL_OK ? zkl__lock_call(&kind, &given, lock, NULL, timeout_ms, later, err) : rc;
}

int zkl_election_publish(zkl_lock *lock, const char *value, int64_t timeout_ms, zkl_error *err)
{
    return publish(lock, value, timeout_ms, NULL, err);
}

int zkl_election_publish_async(zkl_lock *lock, const char *value, int64_t timeout_ms,
                               zkl_done_fn done, void *payload, zkl_error *err)
{
    return publish(lock, value, timeout_ms, &(struct zkl__later){done, payload}, err);
}
