/* Random walks: anything that may happen does, in any order, for thousands of steps; what must always hold, holds.
 *
 *   unit_contender_random            the seeds of every day
 *   ZKL_SEED=17 unit_contender_random    one of them again (ZKL_TRACE=1 shows each decision)
 *   ZKL_SEEDS=5000 unit_contender_random  more of them */
#include "dice.h"
#include "script.h"

#include <string.h>

#define OWNERS 6
#define STEPS 1500
#define SEEDS 150

static struct script_owner owners[OWNERS];
static bool contending[OWNERS]; /* its last word was not heard yet */
static bool tampered;           /* somebody removed a node of ours: the exception to exclusion */
static bool tampering;          /* somebody may */
static uint64_t dice;
static struct {
    int granted, lost, jeopardy, safe, failed[32];
} seen; /* of all walks: they must not be idle */

static bool holds(int i)
{
    return contending[i] && owners[i].contender && zkl__contender_holds(script.core, owners[i].contender, script.now);
}

/* Before a holder is nobody else's node, and of ours only what is on its way out: it was handed over then. */
static bool fair(const struct script_node *node, int64_t token)
{
    bool wanted = false;
    for (int i = 0; i < OWNERS; i++) {
        const struct zkl__contender *c = contending[i] ? owners[i].contender : NULL;
        wanted = wanted ||
                 (c && zkl__contender_state(c) <= ZKL__LOST && strcmp(strrchr(node->path, '/') + 1, c->node.name) == 0);
    }
    return node->owner == 0 || node->czxid >= token || (node->owner == script.session_id && !wanted);
}

/* Nobody barges, and no two hold. */
static void look(void)
{
    int holders = 0;
    for (int i = 0; i < OWNERS; i++) {
        if (!holds(i)) {
            continue;
        }
        holders++;
        char path[SCRIPT_PATH];
        snprintf(path, sizeof path, "/q/%s", zkl__contender_node(owners[i].contender));
        const struct script_node *node = script_find(path);
        CU_ASSERT(tampered || (node && node->owner == script.session_id && node->czxid == owners[i].token));
        for (int j = 0; j < script.node_count && !tampered; j++) {
            CU_ASSERT(fair(&script.nodes[j], owners[i].token));
        }
    }
    CU_ASSERT(tampered || holders <= 1);
}

static void start(int i)
{
    struct zkl__contender_config config = script_config(&owners[i], "/q");
    config.fail_on_expiry = dice_once_in(&dice, 4);
    config.max_hold = dice_once_in(&dice, 5) ? dice_between(&dice, 1, 3000) * MS : 0;
    if (script_contend(&owners[i], &config)) {
        bool hurry = dice_once_in(&dice, 2);
        contending[i] = true;
        script_start(&owners[i], hurry ? script.now + dice_below(&dice, 6000) * MS : INT64_MAX, dice_once_in(&dice, 6));
    }
}

static void let_go(int i)
{
    if (owners[i].contender) {
        script_let_go(&owners[i]);
    }
    contending[i] = false;
}

static void count(const struct script_owner *owner)
{
    seen.granted += owner->granted;
    seen.lost += owner->lost;
    seen.jeopardy += owner->jeopardy;
    seen.safe += owner->safe;
    seen.failed[-owner->code] += owner->failed;
}

static void use(int i)
{
    if (!contending[i]) {
        start(i);
    } else if (!owners[i].contender) {
        CU_ASSERT_EQUAL(owners[i].granted + owners[i].failed, 1);
        CU_ASSERT_EQUAL(owners[i].released, owners[i].granted);
        count(&owners[i]);
        contending[i] = false;
    } else if (owners[i].granted && strcmp(script_state(&owners[i]), "removing") != 0) {
        script_release(&owners[i]);
    } else if (dice_once_in(&dice, 4)) {
        script_cancel(&owners[i]);
    } else if (dice_once_in(&dice, 8)) {
        let_go(i);
    }
}

