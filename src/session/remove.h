/* remove.h - deleting one znode and no other. Inside enter/leave. */
#ifndef ZKL_SESSION_REMOVE_H
#define ZKL_SESSION_REMOVE_H

#include "shell.h"

struct zkl__removal {
    const char *dir, *name; /* name NULL: dir itself */
    int64_t czxid;          /* of the znode that is meant; 0: the one that stands there now */
    /* the answer: */
    enum zkl__rc
        rc; /* the server's last word. ZKL__RC_NONODE: it was not there, or another one was */
    int zk_code;
};

/* ZooKeeper's delete knows a name and a version, and neither says which znode it is. So the znode
 * is looked at first. When the answer to the delete is lost, it is looked at again behind a
 * committed write, behind which no earlier request of this session comes any more, and the delete
 * is sent again only if the same one still stands. ZKL_OK: the server's word is in rc; ZKL__RC_OK
 * when it is gone and we may have done it. Else as zkl__session_insist. */
int zkl__session_remove_exactly(zkl_session *session, struct zkl__removal *removal,
                                int64_t deadline, zkl_error *err);

#endif
