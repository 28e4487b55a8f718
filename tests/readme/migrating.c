/* The C of docs/migrating.md, run. */
#include <zklock/zklock.h>

#include "migrating_blocks.h"

int main(void)
{
    zkl_session *session;
    if (zkl_session_open(&session, "memory:migrating", NULL, NULL) != ZKL_OK) {
        return 1;
    }
    int failed = work_like_a_mutex(session, 3) != 0;
    return zkl_session_close(session, 5000) != ZKL_OK || failed;
}
