/* election.c - the candidate: the first in the queue leads. */
#include "await.h"
#include "lock_internal.h"
#include "section.h"

#include "heap.h"
#include "path.h"

#include <zklock/election.h>

#include <string.h>

/* Curator's LeaderLatch: _c_<uuid>-latch-<ten digits>. */
static const struct zkl__rule rule = {"latch-", ZKL__KIND_ANY};

static const struct zkl__recipe election = {
    .object = {.noun = "election", .give_up = zkl__lock_give_up, .describe = zkl__lock_describe},
    .id = ZKL_RECIPE_ELECTION,
    .size = sizeof(zkl_lock),
    .takes = ZKL__TAKES_RECURSIVE | ZKL__TAKES_RECOVER | ZKL__TAKES_REVOKE_FN,
    .rule = &rule,
};

int zkl_election_new(zkl_lock **out, zkl_session *session, const char *path,
                     const zkl_lock_options *options, zkl_error *err)
{
    return zkl__lock_make(out, &election, session, &path, 1, options, err);
}

/* --- run while leader ------------------------------------------------------------------------ */

static int begin_run(zkl_lock *lock, zkl_cancel *cancel, zkl_error *err)
{
    int rc = zkl__session_enter(lock->session, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    if (lock->run || lock->acquisition) {
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

struct answer {
    enum zkl__rc rc;
    int zk_code;
};

static void look(void *arg, const struct zkl__reply *reply)
{
    *(struct answer *)arg = (struct answer){reply->rc, reply->zk_code};
}

/* Inside. */
static int publish(zkl_lock *lock, const char *value, int64_t timeout_ms, zkl_error *err)
{
    zkl_session *session = lock->session;
    struct zkl__standing now = zkl__lock_look(lock);
    if (now.token == 0) {
        return zkl__fail(err, ZKL_ENOTHELD, 0, lock->path, "only the leader publishes a value");
    }
    const struct zkl__op op = {.kind = ZKL__OP_SET,
                               .dir = lock->path,
                               .name = now.node,
                               .data = value,
                               .size = strlen(value),
                               .version = -1};
    struct answer answer;
    int64_t deadline = zkl__deadline(zkl__session_now(session), timeout_ms);
    int rc = zkl__session_insist(session, &op, deadline, look, &answer, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    if (answer.rc == ZKL__RC_NONODE || zkl__lock_look(lock).token != now.token) {
        return zkl__fail(err, ZKL_ELOST, answer.zk_code, lock->path,
                         "leadership was lost meanwhile");
    }
    return answer.rc == ZKL__RC_OK ? ZKL_OK
                                   : zkl__fail(err, zkl__rc_code(answer.rc), answer.zk_code,
                                               lock->path, "%s", zkl__rc_why(answer.rc));
}

int zkl_election_publish(zkl_lock *lock, const char *value, int64_t timeout_ms, zkl_error *err)
{
    int rc = zkl__lock_check(lock, &election, err);
    if (rc == ZKL_OK && !value) {
        rc = zkl__fail(err, ZKL_EINVAL, 0, NULL, "value is NULL");
    }
    rc = rc == ZKL_OK ? zkl__timeout_check(timeout_ms, err) : rc;
    rc = rc == ZKL_OK ? zkl__text_check("value", value, err) : rc;
    rc = rc == ZKL_OK ? zkl__session_enter(lock->session, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    zkl_session *session = lock->session;
    const zkl_heap *heap = zkl__session_heap(session);
    zkl__lock_ref(lock);
    char *copy = zkl__copy(heap, value, strlen(value));
    rc = copy ? publish(lock, copy, timeout_ms, err)
              : zkl__fail(err, ZKL_ENOMEM, 0, lock->path, "no memory for the value");
    if (rc == ZKL_OK) { /* of later campaigns, too */
        zkl__free(heap, (void *)(uintptr_t)lock->options.metadata);
        lock->options.metadata = copy;
        copy = NULL;
    }
    zkl__free(heap, copy);
    zkl__lock_unref(lock);
    zkl__session_leave(session);
    return rc;
}
