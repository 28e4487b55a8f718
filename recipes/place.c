#include "place_inside.h"

#include "acl.h"
#include "path.h"

#include <string.h>

/* --- memory -------------------------------------------------------------------------------------------------------- */

static void paths_free(struct zkl__place *place, const zkl_heap *heap)
{
    for (size_t i = 0; place->config.paths && i < place->config.path_count; i++) {
        zkl__free(heap, (void *)(uintptr_t)place->config.paths[i]);
    }
    zkl__free(heap, (void *)(uintptr_t)place->config.paths);
}

static bool paths_copy(struct zkl__place *place, const zkl_heap *heap, const struct zkl__place_config *config)
{
    char **paths = config->paths ? zkl__zalloc(heap, config->path_count * sizeof *paths) : NULL;
    bool whole = !config->paths == !paths;
    for (size_t i = 0; paths && i < config->path_count; i++) {
        paths[i] = zkl__copy(heap, config->paths[i], strlen(config->paths[i]));
        whole = whole && paths[i];
    }
    place->config.paths = (const char *const *)paths;
    return whole;
}

void zkl__place_ref(struct zkl__place *place)
{
    place->refs++;
}

void zkl__place_unref(struct zkl__place *place)
{
    zkl_session *session = place->session;
    const zkl_heap *heap = zkl__session_heap(session);
    if (--place->refs > 0) {
        return;
    }
    if (place->ops && place->ops->destroy) {
        place->ops->destroy(place);
    }
    zkl__free(heap, (void *)(uintptr_t)place->config.metadata);
    zkl__free(heap, (void *)(uintptr_t)place->config.acl);
    paths_free(place, heap);
    zkl__free(heap, place->path);
    zkl__free(heap, place);
    zkl__session_drop(session);
}

int zkl__place_keep(struct zkl__place *place, zkl_error *err)
{
    int rc = zkl__session_enter(place->session, err);
    if (rc == ZKL_OK) {
        zkl__place_ref(place);
        zkl__session_leave(place->session);
    }
    return rc;
}

void zkl__place_let_go(struct zkl__place *place)
{
    zkl_session *session = place->session;
    if (zkl__session_enter_even_closed(session, NULL) == ZKL_OK) {
        zkl__place_unref(place);
        zkl__session_leave(session);
    }
}

static bool copy_config(struct zkl__place *place, const zkl_heap *heap, const struct zkl__place_config *config)
{
    place->config = *config;
    if (config->metadata) {
        place->config.metadata = zkl__copy(heap, config->metadata, strlen(config->metadata));
    }
    if (config->acl) {
        place->config.acl = zkl__acl_copy(heap, config->acl);
    }
    return paths_copy(place, heap, config) && !config->metadata == !place->config.metadata &&
           !config->acl == !place->config.acl;
}

static int check_config(const char *path, const struct zkl__place_config *config, zkl_error *err)
{
    int rc = zkl__path_check(path, err);
    if (rc == ZKL_OK && config->metadata) {
        rc = zkl__text_check("metadata", config->metadata, err);
    }
    if (rc == ZKL_OK) {
        rc = zkl__acl_check(config->acl, err);
    }
    if (rc == ZKL_OK) {
        rc = zkl__range_check("on_expiry", (int64_t)config->on_expiry, ZKL_ON_EXPIRY_REQUEUE, ZKL_ON_EXPIRY_FAIL, err);
    }
    if (rc == ZKL_OK) {
        rc = zkl__range_check("max_hold_ms", config->max_hold_ms, 0, 10000 * ZKL__DAY_MS, err);
    }
    if (rc == ZKL_OK) {
        rc = zkl__range_check("release_timeout_ms", config->release_timeout_ms, 0, ZKL__DAY_MS, err);
    }
    return rc;
}

