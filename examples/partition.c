/* partition - topics assigned evenly to the processes that run this.
 *   example_partition [SERVERS [PATH [COUNT [CAP]]]]     "memory:" needs no server
 *
 * On memory: two members start, and one leaves. With servers: start several, and kill some; each
 * ends with SIGTERM or ^C. Each line says what happened, the topic, and its token or the reason. */
#include <zklock/zklock.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_MAX 1000

static void on_assigned(zkl_partition *partition, const char *topic, int64_t token, void *payload)
{
    (void)partition;
    /* Begin to work on it in another thread: this one has other callbacks to run. Give the token to
     * the storage. */
    printf("%s: assigned %s, token %lld\n", (const char *)payload, topic, (long long)token);
}

static void on_revoked(zkl_partition *partition, const char *topic, bool lost, void *payload)
{
    (void)partition;
    /* End the work on it, then return: it is passed on then. If it was lost, another member may
     * have it already. */
    printf("%s: revoked %s%s\n", (const char *)payload, topic, lost ? ", lost" : "");
}

static zkl_partition *join(zkl_session *session, const char *path, int count, int cap,
                           const char *who)
{
    static char text[COUNT_MAX][24];
    const char *topics[COUNT_MAX];
    zkl_partition *partition = NULL;
    zkl_partition_options options = ZKL_PARTITION_OPTIONS_INIT;
    zkl_error err;
    for (int i = 0; i < count; i++) {
        snprintf(text[i], sizeof text[i], "topic-%d", i);
        topics[i] = text[i];
    }
    options.cap = (size_t)cap;
    options.assigned_fn = on_assigned;
    options.revoked_fn = on_revoked;
    options.payload = (void *)who;
    int code = zkl_partition_new(&partition, session, path, topics, (size_t)count, &options, &err);
    if (code == ZKL_OK) {
        code = zkl_partition_start(partition, &err);
    }
    if (code != ZKL_OK) {
        fprintf(stderr, "%s: %s\n", zkl_error_name(code), err.text);
        exit(1);
    }
    return partition;
}

/* Until each has its half. */
static void show(zkl_session *session, const char *path)
{
    zkl_partition *a = join(session, path, 6, 4, "a");
    zkl_partition *b = join(session, path, 6, 4, "b");
    sigset_t none;
    sigemptyset(&none);
    while (zkl_partition_owned(a, NULL, 0) != 3 || zkl_partition_owned(b, NULL, 0) != 3) {
        sigtimedwait(&none, NULL, &(struct timespec){0, 1000000});
    }
    printf("a leaves\n");
    zkl_partition_free(a);
    while (zkl_partition_owned(b, NULL, 0) != 4) { /* its cap: two wait for another member */
        sigtimedwait(&none, NULL, &(struct timespec){0, 1000000});
    }
    zkl_partition_free(b);
}

int main(int argc, char **argv)
{
    const char *servers = argc > 1 ? argv[1] : "memory:example";
    const char *path = argc > 2 ? argv[2] : "/examples/topics";
    int count = argc > 3 ? atoi(argv[3]) : 100, cap = argc > 4 ? atoi(argv[4]) : 20, got;
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    setvbuf(stdout, NULL, _IOLBF, 0);
    zkl_error err;
    zkl_session *session;
    if (count < 1 || count > COUNT_MAX || cap < 0) {
        fprintf(stderr, "from 1 to %d topics\n", COUNT_MAX);
        return 2;
    }
    if (zkl_session_open(&session, servers, NULL, &err) != ZKL_OK) {
        fprintf(stderr, "%s: %s\n", zkl_error_name(err.code), err.text);
        return 1;
    }
    if (strncmp(servers, "memory:", 7) == 0) {
        show(session, path);
    } else {
        zkl_partition *partition = join(session, path, count, cap, "me");
        sigwait(&ends, &got);
        zkl_partition_free(partition); /* revokes, then releases */
    }
    zkl_session_close(session, 5000);
    return 0;
}
