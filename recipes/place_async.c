/* place_async.c - acquires that nobody waits for: one call of the user for each. */
#include "place_inside.h"

#include "heap.h"

static void completion_unlink(struct zkl__completion *completion)
{
    struct zkl__completion **at = &completion->turn->place->completions;
    while (*at != completion) {
        at = &(*at)->next;
    }
    *at = completion->next;
}

static void run_completion(void *owner)
{
    struct zkl__completion *completion = owner;
    struct zkl__turn *turn = completion->turn;
    struct zkl__place *place = turn->place;
    zkl_session *session = place->session;
    zkl_error err = {.code = ZKL_OK};
    zkl_grant grant;
    if (zkl__session_enter_even_closed(session, NULL) != ZKL_OK) {
        return;
    }
    int code = zkl__turn_conclude(turn, completion->again, &grant, &err);
    zkl__session_leave(session);
    place->ops->complete(place, completion->done, completion->payload, code, code == ZKL_OK ? &grant : NULL, &err);
    if (zkl__session_enter_even_closed(session, NULL) != ZKL_OK) {
        return;
    }
    completion_unlink(completion);
    zkl__free(zkl__session_heap(session), completion);
    zkl__turn_unref(turn);
    zkl__session_leave(session);
}

static int begin_async(struct zkl__completion *completion, struct zkl__place *place, const struct zkl__rule *rule,
                       int64_t timeout_ms, zkl_error *err)
{
    struct zkl__turn *turn;
    int rc = zkl__turn_begin(&turn, place, rule, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    completion->callback = (struct zkl__callback){.run = run_completion, .owner = completion};
    completion->turn = turn;
    completion->again = turn->granted;
    completion->next = place->completions;
    place->completions = completion;
    if (turn->granted) {
        zkl__callbacks_post(zkl__session_callbacks(place->session), &completion->callback);
    } else {
        turn->completion = completion;
        zkl__turn_start(turn, timeout_ms);
    }
    return ZKL_OK;
}

int zkl__place_acquire_async(struct zkl__place *place, const struct zkl__rule *rule, int64_t timeout_ms,
                             zkl__any_fn done, void *payload, zkl_error *err)
{
    if (!done) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "done is NULL");
    }
    int rc = zkl__place_enter(place, timeout_ms, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    zkl_session *session = place->session;
    struct zkl__completion *completion = zkl__zalloc(zkl__session_heap(session), sizeof *completion);
    if (zkl__callbacks_want(zkl__session_callbacks(session)) != ZKL_OK) {
        rc = zkl__fail(err, ZKL_ELIMIT, 0, place->path, "no thread for callbacks");
    } else if (!completion) {
        rc = zkl__fail(err, ZKL_ENOMEM, 0, place->path, "no memory for an acquire");
    } else {
        completion->done = done;
        completion->payload = payload;
        rc = begin_async(completion, place, rule, timeout_ms, err);
    }
    if (rc != ZKL_OK) {
        zkl__free(zkl__session_heap(session), completion);
    }
    zkl__session_leave(session);
    return rc;
}

void zkl__place_finish(struct zkl__place *place)
{
    struct zkl__callbacks *callbacks = zkl__session_callbacks(place->session);
    struct zkl__completion *completion = place->completions;
    while (completion) {
        if (zkl__callbacks_inside(callbacks, &completion->callback)) {
            completion = completion->next;
        } else {
            zkl__callbacks_finish(callbacks, &completion->callback);
            completion = place->completions;
        }
    }
}
