/* Children: pure. */
#include "check.h"
#include "children.h"
#include "dice.h"
#include "test_heap.h"
#include "plain_heap.h"

#include <string.h>

#define MOST 200

static bool no_x(const char *name)
{
    return name[0] != 'x';
}

static void test_in_order_whatever_the_list_is(void)
{
    static char names[MOST][16];
    const char *list[MOST];
    for (size_t count = 0; count < MOST; count += 7) {
        for (size_t i = 0; i < count; i++) {
            snprintf(names[i], sizeof names[i], "%s%u", i % 3 ? "" : "x", (unsigned)dice_at(count, 1, i));
            list[i] = names[i];
        }
        const struct zkl__reply reply = {.children = list, .child_count = count};
        struct zkl__children *all = NULL, *some = NULL;
        CU_ASSERT_TRUE_FATAL(zkl__children_renew(&plain_heap, &all, &reply, NULL));
        CU_ASSERT_TRUE_FATAL(zkl__children_renew(&plain_heap, &some, &reply, no_x));
        CU_ASSERT_EQUAL_FATAL(all->count, count);
        for (size_t i = 0; i + 1 < count; i++) {
            CU_ASSERT(strcmp(all->all[i].name, all->all[i + 1].name) <= 0);
        }
        for (size_t i = 0; i < count; i++) {
            struct zkl__child *found = zkl__children_find(all, list[i]);
            CU_ASSERT(found && strcmp(found->name, list[i]) == 0);
            CU_ASSERT_EQUAL(zkl__children_find(some, list[i]) != NULL, i % 3 != 0);
        }
        CU_ASSERT_PTR_NULL(zkl__children_find(all, "a"));
        free(all);
        free(some);
    }
}

/* What lives is not asked again, what does not is; what went, or may not be looked at, is not overlooked. */
static void test_verdicts(void)
{
    const char *list[] = {"b", "a", "d", "c"}, *later[] = {"e", "c", "b", "a"};
    const struct zkl__reply reply = {.children = list, .child_count = 4}, next = {.children = later, .child_count = 4};
    const struct zkl__reply living = {.stat = {.ephemeral_owner = 7, .czxid = 5}}, stray = {.rc = ZKL__RC_OK};
    const struct zkl__reply gone = {.rc = ZKL__RC_NONODE}, refused = {.rc = ZKL__RC_NOAUTH};
    struct zkl__children *children = NULL;
    CU_ASSERT_TRUE_FATAL(zkl__children_renew(&plain_heap, &children, &reply, NULL));
    CU_ASSERT_EQUAL(zkl__children_unknown(children, 0), 0);
    zkl__child_judge(&children->all[0], &living);
    zkl__child_judge(&children->all[1], &stray);
    CU_ASSERT_EQUAL(zkl__children_unknown(children, 0), 2);
    CU_ASSERT_EQUAL(zkl__children_living(children), 1);
    CU_ASSERT_EQUAL(zkl__children_standing(children), 3);
    zkl__child_judge(&children->all[2], &gone);
    zkl__child_judge(&children->all[3], &refused);
    CU_ASSERT_EQUAL(zkl__children_unknown(children, 0), 4);
    CU_ASSERT_EQUAL(zkl__children_living(children), 2);
    CU_ASSERT_EQUAL(zkl__children_standing(children), 3);
    CU_ASSERT_TRUE_FATAL(zkl__children_renew(&plain_heap, &children, &next, NULL));
    CU_ASSERT_EQUAL(children->all[0].verdict, ZKL__CHILD_LIVES);
    CU_ASSERT_EQUAL(children->all[0].czxid, 5);
    CU_ASSERT_EQUAL(children->all[1].verdict, ZKL__CHILD_UNKNOWN);
    CU_ASSERT_EQUAL(children->all[2].verdict, ZKL__CHILD_UNKNOWN);
    CU_ASSERT_EQUAL(children->all[3].verdict, ZKL__CHILD_UNKNOWN);
    free(children);
}

TESTS("children", T(test_in_order_whatever_the_list_is), T(test_verdicts))
