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
    int64_t lost_at;
    bool downgraded; /* what remains of the one before it, which has its token */
};

struct client {
    int process, next; /* next: another client of the process; -1: none */
    bool pending;
    bool lost; /* the grant that it released last */
    int path, takes;
    int64_t deadline; /* 0: none */
    int64_t starved;  /* ns of the pending wait, or since the loss */
    int64_t hold;     /* -1: none */
};

struct court {
    const struct history *h;
    const struct verdict_options *options;
    struct verdict *v;
    struct spans spans;
    struct client *clients;
    struct hold *holds;
    size_t hold_count;
    int *first_client;   /* of a process */
    int64_t *stopped_at; /* of a process; 0: it runs */
    struct path {
        bool used, looked;
        int of;        /* how much there is; 0: nobody asked yet */
        int releasing; /* the client that released it whole last and is not back from it; -1: nobody */
        int64_t left, accepted;
    } * paths;
};

#define CLIENT(number) court_name(&c->h->clients, number)
#define PATH(number) court_name(&c->h->paths, number)
/* "-" for -1. */
const char *court_name(const struct history_names *names, int number);

/* Room for so many, zeroed; never NULL. */
void *court_make(size_t count, size_t size);

__attribute__((format(printf, 3, 4))) void court_accuse(struct court *c, enum verdict_kind kind, const char *format,
                                                        ...);

/* After the last event: which grants overlap, which tokens are out of order. */
void court_judge_grants(struct court *c);

#endif
