/* Names of contenders: ours, Curator's, go-zookeeper's, kazoo's, .NET's, and what only looks
 * like one; and which of a queue hold. */
#include "check.h"
#include "name.h"
#include "children.h"

#define UUID "0f8fad5b-d9cb-469f-a165-70867728950e"
#define HEX32 "0f8fad5bd9cb469fa16570867728950e"
#define CURATOR "_c_" UUID "-"

static void expect(const char *text, zkl_kind kind, int32_t sequence)
{
    struct zkl__name name = zkl__name_parse(text);
    bool same = name.kind == kind && (kind == ZKL_KIND_FOREIGN || name.sequence == sequence);
    if (!same) {
        fprintf(stderr, "%s: %d %d\n", text, (int)name.kind, (int)name.sequence);
    }
    CU_ASSERT_TRUE(same);
}

static void expect_foreign(const char *text)
{
    expect(text, ZKL_KIND_FOREIGN, 0);
    CU_ASSERT_PTR_NULL(zkl__name_parse(text).uuid);
}

TEST(test_contenders)
{
    static const struct {
        const char *text;
        zkl_kind kind;
        int32_t sequence;
    } rows[] = {
        /* ours and Curator's */
        {CURATOR "lock-0000000000", ZKL_KIND_LOCK, 0},
        {CURATOR "lock-2147483647", ZKL_KIND_LOCK, INT32_MAX},
        {CURATOR "__READ__0000000007", ZKL_KIND_READ, 7},
        {CURATOR "__WRIT__0000000008", ZKL_KIND_WRITE, 8},
        {CURATOR "latch-0000000009", ZKL_KIND_LATCH, 9},
        {CURATOR "lease-0000000010", ZKL_KIND_LEASE, 10},
        {CURATOR "__READ__2000000007", ZKL_KIND_READ, 2000000007},
        /* others' */
        {"_c_" HEX32 "-lock-0000000005", ZKL_KIND_LOCK, 5},
        {"_c_" HEX32 "-lock-1000000005", ZKL_KIND_LOCK, 1000000005},
        {HEX32 "__lock__0000000006", ZKL_KIND_KAZOO, 6},
        {HEX32 "__rlock__0000000007", ZKL_KIND_KAZOO_READ, 7},
        {"lock-0000000008", ZKL_KIND_LOCK, 8},
        {"latch-0000000009", ZKL_KIND_LATCH, 9},
        {"__READ__0000000001", ZKL_KIND_READ, 1},
        {"x-lock-0000000003", ZKL_KIND_LOCK, 3},
        /* The server prints an int32 with %010d: up to nine digits behind the sign make ten characters, ten make eleven. */
        {CURATOR "lock--000000001", ZKL_KIND_LOCK, -1},
        {CURATOR "lock--999999999", ZKL_KIND_LOCK, -999999999},
        {CURATOR "lock--1000000000", ZKL_KIND_LOCK, -1000000000},
        {CURATOR "lock--2147483648", ZKL_KIND_LOCK, INT32_MIN},
        {CURATOR "lock--2147483647", ZKL_KIND_LOCK, -INT32_MAX},
        {"lock--000000001", ZKL_KIND_LOCK, -1},
        {"lock--2147483648", ZKL_KIND_LOCK, INT32_MIN},
        {HEX32 "__lock__-000000002", ZKL_KIND_KAZOO, -2},
        {HEX32 "__lock__-1000000002", ZKL_KIND_KAZOO, -1000000002},
        {CURATOR "__READ__-2147483648", ZKL_KIND_READ, INT32_MIN},
    };
    EACH_ROW (i, rows) {
        expect(rows[i].text, rows[i].kind, rows[i].sequence);
    }
}

TEST(test_foreign)
{
    static const char *const names[] = {
        "",
        "-",
        "_",
        "0",
        "lock",
        "lock-",
        "0000000001",
        "-0000000001",
        "-000000001",
        "--1000000000",
        "block-0000000001",
        "foo-0000000001",
        "lease-0000000001",
        "Lock-0000000001",
        CURATOR "LOCK-0000000001",
        "locks",
        "leases",
        "_c_",
        "_c_" UUID,
        CURATOR,
        CURATOR "0000000001",
        "__lock__",
        "__LOCK__0000000001",
        "__READ_0000000001",
        "read-0000000001",
        "xlock-0000000001",
        "xlatch-0000000001",
        "lock-0000000001 ",
        "\xff\xfe",
        "lock-\xff"
        "000000000",
        "lock-000000000\xb1",
        "lock-0000000001-lock-",
        /* numbers that are none: */
        CURATOR "lock-2147483648",
        CURATOR "lock-9999999999",
        CURATOR "lock--2147483649",
        CURATOR "lock--9999999999",
        CURATOR "lock--0000000001", /* eleven characters only for numbers that need them */
        CURATOR "lock-000000001",   /* nine digits: the dash of the tag is no sign */
        CURATOR "lock-00000000001",
        CURATOR "lock-00000000x1",
        CURATOR "lock-0x00000001",
        CURATOR "lock-+000000001",
        CURATOR "lock--000000000",
        CURATOR "lock- 000000001",
        CURATOR "lock-00000000-1",
        CURATOR "lock--",
        CURATOR "lock-",
    };
    EACH_ROW (i, names) {
        expect_foreign(names[i]);
    }
}

