#include "supervise/cage.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

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

static int open_in(const char *folder, const char *name)
{
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return open(path, O_WRONLY | O_CLOEXEC);
}

void cage_make(struct cage *cage)
{
    char own[PATH_MAX / 2];
    const char *mounted = mount_point();
    *cage = (struct cage){.procs = -1, .kill = -1};
    if (!mounted || !line_with("/proc/self/cgroup", "0::", own, sizeof own)) {
        return;
    }
    snprintf(cage->folder, sizeof cage->folder, "%s%s", mounted, own);
    bool made = is_delegated(cage->folder);
    if (made) {
        snprintf(cage->folder, sizeof cage->folder, "%s%s/zklock-%d", mounted, own, (int)getpid());
        made = mkdir(cage->folder, 0755) == 0;
    }
    if (made) {
        cage->procs = open_in(cage->folder, "cgroup.procs");
        cage->kill = open_in(cage->folder, "cgroup.kill"); /* since Linux 5.14 */
        made = cage->procs >= 0 && cage->kill >= 0;
        if (!made) {
            cage_remove(cage);
        }
    }
    cage->folder[0] = made ? cage->folder[0] : '\0';
}

static void put(int fd, const char *text)
{
    if (fd >= 0 && write(fd, text, strlen(text)) < 0) {
        /* Then it is as without a cage: one by one. */
    }
}

void cage_enter(const struct cage *cage)
{
    put(cage->procs, "0");
}

void cage_kill(const struct cage *cage)
{
    put(cage->kill, "1");
}

void cage_remove(struct cage *cage)
{
    if (cage->procs >= 0) {
        close(cage->procs);
    }
    if (cage->kill >= 0) {
        close(cage->kill);
    }
    if (*cage->folder) {
        rmdir(cage->folder);
    }
    *cage = (struct cage){.procs = -1, .kill = -1};
}
