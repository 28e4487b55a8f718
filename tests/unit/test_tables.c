/* What is pure and holds many: timers, watches, children, assignments of a partition, slots. */
#include "check.h"
#include "children.h"
#include "dice.h"
#include "name.h"
#include "core_facts.h"
#include "core_internal.h"
#include "share.h"
#include "base.h"
#include "test_heap.h"
#include "collections.h"

/* --- timers ------------------------------------------------------------------------------------------------------------- */

#define TIMERS 120

static struct zkl__timer timers_all[TIMERS];
static int64_t wake[TIMERS]; /* INT64_MAX: not set */

static int64_t earliest(void)
{
    int64_t next = INT64_MAX;
    EACH_ROW (i, wake) {
        next = wake[i] < next ? wake[i] : next;
    }
    return next;
}

static void set_timer(struct zkl__timers *timers, size_t i, int64_t at)
{
    wake[i] = at;
    zkl__timers_set(timers, &timers_all[i], at);
    CU_ASSERT_EQUAL(timers_all[i].set, at != INT64_MAX);
}

static void run_due(struct zkl__timers *timers, int64_t now)
{
    for (struct zkl__timer *due; (due = zkl__timers_due(timers, now));) {
        int i = (int)(due - timers_all);
        CU_ASSERT_EQUAL(wake[i], earliest());
        CU_ASSERT(wake[i] <= now);
        CU_ASSERT_FALSE(due->set);
        wake[i] = INT64_MAX;
    }
    CU_ASSERT(earliest() > now);
}

static void walk_timers(uint64_t seed)
{
    uint64_t dice = seed;
    struct zkl__timers timers = {0};
    int64_t now = 1000;
    memset(timers_all, 0, sizeof timers_all);
    EACH_ROW (i, wake) {
        wake[i] = INT64_MAX;
    }
    for (int step = 0; step < 4000; step++) {
        int i = (int)dice_below(&dice, TIMERS);
        if (dice_once_in(&dice, 8)) {
            run_due(&timers, now += dice_below(&dice, 20));
        } else {
            set_timer(&timers, i, dice_once_in(&dice, 5) ? INT64_MAX : now + dice_below(&dice, 50));
        }
        CU_ASSERT_EQUAL(zkl__timers_next(&timers), earliest());
    }
    EACH_ROW (i, wake) {
        set_timer(&timers, i, INT64_MAX);
    }
    CU_ASSERT_EQUAL(timers.count, 0);
}

TEST(test_timers_against_a_list)
{
    unsigned before = CU_get_number_of_failures();
    for (uint64_t seed = 1; seed <= 100 && CU_get_number_of_failures() == before; seed++) {
        walk_timers(seed);
        if (CU_get_number_of_failures() != before) {
            fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
        }
    }
}

/* --- watches ------------------------------------------------------------------------------------------------------------ */

static struct test_heap heap = TEST_HEAP_INIT;

/* Two paths whose hashes have the same lower 32 bits, and so one bucket: told apart nevertheless. */
TEST(test_watches_of_one_hash)
{
    zkl_heap h = test_heap(&heap);
    struct zkl__core core = {0};
    struct zkl__watch one = {.entry.path = "/q/b98"}, two = {.entry.path = "/q/16752"};
    CU_ASSERT_TRUE_FATAL(zkl__map_init(&core.watches, &h));
    ASSERT_OK(zkl__watch_add(&core, &one, false));
    CU_ASSERT_PTR_NULL(zkl__map_find(&core.watches, two.entry.path));
    ASSERT_OK(zkl__watch_add(&core, &two, false));
    CU_ASSERT_PTR_EQUAL(two.entry.next, &one.entry);
    zkl__watch_forget(&core, &one);
    CU_ASSERT_PTR_EQUAL(zkl__map_find(&core.watches, two.entry.path), &two.entry);
    ASSERT_OK(zkl__watch_add(&core, &one, false)); /* before the other one, which is then removed from behind it */
    zkl__watch_forget(&core, &two);
    CU_ASSERT_PTR_EQUAL(zkl__map_find(&core.watches, one.entry.path), &one.entry);
    ASSERT_OK(zkl__watch_add(&core, &two, false)); /* from before it, and then it is removed itself */
    zkl__watch_forget(&core, &two);
    zkl__watch_forget(&core, &one);
    CU_ASSERT_PTR_NULL(zkl__map_find(&core.watches, one.entry.path));
    ASSERT_OK(zkl__watch_add(&core, &two, false));
    CU_ASSERT_PTR_NULL(two.entry.next);
    zkl__map_deinit(&core.watches);
}

