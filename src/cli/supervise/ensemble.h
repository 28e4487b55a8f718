/* ensemble.h - ZooKeeper servers of our own: ports, configuration, processes, the question whether
 * they serve.
 *
 * Used by one process only, the sandbox's guardian: the servers are its children and die with it.
 */
#ifndef CLI_ENSEMBLE_H
#define CLI_ENSEMBLE_H

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

struct ensemble_server {
    pid_t pid; /* 0: not running */
    int client_port, quorum_port, election_port;
    int64_t died_ms; /* CLOCK_MONOTONIC */
};

struct ensemble {
    const struct ensemble_spec *spec;
    char folder[ENSEMBLE_PATH_MAX];
    struct ensemble_server servers[ENSEMBLE_MAX];
};

/* Picks ports, writes the configuration below folder, starts the servers. False, with errno, when
 * it cannot. loud: they log to folder/N/log. */
bool ensemble_start(struct ensemble *ensemble, const struct ensemble_spec *spec, const char *folder,
                    bool loud);
/* True once every server serves: it is ours by its socket, and of three one leads and two follow.
 */
bool ensemble_serves(const struct ensemble *ensemble);
/* Notes servers that ended. Returns how many run. */
int ensemble_reap(struct ensemble *ensemble);
/* Starts again whom respawn_ms says. */
void ensemble_respawn(struct ensemble *ensemble);
/* Kills them and waits for their end. */
void ensemble_stop(struct ensemble *ensemble);

#endif
