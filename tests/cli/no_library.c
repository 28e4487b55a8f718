/* no_library.c - to be preloaded: no library can be loaded any more. */
#include <dlfcn.h>
#include <stddef.h>

void *dlopen(const char *name, int flags)
{
    (void)name, (void)flags;
    return NULL;
}

char *dlerror(void)
{
    return "no such library";
}
