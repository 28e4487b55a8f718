#include "arena_inside.h"

#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ledgers.h"
#include "pieces.h"
#include "wait.h"

/* Every path has taken another write: the queues move. */
static void await_progress(struct arena *a)
{
    int64_t end = now_ms() + ARENA_LONG;
    for (int i = 0; i < ARENA_PATHS; i++) {
        long before = atomic_load(&a->page->taken[i]);
        while (atomic_load(&a->page->taken[i]) == before) {
            if (!look_again(end)) {
                arena_complain(a, "a minute after the last fault a queue does not move");
                return;
            }
        }
    }
}

static const char *group_of(struct arena *a, char *path)
{
    snprintf(path, HISTORY_WORD, "%s/g", a->root);
    return path;
}

/* Nobody comes or goes any more. From the time when all are there, the pieces have owners, and the lists are right, in so long. */
static void await_rest(struct arena *a)
{
    const int64_t bound_ms = ARENA_TIMEOUT + 4 * ARENA_TICK;
    int64_t end = now_ms() + ARENA_LONG;
    char path[HISTORY_WORD];
    atomic_store(&a->page->calm, true);
    for (int i = 0; i < ARENA_CONTENDERS; i++) {
        while (atomic_load(&a->page->settled[i]) != PAGE_ALL) {
            if (!look_again(end)) {
                arena_complain(a, "a minute after the last fault somebody is no member");
                return;
            }
        }
    }
    int64_t due = boot_ns() + bound_ms * MS;
    for (int i = 0; i < PIECES; i++) {
        pieces_path(path, a->root, i);
        arena_note(a, HISTORY_owner_by, "nemesis", path, 0, due);
    }
    arena_note(a, HISTORY_list_by, "nemesis", group_of(a, path), 0, due);
    for (end = now_ms() + ARENA_LONG; boot_ns() <= due + ARENA_TICK * MS && look_again(end);) {
    }
}

static void end_contenders(struct arena *a)
{
    int64_t end = now_ms() + ARENA_LONG;
    for (int i = 0; i < ARENA_CONTENDERS; i++) {
        if (!arena_gone(a, &a->contenders[i], false)) {
            kill(a->contenders[i].pid, SIGTERM);
        }
    }
    for (int i = 0; i < ARENA_CONTENDERS; i++) {
        struct contender *c = &a->contenders[i];
        while (!arena_gone(a, c, true)) {
            if (!look_again(end)) {
                arena_complain(a, "a contender does not end");
                kill(c->pid, SIGABRT); /* a core tells where it hangs, if the machine keeps them */
                waitpid(c->pid, NULL, 0);
                c->pid = 0;
            }
        }
        for (int j = 0; j < ARENA_SERVERS && c->links[j]; j++) {
            proxy_stop(c->links[j]);
        }
    }
}

/* Znodes in a queue, strangers' too; -1: it cannot be said. */
static int64_t znodes(struct arena *a, const char *path, const char *below)
{
    char name[2 * HISTORY_WORD];
    zkl_queue *queue;
    snprintf(name, sizeof name, "%s%s", path, below);
    if (!a->eye || zkl_queue_list(&queue, a->eye, name, SOON, NULL) != ZKL_OK) {
        return -1;
    }
    int64_t count = (int64_t)(queue->count + queue->foreign);
    zkl_queue_free(queue);
    return count;
}

/* Places of those that were killed go with their sessions; nothing else may be left by then. */
static int64_t orphans(struct arena *a, const char *path, const char *below, int64_t end)
{
    int64_t left = znodes(a, path, below);
    while (left != 0 && look_again(end)) {
        left = znodes(a, path, below);
    }
    return left < 0 ? 1 : left;
}

static void look_for_orphans(struct arena *a)
{
    int64_t end = now_ms() + ARENA_TIMEOUT + 4 * ARENA_TICK + 5000;
    char path[HISTORY_WORD];
    for (int i = 0; i < ARENA_PATHS; i++) {
        int64_t left = 0;
        for (int j = 0; arena_queue(i, j); j++) {
            left += orphans(a, a->paths[i], arena_queue(i, j), end);
        }
        arena_note(a, HISTORY_queue, "nemesis", a->paths[i], left, 0);
    }
    for (int i = -1; i < PIECES; i++) {
        pieces_path(path, a->root, i);
        arena_note(a, HISTORY_queue, "nemesis", path, orphans(a, path, "", end), 0);
    }
    arena_note(a, HISTORY_queue, "nemesis", group_of(a, path), orphans(a, path, "", end), 0);
}

void arena_stop(struct arena *a)
{
    if (a->page && !a->failed) {
        await_rest(a);
        await_progress(a);
    }
    end_contenders(a);
    look_for_orphans(a);
    ledgers_read(a);
    if (a->resource > 0) {
        if (waitpid(a->resource, NULL, WNOHANG) != 0) {
            arena_complain(a, "the resource died");
        } else {
            kill(a->resource, SIGKILL);
            waitpid(a->resource, NULL, 0);
        }
    }
    if (a->page) {
        munmap(a->page, PAGE_BYTES);
    }
    if (a->eye) {
        zkl_session_close(a->eye, SOON);
    }
    close(a->page_fd);
    close(a->record);
}
