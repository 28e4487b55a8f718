/* What a user's program does first: a lock without a server. C99, public headers alone. */
#include <stdio.h>
#include <string.h>

#include <zklock/zklock.h>

static int complain(const zkl_error *err)
{
    fprintf(stderr, "%s: %s\n", zkl_error_name(err->code), err->text);
    return 1;
}

static int use(zkl_lock *mine, zkl_lock *other)
{
    zkl_error err;
    zkl_grant grant;
    int code;

    if (zkl_lock_acquire(mine, 60000, &grant, &err) != ZKL_OK) {
        return complain(&err);
    }
    code = zkl_lock_acquire(other, 0, NULL, &err);
    if (code != ZKL_EBUSY || !zkl_lock_is_held(mine) || zkl_lock_token(mine) != grant.token) {
        fprintf(stderr, "the other's try: %s\n", zkl_error_name(code));
        return 1;
    }
    return zkl_lock_release(mine, &err) == ZKL_OK ? 0 : complain(&err);
}

int main(void)
{
    zkl_error err;
    zkl_session *session;
    zkl_lock *mine = NULL, *other = NULL;
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    int failed;

    /* Headers and library are of one installation. */
    if (strcmp(zkl_version(), ZKL_VERSION) != 0) {
        fprintf(stderr, "headers %s, library %s\n", ZKL_VERSION, zkl_version());
        return 1;
    }
    if (zkl_session_open(&session, "memory:consumer", &options, &err) != ZKL_OK) {
        return complain(&err);
    }
    failed = zkl_lock_new(&mine, session, "/locks/consumer", NULL, &err) != ZKL_OK ||
             zkl_lock_new(&other, session, "/locks/consumer", NULL, &err) != ZKL_OK;
    failed = failed ? complain(&err) : use(mine, other);
    zkl_lock_free(mine);
    zkl_lock_free(other);
    zkl_session_close(session, 5000);
    printf("%s\n", zkl_version());
    return failed;
}