TEST(test_long)
{
    size_t length = 1 << 20;
    char *name = malloc(length + 1);
    memset(name, 'a', length);
    strcpy(name + length - 16, "-lock-0000000001");
    expect_foreign(name);
    expect_foreign(name + length - ZKL__NAME_LONGEST - 1);
    expect(name + length - ZKL__NAME_LONGEST, ZKL_KIND_LOCK, 1);
    memset(name, '9', length);
    expect_foreign(name);
    memset(name, '-', length);
    expect_foreign(name);
    free(name);
}

TEST(test_uuid_of_a_name)
{
    const char *ours = CURATOR "lock-0000000000";
    CU_ASSERT_PTR_EQUAL(zkl__name_parse(ours).uuid, ours + 3);
    const char *upper = "_c_0F8FAD5B-D9CB-469F-A165-70867728950E-lock-0000000000";
    CU_ASSERT_PTR_EQUAL(zkl__name_parse(upper).uuid, upper + 3);
    static const char *const without[] = {
        "_c_" HEX32 "-lock-0000000000",
        "_c_" HEX32 HEX32 "-lock-0000000000",
        UUID "-lock-0000000000",
        "_d_" UUID "-lock-0000000000",
        "_c_0f8fad5b-d9cb-469f-a165-70867728950g-lock-0000000000",
        "_c_0f8fad5b+d9cb-469f-a165-70867728950e-lock-0000000000",
        /* the form is _c_<uuid>-: something else behind the uuid is another form */
        "_c_" UUID "0-lock-0000000000",
        "_c_" UUID "__lock__0000000000",
    };
    EACH_ROW (i, without) {
        CU_ASSERT_PTR_NULL(zkl__name_parse(without[i]).uuid);
    }
}

TEST(test_order_across_the_wrap)
{
    CU_ASSERT(zkl__sequence_diff(1, 2) < 0);
    CU_ASSERT(zkl__sequence_diff(5, 5) == 0);
    CU_ASSERT(zkl__sequence_diff(INT32_MAX, INT32_MIN) < 0);
    CU_ASSERT(zkl__sequence_diff(0, INT32_MAX) < 0);
    CU_ASSERT_EQUAL(zkl__sequence_diff(INT32_MIN, INT32_MAX), 1);
}

/* fuzz_names reads what comes of it, with any number. */
TEST(test_prefix)
{
    char prefix[ZKL__NAME_MAX];
    zkl__name_prefix(prefix, UUID, "lease-");
    CU_ASSERT_STRING_EQUAL(prefix, CURATOR "lease-");
    CU_ASSERT(strlen(CURATOR "__READ__-2147483648") < ZKL__NAME_MAX);
}

TEST(test_uuid_format)
{
    char text[ZKL__UUID_LENGTH + 1];
    const uint8_t zeros[16] = {0};
    const uint8_t counted[16] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
                                 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef};
    uint8_t ones[16];
    memset(ones, 0xff, sizeof ones);
    zkl__uuid_format(text, zeros);
    CU_ASSERT_STRING_EQUAL(text, "00000000-0000-4000-8000-000000000000");
    zkl__uuid_format(text, ones);
    CU_ASSERT_STRING_EQUAL(text, "ffffffff-ffff-4fff-bfff-ffffffffffff");
    zkl__uuid_format(text, counted);
    CU_ASSERT_STRING_EQUAL(text, "01234567-89ab-4def-8123-456789abcdef");
}

TEST(test_uuid_that_refuses_requests)
{
    char text[ZKL__UUID_LENGTH + 1], name[ZKL__NAME_MAX];
    const uint8_t zeros[16] = {0};
    zkl__uuid_format(text, zeros);
    zkl__name_with_number(name, text, "lock-", 7);
    CU_ASSERT_FALSE(zkl__name_refuses_requests(name));
    zkl__uuid_refuse_requests(text);
    CU_ASSERT_STRING_EQUAL(text, "00000000-0000-9000-8000-000000000000");
    zkl__name_with_number(name, text, "lock-", 7);
    CU_ASSERT_TRUE(zkl__name_refuses_requests(name));
    CU_ASSERT_FALSE(zkl__name_refuses_requests("readme"));
}

