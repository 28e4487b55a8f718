/* process.h - what all threads of one contender share: who it is, its session, and where it writes what it does. */
#ifndef ZKL_CHAOS_PROCESS_H
#define ZKL_CHAOS_PROCESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "history.h"
#include "object.h"
#include "page.h"

#include <zklock/zklock.h>

#define LATE INT64_C(5000000) /* ns: what is worth a line */

struct process {
    const char *name;
    int number; /* of its place among the contenders */
    const char *servers;
    int64_t tick_ms, timeout_ms;
    const char *root; /* all paths are below it */
    int word_count;
    char **words; /* object_new */
    int record, resource;
    struct page *page;
    zkl_session *session;
    atomic_bool enough;
};
extern struct process process;

/* What cannot be had ends the process with a core. */
void process_give_up(const char *what, const zkl_error *err);
/* Servers may be down just now: tries until there is one. NULL: enough of it. */
zkl_session *process_open_session(int64_t connect_timeout_ms);
/* The nemesis is at rest: nobody is to come and go any more. */
bool process_calm(void);
/* Since it is calm, that part of this process has what it wants. */
void process_settled(enum page_part part);

/* One line for each path of the object: a multi-lock is judged as that many locks, of clients of their own. line->path is ignored. */
void process_note(const struct object *o, const struct history_line *line);
/* A grant or another end of an acquire. The lease is asked for after the time was read: it runs at least so long from then. */
void process_note_done(const struct object *o, struct history_line line, int code, const zkl_grant *grant);

/* A write of that holder. One of several that hold at once cannot be told from them by its token: it says that it is there, and nothing is
 * fenced. */
void process_write(const struct object *o, const char *client, int64_t session, int64_t token, bool stays);

#endif
