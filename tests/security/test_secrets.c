/* Where a password may be, and where not: a canary in the credentials, looked for in every block of memory that the library gives
 * back, in its log at its most talkative, in errors and statistics, and on stderr. */
#include <malloc.h>

#include "one_server.h"

#define CANARY "kanari-7f3a91c2"
#define CREDENTIALS "ann:" CANARY

/* --- a heap that looks at what it is given back -------------------------------------------------------------------------- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int dirty, seen; /* blocks given back with the canary in them; all */

static bool holds_canary(const void *bytes, size_t size)
{
    return memmem(bytes, size, CANARY, strlen(CANARY)) != NULL;
}

static void *heap_alloc(void *payload, size_t size)
{
    return calloc(1, size);
}

static void heap_release(void *payload, void *ptr)
{
    if (ptr) {
        pthread_mutex_lock(&mutex);
        dirty += holds_canary(ptr, malloc_usable_size(ptr));
        seen++;
        pthread_mutex_unlock(&mutex);
        free(ptr);
    }
}

static void *heap_resize(void *payload, void *ptr, size_t size)
{
    void *fresh = heap_alloc(payload, size);
    if (fresh && ptr) {
        size_t old = malloc_usable_size(ptr);
        memcpy(fresh, ptr, old < size ? old : size);
        heap_release(payload, ptr);
    }
    return fresh;
}

static const zkl_heap heap = {heap_alloc, heap_resize, heap_release, NULL};

/* --- a log that keeps everything ------------------------------------------------------------------------------------------ */

static FILE *log_stream;
static char *log_text;
static size_t log_length;

static void on_log(const zkl_log_record *record, void *payload)
{
    fprintf(log_stream, "%s\n", record->line);
    fflush(log_stream);
}

static zkl_session_options talkative(const char *scheme)
{
    zkl_session_options options = contest_options(TIMEOUT, TICK);
    log_stream = log_stream ? log_stream : open_memstream(&log_text, &log_length);
    options.auth_scheme = scheme;
    options.auth = CREDENTIALS;
    options.auth_size = strlen(CREDENTIALS);
    options.log_fn = on_log;
    options.log_level = ZKL_LOG_DEBUG;
    options.heap = &heap;
    return options;
}

/* A life with a wait, a lost connection and a new session. */
static void live(void)
{
    zkl_session_options options = talkative("digest");
    zkl_session *session;
    ASSERT_OK_FATAL(zkl_session_open(&session, ensemble_servers(server), &options, NULL));
    zkl_lock *lock = contest_holder(session, "/canary/lock");
    ensemble_kill(server, 0);
    CU_ASSERT_FATAL(ensemble_restart(server, 0));
    CU_ASSERT_FATAL(ensemble_wait(server, 4 * SOON));
    zkl_lock_release(lock, NULL);
    ASSERT_OK(zkl_lock_acquire(lock, SOON, NULL, NULL));
    static char text[100000];
    CU_ASSERT(zkl_stats_write_prometheus(session, NULL, text, sizeof text) < (int64_t)sizeof text);
    CU_ASSERT_FALSE(holds_canary(text, strlen(text)));
    zkl_lock_free(lock);
    kit_close(session);
}

/* --- tests ------------------------------------------------------------------------------------------------------------------ */

TEST(test_memory_and_log)
{
    char file[] = "/tmp/secrets-XXXXXX";
    static char words[100000];
    int fd = mkstemp(file), before = dup(STDERR_FILENO);
    CU_ASSERT_FATAL(fd >= 0 && before >= 0);
    unlink(file);
    dup2(fd, STDERR_FILENO);
    live();
    dup2(before, STDERR_FILENO);
    close(before);
    CU_ASSERT_EQUAL(pread(fd, words, sizeof words - 1, 0), 0); /* the client library, too, says nothing by itself */
    if (words[0]) {
        fprintf(stderr, "\non stderr: %s\n", words);
    }
    close(fd);
    CU_ASSERT(seen > 20);
    CU_ASSERT_EQUAL(dirty, 0);
    CU_ASSERT(log_length > 1000);
    CU_ASSERT_FALSE(holds_canary(log_text, log_length));
    CU_ASSERT_PTR_NULL(strstr(log_text, &CANARY[7]));
}

/* The client library's line about a connection has a place for the session's password. */
TEST(test_session_password)
{
    const char *at = log_text;
    while ((at = strcasestr(at, "passwd="))) {
        at += strlen("passwd=");
        CU_ASSERT(*at == '<');
    }
}

TEST(test_refused)
{
    zkl_session_options options = talkative("nonsense");
    zkl_session *session;
    zkl_error err;
    CU_ASSERT_EQUAL(zkl_session_open(&session, ensemble_servers(server), &options, &err), ZKL_EAUTH);
    CU_ASSERT_FALSE(holds_canary(&err, sizeof err));
    ASSERT_SAYS(err, "nonsense");
    options.auth_scheme = NULL; /* a mistake of the caller's */
    CU_ASSERT_EQUAL(zkl_session_open(&session, ensemble_servers(server), &options, &err), ZKL_EINVAL);
    CU_ASSERT_FALSE(holds_canary(&err, sizeof err));
    CU_ASSERT_EQUAL(dirty, 0);
    CU_ASSERT_FALSE(holds_canary(log_text, log_length));
}

TESTS_ON_ONE_SERVER("secrets")
