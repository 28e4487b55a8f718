/* jury.h - which children live with a session, found out without a thread that waits: several looks
 * at a time. */
#ifndef ZKL_SESSION_JURY_H
#define ZKL_SESSION_JURY_H

#include "children.h"
#include "shell.h"

#define ZKL__JURORS 16 /* looks under way: hides the round trip */

struct zkl__jury;
struct zkl__juror {
    struct zkl__request request;
    struct zkl__jury *jury;
    size_t index;
    bool busy;
};

struct zkl__jury {
    zkl_session *session;
    const char *dir; /* the owner's */
    /* Inside a step: no look is under way any more; act after it. False: something was not
     * answered, ask again later. */
    void (*done)(void *owner, bool answered);
    void *owner;
    struct zkl__children *children; /* NULL: no list was taken */
    size_t busy;
    bool unanswered;
    struct zkl__juror jurors[ZKL__JURORS];
};

/* A list: what was under way for the one before is forgotten, what lives stays known. False: no
 * memory. Inside a step or not. */
bool zkl__jury_take(struct zkl__jury *jury, const struct zkl__reply *list,
                    bool (*counts)(const char *name));
/* Not inside a step. Sends what is to be asked. False: nothing is, all are judged. */
bool zkl__jury_sit(struct zkl__jury *jury);
/* The end of it. Outside or inside a step. */
void zkl__jury_dismiss(struct zkl__jury *jury);

#endif
