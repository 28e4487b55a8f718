/* The C of docs/migrating.md, run. */
#include <zklock/zklock.h>

#include "migrating_blocks.h"

static int64_t seen;

static int write_report(int64_t token)
{
    seen = token;
    return 0;
}

int main(void)
{
    zkl_session *session;
    if (zkl_session_open(&session, "memory:migrating", NULL, NULL) != ZKL_OK) {
        return 1;
    }
    int failed = report_under_lock(session, write_report) != ZKL_OK || seen <= 0 || work_like_a_mutex(session, 3) != 0;
    return zkl_session_close(session, 5000) != ZKL_OK || failed;
}
