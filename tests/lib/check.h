/* check.h - CUnit with less ceremony: a table of tests, a main that fails when one fails.
 *
 *   static void test_x(void) { CU_ASSERT_EQUAL(1, 1); }
 *   TESTS("name", T(test_x), T(test_y))
 */
#ifndef ZKL_TESTS_CHECK_H
#define ZKL_TESTS_CHECK_H

#include <CUnit/Basic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct check_case {
    const char *name;
    void (*run)(void);
};

#define T(function)         \
    {                       \
#function, function \
    }

/* The program's arguments, if any, are the names of the tests to run. */
#define TESTS(suite_name, ...)                                                                 \
    int main(int argc, char **argv)                                                            \
    {                                                                                          \
        static const struct check_case cases[] = {__VA_ARGS__};                                \
        return check_main(suite_name, cases, (int)(sizeof cases / sizeof *cases), argc, argv); \
    }

/* walk for the seeds from 1 to count, until one fails, which is printed. */
void check_seeds(uint64_t count, void (*walk)(uint64_t seed));

int check_main(const char *suite_name, const struct check_case *cases, int count, int argc, char **argv);

#endif
