#include "on_servers.h"

struct ensemble *server;

int on_servers_main(const char *suite_name, const struct ensemble_options *options, int argc, char **argv)
{
    if (!ensemble_available()) {
        return 77;
    }
    server = ensemble_start(options);
    int failed = server ? check_main(suite_name, argc, argv) : 1;
    ensemble_stop(server);
    return failed;
}
