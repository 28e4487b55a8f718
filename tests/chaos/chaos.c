/* chaos [--seconds N] [--seed N] KIND... : three real servers, contenders in processes of their own, one kind of fault after the other
 * for that long; then the judge. Without KIND: lists them. Exit: 0 nothing found, 1 something, 77 nothing could be tried.
 *
 * ZKLOCK_CHAOS_KEEP: the histories stay (they do when something was found; where is printed). */
#include <errno.h>
#include <ftw.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cut.h"
#include "dice.h"
#include "nemesis.h"
#include "wait.h"

struct run {
    struct ensemble *servers;
    char dir[80];
    int64_t seconds;
    uint64_t seed;
    bool cuts; /* links between servers can be cut here */
    int tried, found;
};

static int remove_entry(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
    (void)stat;
    (void)type;
    (void)ftw;
    return remove(path);
}

/* The judge is another program: it knows nothing but the histories. */
static int judge(const char *dir)
{
    char pattern[160], path[512];
    glob_t files;
    int status = -1;
    snprintf(pattern, sizeof pattern, "%s/*.history", dir);
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 64);
    path[length > 0 ? length : 0] = '\0';
    char *base = strrchr(path, '/');
    if (!base || glob(pattern, 0, NULL, &files) != 0) {
        return -1;
    }
    strcpy(base + 1, "chaos_judge");
    char **argv = calloc(files.gl_pathc + 4, sizeof *argv);
    argv[0] = path;
    argv[1] = "--grants";
    argv[2] = "20"; /* or nothing was tried */
    memcpy(argv + 3, files.gl_pathv, files.gl_pathc * sizeof *argv);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        execv(path, argv);
        _exit(127);
    }
    if (pid > 0) {
        waitpid(pid, &status, 0);
    }
    free(argv);
    globfree(&files);
    return status;
}

static void run_kind(struct run *run, const struct nemesis *nemesis)
{
    struct arena a;
    if (nemesis->cuts && !run->cuts) {
        printf(
            "%-15s SKIPPED: this machine permits neither a network namespace nor a packet filter in one (root may)\n",
            nemesis->name);
        return;
    }
    run->tried++;
    arena_start(&a, run->servers, run->dir, nemesis->name, dice_at(run->seed, 7, (uint64_t)run->tried), nemesis->links);
    int64_t began = now_ms();
    while (now_ms() - began < run->seconds * 1000 && !a.failed) {
        nemesis->strike(&a);
        a.faults++;
    }
    arena_stop(&a);
    printf("%-15s %d faults in %lld s: ", nemesis->name, a.faults, (long long)((now_ms() - began) / 1000));
    if (judge(a.dir) != 0 || a.failed) {
        run->found++;
        printf("%-15s FAILED; histories: %s\n", nemesis->name, a.dir);
    } else if (!getenv("ZKLOCK_CHAOS_KEEP")) {
        nftw(a.dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    }
    fflush(stdout);
}

static int list(void)
{
    const struct nemesis *nemesis;
    for (int i = 0; (nemesis = nemesis_nth(i)); i++) {
        printf("%-15s %s\n", nemesis->name, nemesis->words);
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
