#include "share.h"

#include "sort.h"

#include <string.h>

/* A member and a piece, and how well they go together. */
struct pair {
    uint64_t number;
    uint32_t member, piece;
};

struct table {
    const struct zkl__share *share;
    struct pair *pairs; /* the best one first */
    size_t count;
    uint64_t *hashes; /* of members */
    size_t *loads;    /* of members */
    size_t least;     /* what everybody gets */
    size_t extras;    /* how many get one more */
};

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* FNV-1a. */
static uint64_t hash(const char *name)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (; *name; name++) {
        sum = (sum ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    }
    return mix(sum);
}

/* The best first: by number; two that are the same by chance, by name. Never by index, which is
 * everybody's own affair. */
static int compare_pairs(const void *one, const void *other, const void *context)
{
    const struct zkl__share *share = context;
    const struct pair *a = one, *b = other;
    if (a->number != b->number) {
        return a->number > b->number ? -1 : 1;
    }
    int order = strcmp(share->pieces[a->piece], share->pieces[b->piece]);
    return order ? order : strcmp(share->members[a->member], share->members[b->member]);
}

static void fill(struct table *table)
{
    const struct zkl__share *share = table->share;
    for (size_t m = 0; m < share->member_count; m++) {
        table->hashes[m] = hash(share->members[m]);
    }
    for (size_t p = 0; p < share->piece_count; p++) {
        uint64_t piece = mix(hash(share->pieces[p]) + UINT64_C(0x9e3779b97f4a7c15));
        for (size_t m = 0; m < share->member_count; m++) {
            table->pairs[table->count++] =
                (struct pair){mix(piece ^ table->hashes[m]), (uint32_t)m, (uint32_t)p};
        }
    }
    zkl__sort(table->pairs, table->count, sizeof *table->pairs, compare_pairs, share);
}

static void set_limits(struct table *table)
{
    const struct zkl__share *share = table->share;
    table->least = share->piece_count / share->member_count;
    table->extras = share->piece_count % share->member_count;
    if (share->cap > 0 && table->least >= share->cap) {
        table->least = share->cap;
        table->extras = 0;
    }
}

static bool has_room(struct table *table, size_t member)
{
    if (table->loads[member] < table->least) {
        return true;
    }
    if (table->loads[member] > table->least || table->extras == 0) {
        return false;
    }
    table->extras--;
    return true;
}

bool zkl__share_out(size_t *owners, const struct zkl__share *share, const zkl_heap *heap)
{
    size_t pieces = share->piece_count, members = share->member_count;
    for (size_t p = 0; p < pieces; p++) {
        owners[p] = ZKL__NOBODY;
    }
    if (pieces == 0 || members == 0) {
        return true;
    }
    if (members > UINT32_MAX || pieces > UINT32_MAX ||
        pieces > SIZE_MAX / sizeof(struct pair) / members) {
        return false;
    }
    struct table table = {.share = share};
    table.pairs = zkl__alloc(heap, pieces * members * sizeof *table.pairs);
    table.hashes = zkl__zalloc(heap, members * sizeof *table.hashes);
    table.loads = zkl__zalloc(heap, members * sizeof *table.loads);
    bool enough = table.pairs && table.hashes && table.loads;
    if (enough) {
        set_limits(&table);
        fill(&table);
    }
    for (size_t i = 0; enough && i < table.count; i++) {
        struct pair pair = table.pairs[i];
        if (owners[pair.piece] == ZKL__NOBODY && has_room(&table, pair.member)) {
            owners[pair.piece] = pair.member;
            table.loads[pair.member]++;
        }
    }
    zkl__free(heap, table.pairs);
    zkl__free(heap, table.hashes);
    zkl__free(heap, table.loads);
    return enough;
}
