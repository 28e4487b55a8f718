#include "cut.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHAIN "zklock-cut"

/* --- the filter ------------------------------------------------------------------------------------------------------ */

/* Runs iptables with these arguments. */
static bool iptables(const char *format, ...)
{
    char line[256] = "iptables -w ";
    size_t used = strlen(line);
    va_list values;
    va_start(values, format);
    vsnprintf(line + used, sizeof line - used, format, values);
    va_end(values);
    return system(line) == 0;
}

/* What goes from one port to the other, 0 for any, and back is dealt with like that. */
static bool rule(int port, int other, const char *target)
{
    int last = other ? other : 65535;
    return iptables("-A " CHAIN " -p tcp --sport %d --dport %d:%d -j %s", port, other, last, target) &&
           iptables("-A " CHAIN " -p tcp --dport %d --sport %d:%d -j %s", port, other, last, target);
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
    char users[64], groups[64];
    snprintf(users, sizeof users, "0 %u 1", getuid());
    snprintf(groups, sizeof groups, "0 %u 1", getgid());
    return unshare(CLONE_NEWNET) == 0 ||
           (unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 && write_file("/proc/self/setgroups", "deny") &&
            write_file("/proc/self/gid_map", groups) && write_file("/proc/self/uid_map", users));
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
    char command[128];
    snprintf(command, sizeof command, "ls -l /proc/%d/fd | grep -qF 'socket:[%lu]'", pid, inode);
    return system(command) == 0;
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
            ok = other && rule(port, other, "RETURN");
        }
    }
    ok = ok && rule(port, 0, "DROP");
    if (!ok) {
        fprintf(stderr, "cut: the link of server %d was not cut\n", follower);
    }
    return ok;
}
