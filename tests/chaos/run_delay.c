#include "run_delay.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int run_delay_open(void)
{
    return open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
}

int64_t run_delay_ns(int fd)
{
    char text[128];
    long long ran, delayed;
    ssize_t length = fd >= 0 ? pread(fd, text, sizeof text - 1, 0) : 0;
    text[length > 0 ? length : 0] = '\0';
    return sscanf(text, "%lld %lld", &ran, &delayed) == 2 ? delayed : 0;
}
