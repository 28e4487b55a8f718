#include "workout.h"

#define CROWD 4
#define ROUNDS 10

struct ensemble *begin(const struct ensemble_options *options)
{
    struct ensemble *e = ensemble_start(options);
    CU_ASSERT_PTR_NOT_NULL_FATAL(e);
    return e;
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
        crowd->overlaps += crowd->inside++ > 0;
        crowd->overlaps += atomic_exchange(&crowd->last, grant.token) >= grant.token;
        crowd->grants++;
        crowd->inside--;
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
        members[i] = (struct member){
            .crowd = &crowd,
            .session = contest_session(field->servers[i % field->count], field->timeout_ms, field->tick_ms)};
        pthread_create(&members[i].thread, NULL, run_member, &members[i]);
    }
    for (int i = 0; i < CROWD; i++) {
        pthread_join(members[i].thread, NULL);
        kit_close(members[i].session);
    }
    CU_ASSERT_EQUAL(crowd.overlaps, 0);
    CU_ASSERT_EQUAL(crowd.grants, CROWD * ROUNDS);
}

void workout(const struct field *field, const char *path)
{
    struct queue_of queue;
    queue_up(&queue, field, path, 6);
    queue_drain(&queue);
    run_crowd(field, path);
}

/* --- the rest -------------------------------------------------------------------------------- */

bool counted(struct ensemble *e, int i, const char *counter)
{
    char name[64];
    char *answer = ensemble_ask(e, i, "mntr");
    snprintf(name, sizeof name, "\nzk_%s\t", counter);
    const char *line = answer ? strstr(answer, name) : NULL;
    bool some = line && atol(line + strlen(name)) > 0;
    free(answer);
    return some;
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