/* More watches than buckets, and no memory for more buckets at first: all are found. */
TEST(test_no_memory_for_more_buckets)
{
    enum { MANY = 40 };
    static struct zkl__watch watches[MANY];
    static char paths[MANY][8];
    zkl_heap h = test_heap(&heap);
    struct zkl__core core = {0};
    CU_ASSERT_TRUE_FATAL(zkl__map_init(&core.watches, &h));
    size_t buckets = core.watches.bucket_count;
    test_heap_fail(&heap, 1, false);
    EACH_ROW (i, watches) {
        snprintf(paths[i], sizeof paths[i], "/%zu", i);
        watches[i].entry.path = paths[i];
        ASSERT_OK(zkl__watch_add(&core, &watches[i], false));
    }
    CU_ASSERT_EQUAL(test_heap_failures(&heap), 1);
    CU_ASSERT(core.watches.bucket_count > buckets);
    EACH_ROW (i, watches) {
        CU_ASSERT_PTR_EQUAL(zkl__map_find(&core.watches, paths[i]), &watches[i].entry);
    }
    zkl__map_deinit(&core.watches);
    CU_ASSERT_EQUAL(test_heap_live(&heap), 0);
}

/* --- children ----------------------------------------------------------------------------------------------------------- */

static bool is_short(const char *name)
{
    return strlen(name) == 1;
}

/* Is a child still known to live, or to be nobody's, after the next list, which has this stat? Somebody may have deleted a name and created it again
 * between the two. */
TEST(test_a_child_created_anew)
{
    const char *names[] = {"a", "strange", "b", "stranger"};
    static const struct {
        int count; /* of the names */
        int64_t czxid;
        uint32_t changes;
        bool known;
    } rows[] = {
        {2, 5, 0, true},  {1, 5, 1, true},  {4, 5, 2, true},  {2, 5, 2, false},
        {1, 5, 3, false}, {4, 5, 4, false}, {2, 6, 0, false}, /* of another directory */
    };
    EACH_ROW (i, rows) {
        const struct zkl__reply reply = {
            .children = names, .child_count = 2, .stat = {.czxid = 5, .child_count = 2, .cversion = INT32_MAX}};
        struct zkl__reply owned = {.stat = {.ephemeral_owner = 7}};
        const struct zkl__reply next = {.children = names,
                                        .child_count = (size_t)rows[i].count,
                                        .stat = {.czxid = rows[i].czxid,
                                                 .child_count = rows[i].count,
                                                 .cversion = (int32_t)(INT32_MAX + rows[i].changes)}};
        for (; owned.stat.ephemeral_owner >= 0; owned.stat.ephemeral_owner -= 7) {
            struct zkl__children *children = NULL;
            CU_ASSERT_TRUE_FATAL(zkl__children_renew(&plain_heap, &children, &reply, is_short));
            zkl__child_judge(&children->all[0], &owned);
            const enum zkl__child_verdict verdict = children->all[0].verdict;
            CU_ASSERT_TRUE_FATAL(zkl__children_renew(&plain_heap, &children, &next, is_short));
            CU_ASSERT_EQUAL(children->all[0].verdict, rows[i].known ? verdict : ZKL__CHILD_UNKNOWN);
            free(children);
        }
    }
}

/* --- assignments of a partition ----------------------------------------------------------------------------------------- */

#define PIECES 100
#define MEMBERS 40

static char names[MEMBERS + PIECES][48];
static const char *all[MEMBERS], *pieces[PIECES];

static void name_them(uint64_t seed)
{
    EACH_ROW (i, all) {
        all[i] = names[i];
        snprintf(names[i], sizeof names[i], "_c_%016llx-lock-%010zu", (unsigned long long)dice_next(&seed), i);
    }
    EACH_ROW (i, pieces) {
        pieces[i] = names[MEMBERS + i];
        snprintf(names[MEMBERS + i], sizeof names[0], "topic-%zu", i);
    }
}

