/* descendants.c - everybody below a process, in a control group or one by one. */
#include <dirent.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "supervise/supervise.h"

/* --- a control group -------------------------------------------------------------------------- */

static struct {
    bool made;
    char folder[PATH_MAX];
    int procs, kill; /* descriptors */
} cage = {.procs = -1, .kill = -1};

/* Copies what follows the prefix in the first line that has it, up to its end; false when there is
 * none. */
static bool line_with(const char *file, const char *prefix, char *rest, size_t size)
{
    char line[PATH_MAX + 64];
    bool found = false;
    FILE *stream = fopen(file, "re");
    while (stream && !found && fgets(line, sizeof line, stream)) {
        found = strncmp(line, prefix, strlen(prefix)) == 0;
    }
    if (stream) {
        fclose(stream);
    }
    return found && (size_t)snprintf(rest, size, "%.*s", (int)strcspn(line + strlen(prefix), "\n"),
                                     line + strlen(prefix)) < size;
}

/* Where control groups of version 2 are mounted: alone, or beside those of version 1. */
static const char *mount_point(void)
{
    static const char *const places[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char controllers[64];
        snprintf(controllers, sizeof controllers, "%s/cgroup.controllers", places[i]);
        if (access(controllers, F_OK) == 0) {
            return places[i];
        }
    }
    return NULL;
}

/* Ours to divide: root may everywhere, and must not where a service manager did not say so (systemd
 * marks what it delegates). */
static bool is_delegated(const char *folder)
{
    struct stat status;
    char mark[8];
    if (getxattr(folder, "user.delegate", mark, sizeof mark) > 0 ||
        getxattr(folder, "trusted.delegate", mark, sizeof mark) > 0) {
        return true;
    }
    return geteuid() != 0 && stat(folder, &status) == 0 && status.st_uid == geteuid();
}

static int open_in_cage(const char *name)
{
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/%s", cage.folder, name);
    return open(path, O_WRONLY | O_CLOEXEC);
}

void cage_make(void)
{
    char own[PATH_MAX / 2];
    const char *mounted = mount_point();
    if (!mounted || !line_with("/proc/self/cgroup", "0::", own, sizeof own)) {
        return;
    }
    snprintf(cage.folder, sizeof cage.folder, "%s%s", mounted, own);
    bool delegated = is_delegated(cage.folder);
    snprintf(cage.folder, sizeof cage.folder, "%s%s/zklock-%d", mounted, own, (int)getpid());
    cage.made = delegated && mkdir(cage.folder, 0755) == 0;
    if (cage.made) {
        cage.procs = open_in_cage("cgroup.procs");
        cage.kill = open_in_cage("cgroup.kill"); /* since Linux 5.14 */
    }
    if (cage.procs < 0 || cage.kill < 0) {
        cage_remove();
    }
}

bool cage_is_made(void)
{
    return cage.made;
}

static void put(int fd, const char *text)
{
    if (fd >= 0 && write(fd, text, strlen(text)) < 0) {
        /* Then it is as without a cage: one by one. */
    }
}

void cage_enter(void)
{
    put(cage.procs, "0");
}

void cage_kill(void)
{
    put(cage.kill, "1");
}

void cage_remove(void)
{
    if (cage.made) {
        rmdir(cage.folder);
    }
    cage.made = false;
    cage.procs = cage.kill = -1; /* its end closes them, and an exec */
}

/* --- one by one ------------------------------------------------------------------------------- */

static struct process {
    pid_t pid, parent, group;
    bool ours;
    bool dead; /* and not waited for yet */
} * processes;
static size_t process_count, capacity;

static bool add(struct process process)
{
    if (process_count == capacity) {
        size_t larger = capacity ? 2 * capacity : 256;
        struct process *rows = realloc(processes, larger * sizeof *rows);
        if (!rows) {
            return false;
        }
        processes = rows;
        capacity = larger;
    }
    processes[process_count++] = process;
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
static bool add_hidden(pid_t root)
{
    char text[64];
    bool fine = true;
    snprintf(text, sizeof text, "/proc/%d/task/%d/children", (int)root, (int)root);
    FILE *file = fopen(text, "re");
    while (file && fine && fscanf(file, "%20s", text) == 1) {
        struct process row;
        pid_t pid = (pid_t)atoi(text);
        fine = read_process(text, &row) ||
               add((struct process){.pid = pid, .parent = root, .group = getpgid(pid)});
    }
    if (file) {
        fclose(file);
    }
    return fine;
}

static bool read_processes(pid_t root)
{
    DIR *folder = opendir("/proc");
    if (!folder) {
        return false;
    }
    bool fine = true;
    struct dirent *entry;
    process_count = 0;
    while (fine && (entry = readdir(folder))) {
        struct process row;
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
            read_process(entry->d_name, &row)) {
            fine = add(row);
        }
    }
    closedir(folder);
    return fine && add_hidden(root);
}

static bool is_below(pid_t parent, pid_t root)
{
    if (parent == root) {
        return true;
    }
    for (size_t i = 0; i < process_count; i++) {
        if (processes[i].pid == parent) {
            return processes[i].ours;
        }
    }
    return false;
}

/* Children may stand before their parents: go over the table until nothing is added. */
static void mark(pid_t root)
{
    bool changed = true;
    while (changed) {
        changed = false;
        for (size_t i = 0; i < process_count; i++) {
            struct process *row = &processes[i];
            if (!row->ours && is_below(row->parent, root)) {
                row->ours = true;
                changed = true;
            }
        }
    }
}

/* A group that is nobody else's can be killed as a whole: the kernel lets none of it fork
 * meanwhile. */
static bool is_ours(pid_t group)
{
    bool ours = true;
    for (size_t i = 0; ours && i < process_count; i++) {
        ours = processes[i].group != group || processes[i].ours;
    }
    return ours;
}

/* True when it may not be signalled. */
static bool signal_one(const struct process *row, int number)
{
    bool refused = kill(row->pid, number) != 0 && errno == EPERM && !row->dead;
    if (number == SIGKILL && row->group > 1 && is_ours(row->group)) {
        kill(-row->group, SIGKILL);
    }
    return refused;
}

struct signalled descendants_signal(pid_t root, pid_t skip, int number)
{
    struct signalled signalled = {.refused = 0};
    if (read_processes(root)) {
        mark(root);
        for (size_t i = 0; i < process_count; i++) {
            const struct process *row = &processes[i];
            bool meant = skip == 0 || row->group != skip;
            signalled.alive += row->ours && !row->dead;
            if (row->ours && signal_one(row, meant ? number : 0)) {
                signalled.refused = row->pid;
            }
        }
    }
    return signalled;
}
