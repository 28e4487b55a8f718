/* stats - what a session counts, as text for Prometheus.
 *   example_stats [FILE]     a file for the node exporter; without it, standard output */
#include <zklock/zklock.h>

#include <stdio.h>

/* The collector must never see half a file, so a new one is written and renamed. */
static int write_file(const char *text, const char *file)
{
    char fresh[4096];
    snprintf(fresh, sizeof fresh, "%s.new", file);
    FILE *stream = fopen(fresh, "w");
    if (!stream) {
        return -1;
    }
    int written = fputs(text, stream) >= 0;
    return fclose(stream) == 0 && written ? rename(fresh, file) : -1;
}

static int write_metrics(zkl_session *session, const char *file)
{
    static char text[262144]; /* 64 paths of usual length need a quarter of it */
    int64_t length = zkl_stats_write_prometheus(session, NULL, text, sizeof text);
    if (length < 0 || length >= (int64_t)sizeof text) {
        return -1;
    }
    return file ? write_file(text, file) : fputs(text, stdout) >= 0 ? 0 : -1;
}

int main(int argc, char **argv)
{
    zkl_session *session = NULL;
    zkl_lock *lock = NULL;
    if (zkl_session_open(&session, "memory:metrics", NULL, NULL) != ZKL_OK) {
        return 1;
    }
    int failed = zkl_lock_new(&lock, session, "/locks/report", NULL, NULL);
    failed = failed || zkl_lock_acquire(lock, 1000, NULL, NULL) || zkl_lock_release(lock, NULL);
    failed = failed || write_metrics(session, argc > 1 ? argv[1] : NULL);
    zkl_lock_free(lock);
    zkl_session_close(session, 1000);
    return failed != 0;
}
