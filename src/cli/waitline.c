#include "waitline.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"

#define FIRST_MS 1000 /* who waits less does not want to know */
#define NEXT_MS 5000
#define LIST_MS 1000

void waitline_init(struct waitline *line, const struct cli *cli)
{
    *line = (struct waitline){
        .wanted = !cli->quiet && isatty(STDERR_FILENO),
        .next_ms = clock_ms(CLOCK_MONOTONIC) + FIRST_MS,
    };
}

int waitline_timeout(const struct waitline *line)
{
    int64_t left = line->next_ms - clock_ms(CLOCK_MONOTONIC);
    return !line->wanted ? -1 : left > 0 ? (int)left : 0;
}

static size_t position(const zkl_queue *queue, const char *name)
{
    for (size_t i = 0; i < queue->count; i++) {
        if (strcmp(queue->entries[i].name, name) == 0) {
            return i;
        }
    }
    return queue->count;
}

/* Times are the server's: the newest znode's and the holder's. Ours has waited since, which our own clock knows. */
static void print(const struct contend *contend, const zkl_queue *queue, size_t ahead)
{
    const zkl_queue_entry *holder = &queue->entries[0];
    char who[128];
    cli_printable(holder->data, holder->data_size, who, sizeof who);
    int64_t since_ms = ahead < queue->count ? queue->entries[ahead].created_ms - holder->created_ms : 0;
    int64_t s = (since_ms + clock_ms(CLOCK_MONOTONIC) - contend->begun_ms) / 1000;
    fprintf(stderr, "\r\033[Kzklock: waiting for \"%s\": %zu ahead; held by %s for %02lld:%02lld:%02lld", contend->name,
            ahead, *who ? who : holder->name, (long long)s / 3600, (long long)s / 60 % 60, (long long)s % 60);
}

void waitline_show(struct waitline *line, const struct contend *contend)
{
    if (!line->wanted || waitline_timeout(line) > 0) {
        return;
    }
    line->next_ms = clock_ms(CLOCK_MONOTONIC) + NEXT_MS;
    zkl_queue *queue;
    if (zkl_queue_list(&queue, contend->session, contend->path, LIST_MS, NULL) == ZKL_OK) {
        char name[256];
        zkl_lock_node(contend->lock, name, sizeof name);
        size_t ahead = position(queue, name);
        if (ahead > 0 && queue->count > 0) {
            print(contend, queue, ahead);
            line->shown = true;
        }
        zkl_queue_free(queue);
    } else {
        fprintf(stderr, "\r\033[Kzklock: waiting for \"%s\": no server answers", contend->name);
        line->shown = true;
    }
}

void waitline_clear(struct waitline *line)
{
    if (line->shown) {
        fputs("\r\033[K", stderr);
        line->shown = false;
    }
}