static int make(struct zkl__place **out, size_t size, zkl_session *session, const char *path,
                const struct zkl__place_config *config, zkl_error *err)
{
    const zkl_heap *heap = zkl__session_heap(session);
    if ((config->listens || config->revocable) && zkl__callbacks_want(zkl__session_callbacks(session)) != ZKL_OK) {
        return zkl__fail(err, ZKL_ELIMIT, 0, path, "no thread for callbacks");
    }
    struct zkl__place *place = zkl__zalloc(heap, size);
    if (!place) {
        return zkl__fail(err, ZKL_ENOMEM, 0, path, "no memory");
    }
    zkl__session_retain(session);
    place->session = session;
    place->refs = 1;
    place->path = zkl__copy(heap, path, strlen(path));
    if (!copy_config(place, heap, config) || !place->path) {
        zkl__place_unref(place);
        return zkl__fail(err, ZKL_ENOMEM, 0, path, "no memory");
    }
    *out = place;
    return ZKL_OK;
}

int zkl__place_new(struct zkl__place **out, size_t size, const struct zkl__place_ops *ops, zkl_session *session,
                   const char *path, const struct zkl__place_config *config, zkl_error *err)
{
    if (!session) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "session is NULL");
    }
    int rc = check_config(path, config, err);
    rc = rc == ZKL_OK ? zkl__session_enter(session, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    struct zkl__place *place = NULL;
    rc = make(&place, size, session, path, config, err);
    if (rc == ZKL_OK) {
        place->ops = ops;
        place->object.ops = &ops->object;
        place->notice = (struct zkl__callback){.run = zkl__place_run_notes, .owner = place};
        zkl__session_add(session, &place->object);
        *out = place;
    }
    zkl__session_leave(session);
    return rc;
}

void zkl__place_free(struct zkl__place *place)
{
    if (!place || zkl__session_enter_even_closed(place->session, NULL) != ZKL_OK) {
        return; /* in a child of fork the parent's memory stays as it is */
    }
    zkl_session *session = place->session;
    place->freed = true;
    zkl__place_give_up(&place->object, ZKL_ECANCELED);
    zkl__place_finish(place);
    zkl__callbacks_unpost(zkl__session_callbacks(session), &place->notice);
    zkl__session_remove(session, &place->object);
    zkl__place_unref(place);
    zkl__session_leave(session);
}

/* --- calls --------------------------------------------------------------------------------------------------------- */

int zkl__place_enter(struct zkl__place *place, int64_t timeout_ms, zkl_error *err)
{
    if (!place) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "the object is NULL");
    }
    int rc = zkl__timeout_check(timeout_ms, err);
    return rc == ZKL_OK ? zkl__session_enter(place->session, err) : rc;
}

int zkl__place_acquire(struct zkl__place *place, const struct zkl__rule *rule, int64_t timeout_ms, zkl_grant *grant,
                       zkl_error *err)
{
    int rc = zkl__place_enter(place, timeout_ms, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    zkl_session *session = place->session;
    struct zkl__turn *turn;
    rc = zkl__turn_begin(&turn, place, rule, err);
    if (rc == ZKL_OK) {
        bool again = turn->granted;
        if (!again) {
            zkl__turn_start(turn, timeout_ms);
        }
        zkl__turn_await(turn);
        rc = zkl__turn_conclude(turn, again, grant, err);
        zkl__turn_unref(turn);
    }
    zkl__session_leave(session);
    return rc;
}

int zkl__place_cancel(struct zkl__place *place)
{
    if (!place) {
        return ZKL_EINVAL;
    }
    int rc = zkl__session_enter(place->session, NULL);
    if (rc != ZKL_OK) {
        return rc;
    }
    zkl_session *session = place->session;
    rc = ZKL_ENOTWAITING;
    if (place->turn && !place->turn->settled) {
        zkl__turn_cancel(place->turn, ZKL_ECANCELED);
        rc = ZKL_OK;
    }
    zkl__session_leave(session);
    return rc;
}

int zkl__place_release(struct zkl__place *place, zkl_error *err)
{
    return zkl__place_release_by(place, INT64_MAX, err);
}

int zkl__place_release_by(struct zkl__place *place, int64_t deadline, zkl_error *err)
{
    if (!place) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "the object is NULL");
    }
    int rc = zkl__session_enter(place->session, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    zkl_session *session = place->session;
    struct zkl__turn *turn = place->turn;
    if (!turn || !turn->granted) {
        rc = zkl__fail(err, ZKL_ENOTHELD, 0, place->path,
                       turn ? "still waiting; cancel it" : "never granted, or released");
    } else {
        if (!zkl__turn_holds(turn)) {
            rc = zkl__fail(err, ZKL_ELOST, 0, place->path, "lost while it was held: %s", turn->why);
        }
        if (--turn->depth == 0) {
            zkl__turn_hand_back(place, deadline);
        }
    }
    zkl__session_leave(session);
    return rc;
}

