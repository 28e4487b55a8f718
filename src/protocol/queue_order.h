/* queue_order.h - which nodes of a queue are contenders' places, and which of them hold: the same
 * for contenders and for operators. */
#ifndef ZKL_PROTOCOL_QUEUE_ORDER_H
#define ZKL_PROTOCOL_QUEUE_ORDER_H

#include "op.h"

#include <zklock/queue.h>

/* A place counts only when its node lives with a session; and one with a lower number than ours is
 * older than ours, except Curator's downgraded reader, which is created in its writer's place.
 * Anything else was put there by hand. czxid: of our node; 0: not known yet. */
bool zkl__stat_forged(zkl_kind kind, const struct zkl__stat *stat, int64_t czxid);

/* Fills in forged and holds of all entries, which are in queue order. directory: its stat, as it
 * came with the list. */
void zkl__queue_judge(zkl_queue_entry *entries, size_t count, const struct zkl__stat *directory);

#endif
