#include "one_server.h"

struct ensemble *server;
struct recorder *eye, *intruder;

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

struct proxy *proxy_here(void)
{
    struct proxy *proxy = proxy_start(ensemble_address(server, 0));
    CU_ASSERT_PTR_NOT_NULL_FATAL(proxy);
    return proxy;
}

zkl_session *open_one(void)
{
    return contest_session(ensemble_servers(server), TIMEOUT, TICK);
}

void queue_here(struct queue_of *queue, const char *path, int count)
{
    queue_up(queue, &(struct field){{ensemble_servers(server)}, 1, TIMEOUT, TICK, 0}, path, count);
}

zkl_session *open_behind(struct proxy **proxy)
{
    *proxy = proxy_here();
    return contest_session(proxy_address(*proxy), TIMEOUT, TICK);
}

void close_behind(zkl_session *session, struct proxy *proxy)
{
    kit_close(session);
    proxy_stop(proxy);
}

int one_server_main(const char *suite_name, int argc, char **argv)
{
    if (!ensemble_available()) {
        return 77;
    }
    server = ensemble_start(&(struct ensemble_options){.tick_ms = TICK, .extra = "maxSessionTimeout=600000"});
    if (!server) {
        return 1;
    }
    eye = queue_eye(ensemble_servers(server));
    intruder = queue_eye(ensemble_servers(server));
    int failed = check_main(suite_name, argc, argv);
    recorder_free(intruder);
    recorder_free(eye);
    ensemble_stop(server);
    return failed;
}
