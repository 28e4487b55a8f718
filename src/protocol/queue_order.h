/* queue_order.h - which znodes of a queue are contenders, and which of them hold: the same for
 * contenders and for operators. */
#ifndef ZKL_PROTOCOL_QUEUE_ORDER_H
#define ZKL_PROTOCOL_QUEUE_ORDER_H

#include "op.h"

#include <zklock/queue.h>

/* A znode is a contender only if a session owns it. If its number is lower than ours, it must be
 * older than ours, too, except Curator's downgraded reader, which is created with its writer's
 * number. Any other znode was put there by hand. czxid: of our node; 0: not known yet. */
bool zkl__stat_forged(zkl_kind kind, const struct zkl__stat *stat, int64_t czxid);

/* Fills in forged and holds of all entries, which are in queue order. directory: its stat, as it
 * came with the list. */
void zkl__queue_judge(zkl_queue_entry *entries, size_t count, const struct zkl__stat *directory);

#endif
