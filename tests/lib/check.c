#include "check.h"

static int wanted(const char *name, int argc, char **argv)
{
    if (argc < 2) {
        return 1;
    }
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], name) == 0) {
            return 1;
        }
    }
    return 0;
}

long check_setting(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

void check_rounds(void (*once)(int round))
{
    long rounds = check_setting("ZKLOCK_ROUNDS", 1);
    for (int round = 0; round < rounds; round++) {
        once(round);
    }
    printf("\n  ");
}

static struct check_case *first;

void check_add(struct check_case *test)
{
    struct check_case **at = &first;
    while (*at && (*at)->line < test->line) {
        at = &(*at)->next;
    }
    test->next = *at;
    *at = test;
}

int check_main(const char *suite_name, int argc, char **argv)
{
    if (CU_initialize_registry() != CUE_SUCCESS) {
        return 2;
    }
    CU_pSuite suite = CU_add_suite(suite_name, NULL, NULL);
    int added = 0;
    for (const struct check_case *test = first; suite && test; test = test->next) {
        if (wanted(test->name, argc, argv)) {
            CU_add_test(suite, test->name, test->run);
            added++;
        }
    }
    if (added == 0) {
        fprintf(stderr, "%s: no test of that name\n", argv[0]);
        return 2;
    }
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failed = CU_get_number_of_failures() + CU_get_number_of_suites_failed();
    CU_cleanup_registry();
    return failed == 0 ? 0 : 1;
}
