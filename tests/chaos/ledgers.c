#include "ledgers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena_inside.h"
#include "contest.h"
#include "store_client.h"

static void path_of(char *path, size_t size, const struct arena *a, int number)
{
    snprintf(path, size, "%s/ledger%s", a->root, number < 0 ? "" : strrchr(a->paths[number], '/'));
}

static enum zkl__rc make(struct recorder *eye, const char *path)
{
    struct zkl__op op = op_create(path, NULL, ZKL__PERSISTENT);
    return recorder_do(eye, &op)->reply.rc;
}

void ledgers_make(struct arena *a)
{
    struct recorder *eye = queue_eye(ensemble_servers(a->servers));
    char path[2 * HISTORY_WORD];
    enum zkl__rc rc = ZKL__RC_OK;
    make(eye, "/chaos"); /* may be there */
    make(eye, a->root);
    for (int i = -1; i < ARENA_PATHS && rc == ZKL__RC_OK; i++) {
        path_of(path, sizeof path, a, i);
        rc = make(eye, path);
    }
    if (rc != ZKL__RC_OK) {
        arena_complain(a, "no ledgers");
    }
    recorder_free(eye);
}

/* "TOKEN.NUMBER-0000000012" */
struct entry {
    uint64_t token;
    int number;
    long place;
};

static int compare_places(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;
    return (a->place > b->place) - (a->place < b->place);
}

static bool parse(struct entry *entry, const char *name)
{
    int end = 0;
    return sscanf(name, "%" SCNx64 ".%d-%10ld%n", &entry->token, &entry->number, &entry->place, &end) == 3 &&
           name[end] == '\0';
}

static void read_one(struct arena *a, int path, const struct zkl__reply *list)
{
    struct entry *all = calloc(list->child_count + 1, sizeof *all);
    for (size_t i = 0; i < list->child_count; i++) {
        if (!all || !parse(&all[i], list->children[i])) {
            arena_complain(a, "a ledger cannot be read");
            free(all);
            return;
        }
    }
    qsort(all, list->child_count, sizeof *all, compare_places);
    for (size_t i = 0; i < list->child_count; i++) {
        arena_note(a, HISTORY_committed, "nemesis", a->paths[path], (int64_t)all[i].token, all[i].number);
    }
    free(all);
}

void ledgers_read(struct arena *a)
{
    struct recorder *eye = queue_eye(ensemble_servers(a->servers));
    for (int i = 0; i < ARENA_PATHS; i++) {
        char path[2 * HISTORY_WORD];
        path_of(path, sizeof path, a, i);
        read_one(a, i, queue_look(eye, path));
    }
    recorder_free(eye);
}
