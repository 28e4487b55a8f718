/* The judge is judged: planted violations are found, each by its name and nothing beside it; histories without one pass; and on a
 * hundred thousand small random histories it says the same as definitions that are written down as they are read.
 *
 * ZKLOCK_SEED: the first of these seeds. */
#include <glob.h>
#include <string.h>

#include "by_definition.h"
#include "check.h"
#include "dice.h"
#include "verdict.h"

#define SLACK 100

/* --- planted --------------------------------------------------------------------------------------------------------- */

static void judge_file(const char *path, struct verdict *v)
{
    struct history h;
    history_init(&h);
    CU_ASSERT_FATAL(history_read(&h, path));
    history_sort(&h);
    verdict_judge(v, &h, &(struct verdict_options){.slack_ns = SLACK});
    history_free(&h);
}

/* "# expect: NAME NAME" is its first line. */
static void expected_of(const char *path, bool *expected)
{
    char line[256] = "";
    FILE *file = fopen(path, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    CU_ASSERT_PTR_NOT_NULL_FATAL(fgets(line, sizeof line, file));
    fclose(file);
    CU_ASSERT_EQUAL_FATAL(strncmp(line, "# expect:", 9), 0);
    for (char *word = strtok(line + 9, " \n"); word; word = strtok(NULL, " \n")) {
        int kind = 0;
        while (kind < VERDICT_COUNT && strcmp(verdict_name(kind), word) != 0) {
            kind++;
        }
        CU_ASSERT_FATAL(kind < VERDICT_COUNT);
        expected[kind] = true;
    }
}

static void test_planted(void)
{
    glob_t files;
    bool seen[VERDICT_COUNT] = {false};
    CU_ASSERT_EQUAL_FATAL(glob(PLANTED "/*.history", 0, NULL, &files), 0);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        struct verdict v;
        bool expected[VERDICT_COUNT] = {false};
        judge_file(files.gl_pathv[i], &v);
        expected_of(files.gl_pathv[i], expected);
        for (int kind = 0; kind < VERDICT_COUNT; kind++) {
            if ((v.found[kind] > 0) != expected[kind]) {
                fprintf(stderr, "%s: %zu %s\n", files.gl_pathv[i], v.found[kind], verdict_name(kind));
            }
            CU_ASSERT_EQUAL(v.found[kind] > 0, expected[kind]);
            seen[kind] = seen[kind] || expected[kind];
        }
    }
    for (int kind = 0; kind < VERDICT_COUNT; kind++) {
        CU_ASSERT(seen[kind]); /* a kind that nobody planted may be one that is never found */
    }
    printf("%zu histories; ", files.gl_pathc);
    globfree(&files);
}

static void test_what_cannot_be_read(void)
{
    static const char *const bad[] = {
        "1000 a.0 1f acquire /x - 0\n",         /* a word is missing */
        "1000 a.0 1f acquire /x - 0 0 0\n",     /* one too many */
        "1000 a.0 1f enquire /x - 0 0\n",       /* no such event */
        "soon a.0 1f acquire /x - 0 0\n",       /* no time */
        "1000 a.0 1f acquire /x - 0 0\nwhat\n", /* the second line */
        "1000 - 1f acquire /x - 0 0\n",         /* nobody */
        "1000 a.0 1f acquire /x 2/ 0 0\n",      /* of how much? */
        "1000 a.0 1f acquire /x 3/2 0 0\n",     /* more than there is */
        "1000 a.0 1f downgrade /x 0/2 0 0\n",   /* nothing */
    };
    FILE *saved = stderr;
    stderr = fopen("/dev/null", "w");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct history h;
        history_init(&h);
        CU_ASSERT_FALSE(history_parse(&h, "bad", bad[i]));
        history_free(&h);
    }
    fclose(stderr);
    stderr = saved;
}

/* Whoever is killed is killed within a line. */
static void test_cut_line(void)
{
    struct history h;
    history_init(&h);
    CU_ASSERT(history_parse(&h, "cut", "# a remark\n\n1000 a.0 1f acquire /x - 0 0\n1001 a.0 1f do"));
    CU_ASSERT_EQUAL(h.count, 1);
    CU_ASSERT_EQUAL(h.cut, 1);
    history_free(&h);
}

