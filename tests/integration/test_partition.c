/* A hundred topics over ten processes with a cap of twenty, on three servers; five are killed with -9, alone or with the server that they
 * are connected to. Each process writes down what it is told, and the history is judged: never two owners, rising tokens, all taken
 * over in time. */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "contest.h"
#include "ensemble.h"
#include "self.h"

#define FLAG "--member"
#define TOPICS 100
#define MEMBERS 10
#define KILLED 5
#define CAP 20
#define TICK 500
#define TIMEOUT 4000
#define IN_TIME (TIMEOUT + TICK + TICK / 2 + 1000)

/* --- a member ------------------------------------------------------------------------------------------------------ */

struct voice {
    int file, number;
};

/* One write to a file that is appended to: whole, or not at all, also when it is killed. */
static void say(const struct voice *voice, char what, const char *topic, int64_t token)
{
    char line[128];
    int size =
        snprintf(line, sizeof line, "%c %d %s %" PRId64 " %" PRId64 "\n", what, voice->number, topic, boot_ns(), token);
    if (write(voice->file, line, (size_t)size) != size) {
        _exit(1);
    }
}

static void on_assigned(zkl_partition *partition, const char *topic, int64_t token, void *payload)
{
    (void)partition;
    say(payload, '+', topic, token);
}

static void on_revoked(zkl_partition *partition, const char *topic, bool lost, void *payload)
{
    (void)partition;
    say(payload, lost ? '!' : '-', topic, 0);
}

static int member_main(const char *servers, const char *at, const char *file, int number)
{
    struct voice voice = {open(file, O_WRONLY | O_APPEND | O_CLOEXEC), number};
    char names[TOPICS][8], byte;
    const char *topics[TOPICS];
    zkl_partition *partition;
    zkl_partition_options options = ZKL_PARTITION_OPTIONS_INIT;
    zkl_session *session = contest_session(servers, TIMEOUT, TICK);
    for (int i = 0; i < TOPICS; i++) {
        snprintf(names[i], sizeof names[i], "%d", i);
        topics[i] = names[i];
    }
    options.cap = CAP;
    options.assigned_fn = on_assigned;
    options.revoked_fn = on_revoked;
    options.payload = &voice;
    if (zkl_partition_new(&partition, session, at, topics, TOPICS, &options, NULL) != ZKL_OK ||
        zkl_partition_start(partition, NULL) != ZKL_OK) {
        return 1;
    }
    while (read(0, &byte, 1) < 0) { /* until told */
    }
    zkl_partition_free(partition);
    return zkl_session_close(session, SOON) == ZKL_OK ? 0 : 1;
}

/* --- ten of them --------------------------------------------------------------------------------------------------- */

static struct ensemble *servers;
static char path[32], diary[] = "/tmp/zklock-partition-XXXXXX";
static struct {
    pid_t pid;
    int in;            /* closed: it is to end */
    int64_t killed_ns; /* dead for sure; 0: not killed */
} members[MEMBERS];

