/* watch_handle.h - the object around a machine that acts by itself (protocol/watcher.h): a handle,
 * and a callback of its user's. What observers, members and partitions are made of.
 *
 * A recipe is a struct that begins with a zkl__watch_handle, and has its machine behind that.
 * The caller holds the session mutex unless a comment says otherwise. */
#ifndef ZKL_SESSION_WATCH_HANDLE_H
#define ZKL_SESSION_WATCH_HANDLE_H

#include "shell.h"
#include "watcher.h"

struct zkl__watch_handle;
struct zkl__watch_handle_ops {
    struct zkl__object_ops object;
    /* Session mutex not held: calls the user, if there is something to report. */
    void (*report)(struct zkl__watch_handle *handle);
    /* Ends its machine. Also in a step, and when that has ended, or was not begun. */
    void (*stop)(struct zkl__watch_handle *handle);
    /* After stop: frees what the recipe allocated, but not the handle. NULL: nothing. */
    void (*destroy)(struct zkl__watch_handle *handle);
};

struct zkl__watch_handle {
    struct zkl__object object; /* first */
    const struct zkl__watch_handle_ops *ops;
    zkl_session *session;
    char *path;
    unsigned refs;      /* the user's handle, a callback that runs, and what the recipe adds */
    bool freed;         /* the user has freed the handle */
    void *seen, *shown; /* by the machine; to the user. NULL: nothing yet */
    struct zkl__callback notice;
};

/* Session mutex not held. Checks path (ZKL_EINVAL), enters the session, makes memory of size bytes,
 * zeroed, with the handle at its beginning. On ZKL_OK the caller holds the session mutex, fills in
 * the rest, and leaves. Errors: as zkl_lock_new. */
int zkl__watch_handle_new(struct zkl__watch_handle **out, size_t size,
                          const struct zkl__watch_handle_ops *ops, zkl_session *session,
                          const char *path, bool has_callback, zkl_error *err);
/* Session mutex not held. The user frees the handle: no callback afterwards. Stops its machine,
 * unless goes_on (the recipe then keeps a reference of its own). */
void zkl__watch_handle_free(struct zkl__watch_handle *handle, bool goes_on);
/* Also in a step. */
void zkl__watch_handle_unref(struct zkl__watch_handle *handle);

/* Not in a step: its machine acts, if it is there. */
void zkl__watch_handle_wake(struct zkl__watch_handle *handle, struct zkl__watcher *watcher);
/* Posts the callback, which calls `report`. Also in a step. */
void zkl__watch_handle_post(struct zkl__watch_handle *handle);

/* In a step. What its machine sees now, a block of the session's heap, which `report` reports. */
void zkl__watch_handle_see(struct zkl__watch_handle *handle, void *seen);
/* From `report`. What to report now; NULL: nothing, or the same as before. */
const void *zkl__watch_handle_news(struct zkl__watch_handle *handle,
                                   bool (*same)(const void *a, const void *b));

/* For zkl__object_ops. */
void zkl__watch_handle_give_up(struct zkl__object *object, int code);

#endif
