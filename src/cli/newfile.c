#include <sys/stat.h>

#include "cli.h"

/* What is no regular file, as it is; else an empty file beside it, whose name is *name, malloced,
 * and *mode what it is to have in the end. -1 with errno. */
static int open_to_write(const char *file, char **name, mode_t *mode)
{
    struct stat status;
    int fd = strcmp(file, "/dev/stdout") == 0   ? STDOUT_FILENO
             : strcmp(file, "/dev/stderr") == 0 ? STDERR_FILENO
                                                : -1;
    char more;
    if (fd >= 0 || sscanf(file, "/dev/fd/%d%c", &fd, &more) == 1) {
        /* A descriptor that we inherited: opened by its name, a regular file would be written over
         * from its beginning. Those of our own end with an exec. */
        if (fcntl(fd, F_GETFD) != 0 || (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY) {
            errno = EBADF;
            return -1;
        }
        return fcntl(fd, F_DUPFD_CLOEXEC, 0);
    }
    bool there = lstat(file, &status) == 0;
    if (there && !S_ISREG(status.st_mode)) {
        /* a link: ELOOP; a directory: EISDIR; a pipe that nobody reads: ENXIO */
        return open(file, O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    }
    if (!there && (errno != ENOENT || !*file)) { /* beside "" there is room, but it is no name */
        return -1;
    }
    *mode = there ? status.st_mode & 0777 : 0644;
    if (asprintf(name, "%s.XXXXXX", file) < 0) {
        *name = NULL;
        errno = ENOMEM;
        return -1;
    }
    return mkostemp(*name, O_CLOEXEC); /* O_EXCL: it follows no link */
}

static void forget(const char *name)
{
    int reason = errno;
    unlink(name);
    errno = reason;
}

bool newfile_check(const char *file)
{
    char *name = NULL;
    mode_t mode;
    struct stat status;
    if (lstat(file, &status) == 0 && S_ISFIFO(status.st_mode)) {
        return true; /* opened and closed, it would show its reader the end */
    }
    int fd = open_to_write(file, &name, &mode);
    if (name && fd >= 0) {
        forget(name);
    }
    free(name);
    return fd >= 0 && close(fd) == 0;
}

bool newfile_write(const char *file, const char *text, const char *end)
{
    char *name = NULL, *whole = NULL;
    mode_t mode = 0;
    int fd = open_to_write(file, &name, &mode);
    bool written = fd >= 0 && asprintf(&whole, "%s%s", text, end) >= 0 && cli_write(fd, whole) &&
                   (!name || fchmod(fd, mode) == 0);
    written = fd >= 0 && close(fd) == 0 && written && (!name || rename(name, file) == 0);
    if (name && fd >= 0 && !written) {
        forget(name);
    }
    free(whole);
    free(name);
    return written;
}

const char *newfile_reason(void)
{
    static char text[256];
    static const struct {
        int reason;
        const char *remedy;
    } remedies[] = {
        {ENOSPC, "; make room there, or name another file"},
        {EDQUOT, "; make room there, or name another file"},
        {EFBIG, "; raise the limit (ulimit -f)"},
        {ENOENT, "; make its directory first"},
        {ENXIO, "; start what reads it first"},
        {EAGAIN, "; see that it is read"},
        {ENOTDIR, "; name a file in a directory"},
        {EISDIR, "; name a file in it"},
        {EACCES, "; name a file in a directory where this user may make files"},
        {EPERM, "; name a file in a directory where this user may make files"},
        {EROFS, "; name a file on a file system that may be written"},
        {ELOOP, "; it is a symbolic link: name the file itself"},
    };
    const char *remedy = "";
    for (size_t i = 0; i < sizeof remedies / sizeof *remedies; i++) {
        remedy = remedies[i].reason == errno ? remedies[i].remedy : remedy;
    }
    snprintf(text, sizeof text, "%s%s", strerror(errno), remedy);
    return text;
}
