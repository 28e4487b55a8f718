/* cmd_bench.c - what this machine and this ensemble give: the lock's times beside those of plain
 * round trips. */
#include <zklock/zookeeper.h>

#include "queues.h"

#define LEAVE_MS 2000                 /* for the servers' response to a close */
#define SAMPLES_MAX ((size_t)1 << 20) /* of each: then it ends */

static int64_t for_ms = 3000;

static const struct cli_option options[] = {
    OPTION_DURATION("for", '\0', &for_ms, 100, CLI_LONGEST_MS, "measure for this long in all (3s)"),
    {0},
};

struct side {
    zkl_session *session;
    zkl_lock *lock;
    bool decided;
    int result;
};

static struct {
    char *path;
    char znode[ZKL_PATH_MAX + 16]; /* beside the queue: nothing but contenders belongs into it */
    struct side sides[2];
    int holder;       /* of a hand-over: index of the side that holds */
    int64_t begin_ns; /* of the one that is measured now */
    int64_t samples[SAMPLES_MAX];
    size_t count;
} bench;

/* --- what is measured: each does one, or says why not with a result of the library's ---------- */

static int read_once(void)
{
    zkl_queue *queue;
    int result =
        zkl_queue_list(&queue, bench.sides[0].session, bench.znode, CLI_CALL_MS, &cli_failure);
    if (result == ZKL_OK) {
        zkl_queue_free(queue);
    }
    return result;
}

static int hold(void)
{
    return zkl_lock_acquire(bench.sides[0].lock, CLI_CALL_MS, NULL, &cli_failure);
}

static int let_go(void)
{
    return zkl_lock_release(bench.sides[bench.holder].lock, &cli_failure);
}

static int write_once(void)
{
    const zkl_op create = {
        .kind = ZKL_OP_CREATE, .path = bench.znode, .mode = ZKL_CREATE_EPHEMERAL};
    const zkl_op delete = {.kind = ZKL_OP_DELETE, .path = bench.znode, .version = ZKL_ANY_VERSION};
    zkl_lock *lock = bench.sides[0].lock;
    int result = zkl_lock_commit(lock, &create, 1, CLI_CALL_MS, NULL, &cli_failure);
    return result == ZKL_OK ? zkl_lock_commit(lock, &delete, 1, CLI_CALL_MS, NULL, &cli_failure)
                            : result;
}

static int lock_once(void)
{
    int result = hold();
    return result == ZKL_OK ? let_go() : result;
}

static void on_decided(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *error,
                       void *payload)
{
    struct side *side = payload;
    (void)lock;
    (void)grant;
    side->decided = true;
    side->result = code;
    cli_failure = *error;
}

static int hand_over_once(void)
{
    struct side *from = &bench.sides[bench.holder];
    struct side *to = &bench.sides[!bench.holder];
    size_t count = 0;
    to->decided = false;
    int result = zkl_lock_acquire_async(to->lock, CLI_CALL_MS, on_decided, to, &cli_failure);
    /* Until the other side is queued behind the holder, or decided: it is granted if the holder's
     * znode was deleted, and its own deadline ends this wait. The requests that it sends after its
     * create are sent before our last one. */
    while (result == ZKL_OK && count < 2 && !to->decided) {
        zkl_queue *queue;
        result = zkl_queue_list(&queue, to->session, bench.path, CLI_CALL_MS, &cli_failure);
        if (result == ZKL_OK) {
            count = queue->count;
            zkl_queue_free(queue);
        }
        zkl_session_dispatch(to->session);
    }
    bench.begin_ns = clock_ns(CLOCK_MONOTONIC);
    if (result == ZKL_OK) {
        result = zkl_lock_release(from->lock, &cli_failure);
    }
    if (result == ZKL_OK) {
        struct pollfd fd = {.fd = zkl_session_fd(to->session), .events = POLLIN};
        while (!to->decided) {
            poll(&fd, 1, -1);
            zkl_session_dispatch(to->session);
        }
        bench.holder = !bench.holder;
        result = to->result;
    }
    return result;
}

static const struct measurement {
    const char *name;
    const char *text;
    bool held; /* while the lock is */
    int (*once)(void);
} measurements[] = {
    {"read", "read of a missing znode", false, read_once},
    {"write", "create + delete of a znode", true, write_once},
    {"lock", "acquire + release of a free lock", false, lock_once},
    {"hand-over", "hand-over to another session", true, hand_over_once},
};
#define MEASUREMENTS (sizeof measurements / sizeof *measurements)

/* --- measuring, and reporting ---------------------------------------------------------------- */

