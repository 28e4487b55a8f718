/* Options: checks and copies, structs of other releases, and what the session makes of them. */
#include "lock_kit.h"
#include "options.h"
#include "test_heap.h"
#include "lease.h"

TEST(test_acl_check)
{
    const zkl_acl_entry good = {ZKL_PERM_ALL, "digest", "me:hash"};
    const zkl_acl_entry bad[] = {
        {ZKL_PERM_ALL, NULL, "me:hash"}, {ZKL_PERM_ALL, "digest", NULL},          {ZKL_PERM_ALL, "", "me:hash"},
        {0, "digest", "me:hash"},        {ZKL_PERM_ALL + 1, "digest", "me:hash"},
    };
    ASSERT_OK(zkl__acl_check(NULL, NULL));
    ASSERT_OK(zkl__acl_check(&(zkl_acl){1, &good}, NULL));
    CU_ASSERT_EQUAL(zkl__acl_check(&(zkl_acl){0, &good}, NULL), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl__acl_check(&(zkl_acl){101, &good}, NULL), ZKL_EINVAL);
    CU_ASSERT_EQUAL(zkl__acl_check(&(zkl_acl){1, NULL}, NULL), ZKL_EINVAL);
    EACH_ROW (i, bad) {
        const zkl_acl_entry both[] = {good, bad[i]};
        zkl_error err;
        CU_ASSERT_EQUAL(zkl__acl_check(&(zkl_acl){2, both}, &err), ZKL_EINVAL);
        ASSERT_SAYS(err, "acl entry 1"); /* which one */
    }
}

/* However many allocations there are, each fails once: nothing is left, and the last round, in which none fails, has copied
 * everything. Returns how many there were. */
static long copy_without_memory(const zkl_session_options *options)
{
    struct test_heap counter = TEST_HEAP_INIT;
    zkl_heap heap = test_heap(&counter);
    bool copied = false;
    long nth = 0;
    while (!copied && nth < 20) {
        struct zkl__settings settings = {.servers = NULL};
        test_heap_fail(&counter, ++nth, false);
        copied = zkl__settings_copy(&settings, &heap, "memory:x", options);
        zkl__settings_free(&settings, &heap);
        CU_ASSERT_EQUAL(test_heap_live(&counter), 0);
    }
    return nth - 1;
}

TEST(test_settings_are_copies)
{
    struct test_heap counter = TEST_HEAP_INIT;
    zkl_heap heap = test_heap(&counter);
    char scheme[] = "digest", secret[] = "me\0secret", servers[] = "memory:x", tls[] = "a,b,c,secret", host[] = "zoo";
    const zkl_acl_entry entries[] = {{ZKL_PERM_ALL, "digest", "me:hash"}, {ZKL_PERM_READ, "world", "anyone"}};
    const zkl_acl acl = {2, entries};
    zkl_sasl sasl = {.mechanisms = "GSSAPI", .host = host};
    const zkl_session_options *options =
        SESSION_OPTIONS(.auth_scheme = scheme, .auth = secret, .auth_size = 9, .acl = &acl, .tls = tls, .sasl = &sasl);
    struct zkl__settings settings = {.servers = NULL};
    CU_ASSERT_FATAL(zkl__settings_copy(&settings, &heap, servers, options));
    CU_ASSERT_STRING_EQUAL(settings.servers, "memory:x");
    CU_ASSERT(settings.options.auth_scheme != scheme);
    CU_ASSERT(settings.options.auth != secret);
    CU_ASSERT_EQUAL(memcmp(settings.options.auth, secret, 9), 0);
    const zkl_acl *copy = settings.options.acl;
    CU_ASSERT_EQUAL(copy->count, 2);
    CU_ASSERT_STRING_EQUAL(copy->entries[0].scheme, "digest");
    CU_ASSERT_STRING_EQUAL(copy->entries[0].id, "me:hash");
    CU_ASSERT(copy->entries[0].id != entries[0].id);
    CU_ASSERT_EQUAL(copy->entries[1].perms, ZKL_PERM_READ);
    CU_ASSERT_STRING_EQUAL(copy->entries[1].id, "anyone");
    CU_ASSERT_STRING_EQUAL(settings.options.tls, tls);
    CU_ASSERT(settings.options.tls != tls);
    CU_ASSERT_STRING_EQUAL(settings.options.sasl->host, "zoo");
    CU_ASSERT(settings.options.sasl->host != host);
    CU_ASSERT_STRING_EQUAL(settings.options.sasl->service, "zookeeper"); /* unless it is given */
    zkl__settings_free(&settings, &heap);
    CU_ASSERT_EQUAL(copy_without_memory(options), 6);
    sasl.service = "zk";
    CU_ASSERT(zkl__settings_copy(&settings, &heap, servers, options));
    CU_ASSERT_STRING_EQUAL(settings.options.sasl->service, "zk");
    zkl__settings_free(&settings, &heap);
    CU_ASSERT_EQUAL(test_heap_live(&counter), 0);
}

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

