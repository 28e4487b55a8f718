#include "remove.h"

/* ZooKeeper's delete knows a name and a version, and neither says which znode it is: any write
 * raises the version without making it another znode. So the znode is looked at before each delete,
 * and a delete is sent once. */
int zkl__remove(struct zkl__removal *it)
{
    struct zkl__answer *answer = &it->call->answer;
    CALL_BEGIN(it);
    for (;;) {
        AWAIT(it, {.kind = ZKL__OP_EXISTS, .dir = it->dir, .name = it->name});
        if (answer->rc != ZKL__RC_OK) {
            break;
        }
        it->czxid = it->czxid ? it->czxid : answer->stat.czxid;
        if (answer->stat.czxid != it->czxid) {
            answer->rc = ZKL__RC_NONODE;
            break;
        }
        it->sent = true;
        AWAIT_ONCE(it, NULL,
                   {.kind = ZKL__OP_DELETE,
                    .dir = it->dir,
                    .name = it->name,
                    .version = answer->stat.version});
        if (!zkl__rc_answered(answer->rc)) {
            /* The reply is lost: the delete was carried out, or will be, or never. Behind a
             * committed write no earlier request of this session comes any more, so the next look
             * decides. A check is one, whatever its reply is: ZooKeeper commits a transaction that
             * failed as well (PrepRequestProcessor). */
            AWAIT(it, {.kind = ZKL__OP_CHECK, .dir = it->dir, .version = -1});
        } else if (answer->rc == ZKL__RC_NOTAPPLIED) {
            zkl__call_pause(it->call, &it->pause);
        } else if (answer->rc != ZKL__RC_BADVERSION) {
            break;
        }
    }
    if (it->sent && answer->rc == ZKL__RC_NONODE) {
        answer->rc = ZKL__RC_OK;
    }
    CALL_END(it);
}
