/* keeper.h - the process between zklock and CMD, which stops CMD before the lease ends even when
 * zklock cannot.
 *
 * It is started before zklock has a thread or a connection, and has neither. CMD is its child, and
 * as a child subreaper it inherits the processes that CMD leaves behind. zklock writes the end of
 * the lease to a shared page. Before that time the keeper sends TERM to CMD's process group, and
 * at that time KILL to all its descendants. It needs no order for that, so it does so when zklock
 * is stopped, too. When zklock has ended, it begins immediately. Where it may make a control group,
 * CMD is in one, which is killed as a whole (cage.h). It reports the end only when the kernel shows
 * that no descendant is left. Where there may be another grant, it then waits to start CMD again.
 */
#ifndef CLI_KEEPER_H
#define CLI_KEEPER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* KILL is sent this long before the lease ends: a process takes time to die. */
#define KEEPER_MARGIN_MS 100

struct keeper_command {
    const char **argv;
    const char *path;
    bool again; /* CMD is started at each grant, not once */
};

enum keeper_cause { KEEPER_BY_ITSELF, KEEPER_BY_LEASE, KEEPER_BY_ORDER, KEEPER_BY_DEATH };

enum keeper_news {
    KEEPER_STARTED,   /* CMD runs; pid */
    KEEPER_REFUSED,   /* it could not be executed; value is errno */
    KEEPER_SUSPENDED, /* it was stopped by signal value */
    KEEPER_STOPPING,  /* TERM was sent; cause */
    KEEPER_LINGERING, /* CMD ended, processes it started have not */
    KEEPER_ENDED,     /* no descendant is left; value is CMD's wait status, cause why it ended */
    KEEPER_DIED       /* the keeper itself has ended */
};

struct keeper_event {
    enum keeper_news news;
    int value;
    pid_t pid;
    enum keeper_cause cause;
};

/* Starts the keeper; CMD not yet. To be called while the process has one thread. False after a
 * message. */
bool keeper_open(const struct keeper_command *command);
/* CMD's group is given the terminal on standard input. */
extern bool keeper_has_terminal;
/* Readable when there is an event. */
int keeper_socket(void);
/* Before each grant: nothing is known of its lease. */
void keeper_begin(void);
/* Writes the lease's end; an earlier one than before is the rounding of clocks, and ignored. */
void keeper_lease(int64_t lease_end_ns);
/* The lock is lost: there is no lease any more. The keeper sees it immediately. */
void keeper_lost(void);
/* Has CMD started, with the grant in its environment. */
void keeper_start(const char *node, int64_t token, int64_t grace_ms);
/* Sends a signal to CMD's process group. Dropped when a hundred wait already, for a keeper that is
 * stopped. */
void keeper_signal(int number);
/* TERM, the grace, KILL. False: try again, the keeper is stopped and has too much to read. */
bool keeper_stop(void);
/* Takes the next event; the socket was readable. */
struct keeper_event keeper_next(void);
/* Kills all descendants of the keeper in its place, for it may be stopped. group: CMD's, 0 when CMD
 * has ended. True: there was one. */
bool keeper_kill(pid_t group);
/* After KEEPER_DIED: the keeper's descendants are zklock's now, which is a subreaper too. Kills
 * them and waits for them. */
void keeper_clear_up(pid_t group);
void keeper_close(void);

#endif