/* Files come in any order, their events in the order of time. */
static void test_order_of_files(void)
{
    struct history h;
    struct verdict v;
    history_init(&h);
    CU_ASSERT(history_parse(&h, "judge", "5000 judge 0 queue /x - 0 0\n"));
    CU_ASSERT(history_parse(&h, "b", "1500 b.0 1f acquire /x - 0 0\n1600 b.0 1f done /x ZKL_EBUSY 0 0\n"));
    CU_ASSERT(history_parse(&h, "a", "1200 a.0 1f done /x ZKL_EBUSY 0 0\n1000 a.0 1f acquire /x - 0 0\n"));
    history_sort(&h);
    verdict_judge(&v, &h, &(struct verdict_options){.slack_ns = SLACK});
    CU_ASSERT_EQUAL(verdict_total(&v), 0);
    CU_ASSERT_EQUAL(v.waits, 2);
    history_free(&h);
}

/* --- random histories ------------------------------------------------------------------------------------------------ */

enum { CLIENTS = 6, PATHS = 2, EVENTS = 32, IDLE = 0, WAITING, HOLDING, CLOSING_WAITING, CLOSING };

struct dream {
    struct history h;
    uint64_t dice;
    int64_t now, token;
    int stands[CLIENTS];
    bool dead[CLIENTS / 2];
};

static void add(struct dream *d, int client, enum history_op op, bool good, int64_t token, int64_t lease)
{
    history_add(&d->h, &(struct history_event){
                           .at = d->now,
                           .client = client,
                           .process = client / 2,
                           .path = client % PATHS,
                           .op = op,
                           .good = good,
                           .token = token,
                           .lease = lease,
                           .takes = op == HISTORY_acquire ? (int)dice_between(&d->dice, 1, ROOM(client % PATHS)) : 0,
                           .of = op == HISTORY_acquire ? ROOM(client % PATHS) : 0,
                           .line = (int)d->h.count});
}

static void hold_on(struct dream *d, int client)
{
    int64_t lease = d->now + dice_below(&d->dice, 8);
    switch (dice_below(&d->dice, 4)) {
    case 0:
        add(d, client, HISTORY_held, false, 0, lease);
        break;
    case 1:
        add(d, client, HISTORY_lost, false, 0, 0);
        add(d, client, HISTORY_told, false, 0, 0);
        break;
    default:
        add(d, client, HISTORY_release, false, 0, 0);
        d->stands[client] = IDLE;
    }
}

/* What it has or waits for is freed, or closed. */
static void let_go(struct dream *d, int client)
{
    if (dice_once_in(&d->dice, 2)) {
        add(d, client, HISTORY_free, false, 0, 0);
        add(d, client, HISTORY_freed, false, 0, 0);
        d->stands[client] = IDLE;
    } else {
        add(d, client, HISTORY_close, false, 0, d->now + dice_below(&d->dice, 8));
        d->stands[client] = d->stands[client] == WAITING ? CLOSING_WAITING : CLOSING;
    }
}

static void go_on_closing(struct dream *d, int client)
{
    bool pending = d->stands[client] == CLOSING_WAITING, completes = pending && !dice_once_in(&d->dice, 6);
    bool granted = completes && dice_once_in(&d->dice, 3);
    add(d, client, completes ? HISTORY_done : HISTORY_closed, granted, granted ? ++d->token : 0,
        granted ? d->now + dice_below(&d->dice, 9) : 0);
    d->stands[client] = completes ? CLOSING : IDLE;
}

/* Clients 0 and 1 are of process 0; 0, 2 and 4 are at path 0, which one may hold, the others at path 1, of which there are three. Nearly what could happen: tokens mostly rise, leases are mostly short. */
static void act(struct dream *d, int client)
{
    if (d->stands[client] >= CLOSING_WAITING) {
        go_on_closing(d, client);
    } else if (d->stands[client] != IDLE && dice_once_in(&d->dice, 8)) {
        let_go(d, client);
    } else if (d->stands[client] == HOLDING) {
        hold_on(d, client);
    } else if (d->stands[client] == IDLE) {
        add(d, client, HISTORY_acquire, false, 0,
            dice_once_in(&d->dice, 3) ? 0 : d->now + dice_between(&d->dice, 4, 40));
        d->stands[client] = WAITING;
    } else if (dice_once_in(&d->dice, 5)) {
        add(d, client, HISTORY_cancel, false, 0, 0);
    } else if (dice_once_in(&d->dice, 5)) {
        add(d, client, HISTORY_starved, false, 0, dice_between(&d->dice, 1, 6));
    } else {
        bool granted = !dice_once_in(&d->dice, 4);
        int64_t token = dice_once_in(&d->dice, 12) ? dice_between(&d->dice, 1, d->token + 1) : ++d->token;
        add(d, client, HISTORY_done, granted, granted ? token : 0, granted ? d->now + dice_below(&d->dice, 5) : 0);
        d->stands[client] = granted ? HOLDING : IDLE;
    }
}

