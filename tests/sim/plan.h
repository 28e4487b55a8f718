/* plan.h - everything that one run does not leave to the code under test: who acquires what, which faults strike when, how slow
 * the network is. Made from a seed, or read from a text file; a failing plan is shrunk and kept as such a file.
 *
 * A plan is a list of lines, so that ./shrink can take lines out. See plan_text.c for the words. */
#ifndef SIM_PLAN_H
#define SIM_PLAN_H

#include <stdio.h>

#include "ensemble.h"

struct sim;

enum { SIM_ACQUIRES = 64, SIM_FAULTS = 24 };

/* shell/: what an acquire uses. SIM_BY_SEED: what stands at its path. The core's simulator knows SIM_SEMAPHORE only. */
enum sim_recipe {
    SIM_BY_SEED,
    SIM_LOCK,
    SIM_RWLOCK,
    SIM_SEMAPHORE,
    SIM_MULTILOCK,
    SIM_ELECTION,
    SIM_PARTITION,
    SIM_GROUP,
    SIM_ONCE,
    SIM_BARRIER,
    SIM_DOUBLE_BARRIER,
    SIM_RECIPES
};
enum sim_ending { SIM_END_RELEASE, SIM_END_LET_GO };
enum sim_kind { SIM_MUTEX, SIM_READ, SIM_WRITE, SIM_KINDS };
struct sim_acquire {
    int client, thread;
    int path;
    int64_t after;   /* ns since the thread's last one ended */
    int64_t timeout; /* -1: for ever */
    int64_t hold;    /* from the grant to the release */
    int64_t cancel;  /* -1: never; from the start */
    int64_t max_hold;
    bool try_only, fail_on_expiry;
    bool eager; /* the thread goes on without waiting for RELEASED */
    enum sim_kind kind;
    bool mark;      /* its grant says whether the last holder released */
    bool downgrade; /* a writer becomes a reader when half of its hold is over */
    bool joint;     /* the next path as well, in one transaction */
    enum sim_recipe recipe;
    enum sim_ending ending;
    int64_t linger; /* its node stays so long after the release */
    int permits;    /* of a semaphore; 0: as many as its thread always wants */
    int64_t least;  /* its node stays so long after the grant */
    int64_t delay;  /* it waits so long behind one who did not release */
};

/* When a fault strikes: at a time, or when something happens for the n-th time. */
enum sim_trigger {
    SIM_AT,                    /* ns */
    SIM_ON_SUBMIT,             /* n-th operation handed to a client library, before it is sent */
    SIM_ON_CREATE,             /* n-th create of a contender's node handed in, just after it was sent */
    SIM_ON_DELETE,             /* n-th delete handed in, just after it was sent */
    SIM_ON_COMMIT,             /* n-th transaction committed */
    SIM_ON_MAKE,               /* n-th container committed */
    SIM_ON_REPLY,              /* n-th reply arrives, before the core has it */
    SIM_ON_GRANT,              /* n-th */
    SIM_ON_RELEASE,            /* n-th release, just after the step */
    SIM_ON_CONNECT,            /* n-th session welcomed or revalidated, before the client knows */
    SIM_ROLLED,                /* before this: rolled. Behind it: only in plans kept as text */
    SIM_ON_MULTI = SIM_ROLLED, /* n-th multi handed in, just after it was sent */
    SIM_TRIGGERS
};

enum sim_fault_kind {
    SIM_LOSE_REPLIES,     /* client: connection cut; what was sent still arrives */
    SIM_LOSE_REQUESTS,    /* client: connection cut; nothing that was on its way arrives */
    SIM_CUT,              /* client: connection cut somewhere in the middle */
    SIM_MOVE,             /* client: cut, and on to another server */
    SIM_HOLD_UP,          /* client: packets to the server are held, for */
    SIM_HOLD_DOWN,        /* client: packets to the client */
    SIM_HOLD_TO_LEADER,   /* server */
    SIM_HOLD_FROM_LEADER, /* server */
    SIM_ISOLATE,          /* server cut off from all others, for */
    SIM_PAUSE_CLIENT,     /* client, for */
    SIM_PAUSE_SERVER,     /* server, for */
    SIM_PAUSE_LEADER,     /* for */
    SIM_KILL_SERVER,      /* server, down for */
    SIM_KILL_LEADER,      /* down for */
    SIM_CRASH,            /* client: loses its memory, starts again after */
    SIM_EXPIRE,           /* client: somebody else closes its session */
    SIM_DELETE_NODE,      /* a stranger deletes the n-th living node of a queue (path) */
    SIM_WRITE_NODE,       /* a stranger writes it */
    SIM_FOREIGN,          /* a stranger creates a child of a queue: kind n */
    SIM_REAP,             /* containers that may be removed are */
    SIM_DENY,             /* path: an access list without the permissions n, for */
    SIM_NO_MEMORY,        /* client: n allocations fail */
    SIM_THROTTLE,         /* client: n requests are not applied, and told so */
    SIM_REFUSE,           /* client: n submits are refused */
    SIM_ROLLED_KINDS,     /* those from here on are rolled apart from the others */
    SIM_LOSE_TOUCH =
        SIM_ROLLED_KINDS, /* server: whom it heard since the last ping is forgotten: beyond the lease's assumptions */
    SIM_RESIZE,           /* path: a semaphore gets another limit, value */
    SIM_FAULT_KINDS
};

struct sim_fault {
    enum sim_trigger trigger;
    int64_t when; /* ns, or n */
    enum sim_fault_kind kind;
    int target;
    int64_t value; /* ns, or n */
};

