/* supervise.h - the processes beside zklock, and what finds those below one. README.md shows which
 * there are, and who ends when another one dies. */
#ifndef CLI_SUPERVISE_H
#define CLI_SUPERVISE_H

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "cli.h"

/* --- how a process begins, and how it becomes a command --------------------------------------- */

/* CMD, and the lock that it is run under: of the whole process. */
extern struct supervised {
    const char *const *argv;
    const char *path;
    bool again; /* CMD is started at each grant, not once */
} supervised;

/* Starts a process that calls run and must not return from that. Its name is for ps. All signals
 * are blocked in it. To be called while there is one thread. *socket is the other end of its
 * socket, of whole messages. -1 after a message. */
pid_t process_start(const char *name, int *socket, void (*run)(void));
/* Of such a process: its end of the socket; the signal mask that it had, for its children; and a
 * descriptor that is readable when one of these has ended, when it was opened. */
extern int process_socket, process_children;
extern sigset_t process_mask;
/* Only CMD needs standard input and output: a reader of CMD's output must see its end when CMD has
 * ended. Standard error stays open. */
void process_close_standard_files(void);
/* False with errno. */
bool process_open_children(void);
/* Empties that descriptor. */
void process_forget_children(void);
/* Sleeps until the time (-1: no matter when), a child's end, or the end of who started this
 * process, which sends nothing: false then. */
bool process_sleep(int timeout_ms);

/* Puts the servers into the environment, and their tickTime, for a zklock in there. */
void process_set_servers(const char *servers);
/* Puts the lock and the servers there, for CMD or a hook, with the servers' tickTime and whether
 * observers have masters: a zklock that CMD starts uses these unless its options say otherwise. */
void process_set_lock(void);
/* Puts the grant there, too. */
void process_set_grant(const char *node, int64_t token);
/* As execvp(); returns only when that failed: errno, ENOENT when the command is nowhere. */
int execute(const char *const *argv);
/* Whether execute() would find it and may execute it: 0 or errno. A script without an interpreter
 * passes. */
int execute_check(const char *name);

/* --- the keeper ------------------------------------------------------------------------------- */

/* The process between zklock and CMD, which stops CMD before the lease ends even when
 * zklock cannot.
 *
 * It is started before zklock has a thread or a connection, and has neither. CMD is its child, and
 * as a child subreaper it inherits the processes that CMD leaves behind. zklock writes the end of
 * the lease to a shared page. Before that time the keeper sends TERM to CMD's process group, and
 * at that time KILL to all its descendants. It needs no order for that, so it does so when zklock
 * is stopped, too. When zklock has ended, it begins immediately. Where it may make a control group,
 * CMD is in one, which is killed as a whole. It reports the end only when the kernel shows
 * that no descendant is left. Where there may be another grant, it then waits to start CMD again.
 */

/* KILL is sent this long before the lease ends: a process takes time to die. */
#define KEEPER_MARGIN_MS 100

enum keeper_cause { KEEPER_BY_ITSELF, KEEPER_BY_LEASE, KEEPER_BY_ORDER, KEEPER_BY_DEATH };

enum keeper_order { KEEPER_START, KEEPER_SIGNAL, KEEPER_STOP, KEEPER_LOOK };

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
bool keeper_open(void);
/* CMD's group is given the terminal on standard input, unless zklock is in the background then. */
extern bool keeper_has_terminal;
/* No process above zklock's group belongs to its session, so that nobody could let it go on when
 * the keyboard has stopped it. */
bool keeper_orphaned(void);
/* Readable when there is an event. */
extern int keeper_socket;
/* Writes the lease's end, which is that or up to doubt_ns later. A little earlier than before is
 * the rounding of clocks, and ignored; much earlier, when a server has granted a shorter session,
 * the keeper sees immediately. */
void keeper_lease(int64_t lease_end_ns, int64_t doubt_ns);
/* There is no lease: before a grant, and when the lock is lost. The keeper sees it immediately. */
void keeper_no_lease(void);
/* Has CMD started, with the grant in its environment. */
void keeper_start(const char *node, int64_t token, int64_t grace_ms);
/* Has a signal sent to CMD's process group, or CMD stopped: TERM, the grace, KILL. False: dropped,
 * for the keeper is stopped and has too much to read: a hundred orders. */
