/* transfer - moves money between two accounts under a multi-lock; the sum stays, whatever happens
 * to the program.
 *   example_transfer [SERVERS [TRANSFERS [SESSION_MS TICK_MS]]]     "memory:" without a server
 *
 * Each account is a znode with its balance as text. A transfer reads both under the lock and writes
 * both in one guarded transaction, which the servers carry out only while the znodes of the lock
 * stand. So a process that is stopped in the middle of it, for longer than its session lives,
 * cannot write what it computed from old balances. */
#include <zklock/zklock.h>
#include <zklock/zookeeper.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const accounts[] = {"/accounts/alice", "/accounts/bob"};

/* --- the transfer ---------------------------------------------------------------------------- */

static int transfer(zkl_lock *lock, long amount, zkl_error *err)
{
    zkl_data *from = NULL, *to = NULL;
    char less[24], more[24];
    int rc = zkl_lock_acquire(lock, 30000, NULL, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    rc = zkl_lock_read(&from, lock, accounts[0], false, 5000, err);
    rc = rc == ZKL_OK ? zkl_lock_read(&to, lock, accounts[1], false, 5000, err) : rc;
    if (rc == ZKL_OK) {
        snprintf(less, sizeof less, "%ld", atol(from->data) - amount);
        snprintf(more, sizeof more, "%ld", atol(to->data) + amount);
        const zkl_op ops[] = {
            {.kind = ZKL_OP_SET,
             .path = accounts[0],
             .data = less,
             .size = strlen(less),
             .version = ZKL_ANY_VERSION},
            {.kind = ZKL_OP_SET,
             .path = accounts[1],
             .data = more,
             .size = strlen(more),
             .version = ZKL_ANY_VERSION},
        };
        rc = zkl_lock_commit(lock, ops, 2, 5000, NULL, err);
    }
    zkl_data_free(from);
    zkl_data_free(to);
    zkl_lock_release(lock, NULL);
    return rc;
}

/* --- around it ------------------------------------------------------------------------------- */

/* Who comes first opens the accounts; for everybody else they exist already. */
static int open_accounts(zkl_lock *lock, zkl_error *err)
{
    const zkl_op ops[] = {
        {.kind = ZKL_OP_CREATE, .path = "/accounts"},
        {.kind = ZKL_OP_CREATE, .path = accounts[0], .data = "1000", .size = 4},
        {.kind = ZKL_OP_CREATE, .path = accounts[1], .data = "1000", .size = 4},
    };
    int rc = zkl_lock_acquire(lock, 30000, NULL, err);
    if (rc == ZKL_OK) {
        rc = zkl_lock_commit(lock, ops, 3, 5000, NULL, err);
        zkl_lock_release(lock, NULL);
    }
    return rc == ZKL_ECONFLICT ? ZKL_OK : rc;
}

static int print_sum(zkl_lock *lock, zkl_error *err)
{
    long sum = 0;
    int rc = zkl_lock_acquire(lock, 30000, NULL, err);
    for (int i = 0; rc == ZKL_OK && i < 2; i++) {
        zkl_data *data;
        rc = zkl_lock_read(&data, lock, accounts[i], false, 5000, err);
        if (rc == ZKL_OK) {
            printf("%s: %s\n", accounts[i], (const char *)data->data);
            sum += atol(data->data);
            zkl_data_free(data);
        }
    }
    zkl_lock_release(lock, NULL);
    printf("sum: %ld\n", sum);
    return rc == ZKL_OK && sum != 2000 ? ZKL_ECONFLICT : rc;
}

/* Every transfer that was not carried out is reported, and the next one follows. */
static int run(zkl_session *session, int transfers, zkl_error *err)
{
    static const char *const paths[] = {"/locks/alice", "/locks/bob"};
    zkl_lock *lock;
    int rc = zkl_multilock_new(&lock, session, paths, 2, NULL, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    do { /* stopped in the middle of it: again */
        rc = open_accounts(lock, err);
    } while (rc == ZKL_ELOST || rc == ZKL_ETIMEOUT);
    for (int i = 0; rc == ZKL_OK && i < transfers; i++) {
        int moved = transfer(lock, i % 2 == 0 ? 10 : -5, err);
        if (moved == ZKL_OK) {
            printf("transferred\n");
        } else {
            printf("not transferred, or not known: %s\n", err->text);
        }
        fflush(stdout);
    }
    rc = rc == ZKL_OK ? print_sum(lock, err) : rc;
    zkl_lock_free(lock);
    return rc;
}

int main(int argc, char **argv)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    zkl_session *session;
    zkl_error err = {0};
    options.session_timeout_ms = argc > 4 ? atoi(argv[3]) : options.session_timeout_ms;
    options.tick_ms = argc > 4 ? atoi(argv[4]) : options.tick_ms;
    int rc = zkl_session_open(&session, argc > 1 ? argv[1] : "memory:bank", &options, &err);
    if (rc == ZKL_OK) {
        rc = run(session, argc > 2 ? atoi(argv[2]) : 100, &err);
        zkl_session_close(session, 5000);
    }
    if (rc != ZKL_OK) {
        fprintf(stderr, "%s: %s\n", zkl_error_name(rc), err.text);
    }
    return rc == ZKL_OK ? 0 : 1;
}
