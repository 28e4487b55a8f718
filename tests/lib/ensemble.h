/* ensemble.h - a real ZooKeeper of one or more servers, from Debian's packages, for the length of a test.
 *
 * The version is the installed one, or that in the folder $ZKLOCK_TEST_JARS (scripts/zookeeper makes such folders).
 * Data lies in a temporary directory (in memory when there is /dev/shm); ports are free ones on loopback; the servers die with
 * the thread that started them. Functions print what goes wrong to stderr. One thread at a time per ensemble.
 *
 *   struct ensemble *e = ensemble_start(&(struct ensemble_options){.servers = 3, .tick_ms = 500});
 *   ... ensemble_servers(e) ...
 *   ensemble_kill(e, ensemble_leader(e));
 *   ensemble_stop(e);
 */
#ifndef ZKL_TESTS_ENSEMBLE_H
#define ZKL_TESTS_ENSEMBLE_H

#include <stdbool.h>
#include <stdint.h>

struct ensemble;

struct ensemble_options {
    int servers;       /* 0 is 1 */
    int tick_ms;       /* 0 is 500. Session timeouts from 2 ticks to 60 s are granted */
    bool own_hosts;    /* server i listens on 127.0.1.(i + 1), so that packet filters can tell the servers apart */
    int master_port;   /* where followers serve observers (observerMasterPort); 0: nowhere. With own_hosts */
    int observer_port; /* where observers look for it: that, or a relay's */
    const char *extra; /* more lines of zoo.cfg, or NULL; until ensemble_start returns */
    const char *java;  /* one more argument for java ("-Dname=value"), or NULL; until ensemble_stop */
    int observers;     /* the last so many of servers observe, and do not vote */
    bool ipv6;         /* clients come to ::1; the servers talk to each other as ever */
    bool logs;         /* the servers write their log, to stderr: the file "output" in their directory */
};

/* False when the machine has no java or no ZooKeeper: the test should be skipped (exit code 77). */
bool ensemble_available(void);
/* Returns when every server serves. NULL: it does not. options may be NULL. */
struct ensemble *ensemble_start(const struct ensemble_options *options);
/* Kills what runs, removes the data. NULL is fine. */
void ensemble_stop(struct ensemble *e);

int ensemble_size(const struct ensemble *e);
const char *ensemble_servers(const struct ensemble *e);        /* "127.0.0.1:20001,127.0.0.1:20002" */
const char *ensemble_address(const struct ensemble *e, int i); /* "127.0.0.1:20001" */
int ensemble_port(const struct ensemble *e, int i);
int ensemble_quorum_port(const struct ensemble *e, int i); /* where followers talk to it when it leads */
int ensemble_election_port(const struct ensemble *e, int i);
int ensemble_pid(const struct ensemble *e, int i); /* 0 when it is dead */

void ensemble_kill(struct ensemble *e, int i);   /* SIGKILL; gone when this returns */
void ensemble_freeze(struct ensemble *e, int i); /* SIGSTOP */
void ensemble_thaw(struct ensemble *e, int i);   /* SIGCONT */
/* Starts a killed one again, on its ports and data; returns at once. */
bool ensemble_restart(struct ensemble *e, int i);
/* The same with the server of another version, now and from now on: an upgrade. False as well when the folder has none. */
bool ensemble_restart_with_jars(struct ensemble *e, int i, const char *jars);
/* Waits until all that run serve, with a leader if there are several. */
bool ensemble_wait(struct ensemble *e, int64_t timeout_ms);
/* 3.9.3 is 30903. */
int ensemble_version(struct ensemble *e, int i);
/* Who leads (0 when alone); -1: nobody at the moment. */
int ensemble_leader(struct ensemble *e);

/* Answer of server i to a four-letter word ("srvr", "dump", "wchp", "cons", "mntr"); to be freed. NULL: none within 20 s. */
char *ensemble_ask(struct ensemble *e, int i, const char *word);
/* Asks until the answer contains text (or, with want = false, does not); false at the deadline. */
bool ensemble_ask_until(struct ensemble *e, int i, const char *word, const char *text, bool want, int64_t timeout_ms);

#endif
