#include "semaphore_kit.h"

#include <stdio.h>
#include <string.h>

zkl_lock *pool_contender(zkl_session *session, int limit)
{
    zkl_lock *semaphore = NULL;
    zkl_error err = {0};
    CU_ASSERT_EQUAL_FATAL(zkl_semaphore_new(&semaphore, session, POOL, limit, NULL, &err), ZKL_OK);
    return semaphore;
}

size_t pool_leases(void)
{
    return kit_queue(one, POOL "/leases");
}

size_t pool_queued(void)
{
    return kit_queue(one, POOL "/locks");
}

void on_permitted(zkl_lock *semaphore, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    struct letter letter = {.from = semaphore, .code = code, .granted = grant != NULL};
    letter.grant = grant ? *grant : letter.grant;
    snprintf(letter.text, sizeof letter.text, "%s", err->text);
    mailbox_put(payload, letter);
}

void pool_meddle(enum zkl__op_kind kind, const char *dir, const char *name, const char *data)
{
    enum zkl__rc rc = ZKL__RC_UNKNOWN;
    struct zkl__op op = {
        .kind = kind, .dir = dir, .name = name, .data = data, .size = data ? strlen(data) : 0, .version = -1};
    CU_ASSERT_EQUAL(zkl__memory_meddle(PLACE, &op, &rc), ZKL_OK);
    CU_ASSERT_EQUAL(rc, ZKL__RC_OK);
}

void pool_remove_node(const char *dir, size_t nth)
{
    zkl_queue *queue;
    CU_ASSERT_EQUAL_FATAL(zkl_queue_list(&queue, two, dir, 5000, NULL), ZKL_OK);
    CU_ASSERT_FATAL(queue->count > nth);
    pool_meddle(ZKL__OP_DELETE, dir, queue->entries[nth].name, NULL);
    zkl_queue_free(queue);
}
