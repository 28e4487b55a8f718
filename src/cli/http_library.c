#include "http_library.h"

#include <dlfcn.h>
#include <string.h>

struct http_library http_library;

static const struct {
    const char *name;
    void *at;
} functions[] = {
    {"MHD_start_daemon", &http_library.start_daemon},
    {"MHD_stop_daemon", &http_library.stop_daemon},
    {"MHD_create_response_from_buffer", &http_library.create_response_from_buffer},
    {"MHD_destroy_response", &http_library.destroy_response},
    {"MHD_add_response_header", &http_library.add_response_header},
    {"MHD_queue_response", &http_library.queue_response},
};

bool http_library_load(const char **why)
{
    void *library = dlopen(HTTP_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    bool whole = library != NULL;
    for (size_t i = 0; whole && i < sizeof functions / sizeof *functions; i++) {
        void *found = dlsym(library, functions[i].name);
        memcpy(functions[i].at, &found, sizeof found);
        whole = found != NULL;
    }
    *why = whole ? NULL : dlerror();
    return whole;
}