enum sim_scheduler { SIM_UNIFORM, SIM_PCT };

struct sim_plan {
    int servers, clients, paths;
    int observers; /* so many of the servers, the last ones */
    bool masters;  /* they follow followers */
    bool batches;  /* a server applies several transactions before it answers the reads that wait behind a write */
    int64_t tick, timeout, pause; /* pause: what the clients believe of the leader */
    int64_t ppm[6];               /* drift of each client's clock */
    enum sim_scheduler scheduler;
    int64_t delay;    /* usual one-way delay, ns */
    int slow_once_in; /* 0: never; one message in that many takes up to slow */
    int64_t slow;
    int64_t inbox_delay; /* 0: the core hears at once; else most */
    int64_t preempt;     /* most, of a follower between list and answer */
    int64_t ping_late;   /* most, of each of the leader's pings: its thread may stand still as long as `pause` */
    int64_t late;        /* most, of a timer */
    bool bounds;         /* every other server grants shorter session timeouts (maxSessionTimeout) */
    int64_t walk;        /* most, that the leader takes to expire the sessions of one tick; 0: no time */
    int64_t skew;        /* most, of a server's wall clock before the others' */
    enum zkl__memory_rules rules;
    enum sim_readers hides[6]; /* from whom each client hides its places in the queues, which all may list */
    bool readers, marks;       /* only while it is rolled */
    int unlisted;              /* of the core's configuration: as few contenders as this share lists; 0: as usual */
    bool async;                /* shell/: calls that wait are made without waiting, now and then */
    int sequence;              /* the queues' counters start there */
    bool folders;              /* a semaphore is there from the beginning, with its limit */
    int64_t heal;              /* ns: no fault strikes later, and those that last end */
    int acquire_count, fault_count;
    struct sim_acquire acquires[SIM_ACQUIRES];
    struct sim_fault faults[SIM_FAULTS];
};

/* shell: for the recipes, which roll theirs. */
void sim_plan_roll(struct sim_plan *plan, uint64_t seed, bool shell);
/* From this seed on locks linger. */
#define SIM_LINGERING (UINT64_C(1) << 40)
/* From this one on none lingers, and some are held for a least time. */
#define SIM_LEAST (UINT64_C(1) << 42)
/* From this one on all wait after a crash. */
#define SIM_DELAYS (UINT64_C(1) << 43)
/* From this one on the leader takes time to expire the sessions of a tick, and none of the above. */
#define SIM_WALKING (UINT64_C(1) << 44)
/* From this one on the threads of one session acquire a lock that lingers all the time. */
#define SIM_LINES (UINT64_C(1) << 45)
/* From this one on most report whether the last holder released; some wait if not, linger, or are held for a least time. */
#define SIM_MARKS (UINT64_C(1) << 46)
/* From this one on the contenders of a session share lists as if they were many, and none of the above. */
#define SIM_CROWDS (UINT64_C(1) << 47)
/* 0, or the number of the line that cannot be read. */
int sim_plan_read(struct sim_plan *plan, uint64_t *seed, FILE *in);
void sim_plan_write(const struct sim_plan *plan, uint64_t seed, FILE *out);
bool sim_path_is_semaphore(const struct sim_plan *plan, int path);
/* In some of these it gets other limits, and most who want permits go by what the path says. */
bool sim_plan_resizes(const struct sim_plan *plan);
const char *sim_plan_path(int path);

/* quick: no packet is slower than usual. */
int64_t sim_plan_delay(const struct sim_plan *plan, uint64_t seed, int slot, uint32_t count, bool quick);
/* How long after it has taken a tick's sessions the leader expires this one. */
int64_t sim_plan_turn(const struct sim_plan *plan, uint64_t seed, int session, uint64_t count);
int64_t sim_plan_preempted(const struct sim_plan *plan, uint64_t seed, int server, uint64_t count);

/* --- faults.c -------------------------------------------------------------------------------------------------------- */

struct sim_faults {
    int64_t seen[16]; /* of each trigger */
    uint32_t struck;  /* bit set */
    bool beyond;      /* an assumption of the lease was broken on purpose: leases are off */
    bool stranger;    /* an operator meddled: deleted, wrote, closed a session */
    bool healed, to_clean;
    int deferred[SIM_FAULTS], deferred_client[SIM_FAULTS], deferred_count;
    int64_t last_leader_pause; /* its end */
};
const char *sim_fault_name(enum sim_fault_kind kind);
void sim_faults_arm(struct sim *s); /* for the next that has a time */
/* Something happened that a fault may wait for; client is the one concerned, or -1. */
void sim_faults_on(struct sim *s, enum sim_trigger trigger, int client);
void sim_faults_due(struct sim *s);

/* --- invariants.c: see invariants.h ---------------------------------------------------------------------------------- */

/* Of the grants of a path so far: the highest token, the last exclusive one's, and the last serial. */
struct sim_granted {
    int64_t token, exclusive, serial;
};
void sim_granted_note(struct sim_granted *granted, int64_t token, int64_t serial, bool shared);

struct sim_judge {
    char verdict[256]; /* empty: nothing is wrong */
    bool failed;
    bool stays;                    /* somebody's node does after its release */
    struct sim_granted granted[4]; /* by path */
    int apart[4];                  /* grants on znodes of their own in a row, beside others of the session */
    int grants, completions, losses;
    int64_t disturbed; /* true time: until then something may delay whatever is sent */
    int64_t unrest;    /* shell/: when something last changed, or was about to, or somebody was not connected */
    int off_lease;     /* what would be violations, but an assumption was broken on purpose */
};
void sim_judge_commit(struct sim *s, int position);

#endif
