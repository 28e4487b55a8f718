/* held COUNT: a session of src/protocol alone that holds COUNT locks, on servers that respond at once. For ./beats, which counts the
 * instructions of a heartbeat. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contender.h"
#include "plain_heap.h"
#include "session_step.h"

#define MS INT64_C(1000000)
#define BEAT (1000 * MS) /* less than the interval of heartbeats: one is sent in each third step or so */
#define BEATS 60
#define OPS 64

static struct zkl__core *core;
static struct {
    uint64_t id;
    enum zkl__op_kind kind;
    char name[80];
} ops[OPS];
static int op_count;
static long requests;
static int64_t now = 1000 * MS, zxid;

static int submit(void *ctx, uint64_t id, const struct zkl__op *op)
{
    (void)ctx;
    if (op_count == OPS) {
        return ZKL_ELIMIT;
    }
    ops[op_count].id = id;
    ops[op_count].kind = op->kind;
    snprintf(ops[op_count].name, sizeof ops->name, "%s%010d", op->name ? op->name : "", 0);
    op_count++;
    requests++;
    return ZKL_OK;
}

static void told_state(void *ctx, zkl_connection_state state, int code)
{
    (void)ctx, (void)state, (void)code;
}

static void step(struct zkl__event event)
{
    event.now = now;
    zkl__session_step(core, &event);
}

/* The lists show the one znode that each queue has. */
static void respond(void)
{
    static char own[80];
    const char *children[] = {own};
    for (int i = 0; i < op_count; i++) {
        struct zkl__reply reply = {.rc = ZKL__RC_OK, .stat = {.czxid = ++zxid, .ephemeral_owner = 1}};
        if (ops[i].kind == ZKL__OP_CREATE) {
            strcpy(own, ops[i].name);
            reply.name = own;
        } else if (ops[i].kind == ZKL__OP_CHILDREN) {
            reply.children = children;
            reply.child_count = 1;
        }
        step((struct zkl__event){.kind = ZKL__EV_REPLY, .id = ops[i].id, .reply = &reply});
    }
    op_count = 0;
}

static int granted;

static void notify(void *owner, const struct zkl__outcome *outcome)
{
    (void)owner;
    granted += outcome->kind == ZKL__GRANTED;
}

static void hold(int count)
{
    for (int i = 0; i < count; i++) {
        char path[32];
        snprintf(path, sizeof path, "/held/%d", i);
        struct zkl__contender_config config = {
            .rule = &zkl__rule_mutex, .path = path, .metadata = "host:1234", .notify = notify};
        struct zkl__contender *c = zkl__contender_new(core, &config);
        step((struct zkl__event){.kind = ZKL__EV_START, .contender = c, .deadline = INT64_MAX});
        respond();
    }
}

static void pass(int64_t ns)
{
    now += ns;
    step((struct zkl__event){.kind = ZKL__EV_TIME});
    respond();
}

/* What is counted. */
__attribute__((noinline)) void beats(void);
void beats(void)
{
    for (int i = 0; i < BEATS; i++) {
        pass(BEAT);
    }
}

int main(int argc, char **argv)
{
    int count = argc == 2 ? atoi(argv[1]) : 0;
    struct zkl__core_config config = {
        .heap = plain_heap, .tick_ns = 2000 * MS, .pause_ns = 500 * MS, .seed = "fifteen letters"};
    struct zkl__port port = {.submit = submit, .state = told_state};
    core = count > 0 ? zkl__core_new(&config, &port) : NULL;
    if (!core) {
        fprintf(stderr, "usage: held COUNT\n");
        return 2;
    }
    step((struct zkl__event){
        .kind = ZKL__EV_CONNECTED, .session_id = 1, .timeout = 60000 * MS, .fresh = true, .began = now});
    respond();
    hold(count);
    for (int64_t end = now + 60000 * MS; now < end;) {
        pass(MS * 20); /* each begins to watch its own znode, some time after its first heartbeat */
    }
    requests = 0;
    beats();
    if (granted != count || requests > BEATS) {
        fprintf(stderr, "held: %d granted, %ld requests\n", granted, requests);
        return 1;
    }
    printf("%ld requests\n", requests);
    return 0;
}
