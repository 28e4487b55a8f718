/* Who is next on three servers: after a holder or a waiter is killed with -9, and when commands queue one after the other. */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "rival.h"
#include "contest.h"
#include "ensemble.h"

#define TICK 500
#define TIMEOUT 4000

/* A dead session ends at the latest: its timeout after the leader heard of it last, which a follower may tell half a tick late,
 * rounded up to a tick. Then one round trip, and what a busy machine needs to schedule a dozen threads. */
#define NOISE 500
#define HANDOVER (TIMEOUT + TICK + TICK / 2 + NOISE)

static struct ensemble *servers;
static struct recorder *eye;

static int follower(int which)
{
    int leader = ensemble_leader(servers);
    CU_ASSERT_FATAL(leader >= 0);
    return (leader + 1 + which) % 3;
}

/* Behind server i, and in the queue. */
static struct rival *queue_up(int server, const char *path)
{
    struct rival_word queued;
    const struct rival_options options = {ensemble_address(servers, server), path, TIMEOUT, TICK};
    struct rival *rival = rival_start(&options);
    CU_ASSERT_PTR_NOT_NULL_FATAL(rival);
    CU_ASSERT(rival_says(rival, "queued", &queued, SOON));
    return rival;
}

static int64_t granted(struct rival *rival)
{
    struct rival_word word = {0};
    CU_ASSERT(rival_says(rival, "granted", &word, SOON));
    return word.at_ns;
}

static void finish(struct rival *rival)
{
    struct rival_word word = {.value = 1};
    rival_release(rival);
    CU_ASSERT(rival_says(rival, "released", &word, SOON));
    CU_ASSERT_EQUAL(word.value, ZKL_OK);
    rival_free(rival);
}

/* The holder stands behind a follower; the next one behind the leader, or behind the other follower. */
static void test_killed_holder(void)
{
    for (int round = 0; round < 3; round++) {
        struct rival *holder = queue_up(follower(0), "/killed-holder");
        granted(holder);
        struct rival *next = queue_up(round == 0 ? ensemble_leader(servers) : follower(1), "/killed-holder");
        int64_t killed = boot_ns();
        rival_kill(holder);
        int64_t took = (granted(next) - killed) / MS;
        printf("%" PRId64 " ms; ", took);
        CU_ASSERT(took <= HANDOVER);
        finish(next);
        rival_free(holder);
    }
    CU_ASSERT(queue_becomes(eye, "/killed-holder", 0));
}

/* The dead one's place ends with its session; whoever stands behind it moves up, and is not granted before its turn. */
static void test_killed_waiter(void)
{
    struct rival *line[4];
    for (int i = 0; i < 4; i++) {
        line[i] = queue_up(i % 3, "/killed-waiter");
    }
    granted(line[0]);
    rival_kill(line[1]);
    CU_ASSERT(queue_becomes(eye, "/killed-waiter", 3));
    CU_ASSERT(rival_silent(line[2]) && rival_silent(line[3]));
    finish(line[0]);
    granted(line[2]);
    CU_ASSERT(rival_silent(line[3]));
    finish(line[2]);
    granted(line[3]);
    finish(line[3]);
    rival_free(line[1]);
}

/* It is dead, and its turn comes before its session has ended. */
static void test_killed_waiter_whose_turn_comes(void)
{
    struct rival *first = queue_up(0, "/turn"), *second = queue_up(follower(0), "/turn"), *third;
    granted(first);
    third = queue_up(follower(1), "/turn");
    int64_t killed = boot_ns();
    rival_kill(second);
    finish(first);
    int64_t took = (granted(third) - killed) / MS;
    CU_ASSERT(took <= HANDOVER);
    printf("%" PRId64 " ms; ", took);
    finish(third);
    rival_free(second);
}

/* --- commands -------------------------------------------------------------------------------------------------------- */

#define COMMANDS 7
#define KILLED 3

static char diary[] = "/tmp/zklock-diary-XXXXXX";

static void become_command(int number, pid_t parent)
{
    /* What it does takes some time; the first one waits until it may end. */
    static const char script[] = "echo begin $0 $ZKLOCK_TOKEN >> \"$1\"\n"
                                 "[ $0 != 0 ] || read line < \"$1.gate\"\n"
                                 "i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done\n"
                                 "echo end $0 >> \"$1\"\n";
    char name[8];
    snprintf(name, sizeof name, "%d", number);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent) {
        execl(ZKLOCK_COMMAND, "zklock", "-s", ensemble_address(servers, number % 3), "--tick", "500ms",
              "--session-timeout", "4s", "run", "/commands", "--", "sh", "-c", script, name, diary, (char *)NULL);
    }
    _exit(127);
}

static pid_t start_command(int number)
{
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        become_command(number, parent);
    }
    return pid;
}

static int exit_code(pid_t pid)
{
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* Every command but the killed one is in it once, in order, begun and ended before the next begins. */
static void read_diary(void)
{
    FILE *file = fopen(diary, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    int64_t last = 0;
    for (int i = 0; i < COMMANDS; i++) {
        int begun = -1, ended = -1;
        int64_t token = 0;
        if (i == KILLED) {
            continue;
        }
        CU_ASSERT_EQUAL(fscanf(file, "begin %d %" SCNd64 "\nend %d\n", &begun, &token, &ended), 3);
        CU_ASSERT(begun == i && ended == i && token > last);
        last = token;
    }
    CU_ASSERT_EQUAL(fgetc(file), EOF);
    fclose(file);
}

/* Commands queued one after the other on three servers; one is killed with -9 while it is queued. */
static void test_commands(void)
{
    pid_t pids[COMMANDS];
    char path[sizeof diary + 8];
    int file = mkstemp(diary);
    snprintf(path, sizeof path, "%s.gate", diary);
    CU_ASSERT_FATAL(file >= 0 && mkfifo(path, 0600) == 0);
    close(file);
    int gate = open(path, O_RDWR | O_CLOEXEC); /* waits for nobody, keeps what is written for the reader */
    for (int i = 0; i < COMMANDS; i++) {
        pids[i] = start_command(i);
        CU_ASSERT(queue_becomes(eye, "/commands", (size_t)i + 1));
    }
    kill(pids[KILLED], SIGKILL);
    CU_ASSERT_EQUAL(exit_code(pids[KILLED]), -SIGKILL);
    CU_ASSERT_EQUAL(write(gate, "\n", 1), 1);
    for (int i = 0; i < COMMANDS; i++) {
        CU_ASSERT(i == KILLED || exit_code(pids[i]) == 0);
    }
    read_diary();
    CU_ASSERT(queue_becomes(eye, "/commands", 0));
    close(gate);
    unlink(diary);
    unlink(path);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        T(test_killed_holder),
        T(test_killed_waiter),
        T(test_killed_waiter_whose_turn_comes),
        T(test_commands),
    };
    if (rival_is(argc, argv)) {
        return rival_main(argv);
    }
    if (!ensemble_available()) {
        return 77;
    }
    servers = ensemble_start(&(struct ensemble_options){.servers = 3, .tick_ms = TICK});
    if (!servers) {
        return 1;
    }
    eye = queue_eye(ensemble_servers(servers));
    int failed = check_main("who is next", cases, (int)(sizeof cases / sizeof *cases), argc, argv);
    recorder_free(eye);
    ensemble_stop(servers);
    return failed;
}
