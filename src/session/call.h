/* call.h - operations that a procedure waits for: one, or many reads with several on their way at a
 * time. All inside enter/leave. */
#ifndef ZKL_SESSION_CALL_H
#define ZKL_SESSION_CALL_H

#include "procedure.h"

/* ns to wait before what the server put off (ZKL__RC_NOTAPPLIED) is sent again: longer each time.
 * pause: the last one, 0 at first. */
int64_t zkl__session_longer(int64_t pause);

struct zkl__reads {
    size_t count;
    void (*make)(void *arg, size_t index,
                 struct zkl__op *op); /* op is zeroed; its pointers live until the next make */
    void (*look)(void *arg, size_t index,
                 const struct zkl__reply *reply); /* in any order: the server's answer, or
                                                     ZKL__RC_UNSENT of what can never be sent */
    void *arg;
};
/* What a procedure sends, and goes on with by itself: some operations, several on their way at a
 * time. */
#define ZKL__WINDOW 64 /* on their way at a time: hides the round trip, crowds nobody out */

enum zkl__run_mode {
    ZKL__ONCE,   /* one operation, sent once */
    ZKL__INSIST, /* one that does no harm when done twice: sent again when the connection goes, and,
                    later each time, when the server puts it off */
    ZKL__WHILE_KNOWN, /* one that is sent again as long as it is known not to be done: the server
                         put it off, or it was never sent */
    ZKL__READS        /* the same of many; one that can never be sent does not stop the others */
};
struct zkl__run;
struct zkl__slot {
    struct zkl__request request;
    struct zkl__run *run;
    size_t index;
    enum { ZKL__FREE, ZKL__FLYING, ZKL__UNANSWERED } state;
};
struct zkl__run {
    struct zkl__procedure *by; /* NULL: not begun, or ended */
    enum zkl__run_mode mode;
    const struct zkl__reads *reads;
    struct zkl__slot *slots;
    size_t window;
    size_t next, done, flying;
    int unsent;       /* why the last one was not sent; ZKL_OK: it was */
    bool lost;        /* nobody knows what became of it */
    bool sending;     /* just now: what is refused is refused inside */
    int64_t pause;    /* since the server put some off: the last one, and */
    int64_t pause_to; /* its end */
};
/* reads and slots live until the end. */
void zkl__run_begin(struct zkl__run *run, struct zkl__procedure *by, enum zkl__run_mode mode,
                    const struct zkl__reads *reads, struct zkl__slot *slots, size_t window);
/* For the procedure's advance. ZKL_OK: all are answered, whatever was said. Of one operation also:
 * why it was not sent, or ZKL_ECONNECT. */
int zkl__run_advance(struct zkl__run *run, zkl_error *err);
/* For its end, or its explain. Not begun: nothing. True: what was sent last has no answer. Of one
 * operation that is sent once, false says that it is not done. */
bool zkl__run_end(struct zkl__run *run);

/* The same of one operation; op, and what it points to, lives until the end. */
struct zkl__single {
    struct zkl__run run;
    struct zkl__reads reads;
    struct zkl__slot slot;
    const struct zkl__op *op;
    void (*look)(void *arg, const struct zkl__reply *reply);
    void *arg;
};
void zkl__single_begin(struct zkl__single *single, struct zkl__procedure *by,
                       enum zkl__run_mode mode, const struct zkl__op *op,
                       void (*look)(void *arg, const struct zkl__reply *reply), void *arg);

#endif