TEST(test_an_older_program)
{
    struct first given = {sizeof given, 11};
    struct second own = {0};
    ASSERT_OK(zkl__sized_take(&own, &given, &sized, NULL));
    CU_ASSERT_EQUAL(own.size, sizeof own);
    CU_ASSERT_EQUAL(own.a_ms, 11);
    CU_ASSERT_EQUAL(own.b_ms, 20);
    struct first answer = {sizeof answer, 0};
    ASSERT_OK(zkl__sized_give(&answer, &own, &sized, NULL));
    CU_ASSERT_EQUAL(answer.size, sizeof answer);
    CU_ASSERT_EQUAL(answer.a_ms, 11);
}

TEST(test_a_newer_program)
{
    struct third given = {sizeof given, 11, 12, 0};
    struct second own = {0};
    zkl_error err = {0};
    ASSERT_OK(zkl__sized_take(&own, &given, &sized, &err));
    CU_ASSERT_EQUAL(own.size, sizeof own);
    CU_ASSERT_EQUAL(own.b_ms, 12);
    given.c_ms = 1;
    own.b_ms = 7;
    CU_ASSERT_EQUAL(zkl__sized_take(&own, &given, &sized, &err), ZKL_EINVAL);
    CU_ASSERT_EQUAL(own.b_ms, 7);
    ASSERT_SAYS(err, "struct second of 32 bytes sets an option that libzklock " ZKL_VERSION);
    given.c_ms = INT64_C(1) << 56; /* the last byte of all */
    CU_ASSERT_EQUAL(zkl__sized_take(&own, &given, &sized, &err), ZKL_EINVAL);
    ASSERT_OK(zkl__sized_give(&given, &own, &sized, NULL));
    CU_ASSERT_EQUAL(given.size, sizeof given);
    CU_ASSERT_EQUAL(given.b_ms, 7);
    CU_ASSERT_EQUAL(given.c_ms, 0);
}