static void others(void)
{
    static int number;
    char path[SCRIPT_PATH];
    if (script.node_count == 0) {
        return;
    }
    int i = (int)dice_below(&dice, script.node_count);
    if (dice_once_in(&dice, 2) && script.next_sequence < INT32_MAX && script_find("/q") && script.node_count < 8) {
        snprintf(path, sizeof path, "/q/%s%010d", dice_once_in(&dice, 3) ? "_c_x-__READ__" : "lock-",
                 (int)script.next_sequence++);
        script_put(path, SCRIPT_STRANGER)->hidden = dice_once_in(&dice, 6);
    } else if (dice_once_in(&dice, 12) && script_find("/q") && script.node_count < 12) {
        snprintf(path, sizeof path, "/q/%s%d", dice_once_in(&dice, 2) ? "foreign-" : "lock-", number++);
        script_put(path, 0);
    } else if (script.nodes[i].owner == SCRIPT_STRANGER ||
               (script.nodes[i].owner == 0 && strcmp(script.nodes[i].path, "/q") != 0)) {
        if (dice_once_in(&dice, 4)) {
            script_change(script.nodes[i].path);
        } else {
            script_remove(script.nodes[i].path);
        }
    } else if (script.nodes[i].owner && script.nodes[i].owner == script.session_id && tampering &&
               dice_once_in(&dice, 15)) {
        tampered = true;
        script_remove(script.nodes[i].path);
    } else if (script.node_count == 1 && dice_once_in(&dice, 3)) {
        script_remove(script.nodes[0].path); /* the empty container is reaped */
    }
}

static void link_events(void)
{
    if (!script.connected) {
        if (script.session_id && dice_once_in(&dice, 4)) {
            script_expire();
        } else {
            script_connect();
        }
    } else if (dice_once_in(&dice, 5)) {
        script_suspend((int)dice_below(&dice, 6));
    } else if (dice_once_in(&dice, 15)) {
        script_expire();
    }
}

static void answer(void)
{
    static const enum zkl__rc rcs[] = {ZKL__RC_NOTAPPLIED, ZKL__RC_NOTAPPLIED, ZKL__RC_NOTAPPLIED,
                                       ZKL__RC_NOAUTH,     ZKL__RC_REFUSED,    ZKL__RC_EPHEMERALPARENT};
    if (!script.connected) {
        return;
    }
    if (script.news_count > 0 && dice_once_in(&dice, 2)) {
        script_deliver();
    } else if (script.op_count > 0) {
        if (dice_once_in(&dice, 60)) {
            script_answer_with(rcs[dice_below(&dice, 6)]);
        } else if (dice_once_in(&dice, 2)) {
            script_answer_all();
        } else {
            script_do();
        }
    }
}

static void refuse(void)
{
    static const int codes[] = {ZKL_ECONNECT, ZKL_ENOMEM, ZKL_ELIMIT};
    script.refuse_kind = (enum zkl__op_kind)dice_below(&dice, ZKL__OP_UNWATCH + 1);
    script.refuse_code = codes[dice_below(&dice, 3)];
    script.refuse_count = (int)dice_between(&dice, 1, 3);
    if (dice_once_in(&dice, 3)) {
        test_heap_fail(&script.heap, dice_between(&dice, 1, 10), false);
    }
}

static void pass_time(void)
{
    static const int64_t most[] = {1, 1, 20, 20, 100, 100, 1000, 12000};
    int64_t duration = dice_between(&dice, 1, most[dice_below(&dice, 8)] * MS);
    if (dice_once_in(&dice, 6)) {
        script.now += duration; /* nobody woke in time */
        script_step((struct zkl__event){.kind = ZKL__EV_TIME});
    } else {
        script_wait(duration / 2);
        if (dice_once_in(&dice, 2)) {
            script_answer_all();
        }
        script_wait(duration / 2);
    }
}

