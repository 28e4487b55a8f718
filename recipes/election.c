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
    struct zkl__procedure procedure; /* first */
    struct zkl__single single;
    struct zkl__op op;
    char node[ZKL__NAME_MAX];
    zkl_lock *lock;
    char *value; /* ours; of later campaigns, too, once it is published */
    int64_t token;
    enum zkl__rc rc;
    int zk_code;
};

static void look(void *arg, const struct zkl__reply *reply)
{
    struct publishing *publishing = arg;
    publishing->rc = reply->rc;
    publishing->zk_code = reply->zk_code;
}

static int judge(struct publishing *publishing, zkl_error *err)
{
    zkl_lock *lock = publishing->lock;
    if (publishing->rc == ZKL__RC_NONODE || zkl__lock_look(lock).token != publishing->token) {
        return zkl__fail(err, ZKL_ELOST, publishing->zk_code, lock->path,
                         "leadership was lost meanwhile");
    }
    if (publishing->rc != ZKL__RC_OK) {
        return zkl__fail(err, zkl__rc_code(publishing->rc), publishing->zk_code, lock->path, "%s",
                         zkl__rc_why(publishing->rc));
    }
    zkl__free(zkl__session_heap(lock->session), (void *)(uintptr_t)lock->options.metadata);
    lock->options.metadata = publishing->value;
    publishing->value = NULL;
    return ZKL_OK;
}

static int advance(struct zkl__procedure *procedure, zkl_error *err)
{
    struct publishing *publishing = (struct publishing *)procedure;
    int rc = zkl__run_advance(&publishing->single.run, err);
    return rc == ZKL_OK ? judge(publishing, err) : rc;
}

static int explain(struct zkl__procedure *procedure, int rc, const zkl_error *why, zkl_error *err)
{
    const char *path = ((struct publishing *)procedure)->lock->path;
    return zkl__fail(err, rc, why->zk_code, why->path[0] ? why->path : path, "%s", why->text);
}

static void end(struct zkl__procedure *procedure)
{
    struct publishing *publishing = (struct publishing *)procedure;
    zkl__run_end(&publishing->single.run);
    zkl__free(zkl__session_heap(procedure->session), publishing->value);
    zkl__lock_unref(publishing->lock);
}

/* Inside. Takes a reference to the lock in any case. */
static int prepare(struct publishing *publishing, zkl_lock *lock, const char *value,
                   int64_t timeout_ms, zkl_error *err)
{
    static const struct zkl__procedure_ops ops = {advance, explain, end};
    struct zkl__standing now = zkl__lock_look(lock);
    zkl__lock_procedure(&publishing->procedure, lock, &ops, timeout_ms);
    publishing->lock = lock;
    publishing->token = now.token;
    if (now.token == 0) {
        return zkl__fail(err, ZKL_ENOTHELD, 0, lock->path, "only the leader publishes a value");
    }
    publishing->value = zkl__copy(zkl__session_heap(lock->session), value, strlen(value));
    if (!publishing->value) {
        return zkl__fail(err, ZKL_ENOMEM, 0, lock->path, "no memory for the value");
    }
    zkl__name_copy(publishing->node, now.node);
    publishing->op = (struct zkl__op){.kind = ZKL__OP_SET,
                                      .dir = lock->path,
                                      .name = publishing->node,
                                      .data = publishing->value,
                                      .size = strlen(value),
                                      .version = -1};
    zkl__single_begin(&publishing->single, &publishing->procedure, ZKL__INSIST, &publishing->op,
                      look, publishing);
    return ZKL_OK;
}

/* Inside. */
static int begin(zkl_lock *lock, const char *value, int64_t timeout_ms,
                 const struct zkl__later *later, zkl_error *err)
{
    struct publishing *publishing = zkl__procedure_new(lock->session, sizeof *publishing);
    if (!publishing) {
        return zkl__fail(err, ZKL_ENOMEM, 0, lock->path, "no memory for the value");
    }
    int rc = prepare(publishing, lock, value, timeout_ms, err);
    if (rc != ZKL_OK) {
        return zkl__procedure_drop(&publishing->procedure, rc);
    }
    return zkl__procedure_go(&publishing->procedure, later, err);
}

static int publish(zkl_lock *lock, const char *value, int64_t timeout_ms,
                   const struct zkl__later *later, zkl_error *err)
{
    int rc = zkl__lock_check(lock, &election, err);
    if (rc == ZKL_OK && !value) {
        rc = zkl__fail(err, ZKL_EINVAL, 0, NULL, "value is NULL");
    }
    rc = rc == ZKL_OK ? zkl__text_check("value", value, err) : rc;
    rc = rc == ZKL_OK ? zkl__lock_enter(lock, timeout_ms, err) : rc;
    if (rc == ZKL_OK) {
        zkl_session *session = lock->session;
        rc = begin(lock, value, timeout_ms, later, err);
        zkl__session_leave(session);
    }
    return rc;
}

int zkl_election_publish(zkl_lock *lock, const char *value, int64_t timeout_ms, zkl_error *err)
{
    return publish(lock, value, timeout_ms, NULL, err);
}

int zkl_election_publish_async(zkl_lock *lock, const char *value, int64_t timeout_ms,
                               zkl_done_fn done, void *payload, zkl_error *err)
{
    const struct zkl__later later = {done, payload};
    return publish(lock, value, timeout_ms, &later, err);
}
