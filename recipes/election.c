/* election.c - the candidate: whoever stands first in the queue leads. */
#include "await.h"
#include "section.h"

#include "error.h"
#include "heap.h"
#include "path.h"
#include "sized.h"

#include <zklock/election.h>

#include <string.h>

/* Curator's LeaderLatch: _c_<uuid>-latch-<ten digits>. */
static const struct zkl__rule rule = {"latch-", ZKL__KIND_ANY};

struct zkl_election {
    struct zkl__place place; /* first */
    zkl_election_state_fn state_fn;
    void *state_payload;
    zkl_cancel *run; /* of the zkl_election_run that is under way; NULL: there is none */
};

static void tell(struct zkl__place *place, zkl_state state)
{
    zkl_election *election = (zkl_election *)place;
    election->state_fn(election, state, election->state_payload);
}

static void complete(struct zkl__place *place, zkl__any_fn done, void *payload, int code, const zkl_grant *grant,
                     const zkl_error *err)
{
    ((zkl_elected_fn)done)((zkl_election *)place, code, grant, err, payload);
}

static const struct zkl__place_ops ops = {
    .object = {.noun = "election", .give_up = zkl__place_give_up, .describe = zkl__place_describe},
    .tell = tell,
    .complete = complete,
};

ZKL__SIZED(sized, zkl_election_options, ZKL_ELECTION_OPTIONS_INIT, state_payload, state_payload);

int zkl_election_new(zkl_election **out, zkl_session *session, const char *path, const zkl_election_options *options,
                     zkl_error *err)
{
    ZKL__CLEAR(out);
    zkl_election_options o;
    if (!out) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "out is NULL");
    }
    int rc = zkl__sized_take(&o, options, &sized, err);
    if (rc == ZKL_OK && o.value) {
        rc = zkl__text_check("value", o.value, err);
    }
    if (rc == ZKL_OK) {
        rc = zkl__range_check("resign_timeout_ms", o.resign_timeout_ms, 0, ZKL__DAY_MS, err);
    }
    if (rc != ZKL_OK) {
        return rc;
    }
    const struct zkl__place_config config = {
        .metadata = o.value,
        .acl = o.acl,
        .listens = o.state_fn != NULL,
        .on_expiry = o.on_expiry,
        .release_timeout_ms = o.resign_timeout_ms,
    };
    struct zkl__place *place;
    rc = zkl__place_new(&place, sizeof(zkl_election), &ops, session, path, &config, err);
    if (rc == ZKL_OK) {
        zkl_election *election = (zkl_election *)place;
        election->state_fn = o.state_fn;
        election->state_payload = o.state_payload;
        *out = election;
    }
    return rc;
}

void zkl_election_free(zkl_election *election)
{
    zkl__place_free((struct zkl__place *)election);
}

int zkl_election_campaign(zkl_election *election, int64_t timeout_ms, zkl_grant *grant, zkl_error *err)
{
    return zkl__place_acquire((struct zkl__place *)election, &rule, timeout_ms, grant, err);
}

int zkl_election_campaign_async(zkl_election *election, int64_t timeout_ms, zkl_elected_fn done, void *payload,
                                zkl_error *err)
{
    return zkl__place_acquire_async((struct zkl__place *)election, &rule, timeout_ms, (zkl__any_fn)done, payload, err);
}

int zkl_election_resign(zkl_election *election, zkl_error *err)
{
    return zkl__place_release((struct zkl__place *)election, err);
}

/* --- run while leader ---------------------------------------------------------------------------------------------- */

/* Inside one hold of the mutex, so that no campaign of the run slips through between two looks. */
static bool stop_run(zkl_election *election)
{
    bool runs = false;
    if (zkl__session_enter_even_closed(election->place.session, NULL) == ZKL_OK) {
        runs = election->run != NULL;
        if (runs) {
            election->place.barred = true;
            zkl__section_raise(election->run);
        }
        zkl__session_leave(election->place.session);
    }
    return runs;
}

int zkl_election_cancel(zkl_election *election)
{
    bool stopped = election && stop_run(election);
    int rc = zkl__place_cancel((struct zkl__place *)election);
    return rc == ZKL_ENOTWAITING && stopped ? ZKL_OK : rc;
}

