/* judge [--slack MS] [--grants N] [--losses N] [--refused N] HISTORY... : judges what happened (see history.h).
 *
 * One line that sums up, on stdout; each violation on stderr. --grants, --losses, --refused: fewer than that are a failure, too: then
 * nothing was tried. Exit: 0 clean, 1 violations, 2 no history. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "verdict.h"

static void sum_up(const struct history *h, const struct verdict *v)
{
    printf("%zu events, %zu waits, %zu grants (%zu beside others, %zu handed on inside a session, %zu seen too late), "
           "%zu lost, %zu killed, %zu closed in the middle; %zu told of a crash, %zu requests heard; %zu guarded "
           "transactions; %zu lists of members; %zu "
           "writes, %zu stopped by their "
           "token; longest wait after a deadline %.1f ms, for word of a loss %.1f ms; %zu violations",
           h->count, v->waits, v->grants, v->shared, v->handed, v->too_late, v->losses, v->killed, v->closes,
           v->unclean, v->heard, v->commits, v->listed, v->writes, v->refused, (double)v->worst_end_ns / 1e6,
           (double)v->worst_told_ns / 1e6, verdict_total(v));
    for (int i = 0; i < VERDICT_COUNT; i++) {
        if (v->found[i] > 0) {
            printf(", %zu %s", v->found[i], verdict_name(i));
        }
    }
    if (v->excused > 0) {
        printf(" (and %zu overlaps while an assumption of the lease was broken on purpose)", v->excused);
    }
    printf("\n");
}

static bool enough(const char *what, size_t have, size_t want)
{
    if (have < want) {
        fprintf(stderr, "only %zu %s of at least %zu\n", have, what, want);
    }
    return have >= want;
}

int main(int argc, char **argv)
{
    struct history h;
    struct verdict v;
    struct verdict_options options = {.slack_ns = 300 * INT64_C(1000000), .words = stderr};
    size_t grants = 0, losses = 0, refused = 0;
    int at = 1;
    for (; at + 1 < argc && strncmp(argv[at], "--", 2) == 0; at += 2) {
        long long number = atoll(argv[at + 1]);
        if (strcmp(argv[at], "--slack") == 0) {
            options.slack_ns = number * 1000000;
        } else if (strcmp(argv[at], "--grants") == 0) {
            grants = (size_t)number;
        } else if (strcmp(argv[at], "--losses") == 0) {
            losses = (size_t)number;
        } else if (strcmp(argv[at], "--refused") == 0) {
            refused = (size_t)number;
        } else {
            break;
        }
    }
    if (at >= argc || argv[at][0] == '-') {
        fprintf(stderr, "usage: judge [--slack MS] [--grants N] [--losses N] [--refused N] HISTORY...\n");
        return 2;
    }
    history_init(&h);
    for (; at < argc; at++) {
        if (!history_read(&h, argv[at])) {
            return 2;
        }
    }
    history_sort(&h);
    verdict_judge(&v, &h, &options);
    sum_up(&h, &v);
    bool clean = verdict_total(&v) == 0;
    clean = enough("grants", v.grants, grants) && clean;
    clean = enough("losses", v.losses, losses) && clean;
    clean = enough("writes stopped", v.refused, refused) && clean;
    history_free(&h);
    return clean ? 0 : 1;
}