static void trouble(struct dream *d)
{
    int client = (int)dice_below(&d->dice, CLIENTS), process = client / 2;
    switch (dice_below(&d->dice, 6)) {
    case 0:
        add(d, client, HISTORY_stopped, false, 0, 0);
        break;
    case 1:
        add(d, client, HISTORY_continued, false, 0, 0);
        break;
    case 2:
        add(d, client, HISTORY_late, false, 0, dice_between(&d->dice, 1, 6));
        break;
    case 3:
        add(d, client, HISTORY_breach, false, 0, d->now + dice_below(&d->dice, 6));
        break;
    case 4:
        add(d, client, HISTORY_write, !dice_once_in(&d->dice, 3), d->token - dice_below(&d->dice, 4), 0);
        break;
    default:
        if (dice_once_in(&d->dice, 4)) {
            add(d, client, HISTORY_killed, false, 0, 0);
            d->dead[process] = true;
        }
    }
}

static void dream(struct dream *d, uint64_t seed)
{
    *d = (struct dream){.dice = seed, .now = 10, .token = 5}; /* 0 is nothing, in a history */
    history_init(&d->h);
    d->h.clients.count = CLIENTS;
    d->h.processes.count = CLIENTS / 2;
    d->h.paths.count = PATHS;
    for (int i = 0; i < EVENTS; i++) {
        int client = (int)dice_below(&d->dice, CLIENTS);
        d->now += dice_below(&d->dice, 3);
        if (dice_once_in(&d->dice, 4)) {
            trouble(d);
        } else if (!d->dead[client / 2]) {
            act(d, client);
        }
    }
    for (int client = 0; client < CLIENTS; client++) {
        if (d->stands[client] == WAITING && !d->dead[client / 2] && !dice_once_in(&d->dice, 6)) {
            add(d, client, HISTORY_done, false, 0, 0);
        }
    }
    history_sort(&d->h); /* stays as it is: times do not fall, lines rise */
}

static void test_definitions_agree(void)
{
    static const int kinds[] = {VERDICT_DOUBLE_HOLD, VERDICT_TOKEN_ORDER, VERDICT_STALE_ACCEPTED, VERDICT_LATE_END,
                                VERDICT_NEVER_ENDED};
    const char *text = getenv("ZKLOCK_SEED");
    uint64_t first = text ? strtoull(text, NULL, 0) : 1;
    size_t found_count[VERDICT_COUNT] = {0}, clean = 0, rounds = 100000;
    for (uint64_t seed = first; seed < first + rounds; seed++) {
        struct dream d;
        struct verdict v;
        bool found[VERDICT_COUNT], any = false;
        dream(&d, dice_mix(seed));
        verdict_judge(&v, &d.h, &(struct verdict_options){.slack_ns = LATE_SLACK});
        by_definition(&d.h, found);
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
            int kind = kinds[i];
            if ((v.found[kind] > 0) != found[kind]) {
                fprintf(stderr, "seed %llu: %zu %s\n", (unsigned long long)seed, v.found[kind], verdict_name(kind));
                CU_FAIL_FATAL("the judge and the definition differ");
            }
            found_count[kind] += found[kind] ? 1 : 0;
            any = any || found[kind];
        }
        clean += any ? 0 : 1;
        CU_ASSERT_EQUAL(v.found[VERDICT_GARBLED], 0);
        CU_ASSERT_EQUAL(v.found[VERDICT_ENDED_TWICE], 0);
        history_free(&d.h);
    }
    printf("%zu random histories, %zu clean", rounds, clean);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        CU_ASSERT(found_count[kinds[i]] > rounds / 100);
        printf(", %zu %s", found_count[kinds[i]], verdict_name(kinds[i]));
    }
    CU_ASSERT(clean > rounds / 100);
    printf("; ");
}

TESTS("judge", T(test_planted), T(test_what_cannot_be_read), T(test_cut_line), T(test_order_of_files),
      T(test_definitions_agree))
