/* cmd_bench.c - what this machine and this ensemble give: the lock's times beside those of plain
 * round trips. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zklock/zookeeper.h>

#include "clock.h"
#include "session.h"
#include "options.h"
#include "queues.h"
#include "signals.h"

#define CALL_MS 10000
#define DEFAULT_MS 3000

enum { OPTION_FOR = OPTION_FIRST_OWN };

static const struct poptOption options[] = {
    OPTION_VALUE("for", '\0', OPTION_FOR, "measure for this long in all (3s)", "DUR"),
    OPTION_END,
};

/* --- times, and the one below which a share of them lies ------------------------------------- */

struct samples {
    int64_t *all;
    size_t count, room;
};

/* False without memory. */
static bool samples_add(struct samples *samples, int64_t value)
{
    if (samples->count == samples->room) {
        size_t room = samples->room ? 2 * samples->room : 1024;
        int64_t *all = realloc(samples->all, room * sizeof *all);
        if (!all) {
            return false;
        }
        samples->all = all;
        samples->room = room;
    }
    samples->all[samples->count++] = value;
    return true;
}

static int compare_values(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left;
    int64_t b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* The median: 0.5. 0 when there are none. */
static int64_t samples_at(struct samples *samples, double share)
{
    if (samples->count == 0) {
        return 0;
    }
    qsort(samples->all, samples->count, sizeof *samples->all, compare_values);
    size_t index = (size_t)(share * (double)samples->count);
    return samples->all[index < samples->count ? index : samples->count - 1];
}

/* --- what is measured ------------------------------------------------------------------------ */

struct side {
    zkl_session *session;
    zkl_lock *lock;
    bool decided;
    int result;
};

struct bench {
    int64_t for_ms;
    char *path;
    char znode[ZKL_PATH_MAX + 16]; /* beside the queue: nothing but contenders belongs into it */
    struct side sides[2];
    int holder; /* of a hand-over: index of the side that holds */
    zkl_error error;
};

static bool take(void *into, int option, const char *value)
{
    struct bench *bench = into;
    (void)option;
    if (!cli_take_duration("--for", value, &bench->for_ms)) {
        return false;
    }
    if (bench->for_ms < 100) {
        cli_error("--for: '%s' is too short to measure anything; 100ms at least", value);
    }
    return bench->for_ms >= 100;
}

/* --- what is measured: each gives the time of one, or says why not with a result of the library's
 */

static int read_once(struct bench *bench, int64_t *took_ns)
{
    zkl_queue *queue;
    int64_t begin = clock_ns(CLOCK_MONOTONIC);
    int result =
        zkl_queue_list(&queue, bench->sides[0].session, bench->znode, CALL_MS, &bench->error);
    *took_ns = clock_ns(CLOCK_MONOTONIC) - begin;
    if (result == ZKL_OK) {
        zkl_queue_free(queue);
    }
    return result;
}

static int hold(struct bench *bench)
{
    return zkl_lock_acquire(bench->sides[0].lock, CALL_MS, NULL, &bench->error);
}

static int let_go(struct bench *bench)
{
    return zkl_lock_release(bench->sides[bench->holder].lock, &bench->error);
}

static int write_once(struct bench *bench, int64_t *took_ns)
{
    const zkl_op create = {
        .kind = ZKL_OP_CREATE, .path = bench->znode, .mode = ZKL_CREATE_EPHEMERAL};
    const zkl_op delete = {.kind = ZKL_OP_DELETE, .path = bench->znode, .version = ZKL_ANY_VERSION};
    int64_t begin = clock_ns(CLOCK_MONOTONIC);
    int result = zkl_lock_commit(bench->sides[0].lock, &create, 1, CALL_MS, NULL, &bench->error);
    if (result == ZKL_OK) {
        result = zkl_lock_commit(bench->sides[0].lock, &delete, 1, CALL_MS, NULL, &bench->error);
    }
    *took_ns = clock_ns(CLOCK_MONOTONIC) - begin;
    return result;
}

static int lock_once(struct bench *bench, int64_t *took_ns)
{
    int64_t begin = clock_ns(CLOCK_MONOTONIC);
    int result = hold(bench);
    if (result == ZKL_OK) {
        result = let_go(bench);
    }
    *took_ns = clock_ns(CLOCK_MONOTONIC) - begin;
    return result;
}

static void on_decided(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *error,
                       void *payload)
{
    struct side *side = payload;
    (void)lock;
    (void)grant;
    (void)error;
    side->decided = true;
    side->result = code;
}

static void wait_decided(struct side *side)
{
    struct pollfd fd = {.fd = zkl_session_fd(side->session), .events = POLLIN};
    while (!side->decided) {
        poll(&fd, 1, -1);
        zkl_session_dispatch(side->session);
    }
}

/* Until the other one stands behind the holder; what it asks for after its place is sent before our
 * last question. */
static int wait_queued(struct bench *bench, const struct side *waiter)
{
    size_t count = 0;
    int result = ZKL_OK;
    while (result == ZKL_OK && count < 2 && !waiter->decided) {
        zkl_queue *queue;
        result = zkl_queue_list(&queue, waiter->session, bench->path, CALL_MS, &bench->error);
        if (result == ZKL_OK) {
            count = queue->count;
            zkl_queue_free(queue);
        }
    }
    return result;
}

static int hand_over_once(struct bench *bench, int64_t *took_ns)
{
    struct side *from = &bench->sides[bench->holder];
    struct side *to = &bench->sides[!bench->holder];
    to->decided = false;
    int result = zkl_lock_acquire_async(to->lock, CALL_MS, on_decided, to, &bench->error);
    if (result != ZKL_OK) {
        return result;
    }
    result = wait_queued(bench, to);
    int64_t begin = clock_ns(CLOCK_MONOTONIC);
    if (result == ZKL_OK) {
        result = zkl_lock_release(from->lock, &bench->error);
        wait_decided(to);
        bench->holder = !bench->holder;
    }
    *took_ns = clock_ns(CLOCK_MONOTONIC) - begin;
    return result == ZKL_OK ? to->result : result;
}

static const struct measurement {
    const char *name;
    const char *text;
    int (*begin)(struct bench *bench); /* NULL: nothing to do */
    int (*once)(struct bench *bench, int64_t *took_ns);
    int (*end)(struct bench *bench);
} measurements[] = {
    {"read", "read of a missing znode", NULL, read_once, NULL},
    {"write", "create + delete of a znode", hold, write_once, let_go},
    {"lock", "acquire + release of a free lock", NULL, lock_once, NULL},
    {"hand-over", "hand-over to another session", hold, hand_over_once, let_go},
};
#define MEASUREMENTS (sizeof measurements / sizeof *measurements)

/* --- measuring, and telling ------------------------------------------------------------------ */

/* CLI_GO_ON or the exit code. */
static int complain(const struct bench *bench, int result)
{
    cli_error("bench: %s: %s%s", bench->path, bench->error.text, cli_remedy(result));
    return cli_exit_code(result);
}

static int measure(struct bench *bench, const struct measurement *what, struct samples *samples)
{
    int64_t end_ms = clock_ms(CLOCK_MONOTONIC) + bench->for_ms / (int64_t)MEASUREMENTS;
    int64_t took_ns;
    int result = what->begin ? what->begin(bench) : ZKL_OK;
    int number = 0;
    while (result == ZKL_OK && !signals_is_end(number) && clock_ms(CLOCK_MONOTONIC) < end_ms) {
        result = what->once(bench, &took_ns);
        if (result == ZKL_OK && !samples_add(samples, took_ns)) {
            cli_error("out of memory");
            return EXIT_FAILED;
        }
        number = signals_next();
    }
    if (result == ZKL_OK && what->end) {
        result = what->end(bench);
    }
    bench->holder = 0;
    return result != ZKL_OK         ? complain(bench, result)
           : signals_is_end(number) ? EXIT_SIGNAL + number
                                    : CLI_GO_ON;
}

static bool tell(const struct measurement *what, struct samples *samples, int64_t read_ns)
{
    int64_t median = samples_at(samples, 0.5);
    int64_t p99 = samples_at(samples, 0.99);
    if (cli.json) {
        return queues_print_json(json_pack("{s:i, s:s, s:I, s:I, s:I}", "v", QUEUES_VERSION, "what",
                                           what->name, "count", (json_int_t)samples->count,
                                           "median_ns", (json_int_t)median, "p99_ns",
                                           (json_int_t)p99));
    }
    return printf("%-33s %8zu %8.3f ms %8.3f ms %7.1f\n", what->text, samples->count,
                  (double)median / 1e6, (double)p99 / 1e6, (double)median / (double)read_ns) > 0 &&
           fflush(stdout) == 0;
}

static int measure_all(struct bench *bench)
{
    int64_t read_ns = 1;
    int code = CLI_GO_ON;
    if (!cli.json) {
        printf("%-33s %8s %11s %11s %7s\n", "", "count", "median", "p99", "reads");
        fflush(stdout);
    }
    for (size_t i = 0; code == CLI_GO_ON && i < MEASUREMENTS; i++) {
        struct samples samples = {.all = NULL};
        code = measure(bench, &measurements[i], &samples);
        if (code == CLI_GO_ON) {
            read_ns = i == 0 ? samples_at(&samples, 0.5) : read_ns;
            code = tell(&measurements[i], &samples, read_ns) ? CLI_GO_ON : EXIT_FAILED;
        }
        free(samples.all);
    }
    return code == CLI_GO_ON ? EXIT_DONE : code;
}

/* --- before and after ------------------------------------------------------------------------ */

/* Nobody's lock is measured, and nobody's znode made way for. */
static int refuse_path_in_use(const struct bench *bench)
{
    zkl_queue *queue;
    int code = queues_list(&queue, bench->sides[0].session, bench->path);
    if (code == CLI_GO_ON) {
        if (queue->count > 0 || queue->foreign > 0) {
            cli_error("bench: %s is in use: %zu contenders, %zu other znodes; name another LOCK",
                      bench->path, queue->count, queue->foreign);
            code = EXIT_FAILED;
        }
        zkl_queue_free(queue);
    }
    return code;
}

static int open_side(struct bench *bench, struct side *side)
{
    zkl_lock_options lock = ZKL_LOCK_OPTIONS_INIT;
    lock.metadata = "zklock bench";
    int code = cli_connect(CALL_MS, &side->session);
    if (code != CLI_GO_ON) {
        return code;
    }
    int result = zkl_lock_new(&side->lock, side->session, bench->path, &lock, &bench->error);
    return result == ZKL_OK ? CLI_GO_ON : complain(bench, result);
}

static void close_side(struct side *side)
{
    zkl_lock_free(side->lock);
    if (side->session) {
        zkl_session_close(side->session, CALL_MS);
    }
}

static int open_and_measure(struct bench *bench)
{
    if (!signals_catch()) {
        cli_error("cannot catch signals: %s", strerror(errno));
        return EXIT_FAILED;
    }
    int code = open_side(bench, &bench->sides[0]);
    if (code == CLI_GO_ON) {
        code = refuse_path_in_use(bench);
    }
    if (code == CLI_GO_ON) {
        code = open_side(bench, &bench->sides[1]);
    }
    if (code == CLI_GO_ON) {
        code = measure_all(bench);
    }
    close_side(&bench->sides[1]);
    close_side(&bench->sides[0]);
    return code;
}

static int run(const struct cli_command *self, int argc, const char **argv)
{
    struct bench bench = {.for_ms = DEFAULT_MS};
    int count;
    const char **words;
    int code = cli_parse(self, argc, argv, take, &bench, &count, &words);
    if (code != CLI_GO_ON) {
        return code;
    }
    if (count > 1) {
        return cli_usage("bench", "bench: '%s': one LOCK at most", words[1]);
    }
    bench.path = cli_lock_path(count > 0 ? words[0] : "zklock-bench");
    if (!bench.path) {
        return EXIT_FAILED;
    }
    snprintf(bench.znode, sizeof bench.znode, "%s-znode", bench.path);
    code = open_and_measure(&bench);
    free(bench.path);
    return code;
}

const struct cli_command cmd_bench = {
    .name = "bench",
    .run = run,
    .arguments = "[LOCK]",
    .summary = "what this machine and this ensemble give",
    .examples = "  zklock bench                       # three seconds in all\n"
                "  zklock bench --for 1s /bench/lock  # quicker, and elsewhere\n"
                "  zklock --json bench                # times in nanoseconds\n",
    .notes = "One call after the other: times, not the most that can be had. 'reads' is the median "
             "in plain round "
             "trips. The znode is created and deleted by two transactions that each check that a "
             "lock is held. A "
             "hand-over goes from the holder's call of release to the moment the other session's "
             "program is told, and "
             "includes the releaser's wait for the server's word.\n"
             "\n"
             "LOCK (zklock-bench) must not be in use, and is empty afterwards; its directory is a "
             "container, which the "
             "servers remove.\n",
    .options = options,
};
