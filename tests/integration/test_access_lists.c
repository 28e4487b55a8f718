/* Programs with different credentials in one open queue, on a real server; what each version tells of a znode that may not be
 * read stands at enum zkl__read_access. */
#include "access_kit.h"
#include "one_server.h"

#include <stdio.h>
#include <string.h>

#define ROUNDS 20
#define SECOND_NS INT64_C(1000000000)

static int64_t slowest(struct access *access, const struct access_kind *kind)
{
    int64_t most = 0;
    for (int i = 0; i < ROUNDS; i++) {
        int64_t took = access_hand_over(access, kind, NULL);
        most = took > most ? took : most;
    }
    return most;
}

/* Within a second, and what the same hand-overs take on this machine when all may be read. */
TEST(test_hand_over)
{
    struct access open, closed;
    access_begin(&open, ensemble_servers(server), false, TICK);
    access_begin(&closed, ensemble_servers(server), true, TICK);
    for (int i = 0; i < access_kind_count; i++) {
        const struct access_kind *kind = &access_kinds[i];
        int64_t control = slowest(&open, kind);
        int64_t most = slowest(&closed, kind);
        fprintf(stderr, "%s: %d of %d, slowest after %.1f ms (all readable: %.1f ms)\n", kind->name, 2 * ROUNDS,
                2 * ROUNDS, (double)most / 1e6, (double)control / 1e6);
        CU_ASSERT(most < control + SECOND_NS);
    }
    access_end(&open);
    access_end(&closed);
}

static const struct access_kind *kind_named(const char *name)
{
    const struct access_kind *kind = access_kinds;
    while (strcmp(kind->name, name) != 0) {
        kind++;
    }
    return kind;
}

/* --- the command ----------------------------------------------------------------------------------------------------- */

/* What it prints, and its exit code. */
static int command(char *out, size_t size, const char *before, const char *arguments)
{
    char line[512];
    snprintf(line, sizeof line, "%s'%s' -s %s --tick %dms %s 2>&1", before, ZKLOCK_COMMAND, ensemble_servers(server),
             TICK, arguments);
    FILE *pipe = popen(line, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(pipe);
    size_t length = fread(out, 1, size - 1, pipe);
    out[length] = '\0';
    return pclose(pipe);
}

/* Not readable, instead of numbers that mean nothing (an age of half a million hours). */
TEST(test_command)
{
    static const char row[] = "holds  -                -  -                   lock        (not readable)";
    static const char hidden[] = "\"token\":null,\"session\":null,\"created\":null,\"created_ms\":null,\"age_ms\":null,"
                                 "\"readable\":false,\"identity\":null";
    static char out[65536];
    struct access closed;
    access_begin(&closed, ensemble_servers(server), true, TICK);
    ASSERT_OK_FATAL(zkl_once_prepare(closed.eye, "/locks/access", SOON, NULL));
    const struct access_kind *kind = kind_named("lock");
    zkl_lock *holder = access_make(kind, closed.sessions[0], "/locks/access", NULL);
    ASSERT_OK_FATAL(zkl_lock_acquire(holder, SOON, NULL, NULL));
    CU_ASSERT_EQUAL(command(out, sizeof out, "", "ls /locks/access"), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(out, row));
    CU_ASSERT_EQUAL(command(out, sizeof out, "", "--json ls /locks/access"), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(out, hidden));
    out[0] = '\0';
    for (int seconds = 1; seconds <= 64 && !strstr(out, hidden); seconds *= 2) { /* on a busy machine it takes longer */
        char timeout[32];
        snprintf(timeout, sizeof timeout, "timeout -s INT %d ", seconds);
        (void)command(out, sizeof out, timeout, "watch /locks/access");
    }
    CU_ASSERT_PTR_NOT_NULL(strstr(out, hidden));
    (void)command(out, sizeof out, "", "doctor");
    CU_ASSERT_PTR_NOT_NULL(strstr(out, "is not readable"));
    ASSERT_OK(zkl_lock_release(holder, NULL));
    zkl_lock_free(holder);
    access_end(&closed);
}

TESTS_ON_ONE_SERVER("access lists")
