/* chaos [--seconds N] [--seed N] KIND... : three real servers, contenders in processes of their own, one kind of fault after the other
 * for that long; then the judge. Without KIND: lists them. Exit: 0 nothing found, 1 something, 77 nothing could be tried.
 *
 * ZKLOCK_CHAOS_KEEP: the histories stay (they do when something was found; where is printed). */

#include "arena.h"
#include "cut.h"
#include "dice.h"
#include "wait.h"

/* --- kinds of faults: each strikes once, and mends what it did before it returns ---------------------------------------- */

static int some(struct arena *a, int count)
{
    return (int)dice_below(&a->dice, count);
}

static void serve_again(struct arena *a)
{
    if (!ensemble_wait(a->servers, 60000)) {
        a->failed = true;
    }
}

static void kill_and_restart(struct arena *a, int server, int64_t low_ms, int64_t high_ms)
{
    arena_tell(a, "kill-server", server);
    ensemble_kill(a->servers, server);
    arena_pace(a, low_ms, high_ms);
    ensemble_restart(a->servers, server);
    serve_again(a);
    arena_tell(a, "served-again", server);
}

/* The one that leads, or one that matters to somebody. */
static void kill_server(struct arena *a)
{
    int leader = dice_once_in(&a->dice, 3) ? ensemble_leader(a->servers) : -1;
    kill_and_restart(a, leader >= 0 ? leader : arena_aim_server(a, -1), 0, 2500);
    arena_pace(a, 200, 1500);
}

/* The one that leads, again and again: its successor has hardly begun. */
static void leader_churn(struct arena *a)
{
    int leader = ensemble_leader(a->servers);
    if (leader >= 0) {
        arena_tell(a, "kill-leader", leader);
        ensemble_kill(a->servers, leader);
        serve_again(a); /* the other two */
        arena_pace(a, 0, 500);
        ensemble_restart(a->servers, leader);
        serve_again(a);
    }
    arena_pace(a, 0, 800);
}

static void rolling_restart(struct arena *a)
{
    for (int i = 0; i < ARENA_SERVERS; i++) {
        kill_and_restart(a, i, 0, 200);
        arena_pace(a, 100, 400);
    }
    arena_pace(a, 500, 2000);
}

static void kill_contender(struct arena *a)
{
    arena_kill(a, arena_aim(a));
    arena_pace(a, 300, 2500);
}

/* Shorter than a lease, or longer than a session: half of each. */
static void pace_short_or_long(struct arena *a)
{
    if (dice_once_in(&a->dice, 2)) {
        arena_pace(a, 20, ARENA_TIMEOUT);
    } else {
        arena_pace(a, ARENA_TIMEOUT + ARENA_TICK, 2 * ARENA_TIMEOUT);
    }
}

static void stop_contender(struct arena *a)
{
    int who = arena_aim(a);
    arena_halt(a, who);
    pace_short_or_long(a);
    arena_continue(a, who);
    arena_pace(a, 100, 700);
}

/* Followers for as long as you like, the leader within what the sessions allow for. */
static void freeze_server(struct arena *a)
{
    int leader = ensemble_leader(a->servers);
    if (leader < 0 || dice_once_in(&a->dice, 3)) {
        arena_freeze_leader(a, dice_between(&a->dice, 50, ARENA_PAUSE * 7 / 10));
    } else {
        int server = arena_aim_server(a, leader);
        arena_tell(a, "freeze-follower", server);
        ensemble_freeze(a->servers, server);
        arena_pace(a, 300, 2 * ARENA_TIMEOUT);
        ensemble_thaw(a->servers, server);
        arena_tell(a, "thaw", server);
        serve_again(a);
    }
    arena_pace(a, 100, 1000);
}

/* Longer than that: the lease may be wrong, the tokens may not. */
static void frozen_leader(struct arena *a)
{
    arena_freeze_leader(a, dice_between(&a->dice, ARENA_PAUSE + 100, 3 * ARENA_TIMEOUT));
    serve_again(a);
    arena_pace(a, 300, 3000);
}

static void stale_follower(struct arena *a)
{
    int leader = ensemble_leader(a->servers), server = leader < 0 ? 0 : arena_aim_server(a, leader);
    if (leader < 0) {
        serve_again(a);
        return;
    }
    arena_tell(a, "cut-quorum-link", server);
    if (!cut_quorum_link(a->servers, server)) {
        serve_again(a); /* somebody was not there just then */
        return;
    }
    arena_pace(a, ARENA_TIMEOUT, 3 * ARENA_TIMEOUT);
    a->failed = !cut_mend() || a->failed;
    arena_tell(a, "mend", server);
    serve_again(a);
    arena_pace(a, 500, 2000);
}

