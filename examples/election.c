/* election - a job that runs on one host at a time, and an observer of the leader.
 *   example_election [SERVERS [PATH]]     "memory:" needs no server */
#include <zklock/zklock.h>

#include <stdio.h>

static void on_leader(zkl_election_observer *observer, const zkl_leader *leader, void *payload)
{
    (void)observer;
    (void)payload;
    if (leader) {
        printf("observer: %s leads (token %lld)\n", leader->value, (long long)leader->token);
    } else {
        printf("observer: nobody leads\n");
    }
}

/* Runs while we lead. A real one works in small pieces, or waits in poll for zkl_cancel_fd beside
 * its own descriptors. */
static int lead(const zkl_cancel *cancel, int64_t token, void *payload)
{
    int *pieces = payload;
    printf("leader: token %lld, %lld ms of lease\n", (long long)token,
           (long long)zkl_cancel_remaining_ms(cancel));
    while (!zkl_cancel_raised(cancel) && *pieces > 0) {
        printf("leader: a piece of work, %d to go\n",
               --*pieces); /* give the token to the storage */
    }
    return *pieces == 0; /* 0: lost too early, stand again */
}

int main(int argc, char **argv)
{
    const char *servers = argc > 1 ? argv[1] : "memory:example";
    const char *path = argc > 2 ? argv[2] : "/examples/leader";
    zkl_error err;
    zkl_session *session;
    if (zkl_session_open(&session, servers, NULL, &err) != ZKL_OK) {
        fprintf(stderr, "%s: %s\n", zkl_error_name(err.code), err.text);
        return 1;
    }
    int pieces = 3, code;
    zkl_election_observer *observer = NULL;
    zkl_lock *election = NULL;
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.metadata = "host-a:8080";
    code = zkl_election_observe(&observer, session, path, on_leader, NULL, &err);
    if (code == ZKL_OK) {
        code = zkl_election_new(&election, session, path, &options, &err);
    }
    if (code == ZKL_OK) {
        code = zkl_election_run(election, 0, lead, &pieces, NULL, &err);
    }
    if (code != ZKL_OK) {
        fprintf(stderr, "%s: %s\n", zkl_error_name(code), err.text);
    }
    zkl_lock_free(election);
    zkl_election_observer_free(observer);
    zkl_session_close(session, 5000);
    return code == ZKL_OK ? 0 : 1;
}