static int compare_values(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left;
    int64_t b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

static int measure(const struct measurement *what)
{
    int64_t end_ms = now_ms() + for_ms / (int64_t)MEASUREMENTS;
    int result = what->held ? hold() : ZKL_OK;
    int number = 0;
    bench.count = 0;
    while (result == ZKL_OK && !signals_is_end(number) && now_ms() < end_ms &&
           bench.count < SAMPLES_MAX) {
        bench.begin_ns = clock_ns(CLOCK_MONOTONIC);
        result = what->once();
        bench.samples[bench.count] = clock_ns(CLOCK_MONOTONIC) - bench.begin_ns;
        bench.count += result == ZKL_OK;
        number = signals_next();
    }
    if (result == ZKL_OK && what->held) {
        result = let_go();
    }
    bench.holder = 0;
    qsort(bench.samples, bench.count, sizeof *bench.samples, compare_values);
    if (what->once == write_once && result == ZKL_ECONFLICT) {
        cli_error("bench: %s is in use; name another LOCK", bench.znode);
        return EXIT_FAILED;
    }
    return signals_is_end(number) ? EXIT_SIGNAL + number : queues_outcome(bench.path, result);
}

static int measure_all(void)
{
    double read_ns = 1;
    int code = CLI_GO_ON;
    if (!cli.json) {
        printf("%-33s %8s %11s %11s %7s\n", "", "count", "median", "p99", "reads");
        fflush(stdout);
    }
    for (size_t i = 0; code == CLI_GO_ON && i < MEASUREMENTS; i++) {
        const struct measurement *what = &measurements[i];
        code = measure(what);
        if (code == CLI_GO_ON) {
            /* Of the sorted times, those below which 50 and 99 of a hundred lie; none is 0. */
            int64_t median = bench.count ? bench.samples[bench.count / 2] : 0;
            int64_t p99 = bench.count ? bench.samples[bench.count * 99 / 100] : 0;
            read_ns = i == 0 ? (double)median : read_ns;
            bool printed =
                cli.json
                    ? queues_print_json(json_pack("{s:s, s:I, s:I, s:I}", "what", what->name,
                                                  "count", (json_int_t)bench.count, "median_ns",
                                                  (json_int_t)median, "p99_ns", (json_int_t)p99))
                    : printf("%-33s %8zu %8.3f ms %8.3f ms %7.1f\n", what->text, bench.count,
                             (double)median / 1e6, (double)p99 / 1e6,
                             (double)median / read_ns) > 0 &&
                          cli_flush();
            code = printed ? CLI_GO_ON : EXIT_FAILED;
        }
    }
    return code;
}

/* --- before and after ------------------------------------------------------------------------ */

static int open_side(struct side *side)
{
    zkl_lock_options lock = ZKL_LOCK_OPTIONS_INIT;
    lock.metadata = "zklock bench";
    int code = cli_connect(CLI_CALL_MS, NULL);
    if (code != CLI_GO_ON) {
        return code;
    }
    side->session = cli_session;
    int result = zkl_lock_new(&side->lock, side->session, bench.path, &lock, &cli_failure);
    return queues_outcome(bench.path, result);
}

static int run(const char **words)
{
    zkl_queue *queue;
    bench.path = cli_lock_path(*words ? *words : "zklock-bench");
    int code = bench.path ? signals_catch() : EXIT_FAILED;
    code = code == CLI_GO_ON ? open_side(&bench.sides[0]) : code;
    code = code == CLI_GO_ON ? queues_list(&queue, bench.path) : code;
    if (code == CLI_GO_ON) {
        /* A lock that is in use, or a path that is somebody else's znode. */
        if (queue->count > 0 || queue->foreign > 0) {
            cli_error("bench: %s is in use: %zu contenders, %zu other znodes; name another LOCK",
                      bench.path, queue->count, queue->foreign);
            code = EXIT_FAILED;
        }
        zkl_queue_free(queue);
    }
    code = code == CLI_GO_ON ? open_side(&bench.sides[1]) : code;
    if (code == CLI_GO_ON) {
        snprintf(bench.znode, sizeof bench.znode, "%s-znode", bench.path);
        code = measure_all();
    }
    for (int i = 1; i >= 0; i--) {
        zkl_lock_free(bench.sides[i].lock);
        zkl_session_close(bench.sides[i].session, LEAVE_MS);
    }
    return code;
}

const struct cli_command cmd_bench = {
    .name = "bench",
    .run = run,
    .arguments = "[LOCK]",
    .wanted = "one LOCK at most",
    .summary = "what this machine and this ensemble give",
    .examples = "  zklock bench                       # three seconds in all\n"
                "  zklock bench --for 1s /bench/lock  # quicker, and elsewhere\n"
                "  zklock --json bench                # times in nanoseconds\n",
    .notes = "One call after the other: times, not the most that can be had. 'reads' is the\n"
             "median in plain round trips. The znode is created and deleted by two\n"
             "transactions that each check that a lock is held. A hand-over goes from the\n"
             "holder's call of release to the moment the other session's program is notified,\n"
             "and includes the releaser's wait for the server's response.\n\n"
             "LOCK (zklock-bench) must not be in use, and is empty afterwards; its directory\n"
             "is a container, which the servers remove. LOCK-znode, beside it, is the znode\n"
             "that is read, created and deleted.\n",
    .options = options,
};
