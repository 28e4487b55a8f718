/* watch_handle.h - the object around a machine that acts by itself (protocol/watcher.h): a handle,
 * and a callback of its user's. What observers, members and partitions are made of.
 *
 * A recipe is a struct that begins with a zkl__watch_handle, and has its machine behind that.
 * Everything inside enter/leave unless it says not. */
#ifndef ZKL_SESSION_AGENT_H
#define ZKL_SESSION_AGENT_H

#include "shell.h"
#include "watcher.h"

struct zkl__watch_handle;
struct zkl__watch_handle_ops {
    struct zkl__object_ops object; /* noun, and the zkl__watch_handle_ functions at the end */
    /* Not inside: calls the user, if there is something to say. */
    void (*tell)(struct zkl__watch_handle *handle);
    /* Ends its machine. Also when that has ended, or was not begun. */
    void (*stop)(struct zkl__watch_handle *handle);
    /* The last of it: frees what the recipe allocated, but not the agent. Stopped before. NULL:
     * nothing. */
    void (*destroy)(struct zkl__watch_handle *handle);
};

struct zkl__watch_handle {
    struct zkl__object object; /* first */
    const struct zkl__watch_handle_ops *ops;
    zkl_session *session;
    char *path;
    unsigned refs;      /* the user's handle, a callback that runs, and what the recipe adds */
    bool freed;         /* the handle is gone */
    void *seen, *shown; /* by the machine; to the user. NULL: nothing yet */
    struct zkl__callback notice;
};

/* Not inside. Checks path (ZKL_EINVAL), enters the session, makes memory of size bytes, zeroed,
 * with the agent at its beginning. On ZKL_OK the caller is inside, and calls zkl__watch_handle_made
 * when it has filled in the rest. Errors: as zkl_lock_new. */
int zkl__watch_handle_new(struct zkl__watch_handle **out, size_t size,
                          const struct zkl__watch_handle_ops *ops, zkl_session *session,
                          const char *path, bool tells, zkl_error *err);
/* Leaves. made: false when there was no memory for the rest: then the agent goes, and ZKL_ENOMEM is
 * the result. */
int zkl__watch_handle_made(struct zkl__watch_handle *handle, bool made, zkl_error *err);
/* Not inside. The handle goes: no callback afterwards. Stops it, unless it has something to do
 * still (it keeps a reference of its own). */
void zkl__watch_handle_free(struct zkl__watch_handle *handle, bool goes_on);
/* Also in a step. */
void zkl__watch_handle_unref(struct zkl__watch_handle *handle);

/* Not in a step: its machine acts, if it is there. */
void zkl__watch_handle_wake(struct zkl__watch_handle *handle, struct zkl__watcher *watcher);
/* Its machine ends. Also in a step. */
void zkl__watch_handle_stop(struct zkl__watch_handle *handle);
/* Has something to tell. Also in a step. */
void zkl__watch_handle_post(struct zkl__watch_handle *handle);

/* In a step. What its machine sees now, a block of the session's heap: to be told. */
void zkl__watch_handle_see(struct zkl__watch_handle *handle, void *seen);
/* From tell. What is to be shown now; NULL: nothing, or the same as before. */
const void *zkl__watch_handle_news(struct zkl__watch_handle *handle,
                                   bool (*same)(const void *a, const void *b));

/* For zkl__object_ops. */
bool zkl__watch_handle_give_up(struct zkl__object *object, int code);
int zkl__watch_handle_describe(const struct zkl__object *object, zkl__visit_fn visit,
                               void *payload);

#endif
