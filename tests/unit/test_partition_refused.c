/* A partition whose znodes the servers refuse: its user hears of it, and it is tried again, ever later. */
#include "lock_kit.h"

#include <stdatomic.h>
#include <string.h>

#define PATH "/work"
#define PIECES 3

static const char *const names[PIECES] = {"a", "b", "c"};

static struct {
    atomic_int refused, taken, strange, assigned;
    char path[64]; /* the last that was refused */
} heard;

static void on_log(const zkl_log_record *record, void *payload)
{
    (void)payload;
    if (strcmp(record->source, "partition") != 0) {
        return;
    }
    if (record->level == ZKL_LOG_WARN && strncmp(record->text, "refused: ", 9) == 0) {
        bool remedy = strstr(record->text, "Let this session read, create and delete there") != NULL;
        atomic_fetch_add(&heard.strange, !remedy || strncmp(record->path, PATH "/", 6) != 0);
        snprintf(heard.path, sizeof heard.path, "%s", record->path);
        atomic_fetch_add(&heard.refused, 1);
    } else {
        atomic_fetch_add(&heard.taken, record->level == ZKL_LOG_INFO);
    }
}

static void assigned(zkl_partition *partition, const char *piece, int64_t token, void *payload)
{
    (void)partition, (void)piece, (void)token, (void)payload;
    atomic_fetch_add(&heard.assigned, 1);
}

static void revoked(zkl_partition *partition, const char *piece, bool lost, void *payload)
{
    (void)partition, (void)piece, (void)lost, (void)payload;
}

static void add_failures(const char *path, const zkl_contender_stats *stats, void *payload)
{
    *(uint64_t *)payload += path && strncmp(path, PATH "/", strlen(PATH) + 1) == 0 ? stats->failures : 0;
}

static uint64_t failures(zkl_session *session)
{
    uint64_t count = 0;
    zkl_session_path_stats(session, add_failures, &count);
    return count;
}

static void meddle(enum zkl__op_kind kind, const char *path, const zkl_acl *acl)
{
    const struct zkl__op op = {.kind = kind, .dir = path, .acl = acl, .version = -1, .mode = ZKL__PERSISTENT};
    enum zkl__rc rc;
    CU_ASSERT_EQUAL(zkl__memory_meddle(PLACE, &op, &rc), ZKL_OK);
    CU_ASSERT_EQUAL(rc, ZKL__RC_OK);
}

/* Nobody may make anything at path, until it is removed. However often it is tried in between, each place is said once. */
static void refuse_at(const char *path, int places)
{
    const zkl_acl_entry read_only = {ZKL_PERM_READ, "world", "anyone"};
    const zkl_acl acl = {.count = 1, .entries = &read_only};
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    zkl_partition_options o = ZKL_PARTITION_OPTIONS_INIT;
    zkl_partition *partition;
    memset(&heard, 0, sizeof heard);
    options.log_fn = on_log;
    options.log_level = ZKL_LOG_INFO;
    o.assigned_fn = assigned;
    o.revoked_fn = revoked;
    zkl_session *session = kit_open(&options);
    meddle(ZKL__OP_CREATE, PATH, NULL);
    meddle(ZKL__OP_CREATE, path, &acl);
    CU_ASSERT_EQUAL_FATAL(zkl_partition_new(&partition, session, PATH, names, PIECES, &o, NULL), ZKL_OK);
    int64_t begin = now_ms();
    CU_ASSERT_EQUAL(zkl_partition_start(partition, NULL), ZKL_OK);
    /* At 0, 100, 300, 700 and 1500 ms, and once or twice more when the membership is told: not all at once. */
    CU_ASSERT(EVENTUALLY(failures(session) >= 5 * (uint64_t)places));
    CU_ASSERT(now_ms() - begin >= 100);
    CU_ASSERT_EQUAL(atomic_load(&heard.refused), places);
    CU_ASSERT_EQUAL(atomic_load(&heard.assigned), 0);
    meddle(ZKL__OP_DELETE, path, NULL);
    CU_ASSERT(EVENTUALLY(zkl_partition_owned(partition, NULL, 0) == PIECES));
    CU_ASSERT(EVENTUALLY(atomic_load(&heard.taken) == places));
    CU_ASSERT_EQUAL(atomic_load(&heard.refused), places);
    CU_ASSERT_EQUAL(atomic_load(&heard.strange), 0);
    zkl_partition_free(partition);
    kit_close(session);
}

static void test_membership(void)
{
    refuse_at(PATH "/members", 1);
    CU_ASSERT_STRING_EQUAL(heard.path, PATH "/members");
}

static void test_pieces(void)
{
    refuse_at(PATH "/pieces", PIECES);
    CU_ASSERT_EQUAL(strncmp(heard.path, PATH "/pieces/", strlen(PATH "/pieces/")), 0);
}

TESTS("partition_refused", T(test_membership), T(test_pieces))
