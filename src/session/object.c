/* object.c - the objects of a session: their memory, and what they report to their user. */
#include "shell.h"

#include <string.h>

void zkl__object_stop(struct zkl__object *object)
{
    if (object->watcher) {
        zkl__watcher_end(object->watcher);
    }
    if (object->ops->stop) {
        object->ops->stop(object);
    }
}

void zkl__object_unref(struct zkl__object *object)
{
    zkl_session *session = object->session;
    const zkl_heap *heap = &session->heap;
    if (--object->refs > 0) {
        return;
    }
    zkl__object_stop(object);
    zkl__list_remove(&session->objects, &object->link);
    if (object->ops->destroy) {
        object->ops->destroy(object);
    }
    zkl__free(heap, object->seen);
    zkl__free(heap, object->shown);
    zkl__free(heap, object->path);
    zkl__free(heap, object);
    zkl__session_drop(session);
}

void zkl__object_wake(struct zkl__object *object)
{
    if (object->watcher->core) {
        zkl__session_event(
            object->session,
            (struct zkl__event){.kind = ZKL__EV_WAKE, .machine = &object->watcher->machine});
    }
}

/* --- telling --------------------------------------------------------------------------------- */

void zkl__object_post(struct zkl__object *object)
{
    if (!object->freed) {
        zkl__callbacks_post(&object->session->callbacks, &object->notice);
    }
}

void zkl__object_see(struct zkl__object *object, void *seen)
{
    zkl__free(&object->session->heap, object->seen);
    object->seen = seen;
    zkl__object_post(object);
}

const void *zkl__object_news(struct zkl__object *object, bool (*same)(const void *a, const void *b))
{
    const void *news = NULL;
    zkl__session_enter_if_ours(object->session);
    if (object->seen && !object->freed && !(object->shown && same(object->seen, object->shown))) {
        zkl__free(&object->session->heap, object->shown);
        news = object->shown = object->seen;
        object->seen = NULL;
    }
    zkl__session_leave(object->session);
    return news;
}

static void run_notice(void *owner)
{
    struct zkl__object *object = owner;
    zkl_session *session = object->session;
    if (!zkl__session_enter_if_ours(session)) {
        return;
    }
    object->refs++;
    zkl__session_leave(session);
    object->ops->report(object);
    if (!zkl__session_enter_if_ours(session)) {
        return;
    }
    zkl__object_unref(object);
    zkl__session_leave(session);
}

/* --- life ------------------------------------------------------------------------------------ */

int zkl__object_new(struct zkl__object **out, size_t size, const struct zkl__object_ops *ops,
                    zkl_session *session, const char *path, bool has_callback, zkl_error *err)
{
    int rc = session ? zkl__path_check(path, err) : zkl__fail_null(err, "session");
    rc = rc == ZKL_OK ? zkl__session_enter(session, err) : rc;
    if (rc != ZKL_OK) {
        return rc;
    }
    const zkl_heap *heap = &session->heap;
    struct zkl__object *object = zkl__zalloc(heap, size);
    char *copy = zkl__copy_text(heap, path);
    if (has_callback) {
        rc = zkl__session_want_callbacks(session, path, err);
    }
    if (rc == ZKL_OK && (!object || !copy)) {
        rc = zkl__fail_at(err, ZKL_ENOMEM, path, "no memory");
    }
    if (rc != ZKL_OK) {
        zkl__free(heap, copy);
        zkl__free(heap, object);
        zkl__session_leave(session);
        return rc;
    }
    object->ops = ops;
    object->session = session;
    object->path = copy;
    object->refs = 1;
    object->notice = (struct zkl__callback){.run = run_notice, .owner = object};
    zkl__session_retain(session);
    zkl__list_prepend(&session->objects, &object->link);
    *out = object;
    return ZKL_OK;
}

void zkl__object_free(struct zkl__object *object, bool goes_on)
{
    if (!object || !zkl__session_enter_if_ours(object->session)) {
        return; /* in a child of fork the parent's memory stays as it is */
    }
    zkl_session *session = object->session;
    object->freed = true;
    if (!goes_on) {
        zkl__object_stop(object);
    }
    zkl__callbacks_unpost(&session->callbacks, &object->notice);
    zkl__object_unref(object);
    zkl__session_leave(session);
}
