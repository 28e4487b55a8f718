/* check.h - CUnit with less ceremony: tests that register themselves, a main that fails when one fails.
 *
 *   TEST(test_x)
 *   {
 *       CU_ASSERT_EQUAL(1, 1);
 *   }
 *   TESTS("name")
 */
#ifndef ZKL_TESTS_CHECK_H
#define ZKL_TESTS_CHECK_H

#include <CUnit/Basic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Tests run in the order in which they stand in their file. */
#define TEST(name)                                                     \
    static void name(void);                                            \
    __attribute__((constructor)) static void add_##name(void)          \
    {                                                                  \
        static struct check_case test = {#name, name, __LINE__, NULL}; \
        check_add(&test);                                              \
    }                                                                  \
    static void name(void)

/* A test between what sets it up and what takes that down again. */
#define TEST_BETWEEN(set_up, name, tear_down) \
    static void name##_inside(void);          \
    TEST(name)                                \
    {                                         \
        set_up;                               \
        name##_inside();                      \
        tear_down;                            \
    }                                         \
    static void name##_inside(void)

struct check_case {
    const char *name;
    void (*run)(void);
    int line;
    struct check_case *next;
};
void check_add(struct check_case *test);

/* The program's arguments, if any, are the names of the tests to run. */
#define TESTS(suite_name)                          \
    int main(int argc, char **argv)                \
    {                                              \
        return check_main(suite_name, argc, argv); \
    }

#define ASSERT_OK(call) CU_ASSERT_EQUAL(call, ZKL_OK)
#define ASSERT_OK_FATAL(call) CU_ASSERT_EQUAL_FATAL(call, ZKL_OK)
/* An error's text has these words. */
#define ASSERT_SAYS(err, words) CU_ASSERT_PTR_NOT_NULL(strstr((err).text, words))
/* What was held is given back. A macro, for the line of a failure, as the next one. */
#define kit_release(lock) ASSERT_OK(zkl_lock_release(lock, NULL))
#define kit_close(session) ASSERT_OK(zkl_session_close(session, 60000)) /* the server must confirm */
/* EVENTUALLY is of wait.h or of lock_kit.h. */
#define ASSERT_EVENTUALLY(condition) CU_ASSERT(EVENTUALLY(condition))
#define ASSERT_EVENTUALLY_FATAL(condition) CU_ASSERT_FATAL(EVENTUALLY(condition))

/* For the index of each row of an array. */
#define EACH_ROW(i, rows) for (size_t i = 0; i < sizeof(rows) / sizeof *(rows); i++)

/* A number from the environment. */
long check_setting(const char *name, long otherwise);
/* As often as ZKLOCK_ROUNDS says (1), with the number of the round, from 0. */
void check_rounds(void (*once)(int round));

int check_main(const char *suite_name, int argc, char **argv);

#endif
