#include "watch_handle.h"

#include <string.h>

void zkl__watch_handle_unref(struct zkl__watch_handle *handle)
{
    zkl_session *session = handle->session;
    const zkl_heap *heap = &session->heap;
    if (--handle->refs > 0) {
        return;
    }
    handle->ops->stop(handle);
    zkl__list_remove(&session->objects, &handle->object.link);
    if (handle->ops->destroy) {
        handle->ops->destroy(handle);
    }
    zkl__free(heap, handle->seen);
    zkl__free(heap, handle->shown);
    zkl__free(heap, handle->path);
    zkl__free(heap, handle);
    zkl__session_drop(session);
}

void zkl__watch_handle_wake(struct zkl__watch_handle *handle, struct zkl__watcher *watcher)
{
    if (watcher->core) {
        zkl__session_event(handle->session,
                           (struct zkl__event){.kind = ZKL__EV_WAKE, .machine = &watcher->machine});
    }
}

/* --- telling --------------------------------------------------------------------------------- */

void zkl__watch_handle_post(struct zkl__watch_handle *handle)
{
    if (!handle->freed) {
        zkl__callbacks_post(&handle->session->callbacks, &handle->notice);
    }
}

void zkl__watch_handle_see(struct zkl__watch_handle *handle, void *seen)
{
    zkl__free(&handle->session->heap, handle->seen);
    handle->seen = seen;
    zkl__watch_handle_post(handle);
}

const void *zkl__watch_handle_news(struct zkl__watch_handle *handle,
                                   bool (*same)(const void *a, const void *b))
{
    const void *news = NULL;
    zkl__session_enter_even_closed(handle->session, NULL);
    if (handle->seen && !handle->freed && !(handle->shown && same(handle->seen, handle->shown))) {
        zkl__free(&handle->session->heap, handle->shown);
        news = handle->shown = handle->seen;
        handle->seen = NULL;
    }
    zkl__session_leave(handle->session);
    return news;
}

static void run_notice(void *owner)
{
    struct zkl__watch_handle *handle = owner;
    zkl_session *session = handle->session;
    if (zkl__session_enter_even_closed(session, NULL) != ZKL_OK) {
        return;
    }
    handle->refs++;
    zkl__session_leave(session);
    handle->ops->report(handle);
    if (zkl__session_enter_even_closed(session, NULL) != ZKL_OK) {
        return;
    }
    zkl__watch_handle_unref(handle);
    zkl__session_leave(session);
}

/* --- life ------------------------------------------------------------------------------------ */

int zkl__watch_handle_new(struct zkl__watch_handle **out, size_t size,
                          const struct zkl__watch_handle_ops *ops, zkl_session *session,
                          const char *path, bool has_callback, zkl_error *err)
{
    int rc = session ? zkl__path_check(path, err) : zkl__fail_null(err, "session");
    rc = rc == ZKL_OK ? zkl__session_enter(session, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    const zkl_heap *heap = &session->heap;
    struct zkl__watch_handle *handle = zkl__zalloc(heap, size);
    char *copy = zkl__copy_text(heap, path);
    if (has_callback) {
        rc = zkl__session_want_callbacks(session, path, err);
    }
    if (rc == ZKL_OK && (!handle || !copy)) {
        rc = zkl__fail_at(err, ZKL_ENOMEM, path, "no memory");
    }
    if (rc != ZKL_OK) {
        zkl__free(heap, copy);
        zkl__free(heap, handle);
        zkl__session_leave(session);
        return rc;
    }
    handle->object.ops = &ops->object;
    handle->ops = ops;
    handle->session = session;
    handle->path = copy;
    handle->refs = 1;
    handle->notice = (struct zkl__callback){.run = run_notice, .owner = handle};
    zkl__session_retain(session);
    zkl__list_prepend(&session->objects, &handle->object.link);
    *out = handle;
    return ZKL_OK;
}

void zkl__watch_handle_free(struct zkl__watch_handle *handle, bool goes_on)
{
    zkl_session *session = handle->session;
    if (zkl__session_enter_even_closed(session, NULL) != ZKL_OK) {
        return; /* in a child of fork the parent's memory stays as it is */
    }
    handle->freed = true;
    if (!goes_on) {
        handle->ops->stop(handle);
    }
    zkl__callbacks_unpost(&session->callbacks, &handle->notice);
    zkl__watch_handle_unref(handle);
    zkl__session_leave(session);
}

/* --- as an object of the session ------------------------------------------------------------- */

void zkl__watch_handle_give_up(struct zkl__object *object, int code)
{
    struct zkl__watch_handle *handle = (struct zkl__watch_handle *)object;
    if (code == ZKL_ECLOSED) {
        handle->ops->stop(handle);
    }
}
