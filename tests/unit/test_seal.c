/* The session's seal: when there is one, and what it is good for on the in-process store. */
#include "call.h"
#include "check.h"
#include "inside.h"
#include "lock_kit.h"
#include "store_client.h"

#include <string.h>

static struct zkl__seal made(const zkl_session_options *options)
{
    struct zkl__seal seal = {.on = false};
    CU_ASSERT_TRUE(zkl__seal_make(&seal, options));
    return seal;
}

static void test_its_own(void)
{
    const zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    struct zkl__seal first = {.on = false}, second = {.on = false};
    CU_ASSERT_TRUE(zkl__seal_make(&first, &options) && zkl__seal_make(&second, &options));
    CU_ASSERT_TRUE(first.on && second.on);
    CU_ASSERT_EQUAL(strlen(first.credentials), sizeof first.credentials - 1);
    CU_ASSERT_STRING_NOT_EQUAL(first.credentials, second.credentials);
    CU_ASSERT_STRING_NOT_EQUAL(first.identity, second.identity);
    CU_ASSERT_EQUAL(first.acl.count, 2);
    CU_ASSERT_EQUAL(first.acl.entries[0].perms & (ZKL_PERM_WRITE | ZKL_PERM_ADMIN), 0);
    CU_ASSERT_EQUAL(first.acl.entries[1].perms, ZKL_PERM_WRITE);
    CU_ASSERT_STRING_EQUAL(first.acl.entries[1].id, first.identity);
    zkl__seal_wipe(&first);
    CU_ASSERT_EQUAL(first.credentials[0], '\0');
}

/* Who may do what is the user's affair, then. */
static void test_none(void)
{
    static const zkl_acl_entry entry = {ZKL_PERM_ALL, "world", "anyone"};
    static const zkl_acl acl = {1, &entry};
    const zkl_sasl sasl = {"GSSAPI", NULL, "zk", NULL};
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    options.auth_scheme = "digest";
    CU_ASSERT_FALSE(made(&options).on);
    options = (zkl_session_options)ZKL_SESSION_OPTIONS_INIT;
    options.acl = &acl;
    CU_ASSERT_FALSE(made(&options).on);
    options = (zkl_session_options)ZKL_SESSION_OPTIONS_INIT;
    options.tls = "ca.pem,cert.pem,key.pem";
    CU_ASSERT_FALSE(made(&options).on);
    options = (zkl_session_options)ZKL_SESSION_OPTIONS_INIT;
    options.sasl = &sasl;
    CU_ASSERT_FALSE(made(&options).on);
}

struct calling {
    struct zkl__call call;
    struct zkl__op op;
};

static int run(struct zkl__call *call)
{
    CALL_BEGIN(call);
    AWAIT_ONCE(call, NULL, ((struct calling *)call)->op);
    CALL_END(call);
}

static enum zkl__rc rc_of(zkl_session *session, struct zkl__op op)
{
    static const struct zkl__call_kind kind = {.size = sizeof(struct calling), .run = run};
    struct calling calling = {.op = op};
    CU_ASSERT_EQUAL_FATAL(zkl__session_enter(session, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(zkl__call_wait(&kind, &calling.call, session, "/", 60000, NULL), ZKL_OK);
    zkl__session_leave(session);
    return calling.call.answer.rc;
}

static void test_sessions(void)
{
    zkl_session *owner = kit_open(NULL), *other = kit_open(NULL);
    struct zkl__op make = op_create("/sealed", NULL, ZKL__EPHEMERAL), set = op_set("/sealed", "x", -1);
    make.acl = &owner->seal.acl;
    CU_ASSERT_EQUAL(rc_of(owner, make), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(other, set), ZKL__RC_NOAUTH);
    CU_ASSERT_EQUAL(rc_of(owner, set), ZKL__RC_OK);
    CU_ASSERT_EQUAL(rc_of(other, op_delete("/sealed", -1)), ZKL__RC_OK);
    kit_close(owner);
    kit_close(other);
}

TESTS("seal", T(test_its_own), T(test_none), T(test_sessions))
