/* A lock of every recipe on a real server, driven by the same verbs. */
#include "handle_kit.h"

#include <stdio.h>

#include "one_server.h"

static void test_every_recipe(void)
{
    zkl_session *session = open_one(), *other = open_one();
    CU_ASSERT_EQUAL(zkl_once_prepare(session, "/records", SOON, NULL), ZKL_OK);
    for (int i = 0; i < handle_recipe_count; i++) {
        char path[64];
        snprintf(path, sizeof path, "/handle/%d", i);
        handle_drive(&handle_recipes[i], session, other, path, "/records/one");
    }
    close_one(session);
    close_one(other);
}

TESTS_ON_ONE_SERVER("handle", T(test_every_recipe))
