/* on_servers.h - a program of tests that share real servers: these run before the first test, and are stopped after the last. */
#ifndef ZKL_TESTS_ON_SERVERS_H
#define ZKL_TESTS_ON_SERVERS_H

#include "check.h"
#include "ensemble.h"

extern struct ensemble *server; /* one or several */
struct proxy *proxy_here(void); /* in front of the first (proxy.h) */

/* As TESTS of check.h, on servers with these options (NULL: one server). 77, "skipped", where there is no ZooKeeper. */
#define TESTS_ON_SERVERS(suite_name, options)                    \
    int main(int argc, char **argv)                              \
    {                                                            \
        return on_servers_main(suite_name, options, argc, argv); \
    }
int on_servers_main(const char *suite_name, const struct ensemble_options *options, int argc, char **argv);

#endif
