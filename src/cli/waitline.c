#include "waitline.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "clock.h"
#include "notify.h"
#include "queues.h"

#define FIRST_MS 1000 /* who waits less does not want to know */
#define NEXT_MS 5000
#define LIST_MS 1000
#define DAYS_MS (INT64_C(86400000) * 100000)

void waitline_init(struct waitline *line, const struct contend *contend)
{
    bool terminal = !contend->cli->quiet && isatty(STDERR_FILENO);
    *line = (struct waitline){
        .terminal = terminal,
        .wanted = terminal || contend->notify,
        .next_ms = clock_ms(CLOCK_MONOTONIC) + FIRST_MS,
    };
}

int waitline_timeout(const struct waitline *line)
{
    int64_t left = line->next_ms - clock_ms(CLOCK_MONOTONIC);
    return !line->wanted ? -1 : left > 0 ? (int)left : 0;
}

/* Our place in the queue: one session, one contender. Its end when we are not in it yet. */
static size_t position(const zkl_queue *queue, int64_t session_id)
{
    size_t i = 0;
    while (i < queue->count && queue->entries[i].session_id != session_id) {
        i++;
    }
    return i;
}

/* One line, however narrow the terminal is: what wraps cannot be wiped. */
__attribute__((format(printf, 2, 3))) static void print(struct waitline *line, const char *format,
                                                        ...)
{
    char text[1024];
    va_list arguments;
    if (!line->terminal) {
        return;
    }
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    cli_cut(text, (size_t)cli_columns(STDERR_FILENO) - 1);
    fprintf(stderr, "\r\033[K%s", text);
    line->shown = true;
}

/* Times are the server's: the newest znode's and the holder's. Ours has waited since, which our own
 * clock knows. */
static void print_holder(struct waitline *line, const struct contend *contend, const char *name,
                         const zkl_queue *queue, size_t ahead)
{
    size_t first = queues_holder(queue);
    const zkl_queue_entry *holder = &queue->entries[first < queue->count ? first : 0];
    char who[128];
    char age[32];
    queues_who(holder, who, sizeof who);
    int64_t since_ms;
    if (ahead >= queue->count ||
        __builtin_sub_overflow(queue->entries[ahead].created_ms, holder->created_ms, &since_ms) ||
        since_ms > DAYS_MS) {
        since_ms = 0; /* a server may say anything */
    }
    queues_age(since_ms + clock_ms(CLOCK_MONOTONIC) - contend->begun_ms, age, sizeof age);
    print(line, "zklock: waiting for \"%s\": %zu ahead; held by %s for %s", name, ahead, who, age);
}

static void show_queue(struct waitline *line, const struct contend *contend, const char *name,
                       const zkl_queue *queue, size_t ahead)
{
    notify_say(contend->notify, "STATUS=waiting, %zu ahead", ahead);
    if (contend->recipe == ZKL_RECIPE_SEMAPHORE && contend->limit == 0) {
        print(line, "zklock: waiting for \"%s\": %zu ahead", contend->name, ahead);
    } else if (contend->recipe == ZKL_RECIPE_SEMAPHORE) {
        print(line, "zklock: waiting for \"%s\": %zu ahead; %d at a time", contend->name, ahead,
              contend->limit);
    } else if (ahead > 0) {
        print_holder(line, contend, name, queue, ahead);
    } else {
        print(line, "zklock: waiting for \"%s\": nobody ahead", contend->name);
    }
}

static void show_silence(struct waitline *line, const struct contend *contend)
{
    notify_say(contend->notify, "STATUS=waiting, no server answers");
    print(line, "zklock: waiting for \"%s\": no server answers", contend->name);
}

/* Of several, the first at which somebody is ahead; false: nobody is ahead at this one, and there
 * are more. */
static bool show_one(struct waitline *line, const struct contend *contend, size_t number)
{
    char room[ZKL_PATH_MAX + 16];
    zkl_queue *queue;
    bool is_last = number == contend->more_count;
    bool below = contend->recipe == ZKL_RECIPE_SEMAPHORE;
    snprintf(room, sizeof room, "%s%s", number == 0 ? contend->path : contend->more[number - 1],
             below ? "/locks" : "");
    if (zkl_queue_list(&queue, contend->session, room, LIST_MS, NULL) != ZKL_OK) {
        show_silence(line, contend);
        return true;
    }
    size_t ahead = position(queue, zkl_session_id(contend->session));
    bool show = is_last || (ahead > 0 && ahead < queue->count);
    if (show) {
        show_queue(line, contend, number == 0 ? contend->name : room, queue, ahead);
    }
    zkl_queue_free(queue);
    return show;
}

void waitline_show(struct waitline *line, const struct contend *contend)
{
    size_t number = 0;
    if (!line->wanted || waitline_timeout(line) > 0) {
        return;
    }
    line->next_ms = clock_ms(CLOCK_MONOTONIC) + NEXT_MS;
    while (!show_one(line, contend, number)) {
        number++;
    }
}

void waitline_clear(struct waitline *line)
{
    if (line->shown) {
        fputs("\r\033[K", stderr);
        line->shown = false;
    }
}
