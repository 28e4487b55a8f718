/* A program that is started while a session is open gets none of its descriptors. */
#include "check.h"
#include "ensemble.h"
#include "wait.h"

#include <zklock/zklock.h>

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a program finds that is started by fork and exec: links of its descriptors, one per line. */
static void list_in_child(char *out, size_t size)
{
    int ends[2];
    size_t used = 0;
    ssize_t got;
    CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        /* Without a pipe of its own: the shell might hold its ends while it looks. */
        execl("/bin/sh", "sh", "-c", "for fd in /proc/$$/fd/*; do readlink $fd; done", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    while (used + 1 < size && (got = read(ends[0], out + used, size - 1 - used)) > 0) {
        used += (size_t)got;
    }
    out[used] = '\0';
    close(ends[0]);
    waitpid(pid, NULL, 0);
}

static int count_lines(const char *text, const char *word)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, word)); at++) {
        count++;
    }
    return count;
}

static void expect_as_before(const char *when, const char *before)
{
    char now[4096];
    list_in_child(now, sizeof now);
    CU_ASSERT_EQUAL(count_lines(now, "socket:"), count_lines(before, "socket:"));
    CU_ASSERT_EQUAL(count_lines(now, "pipe:"), count_lines(before, "pipe:"));
    CU_ASSERT_EQUAL(count_lines(now, "event"), count_lines(before, "event"));
    if (count_lines(now, ":") != count_lines(before, ":")) {
        fprintf(stderr, "\n%s: a program finds\n%s", when, now);
    }
}

static bool both_become(zkl_session *one, zkl_session *other, zkl_connection_state state)
{
    int64_t end = now_ms() + SOON;
    bool so;
    while (!(so = zkl_session_state(one) == state && zkl_session_state(other) == state) && look_again(end)) {
    }
    return so;
}

static void test_nothing_is_inherited(void)
{
    char before[4096];
    struct ensemble *server = ensemble_start(NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(server);
    list_in_child(before, sizeof before);
    zkl_session *session = NULL, *other = NULL;
    CU_ASSERT_EQUAL_FATAL(zkl_session_open(&session, ensemble_servers(server), NULL, NULL), ZKL_OK);
    expect_as_before("one session", before);
    CU_ASSERT_EQUAL_FATAL(zkl_session_open(&other, ensemble_servers(server), NULL, NULL), ZKL_OK);
    expect_as_before("two sessions", before);
    ensemble_kill(server, 0);
    CU_ASSERT(both_become(session, other, ZKL_SESSION_SUSPENDED));
    CU_ASSERT_TRUE(ensemble_restart(server, 0));
    CU_ASSERT(both_become(session, other, ZKL_SESSION_CONNECTED));
    expect_as_before("connected again", before);
    zkl_session_close(session, 5000);
    zkl_session_close(other, 5000);
    ensemble_stop(server);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {T(test_nothing_is_inherited)};
    if (!ensemble_available()) {
        return 77;
    }
    return check_main("exec", cases, 1, argc, argv);
}
