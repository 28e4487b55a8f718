/* lacking.c - to be preloaded: no library can be loaded any more, and with $NO_TIMER the keeper's process gets no timer. */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>

void *dlopen(const char *name, int flags)
{
    return NULL;
}

char *dlerror(void)
{
    return "no such library";
}

int timerfd_create(clockid_t clock, int flags)
{
    char name[16] = "";
    int (*real)(clockid_t, int);
    void *found = dlsym(RTLD_NEXT, "timerfd_create");
    prctl(PR_GET_NAME, name);
    if (getenv("NO_TIMER") && strcmp(name, "zklock-keeper") == 0) {
        errno = ENFILE;
        return -1;
    }
    memcpy(&real, &found, sizeof real);
    return real(clock, flags);
}
