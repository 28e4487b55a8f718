#include "directories.h"

#include "error.h"
#include "path.h"

static void look(void *arg, const struct zkl__reply *reply)
{
    ((struct zkl__directories *)arg)->rc = reply->rc;
}

static void send_level(struct zkl__directories *directories)
{
    directories->op =
        (struct zkl__op){.kind = ZKL__OP_CREATE, .dir = directories->level, .mode = ZKL__CONTAINER};
    zkl__single_begin(&directories->single, directories->by, ZKL__INSIST, &directories->op, look,
                      directories);
}

void zkl__directories_begin(struct zkl__directories *directories, struct zkl__procedure *by,
                            const char *path)
{
    directories->by = by;
    zkl__path_join(directories->above, sizeof directories->above, path, NULL);
    directories->whole = !zkl__path_shorten(directories->above);
    if (!directories->whole) {
        zkl__path_join(directories->level, sizeof directories->level, directories->above, NULL);
        send_level(directories);
    }
}

/* The answer is there: up when the level above is missing, else down. */
static int go_on(struct zkl__directories *directories, zkl_error *err)
{
    bool made = directories->rc == ZKL__RC_OK || directories->rc == ZKL__RC_NODEEXISTS;
    if (made) {
        directories->whole = !zkl__path_lengthen(directories->level, directories->above);
    } else if (directories->rc != ZKL__RC_NONODE || !zkl__path_shorten(directories->level)) {
        return zkl__fail(err, zkl__rc_code(directories->rc), 0, directories->level,
                         "cannot be created: %s", zkl__rc_why(directories->rc));
    }
    if (!directories->whole) {
        send_level(directories);
    }
    return ZKL_OK;
}

int zkl__directories_advance(struct zkl__directories *directories, zkl_error *err)
{
    int rc = ZKL_OK;
    while (rc == ZKL_OK && !directories->whole) {
        rc = zkl__run_advance(&directories->single.run, err);
        rc = rc == ZKL_OK ? go_on(directories, err) : rc;
    }
    return rc;
}

void zkl__directories_end(struct zkl__directories *directories)
{
    if (directories->by) {
        zkl__run_end(&directories->single.run);
        directories->by = NULL;
    }
}
