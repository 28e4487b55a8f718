/* remove.h - deleting one znode and no other. Inside enter/leave. */
#ifndef ZKL_SESSION_REMOVE_H
#define ZKL_SESSION_REMOVE_H

#include "call.h"

/* ZooKeeper's delete knows a name and a version, and neither says which znode it is. So the znode
 * is looked at first. When the answer to the delete is lost, it is looked at again behind a
 * committed write, behind which no earlier request of this session comes any more, and the delete
 * is sent again only if the same one still stands. */
enum zkl__removal_step {
    ZKL__REMOVAL_LOOK,    /* which znode is it, and of which version? */
    ZKL__REMOVAL_DELETE,  /* sent once */
    ZKL__REMOVAL_BARRIER, /* nobody knows what became of the delete: a committed write */
    ZKL__REMOVAL_PAUSE,   /* the server put the delete off */
    ZKL__REMOVAL_DONE
};

struct zkl__removal {
    const char *dir, *name; /* name NULL: dir itself */
    int64_t czxid;          /* of the znode that is meant; 0: the one that stands there now */
    /* the answer: */
    enum zkl__rc
        rc; /* the server's last word. ZKL__RC_NONODE: it was not there, or another one was */
    int zk_code;
    /* its own: */
    struct zkl__procedure *by; /* NULL: not begun, or ended */
    enum zkl__removal_step step;
    struct zkl__single single;
    struct zkl__op op;
    struct zkl__stat stat;
    bool sent; /* a delete */
    int64_t pause, pause_to;
};

/* dir and name live until the end. */
void zkl__removal_begin(struct zkl__removal *removal, struct zkl__procedure *by);
/* For the procedure's advance. ZKL_OK: the server's word is in rc; ZKL__RC_OK when it is gone and
 * we may have done it. Else as zkl__run_advance. */
int zkl__removal_advance(struct zkl__removal *removal, zkl_error *err);
/* For its end. Not begun: nothing. */
void zkl__removal_end(struct zkl__removal *removal);

#endif
