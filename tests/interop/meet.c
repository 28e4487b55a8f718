/* meet PATH ROUNDS SCENE RECIPE INDEX: one of four members that meet at PATH so many times, each time at PATH/ROUND, as this library's: group
 * (joins, sees all four, leaves), double (a double barrier), barrier (one in turn puts it up and lifts it, the others wait). The same
 * in meet.py and Meet.java; see meet.sh.
 *
 * The scene is a directory of marks, WHAT.ROUND.INDEX, that are made before the thing is done. In the last round members 1 and 3
 * come and stay until they are killed. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <zklock/zklock.h>

#define MEMBERS 4
#define LONG 60000 /* ms */

static zkl_session *session;
static const char *scene;
static int rounds, own;
static char path[1024];

static void die(const char *what, const char *why)
{
    printf("FAILED zklock.%d: %s: %s\n", own, what, why);
    exit(1);
}

static void ask(int code, const char *what, const zkl_error *err)
{
    if (code != ZKL_OK) {
        die(what, err->text);
    }
}

static int who_go(int round)
{
    return round == rounds - 1 ? MEMBERS / 2 : MEMBERS;
}

/* --- marks --------------------------------------------------------------------------------------------------------- */

static void mark(const char *what, int round)
{
    char name[1024];
    snprintf(name, sizeof name, "%s/%s.%d.%d", scene, what, round, own);
    close(open(name, O_CREAT | O_WRONLY, 0600));
}

static int marks(const char *what, int round)
{
    int count = 0;
    char name[1024];
    for (int i = 0; i < MEMBERS; i++) {
        snprintf(name, sizeof name, "%s/%s.%d.%d", scene, what, round, i);
        count += access(name, F_OK) == 0;
    }
    return count;
}

static void expect(const char *what, int round, int count)
{
    if (marks(what, round) < count) {
        die(what, "too early");
    }
}

/* --- what they wait for -------------------------------------------------------------------------------------------- */

static int listed(void)
{
    zkl_members *members;
    zkl_error err;
    ask(zkl_group_list(&members, session, path, LONG, &err), "list", &err);
    int count = (int)members->count;
    for (int i = 0; i < count; i++) {
        if (members->members[i].data_size == 0) {
            die("list", "a member without data");
        }
    }
    zkl_members_free(members);
    return count;
}

static void await(const char *what, int round, int count)
{
    for (int i = 0; (what ? marks(what, round) : listed()) != count; i++) {
        if (i == LONG / 20) {
            die(what ? what : "members", "never so many");
        }
        nanosleep(&(struct timespec){0, 20000000}, NULL);
    }
}

/* --- the recipes --------------------------------------------------------------------------------------------------- */

static void stay_or_go(int round)
{
    if (round == rounds - 1) {
        printf("waits\n");
        fflush(stdout);
        if (own % 2 == 1) {
            pause();
        }
    }
}

static void meet_in_group(int round)
{
    char id[64];
    zkl_group *group;
    zkl_error err;
    snprintf(id, sizeof id, "zklock-%d__party__", own); /* so that kazoo's Party knows it for a member */
    ask(zkl_group_new(&group, session, path, id, NULL, &err), "new", &err);
    ask(zkl_group_join(group, LONG, &err), "join", &err);
    await(NULL, round, MEMBERS);
    mark("saw", round);
    stay_or_go(round);
    await("saw", round, MEMBERS);
    if (who_go(round) < MEMBERS) {
        await(NULL, round, who_go(round)); /* the others are killed */
        mark("saw-the-rest", round);
        await("saw-the-rest", round, who_go(round));
    }
    ask(zkl_group_leave(group, &err), "leave", &err);
    await(NULL, round, 0);
    zkl_group_free(group);
}

static void meet_at_double_barrier(int round)
{
    zkl_double_barrier *barrier;
    zkl_error err;
    ask(zkl_double_barrier_new(&barrier, session, path, MEMBERS, &err), "new", &err);
    mark("in", round);
    ask(zkl_double_barrier_enter(barrier, LONG, &err), "enter", &err);
    expect("in", round, MEMBERS);
    stay_or_go(round);
    mark("out", round);
    ask(zkl_double_barrier_leave(barrier, LONG, &err), "leave", &err);
    expect("out", round, who_go(round));
    zkl_double_barrier_free(barrier);
}

static void meet_at_barrier(int round)
{
    zkl_error err;
    if (round % MEMBERS == own) {
        ask(zkl_barrier_set(session, path, LONG, &err), "set", &err);
        mark("set", round);
        await("here", round, MEMBERS - 1);
        mark("lift", round);
        ask(zkl_barrier_lift(session, path, LONG, &err), "lift", &err);
    } else {
        await("set", round, 1);
        mark("here", round);
        ask(zkl_barrier_wait(session, path, LONG, &err), "wait", &err);
        expect("lift", round, 1);
    }
}

int main(int argc, char **argv)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    zkl_error err;
    options.session_timeout_ms = 15000; /* others.sh says why */
    ask(zkl_session_open(&session, getenv("ZKLOCK_SERVERS"), &options, &err), "open", &err);
    rounds = atoi(argv[2]);
    scene = argv[3];
    own = atoi(argv[5]);
    for (int round = 0; round < rounds; round++) {
        snprintf(path, sizeof path, "%s/%d", argv[1], round);
        if (strcmp(argv[4], "group") == 0) {
            meet_in_group(round);
        } else if (strcmp(argv[4], "double") == 0) {
            meet_at_double_barrier(round);
        } else {
            meet_at_barrier(round);
        }
        printf("round zklock\n");
        fflush(stdout);
    }
    return zkl_session_close(session, 10000) == ZKL_OK ? 0 : 1;
}
