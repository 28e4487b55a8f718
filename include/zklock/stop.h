/* zklock/stop.h - a stop token: one flag that ends many waits.
 *
 * A zkl_stop is the caller's memory. It is raised once and stays raised, for any number of calls:
 * a wait under it ends with ZKL_ECANCELED, and a wait that begins later ends at its start. So it
 * also ends a call that has not begun yet, unlike zkl_lock_cancel. Together with the deadline of
 * each call it does what a context does in Go: the token ends all waits, a deadline ends one.
 *
 * A session has one (zkl_session_options.stop), and so has a lock (zkl_lock_options.stop,
 * zkl_lock_set_stop). The session's ends every wait of the session, in zkl_session_open too; the
 * lock's ends the waits of that lock. Either also raises the flag of a section (zkl_with_lock,
 * zkl_election_run, zkl_once_run), which then has to end.
 *
 * What ends something is not stopped: a release, a leave, the lift of a barrier, the record of a
 * job that is done, a close and a free send what they have to send, and wait as long as their own
 * timeouts say, with a raised token too. A lock that is held stays held; but a candidate of
 * zkl_election_stand resigns. After ZKL_ECANCELED, as after ZKL_ETIMEOUT, a write of the call may
 * be carried out: the text of zkl_lock_commit and zkl_semaphore_resize says whether it had been
 * sent.
 *
 * A child of fork has a copy of the token, which is raised if the parent's was. It may be raised
 * there, by an inherited signal handler too: that ends waits of the child's own sessions only.
 *
 * The memory must live as long as the session or lock that was given it. At most
 * ZKL_STOP_SESSIONS_MAX sessions wait under one token at a time: one more gets ZKL_ELIMIT. */
#ifndef ZKLOCK_STOP_H
#define ZKLOCK_STOP_H

#include <stdbool.h>
#include <stdint.h>

#include <zklock/export.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ZKL_STOP_SESSIONS_MAX 15

/* Begins as ZKL_STOP_INIT, or zeroed. The members are the library's. */
typedef struct zkl_stop {
    uint32_t raised;
    uint32_t process;
    struct {
        int32_t descriptor;
        uint32_t waits;
    } sessions[ZKL_STOP_SESSIONS_MAX];
} zkl_stop;

#define ZKL_STOP_INIT \
    {                 \
        0, 0,         \
        {             \
            {         \
                0, 0  \
            }         \
        }             \
    }

/* Raises it. From any thread, from a callback, and from a signal handler: it takes no lock, and
 * calls nothing but write(2) and getpid(2). A second time: nothing happens. NULL is fine. */
ZKL_API void zkl_stop_raise(zkl_stop *stop);

/* True once it is raised. From any thread and from a signal handler. NULL: false. */
ZKL_API bool zkl_stop_raised(const zkl_stop *stop);

#ifdef __cplusplus
}
#endif
#endif
