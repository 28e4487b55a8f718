#include "workout.h"

#include <string.h>

#define CROWD 4
#define ROUNDS 10

struct field field_of(const char *servers, int64_t timeout_ms, int64_t tick_ms)
{
    return (struct field){{servers}, 1, timeout_ms, tick_ms};
}

struct field field_of_each(const struct ensemble *e, int64_t timeout_ms, int64_t tick_ms)
{
    struct field field = {.timeout_ms = timeout_ms, .tick_ms = tick_ms};
    while (field.count < ensemble_size(e) && field.count < FIELD_SERVERS) {
        field.servers[field.count] = ensemble_address(e, field.count);
        field.count++;
    }
    return field;
}

static zkl_session *open_nth(const struct field *field, int n)
{
    return contest_session(field->servers[n % field->count], field->timeout_ms, field->tick_ms);
}

/* --- a queue --------------------------------------------------------------------------------- */

struct queue_of queue_up(const struct field *field, const char *path, int count)
{
    struct queue_of q = {count, calloc((size_t)count, sizeof *q.sessions), calloc((size_t)count, sizeof *q.locks),
                         calloc((size_t)count, sizeof *q.waiters)};
    for (int i = 0; i < count; i++) {
        q.sessions[i] = open_nth(field, i);
        if (i == 0) {
            q.locks[0] = contest_holder(q.sessions[0], path);
        } else {
            q.locks[i] = contest_lock(q.sessions[i], path, NULL);
            waiter_queue(&q.waiters[i], q.locks[i], ZKL_WAIT_FOREVER);
        }
    }
    return q;
}

void queue_drain(struct queue_of *q)
{
    int64_t last = zkl_lock_token(q->locks[0]);
    CU_ASSERT(zkl_lock_is_held(q->locks[0]));
    for (int i = 1; i < q->count; i++) {
        CU_ASSERT(!atomic_load(&q->waiters[i].done));
        ASSERT_OK(zkl_lock_release(q->locks[i - 1], NULL));
        ASSERT_OK(waiter_end(&q->waiters[i]));
        CU_ASSERT(zkl_lock_is_held(q->locks[i]));
        CU_ASSERT(q->waiters[i].grant.token > last);
        last = q->waiters[i].grant.token;
    }
    ASSERT_OK(zkl_lock_release(q->locks[q->count - 1], NULL));
    for (int i = 0; i < q->count; i++) {
        zkl_lock_free(q->locks[i]);
        ASSERT_OK(zkl_session_close(q->sessions[i], SOON));
    }
    free(q->sessions);
    free(q->locks);
    free(q->waiters);
}

/* --- a crowd --------------------------------------------------------------------------------- */

struct crowd {
    const char *path;
    atomic_int inside, overlaps, grants;
    atomic_llong last; /* token */
};

struct member {
    struct crowd *crowd;
    zkl_session *session;
    pthread_t thread;
};

static void *run_member(void *arg)
{
    struct member *member = arg;
    struct crowd *crowd = member->crowd;
    zkl_lock *lock = contest_lock(member->session, crowd->path, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        zkl_grant grant;
        zkl_error err;
        int code = zkl_lock_acquire(lock, SOON, &grant, &err);
        if (code != ZKL_OK) {
            fprintf(stderr, "%s: %s\n", zkl_error_name(code), err.text);
            continue;
        }
        atomic_fetch_add(&crowd->overlaps, atomic_fetch_add(&crowd->inside, 1) > 0);
        atomic_fetch_add(&crowd->overlaps, atomic_exchange(&crowd->last, grant.token) >= grant.token);
        atomic_fetch_add(&crowd->grants, 1);
        atomic_fetch_sub(&crowd->inside, 1);
        zkl_lock_release(lock, NULL);
    }
    zkl_lock_free(lock);
    return NULL;
}

static void run_crowd(const struct field *field, const char *path)
{
    struct crowd crowd = {.path = path};
    struct member members[CROWD];
    for (int i = 0; i < CROWD; i++) {
        members[i] = (struct member){.crowd = &crowd, .session = open_nth(field, i)};
        pthread_create(&members[i].thread, NULL, run_member, &members[i]);
    }
    for (int i = 0; i < CROWD; i++) {
        pthread_join(members[i].thread, NULL);
        ASSERT_OK(zkl_session_close(members[i].session, SOON));
    }
    CU_ASSERT_EQUAL(atomic_load(&crowd.overlaps), 0);
    CU_ASSERT_EQUAL(atomic_load(&crowd.grants), CROWD * ROUNDS);
}

void workout(const struct field *field, const char *path)
{
    struct queue_of queue = queue_up(field, path, 6);
    queue_drain(&queue);
    run_crowd(field, path);
}

/* --- the rest -------------------------------------------------------------------------------- */

bool lease_becomes(const zkl_lock *lock, int64_t remaining_ms)
{
    int64_t end = now_ms() + SOON;
    while (zkl_lock_remaining_ms(lock) < remaining_ms) {
        if (!look_again(end)) {
            return false;
        }
    }
    return true;
}

int try_session(const char *servers, int64_t timeout_ms, int64_t tick_ms, zkl_error *err)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    zkl_session *session = NULL;
    options.session_timeout_ms = timeout_ms;
    options.tick_ms = tick_ms;
    options.connect_timeout_ms = 3000;
    int code = zkl_session_open(&session, servers, &options, err);
    if (code == ZKL_OK) {
        ASSERT_OK(zkl_session_close(session, SOON));
    }
    return code;
}

void holds(const char *configuration, const char *what)
{
    static unsigned failures;
    unsigned now = CU_get_number_of_failures();
    if (now == failures) {
        printf("\nHOLDS|%s|%s\n", configuration, what);
    }
    failures = now;
}
