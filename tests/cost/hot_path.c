/* src/protocol alone, with a store that responds at once, so that instructions can be counted of nothing but the core.
 *   hot_path TURNS WAITERS   acquires and releases; WAITERS others stand behind us in every list. See ./instructions
 *   hot_path COUNT           a session that holds COUNT locks for a while. ./growth counts its heartbeats */
#include <stdio.h>
#include <string.h>

#include "core_facts.h"
#include "core.h"

#define MS INT64_C(1000000)
#define PREFIX "_c_00000000-0000-4000-8000-000000000000-lock-"
#define NAME_SIZE 80
#define OPS 64
#define BEAT (1000 * MS) /* less than the interval of heartbeats: one is sent in each third step or so */
#define BEATS 60

/* --- memory: blocks of one size, so that the allocator of the machine does not count --------------------------------------- */

#define BLOCK 8192
#define BLOCKS 64

static union block {
    union block *next;
    char bytes[BLOCK];
} blocks[BLOCKS], *free_blocks;

static void *heap_alloc(void *payload, size_t size)
{
    union block *block = free_blocks;
    if (!block || size > BLOCK) {
        fprintf(stderr, "hot_path: %zu bytes: more than it has\n", size);
        exit(1);
    }
    free_blocks = block->next;
    return block;
}

static void heap_release(void *payload, void *ptr)
{
    union block *block = ptr;
    if (block) {
        block->next = free_blocks;
        free_blocks = block;
    }
}

static void *heap_resize(void *payload, void *ptr, size_t size)
{
    return ptr && size <= BLOCK ? ptr : heap_alloc(payload, size);
}

/* --- the store ---------------------------------------------------------------------------------------------------------------- */

static struct zkl__core *core;
static struct {
    uint64_t id;
    enum zkl__op_kind kind;
} ops[OPS];
static int op_count;
static const char **children; /* ours, then the waiters' */
static size_t child_count;
static int64_t now = 1000 * MS, zxid;
static long granted, requests;

static int submit(void *ctx, uint64_t id, const struct zkl__op *op)
{
    if (op_count == OPS) {
        return ZKL_ELIMIT;
    }
    requests++;
    ops[op_count].id = id;
    ops[op_count++].kind = op->kind;
    if (op->kind == ZKL__OP_CREATE) {
        snprintf((char *)(uintptr_t)children[0], NAME_SIZE, "%s%010d", op->name, 0);
    }
    return ZKL_OK;
}

static void told_state(void *ctx, zkl_connection_state state, int code) {}

static void step(struct zkl__event event)
{
    event.now = now;
    zkl__session_step(core, &event);
}

static void answer_all(void)
{
    for (int i = 0; i < op_count; i++) {
        struct zkl__reply reply = {
            .rc = ZKL__RC_OK, .name = children[0], .stat = {.czxid = ++zxid, .ephemeral_owner = 1}};
        if (ops[i].kind == ZKL__OP_CHILDREN) {
            reply.children = children;
            reply.child_count = child_count;
        }
        step((struct zkl__event){.kind = ZKL__EV_REPLY, .id = ops[i].id, .reply = &reply});
    }
    op_count = 0;
}

static void notify(void *owner, const struct zkl__outcome *outcome)
{
    granted += outcome->kind == ZKL__GRANTED;
}

/* --- turns -------------------------------------------------------------------------------------------------------------------- */

static void make_world(size_t waiters, struct zkl__core_config config)
{
    config.tick_ns = 2000 * MS;
    config.pause_ns = 500 * MS;
    memcpy(config.seed, "fifteen letters", sizeof config.seed);
    struct zkl__port port = {.submit = submit, .state = told_state};
    for (int i = BLOCKS - 1; i >= 0; i--) {
        heap_release(NULL, &blocks[i]);
    }
    child_count = waiters + 1;
    children = calloc(child_count, sizeof *children);
    for (size_t i = 0; i < child_count; i++) {
        char *name = calloc(1, NAME_SIZE);
        snprintf(name, NAME_SIZE, PREFIX "%010zu", i);
        children[i] = name;
    }
    core = zkl__core_new(&config, &port);
    step((struct zkl__event){
        .kind = ZKL__EV_CONNECTED, .session_id = 1, .timeout = 60000 * MS, .fresh = true, .began = now});
    answer_all();
}

static struct zkl__machine *start(const char *path)
{
    struct zkl__contender_config config = {
        .rule = &zkl__rule_mutex, .path = path, .metadata = "host:1234", .notify = notify};
    struct zkl__machine *machine = (struct zkl__machine *)zkl__contender_new(core, &config);
    step((struct zkl__event){.kind = ZKL__EV_START, .machine = machine, .deadline = INT64_MAX});
    answer_all();
    return machine;
}

/* What is counted, as the next one. */
__attribute__((noinline)) void hot_turn(void);
void hot_turn(void)
{
    struct zkl__machine *machine = start("/locks/hot");
    step((struct zkl__event){.kind = ZKL__EV_RELEASE, .machine = machine});
    answer_all();
    now += MS / 1000;
}

static void pass(int64_t ns)
{
    now += ns;
    step((struct zkl__event){.kind = ZKL__EV_TIME});
    answer_all();
}

__attribute__((noinline)) void beats(void);
void beats(void)
{
    for (int i = 0; i < BEATS; i++) {
        pass(BEAT);
    }
}

static bool hold(int count)
{
    make_world(0, (struct zkl__core_config){.heap = plain_heap});
    for (int i = 0; i < count; i++) {
        char path[32];
        snprintf(path, sizeof path, "/held/%d", i);
        start(path);
    }
    for (int64_t end = now + 60000 * MS; now < end;) {
        pass(MS * 20); /* each begins to watch its own znode, some time after its first heartbeat */
    }
    requests = 0;
    beats();
    return granted == count && requests <= BEATS;
}

static bool turn(int turns, int waiters)
{
    make_world(waiters, (struct zkl__core_config){.heap = {heap_alloc, heap_resize, heap_release, NULL},
                                                  .watch_bytes_max = 100000,
                                                  .ops_max = OPS});
    for (int i = 0; i < turns; i++) {
        hot_turn();
    }
    return granted == turns;
}

int main(int argc, char **argv)
{
    bool right = argc == 3 ? turn(atoi(argv[1]), atoi(argv[2])) : argc == 2 && hold(atoi(argv[1]));
    if (!right) {
        fprintf(stderr, "hot_path: %ld granted, %ld requests; usage: hot_path TURNS WAITERS | COUNT\n", granted,
                requests);
    }
    return right ? 0 : 1;
}
