/* guardian.h - the process that owns the sandbox's servers and its directory.
 *
 * It has no other task than to outlive `zklock sandbox`, however that ends, and to clear up after
 * it. It learns of the end from a pipe whose only other end `zklock sandbox` holds; signals of
 * terminals do not reach it, it has a session of its own. Should it be killed itself, the servers
 * die with it (PR_SET_PDEATHSIG) and the directory is left to the other side. */
#ifndef CLI_GUARDIAN_H
#define CLI_GUARDIAN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define ENSEMBLE_MAX 3
#define ENSEMBLE_PATH_MAX 512

struct ensemble_spec {
    int servers; /* 1 or 3 */
    int64_t tick_ms;
    /* a server that dies is started again after this; negative: it stays dead */
    int64_t respawn_ms;
    const char *java;            /* the program */
    const char *jars;            /* folder of zookeeper.jar */
    const char *const *settings; /* further lines of zoo.cfg; ends with NULL */
};

/* What it says, once: the servers serve, or why not. */
struct guardian_report {
    bool serving;
    char servers[128]; /* "127.0.0.1:41234,..." */
    pid_t pids[ENSEMBLE_MAX];
    char folder[ENSEMBLE_PATH_MAX];
    char problem[1024];
};

struct guardian {
    pid_t pid;
    int lifeline; /* closing it ends the guardian */
    int reports;  /* one guardian_report can be read, then the end when it is gone */
};

/* Starts it; spec must live until then only. False, with errno. */
bool guardian_start(struct guardian *guardian, const struct ensemble_spec *spec);
/* Ends it and waits until nothing is left. folder: removed here too if the guardian was killed;
 * NULL: not known. */
void guardian_stop(struct guardian *guardian, const char *folder);

#endif