static void start_member(int number, const char *addresses)
{
    int in[2];
    char digits[16];
    pid_t parent = getpid();
    CU_ASSERT_EQUAL_FATAL(pipe2(in, O_CLOEXEC), 0);
    snprintf(digits, sizeof digits, "%d", number);
    members[number].pid = fork();
    CU_ASSERT_FATAL(members[number].pid >= 0);
    if (members[number].pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            _exit(1);
        }
        dup2(in[0], 0);
        syscall(SYS_close_range, 3, ~0U, 0);
        execl(self_path(), "member", FLAG, addresses, path, diary, digits, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    members[number].in = in[1];
    members[number].killed_ns = 0;
}

static void end_members(void)
{
    int status = 0;
    for (int i = 0; i < MEMBERS; i++) {
        close(members[i].in);
        if (i >= KILLED) {
            CU_ASSERT(waitpid(members[i].pid, &status, 0) > 0 && status == 0);
        }
    }
}

/* --- the history --------------------------------------------------------------------------------------------------- */

#define EVENTS_MAX 10000

struct event {
    char what; /* '+', '-', or '!': lost */
    int member, topic;
    int64_t at_ns, token;
};
static struct event events[EVENTS_MAX];
static size_t event_count;
static FILE *diary_file;
static int owners[TOPICS]; /* by what was read so far; -1: nobody */

/* What has been written since. */
static void read_on(void)
{
    struct event e;
    long at = ftell(diary_file);
    char line[128];
    while (event_count < EVENTS_MAX && fgets(line, sizeof line, diary_file) && strchr(line, '\n')) {
        at = ftell(diary_file);
        CU_ASSERT_EQUAL_FATAL(
            sscanf(line, "%c %d %d %" SCNd64 " %" SCNd64, &e.what, &e.member, &e.topic, &e.at_ns, &e.token), 5);
        events[event_count++] = e;
        if (e.what == '+') {
            owners[e.topic] = e.member;
        } else if (owners[e.topic] == e.member) {
            owners[e.topic] = -1;
        }
    }
    fseek(diary_file, at, SEEK_SET); /* and no end of file any more */
}

static bool each_has(int first, int last, int want)
{
    int counts[MEMBERS] = {0};
    bool so = true;
    read_on();
    for (int i = 0; i < TOPICS; i++) {
        if (owners[i] >= 0) {
            counts[owners[i]]++;
        }
    }
    for (int i = first; i <= last; i++) {
        so = so && counts[i] == want;
    }
    return so;
}

static bool soon_each_has(int first, int last, int want)
{
    int64_t end = now_ms() + SOON;
    while (!each_has(first, last, want)) {
        if (!look_again(end)) {
            return false;
        }
    }
    return true;
}

/* When the last one that matters was assigned. */
static int64_t last_assigned(void)
{
    int64_t last = 0;
    for (size_t i = 0; i < event_count; i++) {
        last = events[i].what == '+' && events[i].at_ns > last ? events[i].at_ns : last;
    }
    return last;
}

static int by_time(const void *left, const void *right)
{
    return compare_int64(&((const struct event *)left)->at_ns, &((const struct event *)right)->at_ns);
}

/* Returns how many topics were lost, instead of given back. */
static int judge(void)
{
    int owner[TOPICS], loads[MEMBERS] = {0}, overlaps = 0, over_cap = 0, strange = 0, losses = 0;
    int64_t tokens[TOPICS] = {0};
    memset(owner, -1, sizeof owner);
    qsort(events, event_count, sizeof *events, by_time);
    for (size_t i = 0; i < event_count; i++) {
        const struct event *e = &events[i];
        int *now = &owner[e->topic];
        if (e->what == '+') {
            bool dead = *now >= 0 && members[*now].killed_ns > 0 && members[*now].killed_ns <= e->at_ns;
            overlaps += *now >= 0 && !dead;
            strange += e->token <= tokens[e->topic];
            tokens[e->topic] = e->token;
            *now = e->member;
            over_cap += ++loads[e->member] > CAP;
        } else {
            strange += *now != e->member;
            losses += e->what == '!';
            *now = -1;
            loads[e->member]--;
        }
    }
    printf("%zu events; ", event_count);
    CU_ASSERT_EQUAL(overlaps, 0);
    CU_ASSERT_EQUAL(over_cap, 0);
    CU_ASSERT_EQUAL(strange, 0);
    return losses;
}

/* --- the tests ----------------------------------------------------------------------------------------------------- */

static int follower(void)
{
    int leader = ensemble_leader(servers);
    CU_ASSERT_FATAL(leader >= 0);
    return (leader + 1) % ensemble_size(servers);
}

/* Ten members; the five that will die know one server only. */
static void begin(int doomed)
{
    static int tests;
    snprintf(path, sizeof path, "/partition-%d", tests++);
    strcpy(strrchr(diary, '-'), "-XXXXXX");
    diary_file = fdopen(mkstemp(diary), "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(diary_file);
    event_count = 0;
    memset(owners, -1, sizeof owners);
    for (int i = 0; i < MEMBERS; i++) {
        start_member(i, i < KILLED ? ensemble_address(servers, doomed) : ensemble_servers(servers));
    }
    CU_ASSERT(soon_each_has(0, MEMBERS - 1, TOPICS / MEMBERS));
}

/* Returns how long it took until the others had everything, in ms. */
static int64_t kill_half(int server)
{
    int64_t killed = boot_ns();
    if (server >= 0) {
        ensemble_kill(servers, server);
    }
    for (int i = 0; i < KILLED; i++) {
        kill(members[i].pid, SIGKILL);
        waitpid(members[i].pid, NULL, 0);
        members[i].killed_ns = boot_ns();
    }
    CU_ASSERT(soon_each_has(KILLED, MEMBERS - 1, CAP));
    return (last_assigned() - killed) / MS;
}

/* Returns how many topics were lost, instead of given back. */
static int finish(int server)
{
    end_members();
    CU_ASSERT(each_has(0, MEMBERS - 1, 0));
    fclose(diary_file);
    unlink(diary);
    if (server >= 0) {
        CU_ASSERT(ensemble_restart(servers, server) && ensemble_wait(servers, SOON));
    }
    return judge();
}

static void check_in_time(int64_t took)
{
    printf("taken over in %" PRId64 " of %d ms; ", took, IN_TIME);
    CU_ASSERT(took <= IN_TIME);
}

static void test_five_of_ten_are_killed(void)
{
    begin(follower());
    check_in_time(kill_half(-1));
    CU_ASSERT_EQUAL(finish(-1), 0);
}

static void test_killed_with_their_follower(void)
{
    int doomed = follower();
    begin(doomed);
    check_in_time(kill_half(doomed));
    CU_ASSERT_EQUAL(finish(doomed), 0);
}

/* A new leader gives every session its whole timeout again, so this takes longer, by the election; and who finds no server before his
 * lease ends may lose what he has. */
static void test_killed_with_their_leader(void)
{
    int doomed = ensemble_leader(servers);
    begin(doomed);
    printf("taken over in %" PRId64 " ms; ", kill_half(doomed));
    printf("%d lost; ", finish(doomed));
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {T(test_five_of_ten_are_killed), T(test_killed_with_their_follower),
                                              T(test_killed_with_their_leader)};
    if (argc == 6 && strcmp(argv[1], FLAG) == 0) {
        return member_main(argv[2], argv[3], argv[4], atoi(argv[5]));
    }
    if (!ensemble_available()) {
        return 77;
    }
    servers = ensemble_start(&(struct ensemble_options){.servers = 3, .tick_ms = TICK});
    if (!servers) {
        return 1;
    }
    int failed = check_main("partition", cases, (int)(sizeof cases / sizeof *cases), argc, argv);
    ensemble_stop(servers);
    return failed;
}