bool keeper_order(enum keeper_order kind, int number);
/* Takes the next event; the socket was readable. */
struct keeper_event keeper_next(void);
/* Kills all descendants of the keeper in its place, for it may be stopped. group: CMD's, 0 when CMD
 * has ended. True: there was one. */
bool keeper_kill(pid_t group);
/* After KEEPER_DIED: the keeper's descendants are zklock's now, which is a subreaper too. Kills
 * them and waits for them. */
void keeper_clear_up(pid_t group);
void keeper_close(void);

/* --- the health process ----------------------------------------------------------------------- */

/* Runs the user's health command periodically, and knows whether this host is healthy.
 *
 * It runs in a process of its own, which was forked before there was a session, so that a check
 * inherits no connection and a check that hangs delays nobody. A check that has not ended when the
 * next one is due is killed and has failed. */

enum health_state {
    HEALTH_UNKNOWN,  /* no check has ended yet */
    HEALTH_GOOD,     /* the last check succeeded, or fewer than `fails` have failed since one did */
    HEALTH_BAD,      /* that many have failed in a row */
    HEALTH_UNWATCHED /* the process that checks has died: nothing is known any more */
};

extern struct health {
    const char *command; /* for the shell; NULL: there is none, and the state stays HEALTH_GOOD */
    int64_t every_ms;    /* 0, as fails: not given */
    int fails;
    int socket; /* readable when the state may have changed; -1: no command */
    enum health_state state;
} health;

/* Starts the process; to be called while there is one thread. False after a message. */
bool health_open(void);
/* Takes what the process has reported. Returns the state. */
enum health_state health_update(void);
void health_close(void);

/* --- the hook process ------------------------------------------------------------------------- */

/* A program of the user's, run at each change of a grant: granted, jeopardy, safe, lost,
 * released.
 *
 * The hooks run in a process of their own, one after the other, in the order of the events. zklock
 * sends an event and goes on: a hook that hangs delays the hooks behind it and nothing else. The
 * process outlives zklock until it has run what it was sent, so that *released* and *lost* reach
 * the program, too. */

extern const char *hook_program; /* NULL: there is none, and every function does nothing */

/* Starts the process; to be called while there is one thread. False after a message: the program
 * cannot be found or executed. */
bool hook_open(void);
/* The lock was granted: begins to follow its state. */
void hook_granted(const char *node, int64_t token);
/* Reports jeopardy, safe and lost when the state has changed. */
void hook_follow(zkl_state state);
/* The grant has ended. Reports nothing if the loss was reported. */
void hook_ended(bool lost);

/* --- the guardian ----------------------------------------------------------------------------- */

/* The process that owns the sandbox's servers and its directory.
 *
 * Its only task is to outlive `zklock sandbox` and to clean up after it. Only `zklock sandbox` has
 * the other end of its socket, so the end of that socket is the end of `zklock sandbox`. It has a
 * session of its own, so signals of the terminal do not reach it. If it is killed, the kernel kills
 * the servers (PR_SET_PDEATHSIG), and `zklock sandbox` removes the directory. */

#define GUARDIAN_SERVERS_MAX 3
#define GUARDIAN_PATH_MAX 512
#define GUARDIAN_SETTINGS_MAX 32

/* What servers are wanted, with the tickTime that the global options say. */
extern struct guardian_order {
    int servers; /* 1 or 3 */
    /* a server that dies is started again after this; negative: it stays dead */
    int64_t respawn_ms;
    const char *java;                                /* the program */
    const char *jars;                                /* folder of zookeeper.jar */
    const char *settings[GUARDIAN_SETTINGS_MAX + 1]; /* further lines of zoo.cfg; ends with NULL */
} guardian_order;

/* Its only report: the servers serve, or why they do not. */
extern struct guardian_report {
    char servers[128]; /* "127.0.0.1:41234,..."; empty: they do not serve */
    pid_t pids[GUARDIAN_SERVERS_MAX];
    char folder[GUARDIAN_PATH_MAX];
    char problem[1024];
} guardian_report;

/* Starts it. False after a message. */
bool guardian_start(void);
/* One guardian_report can be read, then the end when the guardian has ended. */
extern int guardian_socket;
/* Ends it and waits until nothing is left: of a guardian that was killed, the folder is removed
 * here. */
void guardian_stop(void);

#endif
