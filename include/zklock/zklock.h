/* zklock/zklock.h - everything: a lock for C services and operators, on Apache ZooKeeper. */
#ifndef ZKLOCK_ZKLOCK_H
#define ZKLOCK_ZKLOCK_H

#include <zklock/barrier.h>
#include <zklock/election.h>
#include <zklock/error.h>
#include <zklock/group.h>
#include <zklock/lock.h>
#include <zklock/multilock.h>
#include <zklock/once.h>
#include <zklock/partition.h>
#include <zklock/queue.h>
#include <zklock/rwlock.h>
#include <zklock/semaphore.h>
#include <zklock/session.h>
#include <zklock/stats.h>
#include <zklock/stop.h>
#include <zklock/types.h>
#include <zklock/version.h>

#endif
