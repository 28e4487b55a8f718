#include "share.h"

#include "collections.h"

#include <string.h>

/* A member and a piece, and how well they go together. */
struct pair {
    uint64_t number;
    uint32_t member, piece;
};

#define NONE UINT32_MAX /* a member */

struct table {
    const struct zkl__share *share;
    struct pair *pairs; /* of each piece that has no owner yet, the best one with a free member: a
                           heap, the best of all first */
    size_t count;
    uint64_t *hashes; /* of members */
    size_t *loads;    /* of members */
    size_t least;     /* what everybody gets */
    size_t extras;    /* how many get one more */
};

/* FNV-1a. */
static uint64_t hash(const char *name)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (; *name; name++) {
        sum = (sum ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    }
    return zkl__mix(sum);
}

/* The better one has the higher number; of two that are the same by chance, the lower name. Never
 * the lower index, which is everybody's own affair. */
static bool is_better(const struct zkl__share *share, const struct pair *a, const struct pair *b)
{
    if (a->number != b->number) {
        return a->number > b->number;
    }
    int order = strcmp(share->pieces[a->piece], share->pieces[b->piece]);
    order = order ? order : strcmp(share->members[a->member], share->members[b->member]);
    return order < 0;
}

static bool has_room(const struct table *table, size_t member)
{
    size_t load = table->loads[member];
    return load < table->least || (load == table->least && table->extras > 0);
}

static void find_best(const struct table *table, struct pair *best)
{
    const struct zkl__share *share = table->share;
    uint64_t piece = zkl__next_mix(hash(share->pieces[best->piece]));
    best->member = NONE;
    for (size_t m = 0; m < share->member_count; m++) {
        const struct pair pair = {zkl__mix(piece ^ table->hashes[m]), (uint32_t)m, best->piece};
        if (has_room(table, m) && (best->member == NONE || is_better(share, &pair, best))) {
            *best = pair;
        }
    }
}

/* The pair there has its place among those below it. */
static void sift_down(struct table *table, size_t at)
{
    struct pair *pairs = table->pairs, moved = pairs[at];
    for (size_t next; (next = 2 * at + 1) < table->count; at = next) {
        next += next + 1 < table->count && is_better(table->share, &pairs[next + 1], &pairs[next]);
        if (!is_better(table->share, &pairs[next], &moved)) {
            break;
        }
        pairs[at] = pairs[next];
    }
    pairs[at] = moved;
}

/* The best of all pairs first. A member without room never has room again, so the best pair of a
 * piece changes only when its member has no room any more, and is found anew then. That takes no
 * memory for each pair, of which a client with CREATE can make as many as it likes. */
bool zkl__share_out(size_t *owners, const struct zkl__share *share, const zkl_heap *heap)
{
    size_t pieces = share->piece_count, members = share->member_count;
    for (size_t p = 0; p < pieces; p++) {
        owners[p] = ZKL__NOBODY;
    }
    if (pieces == 0 || members == 0) {
        return true;
    }
    if (members >= NONE || pieces >= NONE) {
        return false;
    }
    struct table table = {.share = share, .least = pieces / members, .extras = pieces % members};
    if (share->cap > 0 && table.least >= share->cap) {
        table.least = share->cap;
        table.extras = 0;
    }
    table.pairs = zkl__alloc(heap, pieces * sizeof *table.pairs);
    table.hashes = zkl__zalloc(heap, members * sizeof *table.hashes);
    table.loads = zkl__zalloc(heap, members * sizeof *table.loads);
    bool enough = table.pairs && table.hashes && table.loads;
    for (size_t m = 0; enough && m < members; m++) {
        table.hashes[m] = hash(share->members[m]);
    }
    for (; enough && table.count < pieces; table.count++) {
        table.pairs[table.count].piece = (uint32_t)table.count;
        find_best(&table, &table.pairs[table.count]);
    }
    for (size_t at = table.count / 2; at-- > 0;) {
        sift_down(&table, at);
    }
    while (table.count > 0) {
        struct pair *best = &table.pairs[0];
        bool fits = has_room(&table, best->member);
        if (fits) {
            owners[best->piece] = best->member;
            table.extras -= table.loads[best->member]++ == table.least;
        } else {
            find_best(&table, best);
        }
        if (fits || best->member == NONE) {
            *best = table.pairs[--table.count];
        }
        sift_down(&table, 0);
    }
    zkl__free(heap, table.pairs);
    zkl__free(heap, table.hashes);
    zkl__free(heap, table.loads);
    return enough;
}
