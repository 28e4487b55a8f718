/* multilock - move something between two accounts, each under a lock of its own: two threads, in
 * opposite orders, and no deadlock.
 *   example_multilock [SERVERS]     "memory:" needs no server */
#include <zklock/zklock.h>

#include <pthread.h>
#include <stdio.h>

#define ROUNDS 20

struct mover {
    zkl_session *session;
    const char *paths[2]; /* from, to */
    int *from, *to;
    int code;
};

static void *move(void *arg)
{
    struct mover *mover = arg;
    zkl_lock *lock = NULL;
    mover->code = zkl_multilock_new(&lock, mover->session, mover->paths, 2, NULL, NULL);
    for (int i = 0; mover->code == ZKL_OK && i < ROUNDS; i++) {
        mover->code = zkl_lock_acquire(lock, 10000, NULL, NULL);
        if (mover->code == ZKL_OK) {
            --*mover->from;
            ++*mover->to;
            mover->code = zkl_lock_release(lock, NULL);
        }
    }
    zkl_lock_free(lock);
    return NULL;
}

int main(int argc, char **argv)
{
    zkl_error err;
    zkl_session *session;
    if (zkl_session_open(&session, argc > 1 ? argv[1] : "memory:example", NULL, &err) != ZKL_OK) {
        fprintf(stderr, "%s: %s\n", zkl_error_name(err.code), err.text);
        return 1;
    }
    int a = 100, b = 100;
    struct mover there = {session, {"/examples/account-a", "/examples/account-b"}, &a, &b, 0};
    struct mover back = {session, {"/examples/account-b", "/examples/account-a"}, &b, &a, 0};
    pthread_t other;
    if (pthread_create(&other, NULL, move, &back) != 0) {
        return 1;
    }
    move(&there);
    pthread_join(other, NULL);
    zkl_session_close(session, 5000);
    printf("%d moves each way: a has %d, b has %d\n", ROUNDS, a, b);
    return there.code == ZKL_OK && back.code == ZKL_OK && a == 100 && b == 100 ? 0 : 1;
}
