/* once - a job that runs once per time slot, however many hosts start it.
 *   example_once [SERVERS [PATH]]     "memory:" needs no server */
#include <zklock/zklock.h>

#include <stdio.h>

static int write_report(const zkl_cancel *cancel, int64_t token, void *payload)
{
    (void)cancel; /* long work looks at it: zkl_cancel_raised */
    (void)payload;
    printf("the report is written, token %lld\n", (long long)token);
    return 0; /* the slot is recorded; anything else: another host runs the job */
}

/* What each host does. *ran: whether it was this host that ran the job. */
static int run_job(zkl_session *session, const char *path, bool *ran)
{
    zkl_lock *lock = NULL;
    zkl_error err;
    int result = 0;
    int code = zkl_lock_new(&lock, session, path, NULL, &err);
    if (code == ZKL_OK) {
        code = zkl_once_run(lock, 3600000, 0, 30000, write_report, NULL, ran, &result, &err);
    }
    if (code != ZKL_OK) {
        fprintf(stderr, "%s: %s\n", zkl_error_name(code), err.text);
    }
    zkl_lock_free(lock);
    return code;
}

int main(int argc, char **argv)
{
    zkl_error err;
    zkl_session *session;
    if (zkl_session_open(&session, argc > 1 ? argv[1] : "memory:example", NULL, &err) != ZKL_OK) {
        fprintf(stderr, "%s: %s\n", zkl_error_name(err.code), err.text);
        return 1;
    }
    int failed = 0;
    for (int host = 1; host <= 3; host++) {
        bool ran = false;
        failed += run_job(session, argc > 2 ? argv[2] : "/examples/once", &ran) != ZKL_OK;
        printf("host %d: %s\n", host, ran ? "ran the job" : "the slot was done");
    }
    zkl_session_close(session, 5000);
    return failed > 0;
}
