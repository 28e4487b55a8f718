/* The judge is judged: planted violations are found, each by its name and nothing beside it, and histories without one pass. */
#include <glob.h>
#include <string.h>

#include "check.h"
#include "verdict.h"

#define SLACK 100

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

TEST(test_planted)
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

TEST(test_what_cannot_be_read)
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
TEST(test_cut_line)
{
    struct history h;
    history_init(&h);
    CU_ASSERT(history_parse(&h, "cut", "# a remark\n\n1000 a.0 1f acquire /x - 0 0\n1001 a.0 1f do"));
    CU_ASSERT_EQUAL(h.count, 1);
    CU_ASSERT_EQUAL(h.cut, 1);
    history_free(&h);
}

/* Files come in any order, their events in the order of time. */
TEST(test_order_of_files)
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

TESTS("judge")
