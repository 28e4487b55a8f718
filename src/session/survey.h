/* survey.h - the children of a znode and a read of each of them, as a part of a procedure: a list,
 * then several gets on their way at a time. */
#ifndef ZKL_SESSION_SURVEY_H
#define ZKL_SESSION_SURVEY_H

#include "call.h"
#include "children.h"

struct zkl__survey {
    const char *dir;                  /* the owner's; lives until the end */
    bool (*counts)(const char *name); /* of a child: is it read? NULL: all are */
    const char *refused;              /* words when the children may not be listed */
    /* In a step: the list has come, survey->names are those that count. Makes room for what is read
     * of each. list: empty when dir does not exist. False: no memory. */
    bool (*listed)(struct zkl__survey *survey, const struct zkl__reply *list);
    /* In a step, in any order: the server's word on the child of that number. */
    void (*read)(struct zkl__survey *survey, size_t index, const struct zkl__reply *reply);
    struct zkl__children *names; /* NULL: not listed yet. Whoever wants to keep them takes them */
    /* its own: */
    struct zkl__procedure *by; /* NULL: not begun, or ended */
    enum zkl__survey_step { ZKL__SURVEY_LIST, ZKL__SURVEY_READ } step;
    struct zkl__single list;
    struct zkl__op op;
    enum zkl__rc rc; /* of the list */
    int zk_code;
    bool no_memory;
    struct zkl__reads reads;
    struct zkl__run run;
    struct zkl__slot slots[ZKL__WINDOW];
};

/* What the owner fills in is filled in. */
void zkl__survey_begin(struct zkl__survey *survey, struct zkl__procedure *by);
/* For the procedure's advance. ZKL_OK: each child has been read. Else as zkl__run_advance, with the
 * server's refusal of the list, and ZKL_ENOMEM. */
int zkl__survey_advance(struct zkl__survey *survey, zkl_error *err);
/* For its end. Not begun: nothing. */
void zkl__survey_end(struct zkl__survey *survey);

#endif
