/* judgement.h - which children live with a session, as a part of a procedure: looks at those of
 * which nothing is known, several at a time. Inside enter/leave. */
#ifndef ZKL_SESSION_JUDGEMENT_H
#define ZKL_SESSION_JUDGEMENT_H

#include "call.h"
#include "children.h"

struct zkl__call;
struct zkl__judgement {
    int line;
    struct zkl__procedure *by; /* NULL: not begun, or ended */
    const char *dir;
    struct zkl__children *children;
    size_t *which; /* children to be looked at; NULL: none is */
    struct zkl__reads reads;
    struct zkl__run run;
    struct zkl__slot slots[ZKL__WINDOW];
};

/* To be awaited. dir and children are the owner's, and live until the end. ZKL_OK: all are judged;
 * ZKL_ENOMEM with words. Else as zkl__run_advance. */
int zkl__judge(struct zkl__judgement *judgement, struct zkl__call *call, const char *dir,
               struct zkl__children *children);
/* Before it is begun again, and for the procedure's end. Not begun: nothing. */
void zkl__judgement_end(struct zkl__judgement *judgement);

#endif
