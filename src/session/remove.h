/* remove.h - deleting one znode and no other. */
#ifndef ZKL_SESSION_REMOVE_H
#define ZKL_SESSION_REMOVE_H

#include "call.h"

struct zkl__removal {
    int line;
    struct zkl__call *call;
    const char *dir, *name; /* name NULL: dir itself. Both live until the end */
    int64_t czxid;          /* of the znode that is meant; 0: the one that stands there now */
    /* its own: */
    bool sent; /* a delete */
    int64_t pause;
};

/* To be awaited. The call's answer is the server's last word then: ZKL__RC_OK when the znode is
 * deleted and we may have done it, ZKL__RC_NONODE when it was not there, or another one was. */
int zkl__remove(struct zkl__removal *it);

#endif
