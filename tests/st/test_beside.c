/* The client libraries with and without threads export the same names: with both in the process, sessions are refused by name. Linked with
 * libzklock, and with libzklock_st. */
#include <zklock/zklock.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static bool refused(const char *other)
{
    zkl_session *session = NULL;
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    zkl_error err;
    options.connect_timeout_ms = 1000;
    int code = zkl_session_open(&session, "127.0.0.1:1", &options, &err);
    printf("%s\n", err.text);
    return code == ZKL_EUNSUPPORTED && strstr(err.text, other) && strstr(err.text, "libzklock_st");
}

int main(void)
{
    static const char *const clients[] = {"libzookeeper_mt.so.2", "libzookeeper_st.so.2"};
    bool threads = dlopen(clients[0], RTLD_LAZY | RTLD_NOLOAD) != NULL;
    if (refused("libzookeeper")) {
        return 1; /* alone it is tried, in vain */
    }
    if (!dlopen(clients[threads], RTLD_LAZY | RTLD_LOCAL)) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    zkl_session *session = NULL;
    bool works_without_server =
        zkl_session_open(&session, "memory:beside", NULL, NULL) == ZKL_OK && zkl_session_close(session, 1000) == ZKL_OK;
    return works_without_server && refused(clients[threads]) ? 0 : 1;
}