static int begin_run(zkl_election *election, zkl_cancel *cancel, zkl_error *err)
{
    int rc = zkl__session_enter(election->place.session, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    if (election->run || election->place.turn) {
        rc = zkl__fail(err, ZKL_EDEADLK, 0, election->place.path, "a campaign or a run of this object is under way");
    } else {
        election->run = cancel;
    }
    zkl__session_leave(election->place.session);
    return rc;
}

static void end_run(zkl_election *election)
{
    if (zkl__session_enter_even_closed(election->place.session, NULL) == ZKL_OK) {
        election->run = NULL;
        election->place.barred = false;
        zkl__session_leave(election->place.session);
    }
}

/* Terms, until one ends it or no campaign can follow. */
static int run_terms(zkl_election *election, zkl_section_fn lead, void *payload, int *result, zkl_error *err)
{
    zkl_cancel *cancel = election->run;
    bool keeps_on = election->place.config.on_expiry == ZKL_ON_EXPIRY_REQUEUE;
    zkl_error last;
    int rc, value = 0;
    do {
        rc = zkl__section_run(cancel, &rule, ZKL_WAIT_FOREVER, lead, payload, &value, &last);
    } while (value == 0 && (cancel->ran || (rc == ZKL_ELOST && keeps_on)));
    if (value != 0 && result) {
        *result = value;
    }
    if (rc != ZKL_OK && err) {
        *err = last;
    }
    return rc;
}

int zkl_election_run(zkl_election *election, int64_t margin_ms, zkl_section_fn lead, void *payload, int *result,
                     zkl_error *err)
{
    if (!election || !lead) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "%s is NULL", election ? "lead" : "election");
    }
    zkl_cancel cancel;
    int rc = zkl__section_init(&cancel, &election->place, margin_ms, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    rc = begin_run(election, &cancel, err);
    if (rc == ZKL_OK) {
        rc = run_terms(election, lead, payload, result, err);
        end_run(election);
    }
    zkl__section_deinit(&cancel);
    return rc;
}

/* --- the value ----------------------------------------------------------------------------------------------------- */

struct answer {
    enum zkl__rc rc;
    int zk_code;
};

static void look(void *arg, const struct zkl__reply *reply)
{
    *(struct answer *)arg = (struct answer){reply->rc, reply->zk_code};
}

/* Inside. */
static int publish(zkl_election *election, const char *value, int64_t timeout_ms, zkl_error *err)
{
    struct zkl__place *place = &election->place;
    zkl_session *session = place->session;
    struct zkl__standing now = zkl__place_look(place);
    if (now.token == 0) {
        return zkl__fail(err, ZKL_ENOTHELD, 0, place->path, "only the leader publishes a value");
    }
    const struct zkl__op op = {
        .kind = ZKL__OP_SET, .dir = place->path, .name = now.node, .data = value, .size = strlen(value), .version = -1};
    struct answer answer;
    int64_t deadline = zkl__deadline(zkl__session_now(session), timeout_ms);
    int rc = zkl__session_insist(session, &op, deadline, look, &answer, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    if (answer.rc == ZKL__RC_NONODE || zkl__place_look(place).token != now.token) {
        return zkl__fail(err, ZKL_ELOST, answer.zk_code, place->path, "leadership was lost meanwhile");
    }
    return answer.rc == ZKL__RC_OK
               ? ZKL_OK
               : zkl__fail(err, zkl__rc_code(answer.rc), answer.zk_code, place->path, "%s", zkl__rc_why(answer.rc));
}

int zkl_election_publish(zkl_election *election, const char *value, int64_t timeout_ms, zkl_error *err)
{
    if (!election || !value) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "%s is NULL", election ? "value" : "election");
    }
    int rc = zkl__timeout_check(timeout_ms, err);
    rc = rc == ZKL_OK ? zkl__text_check("value", value, err) : rc;
    rc = rc == ZKL_OK ? zkl__session_enter(election->place.session, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    zkl_session *session = election->place.session;
    const zkl_heap *heap = zkl__session_heap(session);
    zkl__place_ref(&election->place);
    char *copy = zkl__copy(heap, value, strlen(value));
    rc = copy ? publish(election, copy, timeout_ms, err)
              : zkl__fail(err, ZKL_ENOMEM, 0, election->place.path, "no memory for the value");
    if (rc == ZKL_OK) { /* of later campaigns, too */
        zkl__free(heap, (void *)(uintptr_t)election->place.config.metadata);
        election->place.config.metadata = copy;
        copy = NULL;
    }
    zkl__free(heap, copy);
    zkl__place_unref(&election->place);
    zkl__session_leave(session);
    return rc;
}

/* --- what is so now ------------------------------------------------------------------------------------------------ */

zkl_state zkl_election_state(const zkl_election *election)
{
    return zkl__place_standing((const struct zkl__place *)election).state;
}

bool zkl_election_is_leader(const zkl_election *election)
{
    return zkl__place_holds((const struct zkl__place *)election);
}

int64_t zkl_election_remaining_ms(const zkl_election *election)
{
    return zkl__place_standing((const struct zkl__place *)election).remaining_ns / ZKL__MS;
}

int64_t zkl_election_token(const zkl_election *election)
{
    return zkl__place_standing((const struct zkl__place *)election).token;
}

const char *zkl_election_path(const zkl_election *election)
{
    return election ? election->place.path : "";
}

size_t zkl_election_node(const zkl_election *election, char *name, size_t size)
{
    return zkl__place_node((const struct zkl__place *)election, name, size);
}
