/* store_expect.h - short words for CUnit tests that follow what a store client is told, one thing after the other. */
#ifndef ZKL_TESTS_STORE_EXPECT_H
#define ZKL_TESTS_STORE_EXPECT_H

#include "check.h"
#include "store_client.h"

/* The next thing told is of this kind. */
static inline const struct record *expect(struct client *client, enum record_kind kind)
{
    const struct record *record = client_next(client);
    CU_ASSERT_PTR_NOT_NULL_FATAL(record);
    CU_ASSERT_EQUAL_FATAL(record->kind, kind);
    return record;
}

static inline void expect_reply(struct client *client, uint64_t id, enum zkl__rc rc)
{
    const struct record *record = expect(client, RECORD_REPLY);
    CU_ASSERT_EQUAL(record->id, id);
    CU_ASSERT_EQUAL(record->reply.rc, rc);
}

static inline void expect_watch(struct client *client, enum zkl__watch_event event, const char *path)
{
    const struct record *record = expect(client, RECORD_WATCH);
    CU_ASSERT_EQUAL(record->watch, event);
    CU_ASSERT_STRING_EQUAL(record->path, path);
}

#endif
