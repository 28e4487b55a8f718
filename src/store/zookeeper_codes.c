/* zookeeper_codes.c - ZooKeeper's codes and what they say about an operation. */
#include "zookeeper_store.h"

/* KeeperException.Code.QUOTAEXCEEDED. The header of 3.8 has no name for it (later ones say
 * ZQUOTAEXCEEDED), its servers send it. */
#define QUOTA_EXCEEDED (-125)

static const struct {
    int zk_code;
    enum zkl__rc rc;
} codes[] = {
    {ZOK, ZKL__RC_OK},
    {ZNONODE, ZKL__RC_NONODE},
    {ZNODEEXISTS, ZKL__RC_NODEEXISTS},
    {ZNOTEMPTY, ZKL__RC_NOTEMPTY},
    {ZBADVERSION, ZKL__RC_BADVERSION},
    {ZNOAUTH, ZKL__RC_NOAUTH},
    {ZINVALIDACL, ZKL__RC_INVALIDACL},
    {ZNOCHILDRENFOREPHEMERALS, ZKL__RC_EPHEMERALPARENT},
    {ZNOWATCHER, ZKL__RC_NOWATCH},
    {ZEPHEMERALONLOCALSESSION, ZKL__RC_LOCAL},
    {QUOTA_EXCEEDED, ZKL__RC_QUOTA},
    /* UnimplementedRequestProcessor, which also closes the connection. */
    {ZUNIMPLEMENTED, ZKL__RC_UNIMPLEMENTED},
    /* The server's word: not done. */
    {ZSESSIONMOVED, ZKL__RC_NOTAPPLIED},
    {ZTHROTTLEDOP, ZKL__RC_NOTAPPLIED},
    /* Nobody's word. The library makes these up when a connection or a session ends, and they say
     * nothing about what the server did: after ZOPERATIONTIMEOUT the operation may even be done
     * later, and an op failed with ZCLOSING is still sent. */
    {ZSYSTEMERROR, ZKL__RC_UNKNOWN},
    {ZRUNTIMEINCONSISTENCY, ZKL__RC_UNKNOWN},
    {ZCONNECTIONLOSS, ZKL__RC_UNKNOWN},
    {ZOPERATIONTIMEOUT, ZKL__RC_UNKNOWN},
    {ZSESSIONEXPIRED, ZKL__RC_UNKNOWN},
    {ZAUTHFAILED, ZKL__RC_UNKNOWN},
    {ZCLOSING, ZKL__RC_UNKNOWN},
};

enum zkl__rc zkl__zk_rc(int zk_code)
{
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        if (codes[i].zk_code == zk_code) {
            return codes[i].rc;
        }
    }
    return ZKL__RC_REFUSED;
}

int zkl__zk_refusal(int zk_code, bool dead)
{
    if (dead || zk_code == ZINVALIDSTATE) {
        return ZKL_ECONNECT;
    }
    return zk_code == ZBADARGUMENTS ? ZKL_EINVAL : ZKL_ENOMEM;
}
