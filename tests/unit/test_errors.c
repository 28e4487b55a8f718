/* The table of results, and the words and names of the language between core and store. */
#include "check.h"
#include "base.h"
#include "op.h"

static const struct {
    int code;
    const char *name;
    zkl_class class;
} table[] = {
    {ZKL_OK, "ZKL_OK", ZKL_CLASS_OK},
    {ZKL_ETIMEOUT, "ZKL_ETIMEOUT", ZKL_CLASS_RETRY},
    {ZKL_EBUSY, "ZKL_EBUSY", ZKL_CLASS_RETRY},
    {ZKL_ECANCELED, "ZKL_ECANCELED", ZKL_CLASS_RETRY},
    {ZKL_ELOST, "ZKL_ELOST", ZKL_CLASS_LOST},
    {ZKL_EDEADLK, "ZKL_EDEADLK", ZKL_CLASS_CALLER},
    {ZKL_ENOTHELD, "ZKL_ENOTHELD", ZKL_CLASS_CALLER},
    {ZKL_ENOTWAITING, "ZKL_ENOTWAITING", ZKL_CLASS_CALLER},
    {ZKL_ECONNECT, "ZKL_ECONNECT", ZKL_CLASS_RETRY},
    {ZKL_EAUTH, "ZKL_EAUTH", ZKL_CLASS_FATAL},
    {ZKL_ENOENT, "ZKL_ENOENT", ZKL_CLASS_CALLER},
    {ZKL_ECONFLICT, "ZKL_ECONFLICT", ZKL_CLASS_CALLER},
    {ZKL_EEXHAUSTED, "ZKL_EEXHAUSTED", ZKL_CLASS_FATAL},
    {ZKL_ELIMIT, "ZKL_ELIMIT", ZKL_CLASS_RETRY},
    {ZKL_EFORKED, "ZKL_EFORKED", ZKL_CLASS_FATAL},
    {ZKL_EINVAL, "ZKL_EINVAL", ZKL_CLASS_CALLER},
    {ZKL_ENOMEM, "ZKL_ENOMEM", ZKL_CLASS_RETRY},
    {ZKL_ECLOSED, "ZKL_ECLOSED", ZKL_CLASS_CALLER},
    {ZKL_EUNSUPPORTED, "ZKL_EUNSUPPORTED", ZKL_CLASS_FATAL},
};
#define COUNT ((int)(sizeof table / sizeof *table))

TEST(test_table)
{
    EACH_ROW (i, table) {
        CU_ASSERT_EQUAL(table[i].code, -(int)i); /* part of the ABI: a code never changes its number */
        CU_ASSERT_STRING_EQUAL(zkl_error_name(table[i].code), table[i].name);
        CU_ASSERT_EQUAL(zkl_error_class(table[i].code), table[i].class);
        CU_ASSERT(strlen(zkl_strerror(table[i].code)) > 0);
        for (size_t j = 0; j < i; j++) {
            CU_ASSERT_STRING_NOT_EQUAL(zkl_strerror(table[i].code), zkl_strerror(table[j].code));
        }
    }
    CU_ASSERT_STRING_EQUAL(zkl_error_name(-COUNT), "ZKL_?"); /* the table above is all of it */
}

TEST(test_fail)
{
    zkl_error err;
    memset(&err, 'x', sizeof err);
    CU_ASSERT_EQUAL(zkl__fail(&err, ZKL_ECONFLICT, -108, "/a/b", "no %s below %d", "children", 3), ZKL_ECONFLICT);
    CU_ASSERT_EQUAL(err.code, ZKL_ECONFLICT);
    CU_ASSERT_EQUAL(err.zk_code, -108);
    CU_ASSERT_STRING_EQUAL(err.path, "/a/b");
    CU_ASSERT_STRING_EQUAL(err.text, "no children below 3");
    CU_ASSERT_EQUAL(zkl__fail_at(&err, ZKL_EINVAL, NULL, "plain"), ZKL_EINVAL);
    CU_ASSERT_STRING_EQUAL(err.path, "");
    CU_ASSERT_EQUAL(zkl__fail_at(NULL, ZKL_ENOMEM, "/a", "nobody reads this"), ZKL_ENOMEM);
}

TEST(test_fail_cuts_what_is_too_long)
{
    zkl_error err;
    char path[3000];
    memset(path, 'p', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    zkl__fail_at(&err, ZKL_EINVAL, path, "%s", path);
    CU_ASSERT_EQUAL(strlen(err.path), ZKL_ERROR_PATH_MAX - 1);
    CU_ASSERT_EQUAL(strlen(err.text), ZKL_ERROR_TEXT_MAX - 1);
}

TEST(test_rc)
{
    static const struct {
        enum zkl__rc rc;
        const char *name;
        int code;
    } rows[] = {
        {ZKL__RC_OK, "ok", ZKL_OK},
        {ZKL__RC_NONODE, "no node", ZKL_ENOENT},
        {ZKL__RC_NODEEXISTS, "node exists", ZKL_ECONFLICT},
        {ZKL__RC_NOTEMPTY, "not empty", ZKL_ECONFLICT},
        {ZKL__RC_BADVERSION, "bad version", ZKL_ECONFLICT},
        {ZKL__RC_NOAUTH, "not permitted", ZKL_EAUTH},
        {ZKL__RC_INVALIDACL, "invalid acl", ZKL_EAUTH},
        {ZKL__RC_EPHEMERALPARENT, "ephemeral parent", ZKL_ECONFLICT},
        {ZKL__RC_NOWATCH, "no watch", ZKL_ECONNECT},
        {ZKL__RC_ROLLEDBACK, "rolled back", ZKL_ECONFLICT},
        {ZKL__RC_QUOTA, "quota exceeded", ZKL_ELIMIT},
        {ZKL__RC_LOCAL, "local session", ZKL_EUNSUPPORTED},
        {ZKL__RC_UNIMPLEMENTED, "unimplemented", ZKL_EUNSUPPORTED},
        {ZKL__RC_REFUSED, "refused", ZKL_EUNSUPPORTED},
        {ZKL__RC_NOTAPPLIED, "not applied", ZKL_ECONNECT},
        {ZKL__RC_UNSENT, "unsent", ZKL_ELIMIT},
        {ZKL__RC_UNKNOWN, "unknown", ZKL_ECONNECT},
    };
    EACH_ROW (i, rows) {
        CU_ASSERT_EQUAL(rows[i].rc, (enum zkl__rc)i);
        CU_ASSERT_STRING_EQUAL(zkl__rc_name(rows[i].rc), rows[i].name);
        CU_ASSERT_EQUAL(zkl__rc_code(rows[i].rc), rows[i].code);
        CU_ASSERT_EQUAL(zkl__rc_is_response(rows[i].rc), rows[i].rc < ZKL__RC_UNSENT); /* the last two are our own */
    }
}

/* A text may name what somebody else named, and may be shown on a terminal. */
TEST(test_one_line)
{
    zkl_error err;
    CU_ASSERT_EQUAL(zkl__fail_at(&err, ZKL_ECONFLICT, "/x", "in use: %s", "a\x1b[2J\nb\xff"), ZKL_ECONFLICT);
    CU_ASSERT_STRING_EQUAL(err.text, "in use: a\\x1b[2J\\x0ab\\xff");
}

TESTS("errors")
