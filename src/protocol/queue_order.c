#include "queue_order.h"

#include "name.h"

bool zkl__stat_forged(zkl_kind kind, const struct zkl__stat *stat, int64_t czxid)
{
    return stat->ephemeral_owner == 0 || (czxid && stat->czxid > czxid && kind != ZKL_KIND_READ);
}

/* The number that the directory's next sequential node gets: PrepRequestProcessor takes the number
 * of creates, and DataNode.copyStat shows it as twice that less the children (ZooKeeper 3.8). */
static int32_t next_number(const struct zkl__stat *directory)
{
    return (int32_t)(((uint32_t)directory->cversion + (uint32_t)directory->child_count) / 2);
}

/* A number that the server has not given to anybody yet. Permits of a semaphore have no order. */
static bool is_from_the_future(const zkl_queue_entry *entry, int32_t next)
{
    return entry->sequence >= 0 && next >= 0 && entry->kind != ZKL_KIND_LEASE &&
           entry->sequence >= next;
}

/* From the end: oldest is the least czxid behind the entry. */
static void find_forged(zkl_queue_entry *entries, size_t count, int32_t next)
{
    int64_t oldest = 0;
    for (size_t i = count; i > 0; i--) {
        zkl_queue_entry *entry = &entries[i - 1];
        const struct zkl__stat stat = {.czxid = entry->token, .ephemeral_owner = entry->session_id};
        if (!entry->readable) {
            continue; /* nothing is known of it: contenders wait for it */
        }
        entry->forged =
            zkl__stat_forged(entry->kind, &stat, entry->kind == ZKL_KIND_LEASE ? 0 : oldest) ||
            is_from_the_future(entry, next);
        if (!entry->forged && (oldest == 0 || entry->token < oldest)) {
            oldest = entry->token;
        }
    }
}

static bool is_shared(zkl_kind kind)
{
    return ZKL__KIND(kind) & (ZKL__KIND_READERS | ZKL__KIND(ZKL_KIND_LEASE));
}

/* The first contender holds. If its kind is shared, so do all of its kind before the first one of
 * another. */
void zkl__queue_judge(zkl_queue_entry *entries, size_t count, const struct zkl__stat *directory)
{
    zkl_kind first = ZKL_KIND_FOREIGN; /* none yet */
    bool more = true;
    find_forged(entries, count, next_number(directory));
    for (size_t i = 0; i < count; i++) {
        zkl_queue_entry *entry = &entries[i];
        if (entry->forged) {
            continue;
        }
        first = first == ZKL_KIND_FOREIGN ? entry->kind : first;
        entry->holds = more && entry->kind == first;
        more = more && entry->kind == first && is_shared(first);
    }
}
