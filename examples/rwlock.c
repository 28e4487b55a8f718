/* rwlock - write alone, then downgrade and read with others; no other writer comes in between.
 *   example_rwlock [SERVERS [PATH]]     "memory:" needs no server */
#include <zklock/zklock.h>

#include <stdio.h>

static int complain(const zkl_error *err)
{
    fprintf(stderr, "%s: %s\n", zkl_error_name(err->code), err->text);
    return 1;
}

static int use(zkl_lock *mine, zkl_lock *other)
{
    zkl_error err;
    zkl_grant grant;
    if (zkl_lock_acquire(mine, 10000, &grant, &err) != ZKL_OK) {
        return complain(&err);
    }
    printf("writing, token %lld\n", (long long)grant.token);
    int code = zkl_lock_acquire(other, 0, NULL, NULL);
    printf("another reads meanwhile: %s\n", zkl_strerror(code));
    if (zkl_write_lock_downgrade(mine, &err) != ZKL_OK) {
        return complain(&err);
    }
    if (zkl_lock_acquire(other, 10000, NULL, &err) != ZKL_OK) {
        return complain(&err);
    }
    printf("both read now, the first with its old token %lld\n", (long long)zkl_lock_token(mine));
    zkl_lock_release(other, NULL);
    return zkl_lock_release(mine, &err) == ZKL_OK ? 0 : complain(&err);
}

int main(int argc, char **argv)
{
    const char *path = argc > 2 ? argv[2] : "/examples/rwlock";
    zkl_error err;
    zkl_session *session;
    zkl_lock *mine = NULL, *other = NULL;
    if (zkl_session_open(&session, argc > 1 ? argv[1] : "memory:example", NULL, &err) != ZKL_OK) {
        return complain(&err);
    }
    int code = zkl_write_lock_new(&mine, session, path, NULL, &err);
    code = code == ZKL_OK ? zkl_read_lock_new(&other, session, path, NULL, &err) : code;
    int failed = code == ZKL_OK ? use(mine, other) : complain(&err);
    zkl_lock_free(mine);
    zkl_lock_free(other);
    zkl_session_close(session, 5000);
    return failed;
}
