/* cmd_revoke.c - an operator requests that a holder release. */
#include <poll.h>
#include <string.h>

#include "clock.h"
#include "queues.h"

#define LOOK_MS 200

static int64_t wait_ms = 10000;

static const struct cli_option options[] = {
    OPTION_DURATION("wait", 'w', &wait_ms, 0, CLI_LONGEST_MS,
                    "how long to wait for its release (10s)"),
    OPTION_TAKEN("token", '\0', "TOKEN", chosen_take_token,
                 "this one of several holders, as 'zklock ls' shows it"),
    {.name = NULL},
};

/* CLI_GO_ON when the request is written, or the exit code. */
static int request(zkl_session *session)
{
    zkl_error error;
    int result = zkl_queue_revoke(session, chosen.path, chosen.entry->name, QUEUES_LIST_MS, &error);
    if (result == ZKL_OK) {
        return CLI_GO_ON;
    }
    if (result == ZKL_ENOTHELD) {
        cli_note("\"%s\": it has ended by itself meanwhile", chosen.name);
        return EXIT_NOBODY;
    }
    if (result == ZKL_EAUTH) {
        cli_error("\"%s\": the holder accepts no request: it runs without --revocable, or its "
                  "access list refuses us; stop it on its host, or remove it with 'zklock release "
                  "--force'",
                  chosen.name);
        return EXIT_DENIED;
    }
    return queues_complain(chosen.path, result, &error);
}

/* Whether the znode is still there. CLI_GO_ON or an exit code. */
static int find_node(zkl_session *session, bool *there)
{
    zkl_queue *queue;
    int code = queues_list(&queue, session, chosen.path);
    *there = false;
    if (code == CLI_GO_ON) {
        for (size_t i = 0; i < queue->count; i++) {
            *there = *there || strcmp(queue->entries[i].name, chosen.entry->name) == 0;
        }
        zkl_queue_free(queue);
    }
    return code;
}

static int report(bool gave_way, int64_t waited_ms)
{
    if (!gave_way) {
        cli_error("\"%s\": the holder did not release within %.1f s; wait longer with -w, stop it "
                  "on its host, or remove it with 'zklock release --force'",
                  chosen.name, (double)waited_ms / 1000);
    } else if (!cli.json) {
        cli_note("\"%s\": the holder released after %.1f s", chosen.name, (double)waited_ms / 1000);
    }
    if (cli.json) {
        json_t *contender =
            queues_entry_json(chosen.queue, (size_t)(chosen.entry - chosen.queue->entries));
        json_t *revoked = json_pack("{s:i, s:s, s:s, s:b, s:I, s:o}", "v", QUEUES_VERSION, "event",
                                    "revoked", "path", chosen.path, "gave_way", gave_way, "wait_ms",
                                    (json_int_t)waited_ms, "contender", contender);
        if (!queues_print_json(revoked)) {
            return EXIT_FAILED;
        }
    }
    return gave_way ? EXIT_DONE : EXIT_NOT_GRANTED;
}

static int request_and_wait(zkl_session *session, const char *path)
{
    bool there = true;
    int code = chosen_find(session, path, "ask");
    if (code == CLI_GO_ON && !cli.quiet) {
        chosen_show();
    }
    code = code == CLI_GO_ON ? request(session) : code;
    int64_t begin_ms = now_ms(), waited_ms = 0;
    while (code == CLI_GO_ON) {
        code = find_node(session, &there);
        waited_ms = now_ms() - begin_ms;
        if (code == CLI_GO_ON && (!there || waited_ms >= wait_ms)) {
            return report(!there, waited_ms);
        }
        int64_t left_ms = wait_ms - waited_ms;
        poll(NULL, 0, left_ms < LOOK_MS ? (int)left_ms : LOOK_MS);
    }
    return code;
}

static int run(int count, const char **words)
{
    (void)count;
    chosen.name = words[0];
    return queues_act(chosen.name, request_and_wait);
}

const struct cli_command cmd_revoke = {
    .name = "revoke",
    .run = run,
    .arguments = "LOCK",
    .least = 1,
    .most = 1,
    .wanted = "which lock? One, please",
    .summary = "request that the holder release",
    .examples = "  zklock revoke backup               # shows whom, and waits for 10 s\n"
                "  zklock revoke -w 5m backup\n",
    .notes = "The holder accepts it if it was started with 'zklock run --revocable', or is a\n"
             "client that made its lock revocable (Curator's makeRevocable). It stops its CMD\n"
             "and releases: nothing is taken away by force. Exit codes: 0 it released; 1\n"
             "nobody holds LOCK; 121 the holder accepts no request; 122 no ensemble reached;\n"
             "124 it did not release in time; 125 usage or own failure.\n",
    .options = options,
};
