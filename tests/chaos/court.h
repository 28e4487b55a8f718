/* court.h - inside the verdict: what is known of clients and grants while a history is judged. */
#ifndef ZKL_CHAOS_COURT_H
#define ZKL_CHAOS_COURT_H

#include "spans.h"
#include "verdict.h"

#define EVERYBODY -1 /* owner of the spans in which the lease is not judged */

struct hold {
    int path, client;
    int takes;
    int64_t token, start, end;
    bool lost, told;
    int64_t seen; /* when its holder looked last and held */
    int64_t lost_at;
    bool downgraded; /* what remains of the one before it, which has its token */
};

struct client {
    int process, next; /* next: another client of the process; -1: none */
    bool pending;
    bool lost;    /* the grant that it released last */
    bool unclean; /* the pending grant says so */
    int path, takes;
    int64_t deadline; /* 0: none */
    int64_t starved;  /* ns of the pending wait, or since the loss */
    int64_t hold;     /* -1: none */
    bool leaving;     /* it is being freed or closed: what it is granted now is not held */
    int64_t left_by;  /* when its close has to be over */
};

/* A process as one of a group. */
struct member {
    bool joined;
    int path; /* of the group that it watches; -1: none */
    int list; /* what it was told last, a number of a word */
};

struct court {
    const struct history *h;
    const struct verdict_options *options;
    struct verdict *v;
    struct spans spans;
    struct client *clients;
    struct hold *holds;
    size_t hold_count;
    int *first_client;      /* of a process */
    int64_t *stopped_at;    /* of a process; 0: it runs */
    struct member *members; /* of a process */
    struct path {
        bool used, looked;
        int of; /* how much there is; 0: nobody asked yet */
        bool recovers;
        bool crashed;       /* the holder before was killed, and nobody has released since */
        int64_t clearing;   /* token of who was told, and called release; 0: nobody */
        int64_t last_grant; /* the highest token */
        int releasing;      /* the client that released it whole last and is not back from it; -1: nobody */
        int64_t left, accepted;
        int64_t rest, owner_by,
            list_by; /* rest: since when nothing is broken. 0: nobody said so, or it has been looked at */
    } * paths;
    int64_t rest_by; /* the earliest of all owner_by and list_by; 0: none */
};

#define CLIENT(number) court_name(&c->h->clients, number)
#define PATH(number) court_name(&c->h->paths, number)
/* "-" for -1. */
const char *court_name(const struct history_names *names, int number);

/* Room for so many, zeroed; never NULL. */
void *court_make(size_t count, size_t size);

__attribute__((format(printf, 3, 4))) void court_accuse(struct court *c, enum verdict_kind kind, const char *format,
                                                        ...);

/* The grant of a client; NULL: none. */
struct hold *court_hold(struct court *c, const struct client *client);
void court_end_hold(struct hold *hold, int64_t at);
/* How much later than due something is, without what the library is not blamed for: the process was stopped, or late as a whole, or the very
 * thread that was to do it got no processor: that is taken to have been at the end, and counts once where both were so. */
int64_t court_lateness(const struct court *c, const struct client *client, int64_t due, int64_t at);
/* Of a wait, or a close, that had to be over; what: "waited for", with a path or nothing behind it. */
void court_check_end(struct court *c, const struct client *client, const char *what, int path, int64_t due, int64_t at);

/* What is freed or closed with all it has and waits for. */
void court_see_leaving(struct court *c, struct client *client, const struct history_event *e);
/* Who is in a group, who was told of whom, what has to be so in the end. */
void court_see_group(struct court *c, const struct history_event *e);
/* Before each event: what has to be so by then. */
void court_check_rest(struct court *c, int64_t now);
/* Something about one grant: that it was asked for, that its place was removed. */
struct act {
    int path;
    int64_t token, at, until;
};
/* All events of that kind, but for those of bad results where all is false, in the order of their grants and times. To be freed. */
struct act *court_collect(const struct court *c, enum history_op op, bool all, size_t *count);
/* Paths and tokens of two acts. */
int court_compare_grants(const void *left, const void *right);
/* Those whose places an operator took away end there: what he does breaks a lock, and the manual says so. Before court_judge_grants. */
void court_end_removed(struct court *c);

/* Where crashes are told of: a grant, a release that says so, the end of a process that holds. */
void court_see_recovery(struct court *c, const struct client *client, const struct history_event *e);
/* After the last event: who was asked to give way has heard so. */
void court_judge_requests(struct court *c);
/* A guarded transaction is asked for: not in vain, when others have been granted since? */
void court_see_commit(struct court *c, const struct history_event *e);
/* After the last event: which guarded transactions were committed in which order, and what was answered. */
void court_judge_commits(struct court *c);
/* After the last event: which grants overlap, which tokens are out of order. */
void court_judge_grants(struct court *c);

#endif
