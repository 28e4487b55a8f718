/* group - membership: joins, watches the members, lists them with their data, leaves.
 *   example_group [SERVERS [PATH [ID]]]     "memory:" needs no server */
#include <zklock/zklock.h>

#include <stdio.h>

static void on_changed(zkl_group_observer *watcher, const char *const *ids, size_t count,
                       void *payload)
{
    (void)watcher;
    (void)payload;
    printf("watcher: %zu members:", count);
    for (size_t i = 0; i < count; i++) {
        printf(" %s", ids[i]);
    }
    printf("\n");
}

static int list(zkl_session *session, const char *path, zkl_error *err)
{
    zkl_members *members;
    int code = zkl_group_list(&members, session, path, 5000, err);
    if (code == ZKL_OK) {
        for (size_t i = 0; i < members->count; i++) {
            printf("member %s: \"%s\"\n", members->members[i].id, members->members[i].data);
        }
        zkl_members_free(members);
    }
    return code;
}

int main(int argc, char **argv)
{
    const char *servers = argc > 1 ? argv[1] : "memory:example";
    const char *path = argc > 2 ? argv[2] : "/examples/members";
    const char *id = argc > 3 ? argv[3] : "host-a";
    zkl_error err;
    zkl_session *session;
    if (zkl_session_open(&session, servers, NULL, &err) != ZKL_OK) {
        fprintf(stderr, "%s: %s\n", zkl_error_name(err.code), err.text);
        return 1;
    }
    zkl_group *group = NULL;
    zkl_group_observer *watcher = NULL;
    zkl_group_options options = ZKL_GROUP_OPTIONS_INIT;
    options.data = "10.0.0.1:8080";
    int code = zkl_group_observe(&watcher, session, path, on_changed, NULL, &err);
    if (code == ZKL_OK) {
        code = zkl_group_new(&group, session, path, id, &options, &err);
    }
    if (code == ZKL_OK) {
        code = zkl_group_join(group, 10000,
                              &err); /* from here on it joins again by itself, whatever happens */
    }
    if (code == ZKL_OK) {
        code = list(session, path, &err);
    }
    if (code != ZKL_OK) {
        fprintf(stderr, "%s: %s\n", zkl_error_name(code), err.text);
    }
    zkl_group_free(group);
    zkl_group_observer_free(watcher);
    zkl_session_close(session, 5000);
    return code == ZKL_OK ? 0 : 1;
}
