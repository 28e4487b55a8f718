/* st_kit.h - what tests of libzklock_st share. */
#ifndef ZKL_TESTS_ST_KIT_H
#define ZKL_TESTS_ST_KIT_H

#include <dirent.h>
#include <poll.h>
#include <stdio.h>

#include "lock_kit.h"

static inline int entries(const char *path)
{
    int count = 0;
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        count += entry->d_name[0] != '.';
    }
    if (folder) {
        closedir(folder);
    }
    return count;
}

/* As a loop of the user's does it, which has nothing else to do: only when the descriptor says so. False after ten seconds. */
static inline bool dispatch_once(zkl_session *session)
{
    struct pollfd poller = {.fd = zkl_session_fd(session), .events = POLLIN};
    return poll(&poller, 1, 10000) == 1 && zkl_session_dispatch(session) >= 0;
}

/* True as soon as the condition is, which only this loop can bring about. */
#define DISPATCHED(session, condition)    \
    __extension__({                       \
        bool on_ = true;                  \
        while (!(condition) && on_) {     \
            on_ = dispatch_once(session); \
        }                                 \
        on_;                              \
    })

#endif