TEST(test_sizes_of_no_release)
{
    const size_t sizes[] = {0, 1, sizeof(struct first) - 1, 4097, SIZE_MAX,
                            /* inside a member: */
                            sizeof(struct first) + 1, sizeof(struct first) + 4, sizeof(struct second) - 1,
                            sizeof(struct second) + 4};
    EACH_ROW (i, sizes) {
        struct third given = {sizes[i], 11, 12, 0};
        struct second own = {0};
        zkl_error err;
        CU_ASSERT_EQUAL(zkl__sized_take(&own, &given, &sized, &err), ZKL_EINVAL);
        CU_ASSERT_EQUAL(own.a_ms, 0);
        ASSERT_SAYS(err, "struct second.size is ");
        ASSERT_SAYS(err, ", and 24 in libzklock " ZKL_VERSION ": start from SECOND_INIT");
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

/* Locks of every recipe take the same struct. */
static int try_locks(const void *options, zkl_error *err)
{
    int code = ZKL_OK;
    EACH_ROW (i, handle_recipes) {
        zkl_lock *lock = NULL;
        int rc = handle_recipes[i].make(&lock, session, "/o", options, err);
        CU_ASSERT(i == 0 || rc == code);
        code = rc;
        kit_free(lock);
    }
    return code;
}

static int try_group(const void *options, zkl_error *err)
{
    zkl_group *group = NULL;
    int rc = zkl_group_new(&group, session, "/o", "id", options, err);
    zkl_group_free(group);
    return rc;
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
    return zkl_session_stats(session, (void *)(uintptr_t)options);
}

/* Offsets never change (consumer_abi), so a program that was built with 0.1 passes the beginning of these for ever. */
static const zkl_session_options session_options = ZKL_SESSION_OPTIONS_INIT;
static const zkl_lock_options lock_options = ZKL_LOCK_OPTIONS_INIT;
static const zkl_group_options group_options = ZKL_GROUP_OPTIONS_INIT;
static const zkl_partition_options partition_options = {.assigned_fn = ignore_assigned, .revoked_fn = ignore_revoked};
static const zkl_stats stats = ZKL_STATS_INIT;

static const zkl_session_options *const kits_session_options = SESSION_OPTIONS();
static const zkl_lock_options *const kits_lock_options = LOCK_OPTIONS();

/* What the tests begin from is what users get. */
TEST(test_defaults_of_the_kit)
{
    CU_ASSERT_EQUAL(memcmp(kits_session_options, &session_options, sizeof session_options), 0);
    CU_ASSERT_EQUAL(memcmp(kits_lock_options, &lock_options, sizeof lock_options), 0);
}

/* Its size with that member as the last one, and now. */
#define SIZES(type, last) offsetof(type, last) + sizeof(((type *)0)->last), sizeof(type)

static const struct release {
    const char *name;
    int (*use)(const void *options, zkl_error *err);
    const void *options;
    size_t size; /* in 0.1 */
    size_t now;
} releases[] = {
    {"zkl_session_options", try_session, &session_options, SIZES(zkl_session_options, sasl)},
    {"zkl_lock_options", try_locks, &lock_options, SIZES(zkl_lock_options, payload)},
    {"zkl_group_options", try_group, &group_options, SIZES(zkl_group_options, payload)},
    {"zkl_partition_options", try_partition, &partition_options, SIZES(zkl_partition_options, acl)},
    {NULL, try_stats, &stats, SIZES(zkl_stats, watches)},
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
        ASSERT_SAYS(err, release->name);
        ASSERT_SAYS(err, "libzklock " ZKL_VERSION);
    }
}

TEST(test_every_struct)
{
    session = kit_open(NULL);
    EACH_ROW (i, releases) {
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

#define MS INT64_C(1000000)

TEST(test_lease_check)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    zkl_error err = {0};
    ASSERT_OK(zkl__lease_check(&options, 10000 * MS, ZKL__HOPS_ONE, &err));
    CU_ASSERT_EQUAL(zkl__lease_check(&options, 1000 * MS, ZKL__HOPS_ONE, &err), ZKL_EINVAL);
    options.tick_ms = options.leader_pause_ms = ZKL__DAY_MS; /* the largest numbers: still an answer */
    CU_ASSERT_EQUAL(zkl__lease_check(&options, 1, ZKL__HOPS_ONE, &err), ZKL_EINVAL);
    options.tick_ms = 1;
    options.leader_pause_ms = 0;
    ASSERT_OK(zkl__lease_check(&options, 100 * MS, ZKL__HOPS_ONE, &err));
}

TEST(test_tick_of_timeout)
{
    CU_ASSERT_EQUAL(zkl__tick_of_timeout(4000, 8000), 4000);
    CU_ASSERT_EQUAL(zkl__tick_of_timeout(90000, 60000), 3000);
    CU_ASSERT_EQUAL(zkl__tick_of_timeout(10000, 10000), 0);
}

TESTS("options")
