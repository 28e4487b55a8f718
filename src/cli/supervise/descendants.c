#include "supervise/descendants.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct process {
    pid_t pid, parent, group;
    bool ours;
    bool dead; /* and not waited for yet */
};

struct table {
    struct process *rows;
    size_t count, capacity;
};

static bool add(struct table *table, struct process row)
{
    if (table->count == table->capacity) {
        size_t capacity = table->capacity ? 2 * table->capacity : 256;
        struct process *rows = realloc(table->rows, capacity * sizeof *rows);
        if (!rows) {
            return false;
        }
        table->rows = rows;
        table->capacity = capacity;
    }
    table->rows[table->count++] = row;
    return true;
}

/* "PID (NAME) STATE PARENT GROUP ...": NAME may hold anything, so the last bracket counts. */
static bool read_process(const char *pid, struct process *row)
{
    char path[64];
    char line[512];
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file) {
        return false;
    }
    size_t size = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[size] = '\0';
    const char *rest = strrchr(line, ')');
    char state;
    int parent;
    int group;
    if (!rest || sscanf(rest, ") %c %d %d", &state, &parent, &group) != 3) {
        return false;
    }
    *row = (struct process){.pid = (pid_t)atoi(pid),
                            .parent = parent,
                            .group = group,
                            .dead = state == 'Z' || state == 'X'};
    return true;
}

/* A /proc that is mounted with hidepid shows neither a process of another user nor one that hides
 * its memory (PR_SET_DUMPABLE), but it lists the children of root. A child of a hidden process
 * becomes a child of root when that one is dead. */
static bool add_hidden(struct table *table, pid_t root)
{
    char text[64];
    bool fine = true;
    snprintf(text, sizeof text, "/proc/%d/task/%d/children", (int)root, (int)root);
    FILE *file = fopen(text, "re");
    while (file && fine && fscanf(file, "%20s", text) == 1) {
        struct process row;
        pid_t pid = (pid_t)atoi(text);
        fine = read_process(text, &row) ||
               add(table, (struct process){.pid = pid, .parent = root, .group = getpgid(pid)});
    }
    if (file) {
        fclose(file);
    }
    return fine;
}

static bool read_table(struct table *table, pid_t root)
{
    DIR *folder = opendir("/proc");
    if (!folder) {
        return false;
    }
    bool fine = true;
    struct dirent *entry;
    while (fine && (entry = readdir(folder))) {
        struct process row;
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
            read_process(entry->d_name, &row)) {
            fine = add(table, row);
        }
    }
    closedir(folder);
    return fine && add_hidden(table, root);
}

static bool is_below(const struct table *table, pid_t parent, pid_t root)
{
    if (parent == root) {
        return true;
    }
    for (size_t i = 0; i < table->count; i++) {
        if (table->rows[i].pid == parent) {
            return table->rows[i].ours;
        }
    }
    return false;
}

/* Children may stand before their parents: go over the table until nothing is added. */
static void mark(struct table *table, pid_t root)
{
    bool changed = true;
    while (changed) {
        changed = false;
        for (size_t i = 0; i < table->count; i++) {
            struct process *row = &table->rows[i];
            if (!row->ours && is_below(table, row->parent, root)) {
                row->ours = true;
                changed = true;
            }
        }
    }
}

/* A group that is nobody else's can be killed as a whole: the kernel lets none of it fork
 * meanwhile. */
static bool is_ours(const struct table *table, pid_t group)
{
    bool ours = true;
    for (size_t i = 0; ours && i < table->count; i++) {
        ours = table->rows[i].group != group || table->rows[i].ours;
    }
    return ours;
}

/* True when it may not be signalled. */
static bool signal_one(const struct table *table, const struct process *row, int number)
{
    bool refused = kill(row->pid, number) != 0 && errno == EPERM && !row->dead;
    if (number == SIGKILL && row->group > 1 && is_ours(table, row->group)) {
        kill(-row->group, SIGKILL);
    }
    return refused;
}

struct signalled descendants_signal(pid_t root, pid_t skip, int number)
{
    struct table table = {.rows = NULL};
    struct signalled signalled = {.refused = 0};
    if (read_table(&table, root)) {
        mark(&table, root);
        for (size_t i = 0; i < table.count; i++) {
            const struct process *row = &table.rows[i];
            bool meant = skip == 0 || row->group != skip;
            signalled.alive += row->ours && !row->dead;
            if (row->ours && signal_one(&table, row, meant ? number : 0)) {
                signalled.refused = row->pid;
            }
        }
    }
    free(table.rows);
    return signalled;
}