/* A '-' that begins the name belongs to no number, whatever stands before it in memory. */
TEST(test_nothing_before_a_name)
{
    static const char text[] = "_-1000000000";
    CU_ASSERT_EQUAL(zkl__name_sequence(text + 1), 1000000000);
}

#define ENTRIES_MAX 6

/* What is known of the entries: number, czxid (0: not readable), session, kind; and what is expected: 'h' holds, 'w' waits, 'f' forged. */
struct situation {
    const char *about;
    int32_t creates; /* of the directory, ever */
    size_t count;
    struct {
        int32_t number;
        int64_t czxid, session;
        zkl_kind kind;
        char expected;
    } all[ENTRIES_MAX];
};

static void judge_situation(const struct situation *s)
{
    zkl_queue_entry entries[ENTRIES_MAX];
    memset(entries, 0, sizeof entries);
    const struct zkl__stat directory = {.cversion = 2 * s->creates - (int32_t)s->count,
                                        .child_count = (int32_t)s->count};
    for (size_t i = 0; i < s->count; i++) {
        entries[i] = (zkl_queue_entry){.kind = s->all[i].kind,
                                       .sequence = s->all[i].number,
                                       .token = s->all[i].czxid,
                                       .session_id = s->all[i].session,
                                       .readable = s->all[i].czxid != 0};
    }
    zkl__queue_judge(entries, s->count, &directory);
    for (size_t i = 0; i < s->count; i++) {
        char got = entries[i].forged ? 'f' : entries[i].holds ? 'h' : 'w';
        CU_ASSERT_EQUAL(got, s->all[i].expected);
        CU_ASSERT_FALSE(entries[i].forged && entries[i].holds);
        if (got != s->all[i].expected) {
            fprintf(stderr, "\n%s: entry %zu: %c\n", s->about, i, got);
        }
    }
}

#define LOCK ZKL_KIND_LOCK
#define READ ZKL_KIND_READ
#define WRITE ZKL_KIND_WRITE
#define LEASE ZKL_KIND_LEASE

static const struct situation situations[] = {
    {"nobody", 0, 0, {{0}}},
    {"holder, waiters", 9, 3, {{3, 30, 1, LOCK, 'h'}, {4, 40, 1, LOCK, 'w'}, {7, 70, 2, LOCK, 'w'}}},
    {"no session's first", 9, 2, {{3, 30, 0, LOCK, 'f'}, {4, 40, 1, LOCK, 'h'}}},
    {"made later, with a lower number", 12, 2, {{5, 110, 6, LOCK, 'f'}, {10, 100, 1, LOCK, 'h'}}},
    {"two of these", 13, 3, {{1, 120, 6, LOCK, 'f'}, {5, 110, 6, LOCK, 'f'}, {10, 100, 1, LOCK, 'h'}}},
    {"made early, with a number nobody has", 6, 2, {{5, 60, 1, LOCK, 'h'}, {2000000000, 50, 6, LOCK, 'f'}}},
    {"the same, alone", 6, 1, {{2000000000, 50, 6, LOCK, 'f'}}},
    {"the next number, alone", 6, 1, {{6, 50, 6, LOCK, 'f'}}},
    {"nothing known of the first: contenders wait", 9, 2, {{3, 0, 0, LOCK, 'h'}, {4, 40, 1, LOCK, 'w'}}},
    {"readers, then a writer, then a reader",
     9,
     4,
     {{1, 10, 1, READ, 'h'}, {2, 20, 2, READ, 'h'}, {3, 30, 3, WRITE, 'w'}, {4, 40, 4, READ, 'w'}}},
    {"a downgraded reader in its writer's place", 9, 2, {{3, 99, 1, READ, 'h'}, {4, 40, 2, WRITE, 'w'}}},
    {"a writer before readers", 9, 2, {{1, 10, 1, WRITE, 'h'}, {2, 20, 2, READ, 'w'}}},
    {"no session's between readers", 9, 3, {{1, 10, 1, READ, 'h'}, {2, 20, 0, LOCK, 'f'}, {3, 30, 1, READ, 'h'}}},
    {"permits have no order", 9, 3, {{1, 30, 1, LEASE, 'h'}, {2, 20, 2, LEASE, 'h'}, {99, 10, 0, LEASE, 'f'}}},
};

TEST(test_situations)
{
    EACH_ROW (i, situations) {
        judge_situation(&situations[i]);
    }
}

TESTS("names")
