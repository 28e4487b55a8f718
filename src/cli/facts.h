/* facts.h - what is known of the contenders of one lock, from all sources together.
 *
 * Sources: the queue as it stands now, records of `zklock watch`, reports of `zklock run`. Each has
 * the clock of its host; the time at which a znode was created is the servers'. */
#ifndef CLI_FACTS_H
#define CLI_FACTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "history.h"

/* One contender. A time that is 0 is not known. */
struct fact {
    char *name; /* of the znode; "": it was never granted, and its report has none */
    char *who;
    int64_t token;
    int64_t queued_ms;
    struct history_time granted,
        ended;                         /* after_ms: the change came later than that; equal: exact */
    struct history_time stopped, gone; /* its process */
    enum history_process process;
    bool holds, there;   /* now, if that is known */
    bool recorded;       /* a record shows it */
    size_t behind;       /* it came after so many; of recorded ones */
    int64_t predecessor; /* token; 0: not known, or none */
    json_t *report;      /* NULL: none was given */
};

struct facts {
    const char *path;
    struct fact *all; /* in queue order; those without a token first */
    size_t count;
    struct history **histories; /* of the records, for when nobody looked */
    size_t history_count;
    json_t *now; /* NULL: not known */
    int64_t now_ms;
    int64_t skew_ms; /* servers' clock minus that of a record, where they surely differ; 0 */
    size_t foreign_reports;
};

/* Each is false after it was said why. */
bool facts_add_record(struct facts *facts, const char *file);
bool facts_add_report(struct facts *facts, const char *file);
bool facts_add_now(struct facts *facts, json_t *queue, int64_t now_ms);
/* To be called when all are added. */
void facts_sort(struct facts *facts);
const struct fact *facts_with_token(const struct facts *facts, int64_t token);
void facts_free(struct facts *facts);

enum fact_end {
    FACT_WAITS,    /* it is in the queue now */
    FACT_HOLDS,    /* so, and holds */
    FACT_REPORTED, /* its report says how it ended */
    FACT_KILLED,   /* its process went first, its znode with the session */
    FACT_STOPPED,  /* its process was stopped when its znode went */
    FACT_LEFT,     /* it ended without a grant */
    FACT_UNKNOWN   /* it ended: released, or lost */
};
enum fact_end fact_end(const struct fact *fact);
/* Its protection ended before its work did. */
bool fact_is_loss(const struct fact *fact);

#endif
