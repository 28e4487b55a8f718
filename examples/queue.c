/* queue - who holds a lock and who waits for it, by a program that takes no part.
 *   example_queue [SERVERS [PATH]]     without SERVERS: a lock of its own, in memory */
#include <zklock/zklock.h>

#include <inttypes.h>
#include <stdio.h>

static int print_queue(zkl_session *session, const char *path, zkl_error *err)
{
    zkl_queue *queue = NULL;
    int rc = zkl_queue_list(&queue, session, path, 5000, err);
    if (rc != ZKL_OK) {
        return rc;
    }
    for (size_t i = 0; i < queue->count; i++) {
        const zkl_queue_entry *entry = &queue->entries[i];
        /* The data is what its owner wrote: for a terminal, escape what is not printable. */
        printf("%s %s, token %" PRId64 ": %.*s\n", entry->holds ? "holds" : "waits", entry->name,
               entry->token, (int)entry->data_size, entry->data);
    }
    zkl_queue_free(queue);
    return ZKL_OK;
}

int main(int argc, char **argv)
{
    const char *servers = argc > 1 ? argv[1] : "memory:queue";
    const char *path = argc > 2 ? argv[2] : "/locks/report";
    zkl_session *session = NULL;
    zkl_lock *lock = NULL;
    zkl_error err = {0};
    printf("zklock %s\n", zkl_version());
    int rc = zkl_session_open(&session, servers, NULL, &err);
    if (rc == ZKL_OK && argc == 1 &&
        (rc = zkl_lock_new(&lock, session, path, NULL, &err)) == ZKL_OK) {
        rc = zkl_lock_acquire(lock, 1000, NULL, &err);
    }
    if (rc == ZKL_OK) {
        rc = print_queue(session, path, &err);
    }
    if (rc != ZKL_OK) {
        fprintf(stderr, "%s: %s\n", zkl_error_name(rc), err.text);
    }
    zkl_lock_free(lock);
    zkl_session_close(session, 1000);
    return rc != ZKL_OK;
}
