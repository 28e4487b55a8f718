/* guarded - the options of a lock for work that must not be left half done: detect a crash, release
 * on request, and write under the protection of the lock itself.
 *   example_guarded [SERVERS [PATH]]     "memory:" needs no server */
#include <zklock/zklock.h>
#include <zklock/zookeeper.h>

#include <stdatomic.h>
#include <stdio.h>

static atomic_bool asked;

static void on_revoke(zkl_lock *lock, void *payload)
{
    (void)lock;
    (void)payload;
    asked = true; /* the work looks at it between two pieces */
}

/* One record, written only while the lock is still ours. */
static int record(zkl_lock *lock, const char *text, size_t size)
{
    zkl_error err;
    const zkl_op make = {.kind = ZKL_OP_CREATE, .path = "/examples/record"};
    const zkl_op set = {.kind = ZKL_OP_SET,
                        .path = "/examples/record",
                        .data = text,
                        .size = size,
                        .version = ZKL_ANY_VERSION};
    int code = zkl_lock_commit(lock, &set, 1, ZKL_WAIT_FOREVER, NULL, &err);
    if (code == ZKL_ENOENT) {
        zkl_lock_commit(lock, &make, 1, ZKL_WAIT_FOREVER, NULL, NULL); /* it may exist already */
        code = zkl_lock_commit(lock, &set, 1, ZKL_WAIT_FOREVER, NULL, &err);
    }
    if (code != ZKL_OK) {
        fprintf(stderr, "%s: %s\n", zkl_error_name(code), err.text);
    }
    return code;
}

static int work(zkl_session *session, zkl_lock *lock)
{
    zkl_error err;
    zkl_grant grant;
    if (zkl_lock_acquire(lock, 10000, &grant, &err) != ZKL_OK) {
        fprintf(stderr, "%s: %s\n", zkl_error_name(err.code), err.text);
        return 1;
    }
    if (grant.unclean) {
        printf("the last one did not finish: cleaning up first\n");
    }
    int code = record(lock, "begun", 5);
    zkl_queue_revoke(session, zkl_lock_path(lock), NULL, 5000,
                     NULL); /* usually another process does that */
    while (code == ZKL_OK && !asked) {
        code = record(lock, "under way", 9);
    }
    printf("asked to give way: releasing after a whole piece\n");
    code = code == ZKL_OK ? record(lock, "ended", 5) : code;
    return zkl_lock_release(lock, NULL) == ZKL_OK && code == ZKL_OK ? 0 : 1;
}

int main(int argc, char **argv)
{
    zkl_error err;
    zkl_session *session;
    if (zkl_session_open(&session, argc > 1 ? argv[1] : "memory:example", NULL, &err) != ZKL_OK) {
        fprintf(stderr, "%s: %s\n", zkl_error_name(err.code), err.text);
        return 1;
    }
    zkl_lock *lock;
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.recover = true;
    options.revoke_fn = on_revoke;
    int failed = 1;
    if (zkl_lock_new(&lock, session, argc > 2 ? argv[2] : "/examples/guarded", &options, &err) ==
        ZKL_OK) {
        failed = work(session, lock);
        zkl_lock_free(lock);
    }
    zkl_session_close(session, 5000);
    return failed;
}
