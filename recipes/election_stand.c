/* election_stand.c - a candidate that stands again and again: campaign, lead, lost, campaign.
 *
 * What happens is noted inside a step, and one callback follows, which acts on the present state:
 * it calls the user, and only when that call has returned it goes on. So no two terms of one
 * candidate overlap, and an event loop that dispatches callbacks does all of it in its one
 * thread. */
#include "lock_internal.h"

#include "heap.h"

#include <zklock/election.h>

struct zkl__stand {
    zkl_lock *lock;
    zkl_election_state_fn told;
    void *payload;
    struct zkl__callback callback;
    struct zkl__retry next; /* campaign, after a failed one */
    struct zkl__stops stops;
    struct zkl__acquisition *acquisition; /* with a reference; NULL between two campaigns */
    zkl_state said;                       /* HELD or JEOPARDY while the user leads, else WAITING */
    enum { STANDS, LEAVES, STOPPED, ENDED } wish; /* ENDED: the last call was made */
    bool runs;                                    /* its callback is in the user's function */
};

/* What the user is told next. */
struct saying {
    zkl_state state;
    int64_t token;
    zkl_error err;
};

void zkl__stand_poke(zkl_lock *lock)
{
    if (lock->stand) {
        zkl__callbacks_post(zkl__session_callbacks(lock->session), &lock->stand->callback);
    }
}

static void on_next(void *owner)
{
    zkl__stand_poke(((struct zkl__stand *)owner)->lock);
}

static void on_stop(void *owner)
{
    struct zkl__stand *stand = owner;
    stand->wish = stand->wish == STANDS ? STOPPED : stand->wish;
    zkl__stand_poke(stand->lock);
}

/* --- deciding: inside ------------------------------------------------------------------------ */

/* What is pending is cancelled, what is held released. */
static void withdraw(struct zkl__stand *stand)
{
    zkl_lock *lock = stand->lock;
    struct zkl__acquisition *acquisition = stand->acquisition;
    if (!acquisition) {
        return;
    }
    stand->acquisition = NULL;
    if (lock->acquisition == acquisition && acquisition->settled) {
        zkl__acquisition_drop(lock);
    } else if (lock->acquisition == acquisition) {
        zkl__acquisition_cancel(acquisition, ZKL_ECANCELED);
    }
    zkl__acquisition_unref(acquisition);
}

static bool say_end(struct zkl__stand *stand, struct saying *saying, int code, int zk_code,
                    const char *why)
{
    saying->state = ZKL_STATE_IDLE;
    saying->err = (zkl_error){.code = ZKL_OK};
    if (code != ZKL_OK) {
        zkl__fail(&saying->err, code, zk_code, stand->lock->path, "%s", why);
    }
    stand->wish = ENDED;
    return true;
}

/* An acquire that failed: again at once, again later, or never. */
static bool campaign_failed(struct zkl__stand *stand, struct saying *saying, int code, int zk_code,
                            const char *why)
{
    zkl_class class = zkl_error_class(code);
    if (code == ZKL_ECANCELED || (class != ZKL_CLASS_RETRY && class != ZKL_CLASS_LOST)) {
        return say_end(stand, saying, code, zk_code, why);
    }
    zkl__retry_later(stand->lock->session, &stand->next);
    return false;
}

static bool campaign(struct zkl__stand *stand, struct saying *saying)
{
    zkl_error err;
    stand->said = ZKL_STATE_WAITING;
    if (stand->next.alarm.timer.set) {
        return false;
    }
    stand->lock->standing = true; /* else an acquire of this object is refused while it stands */
    int rc = zkl__acquisition_begin(&stand->acquisition, stand->lock, 1, &err);
    stand->lock->standing = false;
    if (rc != ZKL_OK) {
        stand->acquisition = NULL;
        return campaign_failed(stand, saying, rc, 0, err.text);
    }
    zkl__acquisition_start(stand->acquisition, ZKL_WAIT_FOREVER);
    return false; /* its end posts the callback */
}

/* It was granted, and is held no longer. */
static bool term_over(struct zkl__stand *stand, struct saying *saying)
{
    struct zkl__acquisition *acquisition = stand->acquisition;
    bool lost = stand->lock->acquisition == acquisition;
    if (lost && stand->said != ZKL_STATE_WAITING) {
        stand->said = ZKL_STATE_WAITING; /* released when this call has returned */
        saying->state = ZKL_STATE_LOST;
        saying->token = acquisition->token;
        zkl__fail(&saying->err, ZKL_ELOST, 0, stand->lock->path, "%s", acquisition->why);
        return true;
    }
    int code = lost ? ZKL_OK : acquisition->code;
    withdraw(stand);
    return code == ZKL_OK ? campaign(stand, saying) /* lost, or released by its user */
                          : say_end(stand, saying, code, 0, "given up with all of the session");
}

