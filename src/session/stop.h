/* stop.h - stop tokens, as what waits sees them.
 *
 * A token is raised where no lock may be taken. So it only sets its flag and writes to a descriptor
 * of each session that waits under it; the alarms' thread of the session reads that, takes the
 * mutex, and ends the waits. Everything here inside enter/leave. */
#ifndef ZKL_SESSION_STOP_H
#define ZKL_SESSION_STOP_H

#include "list.h"

#include <zklock/error.h>
#include <zklock/stop.h>
#include <zklock/types.h>

/* One wait under one token. */
struct zkl__stop_wait {
    zkl_stop *stop; /* NULL: it does not wait under any */
    int slot;       /* of the session in the token */
    void (*raised)(void *owner);
    void *owner;
    struct zkl__link link;
    struct zkl__list *in; /* of the session: waits, or those that are to be called now; NULL: it was
                             called */
};

/* A wait under the session's token and one of its object's. Zeroed: it has not begun. */
struct zkl__stops {
    struct zkl__stop_wait waits[2];
};

/* Begins it: raised is called once or twice, inside enter/leave and after a step, when a token is
 * raised before the end. own: the object's token; NULL: it has none. Errors: ZKL_ECANCELED (one is
 * raised already), ZKL_ELIMIT: then it has not begun. */
int zkl__stops_begin(zkl_session *session, struct zkl__stops *stops, zkl_stop *own,
                     void (*raised)(void *owner), void *owner, zkl_error *err);
/* Not begun, or ended already: nothing. */
void zkl__stops_end(zkl_session *session, struct zkl__stops *stops);

#endif
