/* zklock/once.h - a job once per time slot over all hosts, for cron on several hosts.
 *
 * The job's hosts queue for a lock (zkl_lock_new). The data of the lock's path records the last
 * slot that was done. The holder writes this record in a transaction that also checks that its own
 * znode still stands. So there is at most one *recorded* success in a slot, and when the holder
 * dies half-way, the next one in the queue runs the job. No service can promise at most one
 * success: a host may die after the job has succeeded and before that is recorded.
 *
 * Slots go by the servers' clock, that is, by the ctime of the contender's own znode. A slot
 * reaches half its length to each side of its round time, so that hosts whose clocks differ a
 * little neither skip one nor run one twice.
 *
 * The lock may not have the options linger_ms, recover and delay_after_crash_ms (ZKL_EINVAL): a
 * znode that lingers has the ctime of an earlier slot, and the other two need the data of the path
 * themselves. Where a slot is recorded, the acquire of a lock with one of these two ends with
 * ZKL_ECONFLICT.
 *
 * The forms that end in _async do not wait (zkl_done_fn in zklock/types.h). zkl_lock_cancel and the
 * free of the lock end a look. No cancel and no stop token ends the record of a job that is done.
 * zkl_once_run has no such form: it runs the job in the caller's thread. */
#ifndef ZKLOCK_ONCE_H
#define ZKLOCK_ONCE_H

#include <zklock/lock.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where a host stands in its slot. */
typedef struct zkl_once_slot {
    int64_t round_ms;    /* the slot's round time, ms since 1970 by the servers' clock */
    int64_t last_ms;     /* the last slot that was recorded; INT64_MIN: none ever was */
    bool done;           /* this slot, or a later one, is recorded */
    int32_t version;     /* of the record that was read */
    int64_t reserved[2]; /* zero */
} zkl_once_slot;

/* Makes the znode at path, which keeps the record, if it is not there: persistent, with the record
 * 000000, which is no slot. Before the lock at path is acquired. A znode without data that is there
 * may be a lock's directory: a container, which the servers delete, with the record, when nobody
 * has queued there for a while. No client can see whether it is one. So it gets a persistent child,
 * keeps-the-record, with which no server deletes it, and which no lock counts. Errors: ZKL_EINVAL,
 * ZKL_ETIMEOUT, ZKL_EAUTH (also when the znode that is there may not be read, or keeps-the-record
 * not be created), ZKL_ECONFLICT (the znode is ephemeral, or keeps-the-record has children),
 * ZKL_ENOENT (chroot), ZKL_ELIMIT (a quota, no thread for callbacks), ZKL_EUNSUPPORTED (by the
 * server), ZKL_ECLOSED, ZKL_EFORKED, ZKL_ENOMEM. */
ZKL_API int zkl_once_prepare(zkl_session *session, const char *path, int64_t timeout_ms,
                             zkl_error *err);
ZKL_API int zkl_once_prepare_async(zkl_session *session, const char *path, int64_t timeout_ms,
                                   zkl_done_fn done, void *payload, zkl_error *err);

/* For a lock that is held: finds the slot into which its znode falls, and whether it is done.
 * Waits timeout_ms at most. length_ms: from 1000; phase_ms: of the round times, from 0 to length_ms
 * - 1. Errors: ZKL_EINVAL, ZKL_ENOTHELD, ZKL_ELOST, ZKL_ECONFLICT (the data of the path is no
 * record), ZKL_ETIMEOUT, ZKL_EAUTH, ZKL_ELIMIT, ZKL_ECLOSED, ZKL_EFORKED, ZKL_ENOMEM. */
ZKL_API int zkl_once_look(zkl_lock *lock, int64_t length_ms, int64_t phase_ms, int64_t timeout_ms,
                          zkl_once_slot *slot, zkl_error *err);
ZKL_API int zkl_once_look_async(zkl_lock *lock, int64_t length_ms, int64_t phase_ms,
                                int64_t timeout_ms, zkl_once_slot *slot, zkl_done_fn done,
                                void *payload, zkl_error *err);

/* Records the slot of zkl_once_look as done, if the lock is still held. ZKL_OK: it is recorded, by
 * us. ZKL_ELOST: the lock was lost; nothing was recorded by us, unless the text says that the slot
 * is: then by us before the loss, or by the next holder after it. ZKL_ECONFLICT: somebody else
 * wrote the record meanwhile. ZKL_ETIMEOUT, ZKL_ECLOSED while it was under way: it may be recorded
 * or not. Written only while our znode stands, so timeout_ms may be longer than the lease. The
 * asynchronous form copies slot. Others as above. */
ZKL_API int zkl_once_record(zkl_lock *lock, const zkl_once_slot *slot, int64_t timeout_ms,
                            zkl_error *err);
ZKL_API int zkl_once_record_async(zkl_lock *lock, const zkl_once_slot *slot, int64_t timeout_ms,
                                  zkl_done_fn done, void *payload, zkl_error *err);

/* For operators and probes, without a lock: what is recorded at path. Only reads, so a job that
 * nobody has prepared yet is no error. *last_ms: round time of the last slot recorded;
 * *recorded_ms: when that was, ms since 1970; both by the servers' clock, and INT64_MIN when
 * nothing is recorded. Written on ZKL_OK only. length_ms: of the job's slots, and a record of a
 * slot that had not begun when it was written counts as none; 0: not known, the record as it
 * stands. (For zkl_once_look one of a slot that has not begun now counts as none, too.) Waits
 * timeout_ms at most. From any thread. Errors: ZKL_EINVAL, ZKL_ECONFLICT (the data of the path is
 * no record), ZKL_ETIMEOUT, ZKL_EAUTH, ZKL_ELIMIT, ZKL_ECLOSED, ZKL_EFORKED, ZKL_ENOMEM. */
ZKL_API int zkl_once_last(zkl_session *session, const char *path, int64_t length_ms,
                          int64_t timeout_ms, int64_t *last_ms, int64_t *recorded_ms,
                          zkl_error *err);
ZKL_API int zkl_once_last_async(zkl_session *session, const char *path, int64_t length_ms,
                                int64_t timeout_ms, int64_t *last_ms, int64_t *recorded_ms,
                                zkl_done_fn done, void *payload, zkl_error *err);

/* The whole job: prepares, acquires and looks, all within timeout_ms (as zkl_lock_acquire's). Runs
 * section if the slot is not done, records if section returned 0 and this grant lasts (trying for
 * connect_timeout_ms of the session), releases this grant. *ran (may be NULL): whether section ran;
 * *result (may be NULL): what it returned. ZKL_OK: the slot is recorded, by us or by another host,
 * however the lock ended after that; or section did not return 0, and the lock covered it to its
 * end. Other results are those of the calls above. */
ZKL_API int zkl_once_run(zkl_lock *lock, int64_t length_ms, int64_t phase_ms, int64_t timeout_ms,
                         zkl_section_fn section, void *payload, bool *ran, int *result,
                         zkl_error *err);

#ifdef __cplusplus
}
#endif
#endif
