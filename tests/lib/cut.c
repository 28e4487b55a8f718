#include "cut.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHAIN "zklock-cut"

/* --- the filter ------------------------------------------------------------------------------------------------------ */

/* iptables with these arguments; they are separated by single spaces. */
static bool iptables(const char *words)
{
    char line[256], *args[32] = {"iptables", "-w"}, *rest = line;
    int count = 2, status = -1;
    snprintf(line, sizeof line, "%s", words);
    while (rest && count < 31) {
        args[count++] = strsep(&rest, " ");
    }
    pid_t pid = fork();
    if (pid == 0) {
        execvp(args[0], args);
        perror("iptables");
        _exit(127);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* What comes from one port to another, 0 for any, is dealt with like that. */
static bool rule(int from, int to, const char *target)
{
    char words[128];
    int used = snprintf(words, sizeof words, "-A " CHAIN " -p tcp");
    if (from) {
        used += snprintf(words + used, sizeof words - (size_t)used, " --sport %d", from);
    }
    if (to) {
        used += snprintf(words + used, sizeof words - (size_t)used, " --dport %d", to);
    }
    snprintf(words + used, sizeof words - (size_t)used, " -j %s", target);
    return iptables(words);
}

/* --- a network of our own -------------------------------------------------------------------------------------------- */

static bool write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0) {
        close(fd);
    }
    return ok;
}

/* Root may have a network alone; anybody else needs to be root of a user namespace first. */
static bool leave_network(void)
{
    char map[64];
    uid_t uid = getuid();
    gid_t gid = getgid();
    if (unshare(CLONE_NEWNET) == 0) {
        return true;
    }
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0 || !write_file("/proc/self/setgroups", "deny")) {
        return false;
    }
    snprintf(map, sizeof map, "0 %u 1", gid);
    if (!write_file("/proc/self/gid_map", map)) {
        return false;
    }
    snprintf(map, sizeof map, "0 %u 1", uid);
    return write_file("/proc/self/uid_map", map);
}

static bool raise_loopback(void)
{
    struct ifreq request = {.ifr_flags = IFF_UP};
    strcpy(request.ifr_name, "lo");
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool ok = ioctl(fd, SIOCSIFFLAGS, &request) == 0;
    close(fd);
    return ok;
}

bool cut_prepare(void)
{
    if (!leave_network() || !raise_loopback()) {
        fprintf(stderr, "no network namespace: %s\n", strerror(errno));
        return false;
    }
    if (!iptables("-N " CHAIN) || !iptables("-A INPUT -i lo -j " CHAIN)) {
        fprintf(stderr, "no packet filter\n");
        return false;
    }
    return true;
}

/* --- whose connection is it ------------------------------------------------------------------------------------------ */

static bool owns(int pid, unsigned long inode)
{
    char dir[64], path[320], target[64], wanted[64];
    snprintf(dir, sizeof dir, "/proc/%d/fd", pid);
    snprintf(wanted, sizeof wanted, "socket:[%lu]", inode);
    DIR *fds = opendir(dir);
    bool found = false;
    for (struct dirent *fd; fds && !found && (fd = readdir(fds));) {
        snprintf(path, sizeof path, "%s/%s", dir, fd->d_name);
        ssize_t size = readlink(path, target, sizeof target - 1);
        target[size > 0 ? size : 0] = '\0';
        found = strcmp(target, wanted) == 0;
    }
    if (fds) {
        closedir(fds);
    }
    return found;
}

/* The local port of the process's established connection to that port; 0: it has none. */
static int local_port(const char *table, int pid, int to)
{
    char line[512];
    unsigned local, remote, state;
    unsigned long inode;
    int found = 0;
    FILE *file = fopen(table, "r");
    while (file && !found && fgets(line, sizeof line, file)) {
        if (sscanf(line, " %*d: %*[0-9A-F]:%x %*[0-9A-F]:%x %x %*s %*s %*s %*d %*d %lu", &local, &remote, &state,
                   &inode) == 4 &&
            remote == (unsigned)to && state == 1 && owns(pid, inode)) {
            found = (int)local;
        }
    }
    if (file) {
        fclose(file);
    }
    return found;
}

/* --- cuts ------------------------------------------------------------------------------------------------------------ */

bool cut_mend(void)
{
    return iptables("-F " CHAIN);
}

/* The servers share one source address: so the other followers' connections are let through by their ports, and of the rest nothing
 * reaches the port, or comes from it. */
bool cut_quorum_link(struct ensemble *e, int follower)
{
    int leader = ensemble_leader(e), port = leader >= 0 ? ensemble_quorum_port(e, leader) : 0;
    bool ok = leader >= 0 && leader != follower && cut_mend();
    for (int i = 0; ok && i < ensemble_size(e); i++) {
        if (i != leader && i != follower) {
            int other = local_port("/proc/net/tcp6", ensemble_pid(e, i), port);
            other = other ? other : local_port("/proc/net/tcp", ensemble_pid(e, i), port);
            ok = other && rule(other, port, "RETURN") && rule(port, other, "RETURN");
        }
    }
    ok = ok && rule(0, port, "DROP") && rule(port, 0, "DROP");
    if (!ok) {
        fprintf(stderr, "cut: the link of server %d was not cut\n", follower);
    }
    return ok;
}