static void on_links(struct contender *c, void (*fn)(struct proxy *, bool), bool on)
{
    for (int i = 0; i < ARENA_SERVERS; i++) {
        fn(c->links[i], on);
    }
}

static void cut_link(struct proxy *p, bool on)
{
    if (on) {
        proxy_down(p);
    } else {
        proxy_refuse(p, false);
    }
}
static void hold_to_server(struct proxy *p, bool on)
{
    proxy_hold(p, PROXY_TO_SERVER, on);
}
static void hold_to_client(struct proxy *p, bool on)
{
    proxy_hold(p, PROXY_TO_CLIENT, on);
}
static void slow_down(struct proxy *p, bool on)
{
    proxy_delay(p, on ? 100 : 0);
}
static void lose_reply(struct proxy *p, bool on)
{
    static const enum proxy_op ops[] = {PROXY_OP_CREATE, PROXY_OP_DELETE, PROXY_OP_MULTI, PROXY_OP_CHILDREN};
    static unsigned next;
    if (on) {
        proxy_order_next(p, ops[next++ % 4], PROXY_CUT_AFTER);
    }
}

/* Half of them cannot hear of it for a while: what they have written meanwhile is under way. */
static void remove_holder(struct arena *a)
{
    int path, who = arena_holder(a, &path);
    if (who < 0) {
        arena_pace(a, 50, 100);
        return;
    }
    bool silent = a->contenders[who].links[0] && dice_once_in(&a->dice, 2);
    if (silent) {
        arena_tell(a, "silence-link", who);
        on_links(&a->contenders[who], proxy_silence, true);
        arena_pace(a, 0, 300);
    }
    arena_remove(a, path);
    arena_pace(a, 100, 800);
    if (silent) {
        on_links(&a->contenders[who], proxy_silence, false);
        arena_tell(a, "mend-link", who);
        arena_pace(a, 50, 500);
    }
}

static void contenders(struct arena *a)
{
    static void (*const all[])(struct arena *) = {kill_contender, remove_holder, stop_contender, stop_contender,
                                                  stop_contender};
    all[some(a, (int)(sizeof all / sizeof *all))](a);
}

static void client_link(struct arena *a)
{
    static const struct {
        void (*fn)(struct proxy *, bool);
        const char *words;
    } ways[] = {{cut_link, "cut-link"},          {hold_to_server, "hold-requests"}, {hold_to_client, "hold-replies"},
                {proxy_silence, "silence-link"}, {slow_down, "slow-link"},          {lose_reply, "lose-reply"}};
    int who = arena_aim(a), way = some(a, (int)(sizeof ways / sizeof *ways));
    arena_tell(a, ways[way].words, who);
    on_links(&a->contenders[who], ways[way].fn, true);
    pace_short_or_long(a);
    on_links(&a->contenders[who], ways[way].fn, false);
    arena_tell(a, "mend-link", who);
    arena_pace(a, 50, 800);
}

struct nemesis {
    const char *name;
    const char *words;
    void (*strike)(struct arena *a);
    /* Nothing, cut_prepare, or contenders that connect through proxies. */
    enum { NOTHING, CUTS, LINKS } needs;
};

static const struct nemesis all[] = {
    {"kill-server", "a server is killed with SIGKILL and starts again", kill_server, NOTHING},
    {"kill-contender", "a contender is killed with SIGKILL, another takes its place", kill_contender, NOTHING},
    {"stop-contender", "a contender is stopped and goes on, before or after its session's end", stop_contender,
     NOTHING},
    {"remove-holder", "an operator removes the znode of a holder, who may be cut off just then, or of the next one",
     remove_holder, LINKS},
    {"contenders", "these three", contenders, NOTHING},
    {"freeze-server", "a follower is frozen for long, the leader for less than leader_pause_ms", freeze_server,
     NOTHING},
    {"stale-follower", "the link between a follower and the leader is cut", stale_follower, CUTS},
    {"client-link", "the link between a contender and all servers is cut, held, slow, or loses a reply", client_link,
     LINKS},
    {"leader-churn", "whoever leads is killed", leader_churn, NOTHING},
    {"rolling-restart", "one server after the other", rolling_restart, NOTHING},
    {"frozen-leader", "the leader is frozen for longer than leader_pause_ms: only fencing has to hold", frozen_leader,
     NOTHING},
};
#define COUNT ((int)(sizeof all / sizeof *all))

