/* Loaded before libc into a server: each line that says that a session expires takes a millisecond, as on a slow disk. */
#include <dlfcn.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

ssize_t write(int fd, const void *buffer, size_t size)
{
    static ssize_t (*libc_write)(int, const void *, size_t);
    if (!libc_write) {
        libc_write = (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    }
    static const char line[] = "Expiring session";
    if (fd == STDERR_FILENO && memmem(buffer, size, line, sizeof line - 1)) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return libc_write(fd, buffer, size);
}
