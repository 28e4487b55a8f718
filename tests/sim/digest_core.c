/* digest_core.c - of a core: its memory as a graph, every byte of it but what digest.h lists. */
#include <string.h>

#include "digest.h"
#include "groups.h"
#include "semaphore_step.h"
#include "session_inside.h"

enum { BLOCKS = 512 };

/* One walk. */
struct walk {
    const struct sim_heap *heap;
    const struct zkl__core *core;
    const struct sim_client *client;
    const struct sim_plan *plan;
    uint32_t blocks[BLOCKS]; /* in the order in which they were met */
    uint32_t count;
    uint64_t (*rank)(int64_t zxid);
};

static uint64_t scratch[8192];

/* Blocks of a walk are few, and most pointers lead to the latest: a search from the end. */
static uint64_t number_of(struct walk *w, uint32_t block)
{
    for (uint32_t i = w->count; i > 0; i--) {
        if (w->blocks[i - 1] == block) {
            return i;
        }
    }
    if (w->count == BLOCKS) {
        __builtin_trap();
    }
    w->blocks[w->count++] = block;
    return w->count;
}

static void end_text(char *text, size_t room)
{
    size_t length = strnlen(text, room);
    memset(text + length, 0, room - length);
}

/* An acquire of the application; or a semaphore, or its permit: these are in the heap. */
static void *plain_owner(const struct walk *w, void *owner)
{
    uint32_t offset;
    bool inner = sim_heap_find(w->heap, (uint64_t)(uintptr_t)owner, &offset) >= 0;
    return inner || !owner ? owner : (void *)(((struct sim_attempt *)owner)->plan - w->plan->acquires + 1);
}

static void plain_semaphore(const struct walk *w, struct zkl__semaphore *it)
{
    it->config.contender.owner = plain_owner(w, it->config.contender.owner);
    it->config.conflict = NULL;
    end_text(it->last, sizeof it->last);
    for (int i = 0; i < it->config.count; i++) {
        it->permits[i].token = (int64_t)w->rank(it->permits[i].token);
    }
}

static void plain_contender(const struct walk *w, struct zkl__contender *c)
{
    c->path_stats = NULL;
    c->since = 0;
    c->config.owner = plain_owner(w, c->config.owner);
    c->node.czxid = (int64_t)w->rank(c->node.czxid);
    c->own.revoked = (int64_t)w->rank(c->own.revoked);
    end_text(c->node.prefix, sizeof c->node.prefix);
    end_text(c->node.name, sizeof c->node.name);
}

static bool is_contender(const struct zkl__core *core, const void *data)
{
    const struct zkl__contender *c = zkl__contenders_first(core);
    while (c && (const void *)c != data) {
        c = zkl__contenders_after(c);
    }
    return c;
}

static const struct zkl__semaphore *semaphore_of(const struct zkl__core *core, const void *data)
{
    const struct zkl__semaphore *it = core->semaphores;
    while (it && (const void *)it != data && (const void *)it->leases != data) {
        it = it->next;
    }
    return it;
}

/* Its own memory, or the list that it judges. */
static void plain_memory_of(const struct walk *w, const struct zkl__semaphore *it, const void *data)
{
    if (data == (const void *)it) {
        plain_semaphore(w, (void *)scratch);
        return;
    }
    struct zkl__children *leases = (void *)scratch;
    for (size_t i = 0; i < leases->count; i++) {
        leases->all[i].czxid = 0; /* noted for groups */
    }
}

/* The block's words, without what does not count. */
static const uint64_t *words_of(const struct walk *w, const void *data, size_t size)
{
    if (size > sizeof scratch) {
        __builtin_trap();
    }
    scratch[size / 8] = 0;
    memcpy(scratch, data, size);
    if (data == (const void *)w->core) {
        struct zkl__core *core = (void *)scratch;
        memset(&core->stats, 0, sizeof core->stats);
        core->connected_at = core->broken = 0; /* for a warning only, as the next ones */
        core->set_again = core->set_again_bytes = 0;
    } else if (data == (const void *)w->core->pendings.slots) {
        struct zkl__pending *slots = (void *)scratch;
        for (size_t i = 0; i < w->core->pendings.room; i++) {
            slots[i].uses = 0;
        }
    } else if (is_contender(w->core, data)) {
        plain_contender(w, (void *)scratch);
    } else if (semaphore_of(w->core, data)) {
        plain_memory_of(w, semaphore_of(w->core, data), data);
    } else if (sim_member_is(w->client, data)) {
        sim_member_plain(scratch, w->plan);
    }
    return scratch;
}

static uint64_t block_hash(struct walk *w, uint32_t block)
{
    size_t size;
    const void *data = sim_heap_block(w->heap, block, &size);
    const uint64_t *words = words_of(w, data, size);
    uint64_t hash = size;
    for (size_t i = 0; i < (size + 7) / 8; i++) {
        uint64_t word = words[i];
        uint32_t offset;
        int32_t to = sim_heap_find(w->heap, word, &offset);
        if (to >= 0) {
            word = UINT64_C(0xadd) << 48 | number_of(w, (uint32_t)to) << 24 | offset;
        }
        hash = sim_blend(hash, word);
    }
    return hash;
}

uint64_t sim_digest_core(const struct sim *s, int client, uint64_t (*rank)(int64_t zxid))
{
    static struct walk walk;
    struct walk *w = &walk;
    uint32_t offset;
    w->heap = &s->clients[client].heap;
    w->core = s->clients[client].core;
    w->client = &s->clients[client];
    w->plan = s->plan;
    w->rank = rank;
    w->count = 0;
    uint64_t hash = number_of(w, (uint32_t)sim_heap_find(w->heap, (uint64_t)(uintptr_t)w->core, &offset));
    for (uint32_t i = 0; i < w->count; i++) {
        hash = sim_blend(hash, block_hash(w, w->blocks[i]));
    }
    for (int i = 0; i < s->attempt_count; i++) { /* where the application's pointers lead */
        const struct sim_attempt *attempt = &s->attempts[i];
        const void *mine = attempt->contender ? (const void *)attempt->contender : attempt->semaphore;
        if (attempt->client == client && mine) {
            int32_t to = sim_heap_find(w->heap, (uint64_t)(uintptr_t)mine, &offset);
            hash = sim_blend(hash, number_of(w, (uint32_t)to));
        }
    }
    return hash;
}

uint64_t sim_digest_id(const struct sim *s, int client, uint64_t id)
{
    const struct zkl__core *core = s->clients[client].core;
    const struct zkl__pending *p = core && id ? zkl__pending_find(&core->pendings, id) : NULL;
    return p ? (uint64_t)(p - core->pendings.slots) + 2 : id != 0;
}
