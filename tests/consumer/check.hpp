// What the programs of C++ share.
#ifndef CONSUMER_CHECK_HPP
#define CONSUMER_CHECK_HPP

#include <cstdio>
#include <cstdlib>

#define CHECK(what)                                                                 \
    do {                                                                            \
        if (!(what)) {                                                              \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what); \
            std::exit(1);                                                           \
        }                                                                           \
    } while (0)

#endif
