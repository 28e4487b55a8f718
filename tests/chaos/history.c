#include "history.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "wait.h"

static const char *const op_names[] = {
#define HISTORY_NAME(name) #name,
    HISTORY_OPS(HISTORY_NAME)
#undef HISTORY_NAME
};

/* --- writing --------------------------------------------------------------------------------------------------------- */

int history_open(const char *dir, const char *process)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s.history", dir, process);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0) {
        perror(path);
    }
    return fd;
}

void history_write(int fd, const struct history_line *line)
{
    char text[256];
    int length = snprintf(text, sizeof text, "%" PRId64 " %s %" PRIx64 " %s %s %s %" PRId64 " %" PRId64 "\n",
                          line->at ? line->at : boot_ns(), line->client, (uint64_t)line->session, op_names[line->op],
                          line->path ? line->path : "-", line->result ? line->result : "-", line->token, line->lease);
    if (length >= (int)sizeof text || write(fd, text, (size_t)length) != length) {
        fprintf(stderr, "history: %s\n", strerror(errno));
        abort();
    }
}

/* --- names ----------------------------------------------------------------------------------------------------------- */

static void *grow(void *ptr, size_t size)
{
    void *bigger = realloc(ptr, size);
    if (!bigger) {
        fprintf(stderr, "history: out of memory\n");
        abort();
    }
    return bigger;
}

static int *find_slot(const struct history_names *n, const char *name)
{
    uint32_t hash = 2166136261u;
    for (const char *p = name; *p; p++) {
        hash = (hash ^ (uint8_t)*p) * 16777619u;
    }
    int at = (int)(hash & (uint32_t)(n->slot_count - 1));
    while (n->slots[at] >= 0 && strcmp(n->names[n->slots[at]], name) != 0) {
        at = (at + 1) & (n->slot_count - 1);
    }
    return &n->slots[at];
}

static void more_slots(struct history_names *n)
{
    n->slot_count = n->slot_count ? 2 * n->slot_count : 64;
    n->slots = grow(n->slots, (size_t)n->slot_count * sizeof *n->slots);
    for (int i = 0; i < n->slot_count; i++) {
        n->slots[i] = -1;
    }
    for (int i = 0; i < n->count; i++) {
        *find_slot(n, n->names[i]) = i;
    }
}

/* The number of a name, a new one if it is new; "-" is none. */
static int name_number(struct history_names *n, const char *name)
{
    if (strcmp(name, "-") == 0) {
        return -1;
    }
    if (2 * (n->count + 1) > n->slot_count) {
        more_slots(n);
    }
    int *slot = find_slot(n, name);
    if (*slot < 0) {
        if (n->count == n->size) {
            n->size = n->size ? 2 * n->size : 16;
            n->names = grow(n->names, (size_t)n->size * sizeof *n->names);
        }
        snprintf(n->names[n->count], HISTORY_WORD, "%s", name);
        *slot = n->count++;
    }
    return *slot;
}

static void names_free(struct history_names *n)
{
    free(n->names);
    free(n->slots);
}

/* --- reading --------------------------------------------------------------------------------------------------------- */

void history_init(struct history *h)
{
    *h = (struct history){0};
}

void history_free(struct history *h)
{
    free(h->events);
    names_free(&h->clients);
    names_free(&h->processes);
    names_free(&h->paths);
    names_free(&h->files);
    names_free(&h->words);
}

void history_add(struct history *h, const struct history_event *event)
{
    if (h->count == h->size) {
        h->size = h->size ? 2 * h->size : 256;
        h->events = grow(h->events, h->size * sizeof *h->events);
    }
    h->events[h->count++] = *event;
}

static bool parse_op(const char *word, enum history_op *op)
{
    for (int i = 0; i < HISTORY_OP_COUNT; i++) {
        if (strcmp(word, op_names[i]) == 0) {
            *op = (enum history_op)i;
            return true;
        }
    }
    return false;
}

