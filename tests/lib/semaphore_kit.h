/* semaphore_kit.h - what tests of semaphores share: one at POOL, counts of its leases and of its queue, strangers' writes. */
#ifndef ZKL_TESTS_SEMAPHORE_KIT_H
#define ZKL_TESTS_SEMAPHORE_KIT_H

#include "lock_kit.h"
#include "store_client.h"

#define POOL "/pools/test"

zkl_lock *pool_contender(zkl_session *session, int limit);
/* How many leases, held or asked for, and how many in the queue; as session `one` sees them. */
size_t pool_leases(void);
size_t pool_queued(void);
/* payload: a mailbox */
void on_permitted(zkl_lock *semaphore, int code, const zkl_grant *grant, const zkl_error *err, void *payload);
/* Somebody else writes to the store. data may be NULL. */
void pool_meddle(enum zkl__op_kind kind, const char *dir, const char *name, const char *data);
/* Removes the nth node of a queue. */
void pool_remove_node(const char *dir, size_t nth);

#endif
