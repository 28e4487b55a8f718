/* directory.c - the directory of the queue is made, part by part, when it is missing. */
#include "contender_moves.h"

#include "path.h"

#include <string.h>

void zkl__directory_missing(struct zkl__contender *c)
{
    c->make_path =
        c->make_path ? c->make_path : zkl__copy(c->heap, c->config.path, strlen(c->config.path));
    if (!c->make_path) {
        zkl__contender_fail(c, ZKL_ENOMEM, 0, "out of memory");
        return;
    }
    memcpy(c->make_path, c->config.path, strlen(c->config.path) + 1);
    zkl__contender_move(c, ZKL__MAKING, "no such directory");
}

void zkl__directory_ask(struct zkl__contender *c)
{
    if (!(c->under_way & UNDER_WAY(ZKL__ROLE_MAKE))) {
        /* Servers delete an empty container, and the mark with it. */
        zkl__ask(c, ZKL__ROLE_MAKE,
                 (struct zkl__op){.kind = ZKL__OP_CREATE,
                                  .dir = c->make_path,
                                  .mode = c->config.mark ? ZKL__PERSISTENT : ZKL__CONTAINER,
                                  .acl = c->config.acl});
    }
}

void zkl__directory_on_reply(struct zkl__contender *c)
{
    if (c->state != ZKL__MAKING) {
        return;
    }
    if (c->event->reply->rc == ZKL__RC_NONODE) {
        if (!zkl__path_shorten(c->make_path)) {
            zkl__contender_fail(c, ZKL_ENOENT, c->event->reply->zk_code,
                                "the chroot of the connect string does not exist");
            return;
        }
    } else if (c->event->reply->rc == ZKL__RC_OK || c->event->reply->rc == ZKL__RC_NODEEXISTS) {
        if (!zkl__path_lengthen(c->make_path, c->config.path)) {
            zkl__free(c->heap, c->make_path);
            c->make_path = NULL;
            zkl__contender_move(c, ZKL__CREATING, "the directory is there");
        }
    } else {
        zkl__contender_fail_by_reply(c);
        return;
    }
}
