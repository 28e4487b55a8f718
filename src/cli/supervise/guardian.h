/* guardian.h - the process that owns the sandbox's servers and its directory.
 *
 * Its only task is to outlive `zklock sandbox` and to clean up after it. Only `zklock sandbox` has
 * the other end of its socket, so the end of that socket is the end of `zklock sandbox`. It has a
 * session of its own, so signals of the terminal do not reach it. If it is killed, the kernel kills
 * the servers (PR_SET_PDEATHSIG), and `zklock sandbox` removes the directory. */
#ifndef CLI_GUARDIAN_H
#define CLI_GUARDIAN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define GUARDIAN_SERVERS_MAX 3
#define GUARDIAN_PATH_MAX 512

/* What servers are wanted. */
struct guardian_order {
    int servers; /* 1 or 3 */
    int64_t tick_ms;
    /* a server that dies is started again after this; negative: it stays dead */
    int64_t respawn_ms;
    const char *java;            /* the program */
    const char *jars;            /* folder of zookeeper.jar */
    const char *const *settings; /* further lines of zoo.cfg; ends with NULL */
};

/* Its only report: the servers serve, or why they do not. */
struct guardian_report {
    bool serving;
    char servers[128]; /* "127.0.0.1:41234,..." */
    pid_t pids[GUARDIAN_SERVERS_MAX];
    char folder[GUARDIAN_PATH_MAX];
    char problem[1024];
};

/* Starts it. *socket: one guardian_report can be read, then the end when the guardian has ended.
 * Closing it ends the guardian. -1 after a message. */
pid_t guardian_start(const struct guardian_order *order, int *socket);
/* Ends it and waits until nothing is left. folder: removed here too if the guardian was killed. */
void guardian_stop(pid_t guardian, int socket, const char *folder);

#endif