/* True: there is something to say. */
static bool decide(struct zkl__stand *stand, struct saying *saying)
{
    const struct zkl__acquisition *acquisition = stand->acquisition;
    *saying = (struct saying){.state = ZKL_STATE_IDLE};
    if (stand->wish == LEAVES) {
        return say_end(stand, saying, ZKL_OK, 0, NULL);
    }
    if (stand->wish == STOPPED) {
        return say_end(stand, saying, ZKL_ECANCELED, 0, "the stop token is raised");
    }
    if (!acquisition) {
        return campaign(stand, saying);
    }
    if (!acquisition->settled) {
        return false;
    }
    if (!acquisition->granted) {
        int code = acquisition->code, zk_code = acquisition->zk_code;
        const char *why = acquisition->why;
        withdraw(stand);
        return campaign_failed(stand, saying, code, zk_code, why);
    }
    if (!zkl__acquisition_holds(acquisition)) {
        return term_over(stand, saying);
    }
    stand->next.pause = 0;
    saying->state = acquisition->jeopardy ? ZKL_STATE_JEOPARDY : ZKL_STATE_HELD;
    saying->token = acquisition->token;
    bool news = saying->state != stand->said;
    stand->said = saying->state;
    return news;
}

/* --- telling: not inside --------------------------------------------------------------------- */

static void destroy(struct zkl__stand *stand)
{
    zkl_lock *lock = stand->lock;
    lock->stand = NULL; /* what follows is no news to it */
    withdraw(stand);
    zkl__callbacks_unpost(zkl__session_callbacks(lock->session), &stand->callback);
    zkl__stops_end(lock->session, &stand->stops);
    zkl__retry_stop(lock->session, &stand->next);
    zkl__free(zkl__session_heap(lock->session), stand);
}

static void run(void *owner)
{
    struct zkl__stand *stand = owner;
    zkl_lock *lock = stand->lock;
    zkl_session *session = lock->session;
    struct saying saying;
    if (zkl__session_enter_even_closed(session, NULL) != ZKL_OK) {
        return;
    }
    if (stand->runs) { /* called again inside itself, by a free: who is in it goes on */
        zkl__session_leave(session);
        return;
    }
    zkl__lock_ref(lock);
    while (stand->wish != ENDED && decide(stand, &saying)) {
        stand->runs = true;
        zkl__session_leave(session);
        stand->told(lock, saying.state, saying.token, &saying.err, stand->payload);
        if (zkl__session_enter_even_closed(session, NULL) != ZKL_OK) {
            return;
        }
        stand->runs = false;
    }
    if (stand->wish == ENDED) {
        destroy(stand);
    }
    zkl__lock_unref(lock);
    zkl__session_leave(session);
}

/* --- what the user calls --------------------------------------------------------------------- */

/* Inside. */
static int make(zkl_lock *lock, zkl_election_state_fn told, void *payload, zkl_error *err)
{
    zkl_session *session = lock->session;
    if (lock->stand || lock->acquisition || lock->run) {
        return zkl__fail(err, ZKL_EDEADLK, 0, lock->path,
                         "this object stands already, or an acquire or a run of it is under way");
    }
    if (zkl__callbacks_want(zkl__session_callbacks(session)) != ZKL_OK) {
        return zkl__fail(err, ZKL_ELIMIT, 0, lock->path, "no thread for callbacks");
    }
    struct zkl__stand *stand = zkl__zalloc(zkl__session_heap(session), sizeof *stand);
    if (!stand) {
        return zkl__fail(err, ZKL_ENOMEM, 0, lock->path, "no memory to stand for election");
    }
    stand->lock = lock;
    stand->told = told;
    stand->payload = payload;
    stand->said = ZKL_STATE_WAITING;
    stand->callback = (struct zkl__callback){.run = run, .owner = stand};
    stand->next.alarm.ring = on_next;
    stand->next.alarm.owner = stand;
    int rc = zkl__stops_begin(session, &stand->stops, lock->options.stop, on_stop, stand, err);
    if (rc != ZKL_OK) {
        zkl__free(zkl__session_heap(session), stand);
        return rc;
    }
    lock->stand = stand;
    zkl__stand_poke(lock);
    return ZKL_OK;
}

int zkl_election_stand(zkl_lock *lock, zkl_election_state_fn told, void *payload, zkl_error *err)
{
    int rc = zkl__election_check(lock, err);
    if (rc == ZKL_OK && !told) {
        rc = zkl__fail(err, ZKL_EINVAL, 0, NULL, "told is NULL");
    }
    rc = rc == ZKL_OK ? zkl__session_enter(lock->session, err) : rc;
    if (rc == ZKL_OK) {
        rc = make(lock, told, payload, err);
        zkl__session_leave(lock->session);
    }
    return rc;
}

int zkl_election_leave(zkl_lock *lock, zkl_error *err)
{
    int rc = zkl__election_check(lock, err);
    rc = rc == ZKL_OK ? zkl__session_enter(lock->session, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    if (lock->stand && lock->stand->wish != ENDED) {
        lock->stand->wish = LEAVES;
        zkl__stand_poke(lock);
    } else {
        rc = zkl__fail(err, ZKL_ENOTWAITING, 0, lock->path, "this candidate does not stand");
    }
    zkl__session_leave(lock->session);
    return rc;
}

void zkl__stand_finish(zkl_lock *lock)
{
    struct zkl__stand *stand = lock->stand;
    if (!stand) {
        return;
    }
    stand->wish = stand->wish == ENDED ? ENDED : LEAVES;
    zkl__stand_poke(lock);
    if (!zkl__callbacks_inside(zkl__session_callbacks(lock->session), &stand->callback)) {
        zkl__callbacks_finish(zkl__session_callbacks(lock->session), &stand->callback);
    }
}