/* Until the write side is given up on the server, it is lost, or the time is up. */
static int await_downgrade(struct zkl__place *place, struct zkl__turn *turn, zkl_error *err)
{
    zkl_session *session = place->session;
    int64_t deadline = zkl__deadline(zkl__session_now(session), place->config.release_timeout_ms);
    bool more = true;
    while (more && !turn->downgraded && zkl__turn_holds(turn)) {
        more = zkl__session_wait(session, &turn->changed, deadline);
    }
    if (!zkl__turn_holds(turn)) {
        return zkl__fail(err, ZKL_ELOST, 0, place->path, "lost or released meanwhile: %s", turn->why);
    }
    if (!turn->downgraded) {
        return zkl__fail(err, ZKL_ETIMEOUT, 0, place->path, "the servers have not answered yet; it goes on");
    }
    return ZKL_OK;
}

static int downgrade(struct zkl__place *place, const struct zkl__rule *rule, zkl_error *err)
{
    struct zkl__turn *turn = place->turn;
    if (!turn || !turn->granted) {
        return zkl__fail(err, ZKL_ENOTHELD, 0, place->path,
                         turn ? "still waiting; cancel it" : "never granted, or released");
    }
    if (!zkl__turn_holds(turn)) {
        return zkl__fail(err, ZKL_ELOST, 0, place->path, "lost while it was held: %s", turn->why);
    }
    if (turn->rule != rule && turn->depth > 1) {
        return zkl__fail(err, ZKL_EDEADLK, 0, place->path, "acquired %u times: all but one must be released first",
                         turn->depth);
    }
    turn->refs++;
    if (turn->rule != rule) {
        turn->rule = rule;
        turn->downgraded = false;
        zkl__turn_event(turn, (struct zkl__event){.kind = ZKL__EV_DOWNGRADE, .rule = rule});
    }
    int rc = await_downgrade(place, turn, err);
    zkl__turn_unref(turn);
    return rc;
}

int zkl__place_downgrade(struct zkl__place *place, const struct zkl__rule *rule, zkl_error *err)
{
    if (!place) {
        return zkl__fail(err, ZKL_EINVAL, 0, NULL, "the object is NULL");
    }
    int rc = zkl__session_enter(place->session, err);
    if (rc == ZKL_OK) {
        zkl_session *session = place->session;
        rc = downgrade(place, rule, err);
        zkl__session_leave(session);
    }
    return rc;
}

bool zkl__place_give_up(struct zkl__object *object, int code)
{
    struct zkl__place *place = (struct zkl__place *)object;
    if (!place->turn) {
        return false;
    }
    if (place->turn->settled) {
        place->turn->code = code; /* for whom the grant has not reached yet */
        place->turn->why = "given up before the grant could be used";
        zkl__turn_drop(place);
    } else {
        zkl__turn_cancel(place->turn, code);
    }
    return true;
}

/* --- what is so now ------------------------------------------------------------------------------------------------ */

int64_t zkl__place_max_hold(const struct zkl__place *place)
{
    return place->config.max_hold_ms * ZKL__MS;
}

