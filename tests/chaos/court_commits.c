#include "court.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int compare_places(const struct history_event *a, const struct history_event *b)
{
    if (a->path != b->path) {
        return a->path < b->path ? -1 : 1;
    }
    if (a->token != b->token) {
        return a->token < b->token ? -1 : 1;
    }
    return (a->lease > b->lease) - (a->lease < b->lease);
}

static int compare_commits(const void *left, const void *right)
{
    return compare_places(*(const struct history_event *const *)left, *(const struct history_event *const *)right);
}

void court_see_commit(struct court *c, const struct history_event *e)
{
    if (e->good && e->path >= 0 && e->token < c->paths[e->path].last_grant) {
        court_accuse(c, VERDICT_STALE_COMMITTED,
                     "%s: %s began one under %" PRId64 " at %" PRId64 ", which was done; %" PRId64 " had been granted",
                     PATH(e->path), CLIENT(e->client), e->token, e->at, c->paths[e->path].last_grant);
    }
}

/* Grants of one path have rising tokens: so have their transactions. */
static void check_order(struct court *c, int64_t *highest, const struct history_event *e)
{
    if (e->token < highest[e->path]) {
        court_accuse(c, VERDICT_STALE_COMMITTED, "%s: one of grant %" PRId64 " after one of grant %" PRId64,
                     PATH(e->path), e->token, highest[e->path]);
    }
    highest[e->path] = e->token > highest[e->path] ? e->token : highest[e->path];
}

/* Done is done, not done is not; no answer is either. */
static void check_answer(struct court *c, const struct history_event *e, bool there)
{
    const char *answer = court_name(&c->h->words, e->word);
    bool refused = strcmp(answer, "ZKL_ELOST") == 0 || strcmp(answer, "ZKL_ENOTHELD") == 0;
    if (there ? refused : e->good) {
        court_accuse(c, VERDICT_COMMIT_BELIED,
                     "%s: %s was told %s at %" PRId64 " of %" PRId64 " of grant %" PRId64 ", %s", PATH(e->path),
                     CLIENT(e->client), answer, e->at, e->lease, e->token,
                     there ? "which was carried out" : "which was not carried out");
    }
}

void court_judge_commits(struct court *c)
{
    int64_t *highest = court_make((size_t)c->h->paths.count, sizeof *highest);
    const struct history_event **ledger = court_make(c->h->count, sizeof *ledger);
    size_t count = 0;
    for (size_t i = 0; i < c->h->count; i++) {
        const struct history_event *e = &c->h->events[i];
        if (e->op == HISTORY_committed && e->path >= 0) {
            check_order(c, highest, e);
            ledger[count++] = e;
        }
    }
    c->v->commits = count;
    qsort(ledger, count, sizeof *ledger, compare_commits);
    for (size_t i = 0; i < c->h->count; i++) {
        const struct history_event *e = &c->h->events[i];
        if (e->op == HISTORY_commit) {
            check_answer(c, e, bsearch(&e, ledger, count, sizeof *ledger, compare_commits) != NULL);
        }
    }
    free(ledger);
    free(highest);
}
