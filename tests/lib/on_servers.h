/* on_servers.h - a program of tests that share real servers: these run before the first test, and are stopped after the last. */
#ifndef ZKL_TESTS_ON_SERVERS_H
#define ZKL_TESTS_ON_SERVERS_H

#include "check.h"
#include "ensemble.h"

extern struct ensemble *server; /* one or several */

/* As TESTS of check.h, on servers with these options (NULL: one server). 77, "skipped", where there is no ZooKeeper. */
#define TESTS_ON_SERVERS(suite_name, options, ...)                                                           \
    int main(int argc, char **argv)                                                                          \
    {                                                                                                        \
        static const struct check_case cases[] = {__VA_ARGS__};                                              \
        return on_servers_main(suite_name, options, cases, (int)(sizeof cases / sizeof *cases), argc, argv); \
    }
int on_servers_main(const char *suite_name, const struct ensemble_options *options, const struct check_case *cases,
                    int count, int argc, char **argv);

#endif