struct zkl__standing zkl__place_look(const struct zkl__place *place)
{
    struct zkl__standing now = {.state = ZKL_STATE_IDLE};
    const struct zkl__turn *turn = place->turn;
    if (!turn) {
        return now;
    }
    if (turn->contender) {
        strcpy(now.node, zkl__contender_node(turn->contender));
    }
    if (!turn->granted || !zkl__turn_holds(turn)) {
        now.state = turn->granted ? ZKL_STATE_LOST : ZKL_STATE_WAITING;
        return now;
    }
    int64_t until = zkl__core_lease_until(zkl__session_core(place->session));
    if (place->config.max_hold_ms > 0 && turn->settled_at + zkl__place_max_hold(place) < until) {
        until = turn->settled_at + zkl__place_max_hold(place);
    }
    now.state = turn->jeopardy ? ZKL_STATE_JEOPARDY : ZKL_STATE_HELD;
    now.token = turn->token;
    now.rule = turn->rule;
    now.remaining_ns = until - zkl__session_now(place->session);
    return now;
}

struct zkl__standing zkl__place_standing(const struct zkl__place *place)
{
    struct zkl__standing now = {.state = ZKL_STATE_IDLE};
    if (place && zkl__session_enter(place->session, NULL) == ZKL_OK) {
        zkl_session *session = place->session;
        now = zkl__place_look(place);
        zkl__session_leave(session);
    }
    return now;
}

bool zkl__place_holds(const struct zkl__place *place)
{
    return zkl__state_holds(zkl__place_standing(place).state);
}

size_t zkl__place_node_at(const struct zkl__place *place, size_t seat, char *name, size_t size)
{
    char node[ZKL__NAME_MAX] = "";
    if (place && zkl__session_enter(place->session, NULL) == ZKL_OK) {
        const struct zkl__turn *turn = place->turn;
        if (turn && turn->joint) {
            strcpy(node, zkl__joint_node(turn->joint, seat));
        } else if (turn && turn->contender) {
            strcpy(node, zkl__contender_node(turn->contender));
        }
        zkl__session_leave(place->session);
    }
    size_t length = strlen(node);
    if (size > 0) {
        size_t fits = length < size ? length : size - 1;
        memcpy(name, node, fits);
        name[fits] = '\0';
    }
    return length;
}

size_t zkl__place_node(const struct zkl__place *place, char *name, size_t size)
{
    return zkl__place_node_at(place, 0, name, size);
}

int zkl__place_describe(const struct zkl__object *object, zkl__visit_fn visit, void *payload)
{
    const struct zkl__place *place = (const struct zkl__place *)object;
    struct zkl__standing now = zkl__place_look(place);
    size_t count = now.state == ZKL_STATE_IDLE ? 0 : place->config.paths ? place->config.path_count : 1;
    for (size_t i = 0; i < count; i++) {
        visit(place->config.paths ? place->config.paths[i] : place->path, now.state, now.token, payload);
    }
    return (int)count;
}

int zkl__places_release_all(zkl_session *session, const struct zkl__place_ops *ops)
{
    if (!session) {
        return ZKL_EINVAL;
    }
    int count = zkl__session_enter(session, NULL);
    if (count != ZKL_OK) {
        return count;
    }
    for (struct zkl__object *object = zkl__session_objects(session); object; object = object->next) {
        count += object->ops == &ops->object && object->ops->give_up(object, ZKL_ECANCELED);
    }
    zkl__session_leave(session);
    return count;
}

int zkl__places_visit(zkl_session *session, zkl__visit_fn visit, void *payload)
{
    if (!session || !visit) {
        return ZKL_EINVAL;
    }
    int count = zkl__session_enter(session, NULL);
    if (count != ZKL_OK) {
        return count;
    }
    for (struct zkl__object *object = zkl__session_objects(session); object; object = object->next) {
        count += object->ops->describe(object, visit, payload);
    }
    zkl__session_leave(session);
    return count;
}
