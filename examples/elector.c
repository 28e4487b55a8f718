/* elector - work in the background while this process leads for a key: Lock, Unlock, HoldingKeys,
 * LockedKeys, Close. work gets a flag that is raised when it has to end: the lease runs low, the
 * lock is lost, or somebody unlocks; unlock waits for its end.
 *   example_elector [SERVERS]     "memory:" needs no server */
#include <zklock/zklock.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define KEYS 16
struct key {
    zkl_lock *lock; /* NULL: free */
    zkl_stop stop;  /* sticky: an unlock before the wait has begun is heard, too */
    zkl_section_fn work;
    pthread_t thread;
};
struct elector {
    zkl_session *session;
    struct key keys[KEYS];
};

static void *lead(void *arg)
{
    struct key *key = arg;
    zkl_with_lock(key->lock, ZKL_WAIT_FOREVER, 0, key->work, key, NULL, NULL);
    return NULL;
}

static int lock_key(struct elector *e, const char *path, zkl_section_fn work)
{
    struct key *key = e->keys;
    while (key < e->keys + KEYS && key->lock) {
        key++;
    }
    if (key == e->keys + KEYS) {
        return ZKL_ELIMIT;
    }
    *key = (struct key){.work = work};
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.stop = &key->stop;
    int rc = zkl_lock_new(&key->lock, e->session, path, &options, NULL);
    if (rc == ZKL_OK && pthread_create(&key->thread, NULL, lead, key) != 0) {
        zkl_lock_free(key->lock);
        key->lock = NULL;
        rc = ZKL_ELIMIT;
    }
    return rc;
}

static void unlock_key(struct key *key)
{
    zkl_stop_raise(&key->stop);
    pthread_join(key->thread, NULL);
    zkl_lock_free(key->lock);
    key->lock = NULL;
}

static void print_keys(const struct elector *e, const char *what, bool held)
{
    printf("%s:", what);
    for (const struct key *key = e->keys; key < e->keys + KEYS; key++) {
        if (key->lock && (!held || zkl_lock_is_held(key->lock))) {
            printf(" %s", zkl_lock_path(key->lock));
        }
    }
    printf("\n");
}

static void close_all(struct elector *e)
{
    for (struct key *key = e->keys; key < e->keys + KEYS; key++) {
        if (key->lock) {
            unlock_key(key);
        }
    }
    zkl_session_close(e->session, 5000);
}

/* --- two of them, in one process ------------------------------------------------------------- */

static const struct timespec millisecond = {.tv_nsec = 1000000};

static int work(const zkl_cancel *cancel, int64_t token, void *payload)
{
    (void)token;
    puts("leads");
    while (!zkl_cancel_raised(cancel)) {
        nanosleep(&millisecond, NULL); /* its work */
    }
    return payload ? 0 : 1; /* the key, whose work it is */
}

int main(int argc, char **argv)
{
    struct elector one = {0}, two = {0};
    const char *servers = argc > 1 ? argv[1] : "memory:elector";
    if (zkl_session_open(&one.session, servers, NULL, NULL) != ZKL_OK ||
        zkl_session_open(&two.session, servers, NULL, NULL) != ZKL_OK ||
        lock_key(&one, "/jobs/a", work) != ZKL_OK) {
        return 1;
    }
    while (!zkl_lock_is_held(one.keys[0].lock)) {
        nanosleep(&millisecond, NULL);
    }
    lock_key(&one, "/jobs/b", work);
    lock_key(&two, "/jobs/a", work); /* waits */
    print_keys(&one, "one, locked", false);
    print_keys(&one, "one, holding", true);
    unlock_key(&one.keys[0]);
    while (!zkl_lock_is_held(two.keys[0].lock)) {
        nanosleep(&millisecond, NULL);
    }
    print_keys(&two, "two, holding", true);
    close_all(&two);
    close_all(&one);
    return 0;
}
