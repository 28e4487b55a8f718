/* examples/transfer.c in several processes, which are stopped for longer than their sessions live, wherever they are just
 * then: the sum of the accounts stays. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "on_servers.h"
#include "lock_kit.h"

#define PROCESSES 3
#define SESSION_MS 2000
#define TICK_MS 100

static pid_t start(const char *transfers, int out)
{
    char session[16], tick[16];
    snprintf(session, sizeof session, "%d", SESSION_MS);
    snprintf(tick, sizeof tick, "%d", TICK_MS);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(out, STDOUT_FILENO);
        dup2(out, STDERR_FILENO);
        execl(TRANSFER, TRANSFER, ensemble_servers(server), transfers, session, tick, (char *)NULL);
        _exit(127);
    }
    CU_ASSERT_TRUE_FATAL(pid > 0);
    return pid;
}

static int count(int fd, const char *word)
{
    static char text[1 << 20];
    ssize_t size = pread(fd, text, sizeof text - 1, 0);
    int found = 0;
    text[size > 0 ? size : 0] = '\0';
    for (const char *at = text; (at = strstr(at, word)); at++) {
        found++;
    }
    return found;
}

static int ended(pid_t pid)
{
    int status = -1;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int scratch(void)
{
    char path[] = "/tmp/zklock-transfer-XXXXXX";
    int fd = mkstemp(path);
    CU_ASSERT_TRUE_FATAL(fd >= 0);
    unlink(path);
    return fd;
}

static bool serves_transfers(int fd, int more)
{
    int had = count(fd, "transferred\n");
    return EVENTUALLY(count(fd, "transferred\n") >= had + more);
}

TEST(test_stopped_beyond_the_session)
{
    pid_t pids[PROCESSES];
    int outs[PROCESSES], not_done = 0;
    for (int i = 0; i < PROCESSES; i++) {
        outs[i] = scratch();
        pids[i] = start("1000000", outs[i]);
    }
    CU_ASSERT_TRUE(serves_transfers(outs[0], 5) && serves_transfers(outs[1], 5));
    for (int round = 0; round < 6; round++) { /* the others go on as soon as its session has ended */
        int victim = round % PROCESSES, other = (round + 1) % PROCESSES;
        kill(pids[victim], SIGSTOP);
        CU_ASSERT_TRUE(serves_transfers(outs[other], 20));
        struct timespec beyond = {.tv_sec = (SESSION_MS + 3 * TICK_MS) / 1000 + 1};
        nanosleep(&beyond, NULL); /* the fault itself: so long it is stopped */
        kill(pids[victim], SIGCONT);
        CU_ASSERT_TRUE(serves_transfers(outs[victim], 1));
    }
    for (int i = 0; i < PROCESSES; i++) {
        not_done += count(outs[i], "not transferred");
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
        close(outs[i]);
    }
    printf("%d transfers were refused or lost\n", not_done);
    int out = scratch();
    CU_ASSERT_EQUAL(ended(start("10", out)), 0);
    CU_ASSERT_EQUAL(count(out, "sum: 2000"), 1);
    CU_ASSERT_EQUAL(count(out, "transferred\n"), 10);
    close(out);
}

TESTS_ON_SERVERS("transfer", (&(struct ensemble_options){.tick_ms = TICK_MS}))