static const struct nemesis *nemesis_find(const char *name)
{
    for (int i = 0; i < COUNT; i++) {
        if (strcmp(all[i].name, name) == 0) {
            return &all[i];
        }
    }
    return NULL;
}

/* --- a run -------------------------------------------------------------------------------------------------------------- */

struct run {
    struct ensemble *servers;
    char dir[80];
    int64_t seconds;
    uint64_t seed;
    bool cuts; /* links between servers can be cut here */
    int tried, found;
};

/* The judge is another program: it knows nothing but the histories. Fewer grants than that, and nothing was tried. */
static bool judge(const char *dir)
{
    char path[512], command[1024];
    arena_sibling(path, "chaos_judge");
    snprintf(command, sizeof command, "'%s' --grants 20 '%s'/*.history", path, dir);
    fflush(NULL);
    return system(command) == 0;
}

static void run_kind(struct run *run, const struct nemesis *nemesis)
{
    struct arena a;
    if (nemesis->needs == CUTS && !run->cuts) {
        printf(
            "%-15s SKIPPED: this machine permits neither a network namespace nor a packet filter in one (root may)\n",
            nemesis->name);
        return;
    }
    run->tried++;
    arena_start(&a, run->servers, run->dir, nemesis->name, dice_at(run->seed, 7, (uint64_t)run->tried),
                nemesis->needs == LINKS);
    int64_t began = now_ms();
    while (now_ms() - began < run->seconds * 1000 && !a.failed) {
        nemesis->strike(&a);
        a.faults++;
    }
    arena_stop(&a);
    printf("%-15s %d faults in %lld s: ", nemesis->name, a.faults, (long long)((now_ms() - began) / 1000));
    if (!judge(a.dir) || a.failed) {
        run->found++;
        printf("%-15s FAILED; histories: %s\n", nemesis->name, a.dir);
    } else if (!getenv("ZKLOCK_CHAOS_KEEP")) {
        char command[256];
        snprintf(command, sizeof command, "rm -r '%s'", a.dir);
        (void)!system(command);
    }
    fflush(stdout);
}

static int list(void)
{
    for (int i = 0; i < COUNT; i++) {
        printf("%-15s %s\n", all[i].name, all[i].words);
    }
    return 0;
}

static bool prepare(struct run *run)
{
    const char *parent = getenv("TMPDIR");
    snprintf(run->dir, sizeof run->dir, "%.40s/zklock-chaos-XXXXXX", parent ? parent : "/tmp");
    if (!mkdtemp(run->dir)) {
        perror(run->dir);
        return false;
    }
    run->cuts = cut_prepare(); /* before there are threads */
    /* A follower without a leader serves for syncLimit ticks: longer than the leader keeps its clients' sessions. */
    run->servers = ensemble_start(&(struct ensemble_options){
        .servers = ARENA_SERVERS, .tick_ms = ARENA_TICK, .own_hosts = true, .extra = "syncLimit=12"});
    return run->servers != NULL;
}

int main(int argc, char **argv)
{
    struct run run = {.seconds = 30, .seed = (uint64_t)time(NULL)};
    int at = 1;
    for (; at + 1 < argc && strncmp(argv[at], "--", 2) == 0; at += 2) {
        if (strcmp(argv[at], "--seconds") == 0) {
            run.seconds = atoll(argv[at + 1]);
        } else if (strcmp(argv[at], "--seed") == 0) {
            run.seed = strtoull(argv[at + 1], NULL, 0);
        }
    }
    if (at >= argc) {
        return list();
    }
    for (int i = at; i < argc; i++) {
        if (!nemesis_find(argv[i])) {
            fprintf(stderr, "%s: no such kind\n", argv[i]);
            return 2;
        }
    }
    if (!ensemble_available()) {
        printf("SKIPPED: no java or no ZooKeeper\n");
        return 77;
    }
    if (!prepare(&run)) {
        return 1;
    }
    printf("seed %llu\n", (unsigned long long)run.seed);
    for (; at < argc; at++) {
        run_kind(&run, nemesis_find(argv[at]));
    }
    ensemble_stop(run.servers);
    rmdir(run.dir); /* it stays when something is in it */
    return run.found > 0 ? 1 : run.tried > 0 ? 0 : 77;
}