/* How much of how much is asked for. */
static bool parse_part(struct history_event *event, const char *word)
{
    int end = 0;
    event->takes = event->of = 1;
    if (strcmp(word, "-") == 0) {
        return true;
    }
    return sscanf(word, "%5d/%5d%n", &event->takes, &event->of, &end) == 2 && word[end] == '\0' && event->takes >= 1 &&
           event->takes <= event->of;
}

static bool parse_line(struct history *h, const char *line, struct history_event *event)
{
    char client[HISTORY_WORD], op[HISTORY_WORD], path[HISTORY_WORD], result[HISTORY_WORD];
    uint64_t session;
    int end = 0;
    if (sscanf(line, "%" SCNd64 " %47s %" SCNx64 " %47s %47s %47s %" SCNd64 " %" SCNd64 "%n", &event->at, client,
               &session, op, path, result, &event->token, &event->lease, &end) != 8 ||
        line[end] != '\0' || !parse_op(op, &event->op)) {
        return false;
    }
    event->session = (int64_t)session;
    event->client = name_number(&h->clients, client);
    client[strcspn(client, ".")] = '\0';
    event->process = name_number(&h->processes, client);
    event->path = name_number(&h->paths, path);
    event->good = strcmp(result, "ZKL_OK") == 0 || strcmp(result, "accepted") == 0;
    event->takes = event->of = 0;
    event->word = event->op == HISTORY_listed || event->op == HISTORY_commit ? name_number(&h->words, result) : -1;
    bool part = event->op == HISTORY_acquire || event->op == HISTORY_downgrade;
    return event->client >= 0 && (!part || parse_part(event, result));
}

bool history_parse(struct history *h, const char *name, const char *text)
{
    struct history_event event = {.file = name_number(&h->files, name)};
    char line[256];
    for (const char *end; (end = strchr(text, '\n')); text = end + 1) {
        size_t length = (size_t)(end - text);
        event.line++;
        snprintf(line, sizeof line, "%.*s", (int)(length < sizeof line ? length : sizeof line - 1), text);
        if (length >= sizeof line || (length > 0 && line[0] != '#' && !parse_line(h, line, &event))) {
            fprintf(stderr, "%s:%d: no event: %s\n", name, event.line, line);
            return false;
        }
        if (length > 0 && line[0] != '#') {
            history_add(h, &event);
        }
    }
    h->cut += *text ? 1 : 0;
    return true;
}

bool history_read(struct history *h, const char *path)
{
    FILE *file = fopen(path, "re");
    size_t used = 0, size = 65536, got;
    char *text = grow(NULL, size);
    while (file && (got = fread(text + used, 1, size - used - 1, file)) > 0) {
        used += got;
        if (size - used < 4096) {
            text = grow(text, size *= 2);
        }
    }
    text[used] = '\0';
    bool ok = file && !ferror(file) && strlen(text) == used;
    const char *base = strrchr(path, '/');
    if (!ok) {
        fprintf(stderr, "%s: cannot be read\n", path);
    }
    ok = ok && history_parse(h, base ? base + 1 : path, text);
    if (file) {
        fclose(file);
    }
    free(text);
    return ok;
}

static int compare_events(const void *left, const void *right)
{
    const struct history_event *a = left, *b = right;
    if (a->at != b->at) {
        return a->at < b->at ? -1 : 1;
    }
    return a->file != b->file ? (a->file > b->file) - (a->file < b->file) : (a->line > b->line) - (a->line < b->line);
}

void history_sort(struct history *h)
{
    if (h->count > 0) {
        qsort(h->events, h->count, sizeof *h->events, compare_events);
    }
}

void pieces_path(char *path, const char *root, int piece)
{
    if (piece < 0) {
        snprintf(path, HISTORY_WORD, "%.30s/p/members", root);
    } else {
        snprintf(path, HISTORY_WORD, "%.24s/p/pieces/q%d", root, piece);
    }
}
