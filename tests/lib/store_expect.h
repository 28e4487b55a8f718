/* store_expect.h - short words for CUnit tests that follow what a store client is told, one thing after the other. */
#ifndef ZKL_TESTS_STORE_EXPECT_H
#define ZKL_TESTS_STORE_EXPECT_H

#include "check.h"
#include "store_client.h"

/* The next thing told is of this kind. */
static inline const struct told *expect(struct client *client, enum told_kind kind)
{
    const struct told *told = client_next(client);
    CU_ASSERT_PTR_NOT_NULL_FATAL(told);
    CU_ASSERT_EQUAL_FATAL(told->kind, kind);
    return told;
}

static inline void expect_reply(struct client *client, uint64_t id, enum zkl__rc rc)
{
    const struct told *told = expect(client, TOLD_REPLY);
    CU_ASSERT_EQUAL(told->id, id);
    CU_ASSERT_EQUAL(told->reply.rc, rc);
}

static inline void expect_watch(struct client *client, enum zkl__watch_event event, const char *path)
{
    const struct told *told = expect(client, TOLD_WATCH);
    CU_ASSERT_EQUAL(told->event, event);
    CU_ASSERT_STRING_EQUAL(told->path, path);
}

static inline enum zkl__rc rc_of(struct client *client, struct zkl__op op)
{
    return client_call(client, &op)->rc;
}

static inline uint64_t send_op(struct client *client, struct zkl__op op)
{
    return client_send(client, &op, NULL);
}

/* Takes everything told so far and up to the answer of one more operation. */
static inline void drain(struct client *client)
{
    uint64_t last = send_op(client, op_read(ZKL__OP_SYNC, "/", false));
    const struct told *told;
    do {
        told = client_next(client);
    } while (told && !(told->kind == TOLD_REPLY && told->id == last));
}

#endif