static void share_out(size_t *owners, const char *const *members, size_t count, size_t cap)
{
    const struct zkl__share share = {members, count, pieces, PIECES, cap};
    CU_ASSERT(zkl__share_out(owners, &share, &plain_heap));
}

static size_t load_of(const size_t *owners, size_t member)
{
    size_t load = 0;
    EACH_ROW (i, pieces) {
        load += owners[i] == member;
    }
    return load;
}

TEST(test_even)
{
    size_t owners[PIECES];
    name_them(1);
    for (size_t count = 1; count <= MEMBERS; count++) {
        share_out(owners, all, count, 0);
        CU_ASSERT_EQUAL(load_of(owners, ZKL__NOBODY), 0);
        for (size_t m = 0; m < count; m++) {
            size_t load = load_of(owners, m);
            CU_ASSERT(load == PIECES / count || load == PIECES / count + 1);
        }
    }
}

TEST(test_capped)
{
    size_t owners[PIECES];
    name_them(2);
    for (size_t count = 1; count <= 10; count++) {
        share_out(owners, all, count, 20);
        for (size_t m = 0; m < count; m++) {
            CU_ASSERT(load_of(owners, m) <= 20);
        }
        CU_ASSERT_EQUAL(load_of(owners, ZKL__NOBODY), count < 5 ? PIECES - 20 * count : 0);
    }
}

/* Hosts with different builds share the pieces of one partition. */
TEST(test_every_build_assigns_the_same)
{
    size_t owners[PIECES];
    uint64_t sum = 0;
    name_them(6);
    for (size_t count = 1; count <= MEMBERS; count++) {
        share_out(owners, all, count, count % 2 ? 0 : 3);
        EACH_ROW (i, owners) {
            sum = sum * 31 + owners[i] + 1;
        }
    }
    CU_ASSERT_EQUAL(sum, UINT64_C(0x622f32a842e34411));
}

static void *alloc_little(void *payload, size_t size)
{
    return size <= 16 * (PIECES + MEMBERS) ? malloc(size) : NULL;
}

/* A client with CREATE may make any number of members. */
TEST(test_assigned_with_little_memory)
{
    size_t owners[PIECES];
    zkl_heap little = plain_heap;
    little.alloc = alloc_little;
    name_them(7);
    CU_ASSERT(zkl__share_out(owners, &(struct zkl__share){all, MEMBERS, pieces, PIECES, 0}, &little));
}

TEST(test_nobody_to_assign_to)
{
    size_t owners[PIECES];
    name_them(3);
    share_out(owners, all, 0, 0);
    CU_ASSERT_EQUAL(load_of(owners, ZKL__NOBODY), PIECES);
    const struct zkl__share none = {all, 3, pieces, 0, 0};
    CU_ASSERT(zkl__share_out(owners, &none, &plain_heap));
}

static void shuffle(const char **list, size_t count, uint64_t *seed)
{
    for (size_t i = count; i > 1; i--) {
        size_t j = (size_t)dice_below(seed, (int64_t)i);
        const char *name = list[i - 1];
        list[i - 1] = list[j];
        list[j] = name;
    }
}

/* The server lists members in any order, and members may name the pieces in any order. */
TEST(test_the_order_of_names_does_not_matter)
{
    uint64_t seed = 4;
    size_t owners[PIECES], again[PIECES];
    name_them(4);
    for (int round = 0; round < 20; round++) {
        const char *before[PIECES], *owner[PIECES];
        share_out(owners, all, 7, 20);
        EACH_ROW (i, pieces) {
            before[i] = pieces[i];
            owner[i] = all[owners[i]];
        }
        shuffle(all, 7, &seed);
        shuffle(pieces, PIECES, &seed);
        share_out(again, all, 7, 20);
        EACH_ROW (i, pieces) {
            size_t j = 0;
            while (pieces[j] != before[i]) {
                j++;
            }
            CU_ASSERT_PTR_EQUAL(all[again[j]], owner[i]);
        }
    }
}

