#include "make_parents.h"

#include "error.h"
#include "path.h"

/* From below, since most often nothing is missing: up when the level above is, then down. When the
 * reply to a create is lost, the copy finds the directory there. */
int zkl__make_parents(struct zkl__parents *it, struct zkl__call *call, const char *path)
{
    it->call = call;
    CALL_BEGIN(it);
    zkl__path_join(it->above, sizeof it->above, path, NULL);
    if (!zkl__path_shorten(it->above)) {
        RETURN(it, ZKL_OK);
    }
    zkl__path_join(it->level, sizeof it->level, it->above, NULL);
    for (;;) {
        AWAIT(it, {.kind = ZKL__OP_CREATE, .dir = it->level, .mode = ZKL__CONTAINER});
        enum zkl__rc rc = call->answer.rc;
        if (rc == ZKL__RC_OK || rc == ZKL__RC_NODEEXISTS) {
            if (!zkl__path_lengthen(it->level, it->above)) {
                RETURN(it, ZKL_OK);
            }
        } else if (rc != ZKL__RC_NONODE || !zkl__path_shorten(it->level)) {
            RETURN(it, zkl__fail(call->err, zkl__rc_code(rc), 0, it->level, "cannot be created: %s",
                                 zkl__rc_why(rc)));
        }
    }
    CALL_END(it);
}