/* Calm again: everybody who still waits is served or can be cancelled, and nothing is left. */
static void calm_down(void)
{
    script.refuse_count = 0;
    test_heap_fail(&script.heap, 0, false);
    if (!script.connected) {
        script_connect();
    }
    for (int i = script.node_count - 1; i >= 0; i--) {
        if (script.nodes[i].owner != script.session_id && strcmp(script.nodes[i].path, "/q") != 0) {
            script_remove(script.nodes[i].path);
            i = script.node_count;
        }
    }
    for (int round = 0; round < 3 * OWNERS; round++) {
        script_run(10000 * MS);
        for (int i = 0; i < OWNERS; i++) {
            if (contending[i] && owners[i].contender && owners[i].granted &&
                strcmp(script_state(&owners[i]), "removing") != 0) {
                script_release(&owners[i]);
            }
        }
    }
    for (int i = 0; i < OWNERS; i++) { /* whoever asked has its answer: nobody waits for ever */
        CU_ASSERT(!contending[i] || !owners[i].contender);
        CU_ASSERT(!contending[i] || owners[i].granted + owners[i].failed == 1);
    }
    CU_ASSERT_EQUAL(script_ours(), 0);
    script_close();
    script_answer_all();
    CU_ASSERT_TRUE(zkl__core_idle(script.core));
    CU_ASSERT_EQUAL(script.op_count, 0);
}

static void walk(uint64_t seed)
{
    dice = seed;
    tampered = false;
    tampering = dice_once_in(&dice, 4);
    memset(contending, 0, sizeof contending);
    script_init();
    script.rules = (enum script_rules)dice_below(&dice, 3);
    script.hide_ours = dice_once_in(&dice, 8);
    int64_t crowd = dice_below(&dice, 10), trouble = dice_below(&dice, 4);
    script.next_sequence = dice_once_in(&dice, 8) ? INT32_MAX - 20 : 0;
    script.timeout = dice_once_in(&dice, 3) ? 6000 * MS : 10000 * MS;
    for (int step = 0; step < STEPS; step++) {
        int64_t roll = dice_below(&dice, 100);
        if (roll < 15) {
            use((int)dice_below(&dice, OWNERS));
        } else if (roll < 15 + crowd) {
            others();
        } else if (roll < 25 + trouble) {
            link_events();
        } else if (roll < 25 + 2 * trouble) {
            refuse();
        } else if (roll < 50) {
            pass_time();
        } else {
            answer();
        }
        look();
        if (script.next_sequence > INT32_MAX - 5 && !script_ours() && script.node_count == 1) {
            script.next_sequence = 0; /* the directory was made anew */
        }
    }
    calm_down();
    script_deinit();
}

static uint64_t number_in(const char *variable, uint64_t otherwise)
{
    const char *text = getenv(variable);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static void check_that_walks_were_not_idle(void)
{
    static const int codes[] = {ZKL_ETIMEOUT, ZKL_EBUSY,     ZKL_ECANCELED, ZKL_ELOST,
                                ZKL_EAUTH,    ZKL_ECONFLICT, ZKL_ELIMIT,    ZKL_ENOMEM};
    CU_ASSERT(seen.granted > 400);
    CU_ASSERT(seen.lost > 100);
    CU_ASSERT(seen.jeopardy > 100);
    CU_ASSERT(seen.safe > 20);
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        CU_ASSERT(seen.failed[-codes[i]] > 10);
    }
    fprintf(stderr, "%d granted, %d in jeopardy, %d safe again, %d lost ", seen.granted, seen.jeopardy, seen.safe,
            seen.lost);
    for (int i = 0; i < 32; i++) {
        if (seen.failed[i]) {
            fprintf(stderr, "%s %d ", zkl_error_name(-i), seen.failed[i]);
        }
    }
}

static void test_walks(void)
{
    uint64_t only = number_in("ZKL_SEED", 0), seeds = number_in("ZKL_SEEDS", SEEDS);
    for (uint64_t seed = only ? only : 1; seed <= (only ? only : seeds); seed++) {
        unsigned before = CU_get_number_of_failures();
        fprintf(stderr, "\rseed %llu ", (unsigned long long)seed); /* stands there when a trap ends us */
        walk(seed);
        if (CU_get_number_of_failures() != before) {
            fprintf(stderr, "failed: ZKL_SEED=%llu\n", (unsigned long long)seed);
            return;
        }
    }
    if (!only && seeds == SEEDS) {
        check_that_walks_were_not_idle();
    }
}

TESTS("contender at random", T(test_walks))