/* Names whose hashes are the same: whoever knows them in another order comes to the same end. */
TEST(test_equal_hashes)
{
    static const char *const members[] = {"8yn0iYCKYHlIj4-BwPqk", "GReLUrM4wMqfg9yzV3KQ"};
    static const char *const topics[] = {"gMPflVXtwGDXbIhP73TX", "LtHf1prlU1bCeYZEdqWf", "7mohtcOFVz", "c1E51sSEyx"};
    static const char *const members_again[] = {"GReLUrM4wMqfg9yzV3KQ", "8yn0iYCKYHlIj4-BwPqk"};
    static const char *const topics_again[] = {"c1E51sSEyx", "7mohtcOFVz", "LtHf1prlU1bCeYZEdqWf",
                                               "gMPflVXtwGDXbIhP73TX"};
    size_t owners[4], again[4];
    CU_ASSERT_TRUE(zkl__share_out(owners, &(struct zkl__share){members, 2, topics, 4, 0}, &plain_heap));
    CU_ASSERT_TRUE(zkl__share_out(again, &(struct zkl__share){members_again, 2, topics_again, 4, 0}, &plain_heap));
    EACH_ROW (i, owners) {
        CU_ASSERT_STRING_EQUAL(members[owners[i]], members_again[again[3 - i]]);
    }
}

TEST(test_no_memory_for_assignments)
{
    struct test_heap counter = TEST_HEAP_INIT;
    const zkl_heap poor = test_heap(&counter);
    size_t owners[PIECES];
    const struct zkl__share share = {all, 3, pieces, PIECES, 0};
    name_them(1);
    for (long nth = 1; nth <= 3; nth++) {
        test_heap_fail(&counter, nth, false);
        CU_ASSERT_FALSE(zkl__share_out(owners, &share, &poor));
        CU_ASSERT_EQUAL(owners[0], ZKL__NOBODY);
    }
    test_heap_fail(&counter, 0, false);
    CU_ASSERT_TRUE(zkl__share_out(owners, &share, &poor));
    /* more pairs than there are addresses */
    const struct zkl__share huge = {all, SIZE_MAX / 16, pieces, PIECES, 0};
    CU_ASSERT_FALSE(zkl__share_out(owners, &huge, &poor));
    CU_ASSERT_EQUAL(test_heap_live(&counter), 0);
}

/* --- slots -------------------------------------------------------------------------------------------------------------- */

#define MINUTE INT64_C(60000)

TEST(test_slots_have_round_times_in_their_middle)
{
    static const struct {
        int64_t at, offset, slot;
    } rows[] = {
        {600000, 0, 600000}, {599999, 0, 600000},      {600299, 0, 600000}, {300000, 0, 600000},
        {299999, 0, 0},      {780000, 180000, 780000}, {-60000, 0, 0},      {-420000, 180000, 180000},
    };
    EACH_ROW (i, rows) {
        CU_ASSERT_EQUAL(zkl__slot_of(rows[i].at, 10 * MINUTE, rows[i].offset), rows[i].slot);
    }
}

TEST(test_slots_as_records)
{
    static const char *const none[] = {"10 ", "-1", "held by", "99999999999999999999"};
    CU_ASSERT_EQUAL(zkl__decimal_parse("", 0), 0);
    CU_ASSERT_EQUAL(zkl__decimal_parse("1795177931365", 13), 1795177931365);
    EACH_ROW (i, none) {
        CU_ASSERT_EQUAL(zkl__decimal_parse(none[i], strlen(none[i])), -1);
    }
}

/* A server may say what it likes: nothing overflows (undefined behaviour sanitizer). */
TEST(test_slots_at_any_time)
{
    static const int64_t times[] = {INT64_MIN, INT64_MIN + 1, -1, 0, INT64_MAX - 1, INT64_MAX};
    EACH_ROW (i, times) {
        int64_t slot = zkl__slot_of(times[i], 10 * MINUTE, 3 * MINUTE);
        CU_ASSERT_EQUAL((slot - 3 * MINUTE) % (10 * MINUTE), 0);
        CU_ASSERT(times[i] > 0 ? slot > 0 : slot <= 3 * MINUTE);
    }
}

TESTS("tables")
