/* barrier - a barrier that holds others back, and two members that begin and end together.
 *   example_barrier [SERVERS [PATH]]     "memory:" needs no server */
#include <zklock/zklock.h>

#include <pthread.h>
#include <stdio.h>

struct member {
    zkl_session *session;
    const char *path;
    const char *name;
    int code;
};

static void *take_part(void *payload)
{
    struct member *me = payload;
    zkl_double_barrier *barrier = NULL;
    me->code = zkl_double_barrier_new(&barrier, me->session, me->path, 2, NULL);
    if (me->code == ZKL_OK) {
        me->code = zkl_double_barrier_enter(barrier, 30000, NULL); /* until both are in */
    }
    if (me->code == ZKL_OK) {
        printf("%s works while the other one is in\n", me->name);
        me->code = zkl_double_barrier_leave(barrier, 30000, NULL); /* until both have left */
    }
    zkl_double_barrier_free(barrier);
    return NULL;
}

static int run_together(zkl_session *session, const char *path)
{
    struct member members[2] = {{session, path, "anna", 0}, {session, path, "ben", 0}};
    pthread_t other;
    if (pthread_create(&other, NULL, take_part, &members[1]) != 0) {
        return 1;
    }
    take_part(&members[0]);
    pthread_join(other, NULL);
    return members[0].code != ZKL_OK || members[1].code != ZKL_OK;
}

int main(int argc, char **argv)
{
    const char *path = argc > 2 ? argv[2] : "/examples/barrier";
    char gate[256];
    zkl_error err;
    zkl_session *session;
    if (zkl_session_open(&session, argc > 1 ? argv[1] : "memory:example", NULL, &err) != ZKL_OK) {
        fprintf(stderr, "%s: %s\n", zkl_error_name(err.code), err.text);
        return 1;
    }
    snprintf(gate, sizeof gate, "%s-gate", path);
    int failed = zkl_barrier_set(session, gate, 5000, NULL) != ZKL_OK ||
                 zkl_barrier_wait(session, gate, 50, NULL) != ZKL_ETIMEOUT || /* it is up */
                 zkl_barrier_lift(session, gate, 5000, NULL) != ZKL_OK ||
                 zkl_barrier_wait(session, gate, 5000, NULL) != ZKL_OK;
    failed = failed || run_together(session, path);
    zkl_session_close(session, 5000);
    return failed;
}
