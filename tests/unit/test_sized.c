/* Programs and libraries of different releases: structs that say their size. */
#include "lock_kit.h"
#include "sized.h"

#include <string.h>

/* --- one struct in three releases ---------------------------------------------------------------------------------- */

struct first {
    size_t size;
    int64_t a_ms;
};
struct second {
    size_t size;
    int64_t a_ms, b_ms;
};
struct third {
    size_t size;
    int64_t a_ms, b_ms, c_ms;
};
#define SECOND_INIT                   \
    {                                 \
        sizeof(struct second), 10, 20 \
    }
ZKL__SIZED(sized, struct second, SECOND_INIT, a_ms, b_ms);

static void test_an_older_program(void)
{
    struct first given = {sizeof given, 11};
    struct second own = {0};
    CU_ASSERT_EQUAL(zkl__sized_take(&own, &given, &sized, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(own.size, sizeof own);
    CU_ASSERT_EQUAL(own.a_ms, 11);
    CU_ASSERT_EQUAL(own.b_ms, 20);
    struct first answer = {sizeof answer, 0};
    CU_ASSERT_EQUAL(zkl__sized_give(&answer, &own, &sized, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(answer.size, sizeof answer);
    CU_ASSERT_EQUAL(answer.a_ms, 11);
}

static void test_a_program_of_this_release(void)
{
    struct second given = {sizeof given, 11, 0}, own = {0};
    CU_ASSERT_EQUAL(zkl__sized_take(&own, &given, &sized, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(own.a_ms, 11);
    CU_ASSERT_EQUAL(own.b_ms, 0);
    CU_ASSERT_EQUAL(zkl__sized_take(&own, NULL, &sized, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(own.size, sizeof own);
    CU_ASSERT_EQUAL(own.a_ms, 10);
    CU_ASSERT_EQUAL(own.b_ms, 20);
}

static void test_a_newer_program(void)
{
    struct third given = {sizeof given, 11, 12, 0};
    struct second own = {0};
    zkl_error err = {0};
    CU_ASSERT_EQUAL(zkl__sized_take(&own, &given, &sized, &err), ZKL_OK);
    CU_ASSERT_EQUAL(own.size, sizeof own);
    CU_ASSERT_EQUAL(own.b_ms, 12);
    given.c_ms = 1;
    own.b_ms = 7;
    CU_ASSERT_EQUAL(zkl__sized_take(&own, &given, &sized, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(own.b_ms, 7);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "struct second of 32 bytes sets an option that libzklock " ZKL_VERSION));
    given.c_ms = INT64_C(1) << 56; /* the last byte of all */
    CU_ASSERT_EQUAL(zkl__sized_take(&own, &given, &sized, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl__sized_give(&given, &own, &sized, NULL), ZKL_OK);
    CU_ASSERT_EQUAL(given.size, sizeof given);
    CU_ASSERT_EQUAL(given.b_ms, 7);
    CU_ASSERT_EQUAL(given.c_ms, 0);
}

static void test_sizes_of_no_release(void)
{
    const size_t sizes[] = {0, 1, sizeof(struct first) - 1, 4097, SIZE_MAX,
                            /* inside a member: */
                            sizeof(struct first) + 1, sizeof(struct first) + 4, sizeof(struct second) - 1,
                            sizeof(struct second) + 4};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct third given = {sizes[i], 11, 12, 0};
        struct second own = {0};
        zkl_error err = {0};
        CU_ASSERT_EQUAL(zkl__sized_take(&own, &given, &sized, &err), ZKL_EINVAL);
        CU_ASSERT_EQUAL(own.a_ms, 0);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "struct second.size is "));
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, ", and 24 in libzklock " ZKL_VERSION ": start from SECOND_INIT"));
        CU_ASSERT_EQUAL(zkl__sized_give(&given, &own, &sized, &err), ZKL_EINVAL);
        CU_ASSERT_EQUAL(given.a_ms, 11);
    }
}

/* --- the structs as they were in 0.1, the first release ------------------------------------------------------------ */

static zkl_session *session;

/* Each tries, with options at `options`, what they are for, and undoes it. */
static int try_session(const void *options, zkl_error *err)
{
    zkl_session *other;
    int rc = zkl_session_open(&other, PLACE, options, err);
    return rc == ZKL_OK ? zkl_session_close(other, 10000) : rc;
}

static int try_lock(const void *options, zkl_error *err)
{
    zkl_lock *lock = NULL;
    int rc = zkl_lock_new(&lock, session, "/o", options, err);
    zkl_lock_free(lock);
    return rc;
}

static int try_rwlock(const void *options, zkl_error *err)
{
    zkl_lock *lock = NULL;
    int rc = zkl_read_lock_new(&lock, session, "/o", options, err);
    zkl_lock_free(lock);
    return rc;
}

static int try_multilock(const void *options, zkl_error *err)
{
    const char *const paths[] = {"/o"};
    zkl_lock *lock = NULL;
    int rc = zkl_multilock_new(&lock, session, paths, 1, options, err);
    zkl_lock_free(lock);
    return rc;
}

static int try_semaphore(const void *options, zkl_error *err)
{
    zkl_lock *semaphore = NULL;
    int rc = zkl_semaphore_new(&semaphore, session, "/o", 1, options, err);
    zkl_lock_free(semaphore);
    return rc;
}

static int try_election(const void *options, zkl_error *err)
{
    zkl_lock *election = NULL;
    int rc = zkl_election_new(&election, session, "/o", options, err);
    zkl_lock_free(election);
    return rc;
}

static int try_group(const void *options, zkl_error *err)
{
    zkl_group *group = NULL;
    int rc = zkl_group_new(&group, session, "/o", "id", options, err);
    zkl_group_free(group);
    return rc;
}

static void on_assigned(zkl_partition *partition, const char *piece, int64_t token, void *payload)
{
    (void)partition, (void)piece, (void)token, (void)payload;
}

static void on_revoked(zkl_partition *partition, const char *piece, bool lost, void *payload)
{
    (void)partition, (void)piece, (void)lost, (void)payload;
}

static int try_partition(const void *options, zkl_error *err)
{
    const char *const pieces[] = {"p"};
    zkl_partition *partition = NULL;
    int rc = zkl_partition_new(&partition, session, "/o", pieces, 1, options, err);
    zkl_partition_free(partition);
    return rc;
}

static int try_stats(const void *options, zkl_error *err)
{
    (void)err;
    return zkl_session_stats(session, (void *)(uintptr_t)options);
}

/* Kept as they are: a program that was built with 0.1 passes these for ever. Never edited, only added to. */
struct session_0_1 {
    size_t size;
    int64_t session_timeout_ms, tick_ms, leader_pause_ms, connect_timeout_ms;
    const char *auth_scheme;
    const void *auth;
    size_t auth_size;
    const zkl_acl *acl;
    void (*state_fn)(void);
    void *state_payload;
    void (*log_fn)(void);
    void *log_payload;
    int log_level, callbacks;
    const zkl_heap *heap;
    const char *tls;
    const zkl_sasl *sasl;
};
struct lock_0_1 {
    size_t size;
    const char *metadata;
    bool recursive, recover;
    int64_t max_hold_ms, release_timeout_ms;
    const zkl_acl *acl;
    int on_expiry;
    void (*state_fn)(void);
    void (*revoke_fn)(void);
    void *payload;
};
struct group_0_1 {
    size_t size;
    const char *data;
    int64_t leave_timeout_ms;
    const zkl_acl *acl;
    void (*state_fn)(void);
    void *state_payload;
};
struct partition_0_1 {
    size_t size, cap;
    zkl_partition_assigned_fn assigned_fn;
    zkl_partition_revoked_fn revoked_fn;
    void *payload;
    const char *metadata;
    const zkl_acl *acl;
};
struct stats_0_1 {
    size_t size;
    uint64_t numbers[14 + 4 + 4 * (2 + ZKL_HISTOGRAM_BUCKETS) + 9];
};

static const struct session_0_1 session_0_1 = {
    sizeof session_0_1, 10000, 2000, 500, 10000, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL, 3, 0, NULL, NULL, NULL};
static const struct lock_0_1 lock_0_1 = {.size = sizeof lock_0_1, .release_timeout_ms = 1000};
static const struct group_0_1 group_0_1 = {.size = sizeof group_0_1, .leave_timeout_ms = 1000};
static const struct partition_0_1 partition_0_1 = {
    .size = sizeof partition_0_1, .assigned_fn = on_assigned, .revoked_fn = on_revoked};
static const struct stats_0_1 stats_0_1 = {.size = sizeof stats_0_1};

static const struct release {
    const char *name;
    int (*use)(const void *options, zkl_error *err);
    const void *options;
    size_t size; /* in 0.1 */
    size_t now;
} releases[] = {
    {"zkl_session_options", try_session, &session_0_1, sizeof session_0_1, sizeof(zkl_session_options)},
    {"zkl_lock_options", try_lock, &lock_0_1, sizeof lock_0_1, sizeof(zkl_lock_options)},
    {"zkl_lock_options", try_rwlock, &lock_0_1, sizeof lock_0_1, sizeof(zkl_lock_options)},
    {"zkl_lock_options", try_multilock, &lock_0_1, sizeof lock_0_1, sizeof(zkl_lock_options)},
    {"zkl_lock_options", try_semaphore, &lock_0_1, sizeof lock_0_1, sizeof(zkl_lock_options)},
    {"zkl_lock_options", try_election, &lock_0_1, sizeof lock_0_1, sizeof(zkl_lock_options)},
    {"zkl_group_options", try_group, &group_0_1, sizeof group_0_1, sizeof(zkl_group_options)},
    {"zkl_partition_options", try_partition, &partition_0_1, sizeof partition_0_1, sizeof(zkl_partition_options)},
    {NULL, try_stats, &stats_0_1, sizeof stats_0_1, sizeof(zkl_stats)},
};

union longer {
    size_t size;
    unsigned char bytes[2048];
};

/* A struct of size bytes, beginning as the one of 0.1, otherwise zero. */
static union longer made(const struct release *release, size_t size)
{
    union longer given = {.bytes = {0}};
    memcpy(given.bytes, release->options, release->size);
    given.size = size;
    return given;
}

static void expect(const struct release *release, const union longer *given, int code)
{
    zkl_error err = {0};
    CU_ASSERT_EQUAL(release->use(given, &err), code);
    if (code != ZKL_OK && release->name) {
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, release->name));
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "libzklock " ZKL_VERSION));
    }
}

static void test_every_struct(void)
{
    session = kit_open(NULL);
    for (size_t i = 0; i < sizeof releases / sizeof *releases; i++) {
        const struct release *release = &releases[i];
        union longer given = made(release, release->size);
        expect(release, &given, ZKL_OK);
        given = made(release, release->size - 8);
        expect(release, &given, ZKL_EINVAL);
        given = made(release, release->now + 64);
        expect(release, &given, ZKL_OK);
        given = made(release, release->now + 64);
        given.bytes[release->now + 63] = 1;
        expect(release, &given, release->name ? ZKL_EINVAL : ZKL_OK);
    }
    kit_close(session);
}

TESTS("structs that say their size", T(test_an_older_program), T(test_a_program_of_this_release),
      T(test_a_newer_program), T(test_sizes_of_no_release), T(test_every_struct))
