/* steps.h - a procedure of several steps: its states as a table, of which each waits for one thing.
 * Everything inside enter/leave. */
#ifndef ZKL_SESSION_STEPS_H
#define ZKL_SESSION_STEPS_H

#include "call.h"

struct zkl__steps;

/* A state. Numbers of states are from 1. */
struct zkl__step {
    /* Entered: sends what it waits for. ZKL_OK, or the result. NULL: nothing is to be sent. */
    int (*begin)(struct zkl__steps *steps, zkl_error *err);
    /* ZKL__PENDING; ZKL_OK: it is there; else the result. NULL: for the answer to the request. */
    int (*await)(struct zkl__steps *steps, zkl_error *err);
    /* It is there: the state that follows, or the result, ZKL_OK or an error. NULL: the one state
     * of moves, or ZKL_OK. */
    int (*next)(struct zkl__steps *steps, zkl_error *err);
    unsigned moves; /* the states that may follow, as bits */
};

/* What a server has said. */
struct zkl__answer {
    enum zkl__rc rc;
    int zk_code;
    struct zkl__stat stat;
    bool empty;            /* no data */
    enum zkl__rc parts[2]; /* of a transaction of two */
};

struct zkl__steps {
    struct zkl__procedure procedure; /* first. It begins and ends with what follows */
    const struct zkl__step *table;
    int first; /* state */
    /* In a step: more of an answer than is kept. NULL: nothing. */
    void (*look)(struct zkl__steps *steps, const struct zkl__reply *reply);
    /* its own: */
    int at; /* 0: not begun */
    struct zkl__single single;
    struct zkl__op op, parts[2];
    struct zkl__answer answer;
};

/* For the procedure's ops. */
int zkl__steps_advance(struct zkl__procedure *procedure, zkl_error *err);
void zkl__steps_end(struct zkl__steps *steps);

/* For begin: one request, sent again until it is answered. What op points to lives until then. */
int zkl__steps_send(struct zkl__steps *steps, const struct zkl__op *op);
/* The same: both or none. */
int zkl__steps_send_both(struct zkl__steps *steps, const struct zkl__op *first,
                         const struct zkl__op *second);
/* For next: the server's refusal, as an error about path. */
int zkl__steps_refused(const struct zkl__steps *steps, const char *path, const char *what,
                       zkl_error *err);

#endif
