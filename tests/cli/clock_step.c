/* clock_step.c - a clock that somebody sets: while the file $CLOCK_STEP_FILE has a number of seconds in
 * it, the wall clock is off by so many. For LD_PRELOAD. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static time_t offset(void)
{
    char text[32] = "";
    const char *file = getenv("CLOCK_STEP_FILE");
    int fd = file ? open(file, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        ssize_t size = read(fd, text, sizeof text - 1);
        close(fd);
        text[size > 0 ? size : 0] = '\0';
    }
    return (time_t)strtol(text, NULL, 10);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int (*next)(clockid_t, struct timespec *);
    *(void **)&next = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = next(clock, now);
    now->tv_sec += clock == CLOCK_REALTIME ? offset() : 0;
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    *now = (struct timeval){.tv_sec = exact.tv_sec, .tv_usec = exact.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *where)
{
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (where) {
        *where = exact.tv_sec;
    }
    return exact.tv_sec;
}
