#include "vigil.h"

#include "error.h"

static void fired(struct zkl__watch *watch, enum zkl__watch_event event)
{
    struct zkl__vigil *vigil = watch->owner;
    (void)event;
    vigil->changed = true;
    zkl__procedure_poke(vigil->by);
}

void zkl__vigil_begin(struct zkl__vigil *vigil, struct zkl__procedure *by, const char *first,
                      const char *second)
{
    *vigil = (struct zkl__vigil){.by = by};
    vigil->watches[0] = (struct zkl__watch){.fired = fired, .owner = vigil, .path = first};
    vigil->watches[1] = (struct zkl__watch){.fired = fired, .owner = vigil, .path = second};
}

int zkl__vigil_watch(struct zkl__vigil *vigil, int number, zkl_error *err)
{
    struct zkl__watch *watch = &vigil->watches[number];
    int rc = watch->on ? ZKL_OK : zkl__watch_add(zkl__session_core(vigil->by->session), watch);
    return rc == ZKL_OK
               ? ZKL_OK
               : zkl__fail(err, rc, 0, watch->path, "the session watches too much already");
}

int zkl__vigil_advance(struct zkl__vigil *vigil, zkl_error *err)
{
    if (vigil->changed) {
        vigil->changed = false;
        return ZKL_OK;
    }
    if (zkl__session_status(vigil->by->session)->stopping) {
        return zkl__fail(err, ZKL_ECLOSED, 0, NULL, "the session is being closed");
    }
    vigil->by->late = "the time is up";
    return ZKL__PENDING;
}

void zkl__vigil_end(struct zkl__vigil *vigil)
{
    if (vigil->by) {
        zkl__watch_remove(zkl__session_core(vigil->by->session), &vigil->watches[0]);
        zkl__watch_remove(zkl__session_core(vigil->by->session), &vigil->watches[1]);
        vigil->by = NULL;
    }
}
