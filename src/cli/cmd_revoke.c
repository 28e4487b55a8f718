/* cmd_revoke.c - an operator requests that a holder release. */
#include <inttypes.h>
#include <poll.h>
#include <string.h>

#include "clock.h"
#include "session.h"
#include "options.h"
#include "queues.h"

#define LOOK_MS 200
#define WAIT_MS 10000

enum { OPTION_TOKEN = OPTION_FIRST_OWN };

static const struct poptOption options[] = {
    OPTION_VALUE("wait", 'w', 'w', "how long to wait for its release (10s)", "DUR"),
    OPTION_VALUE("token", '\0', OPTION_TOKEN,
                 "this one of several holders, as 'zklock ls' shows it", "TOKEN"),
    OPTION_END,
};

struct revoke {
    struct chosen chosen; /* first */
    int64_t wait_ms;
};

static bool take(void *into, int option, const char *value)
{
    struct revoke *revoke = into;
    return option == 'w' ? cli_take_duration("--wait", value, &revoke->wait_ms)
                         : chosen_take_token(&revoke->chosen, value);
}

/* CLI_GO_ON when the request is written, or the exit code. */
static int request(const struct chosen *chosen, zkl_session *session)
{
    zkl_error error;
    int result =
        zkl_queue_revoke(session, chosen->path, chosen->entry->name, QUEUES_LIST_MS, &error);
    if (result == ZKL_OK) {
        return CLI_GO_ON;
    }
    if (result == ZKL_ENOTHELD) {
        cli_note("\"%s\": it has ended by itself meanwhile", chosen->name);
        return EXIT_NOBODY;
    }
    if (result == ZKL_EAUTH) {
        cli_error("\"%s\": the holder accepts no request: it runs without --revocable, or its "
                  "access list "
                  "refuses us; stop it on its host, or remove it with 'zklock release --force'",
                  chosen->name);
        return EXIT_DENIED;
    }
    return queues_complain(chosen->path, result, &error);
}

/* Is the znode still there? CLI_GO_ON or an exit code. */
static int look(const struct chosen *chosen, zkl_session *session, bool *there)
{
    zkl_queue *queue;
    int code = queues_list(&queue, session, chosen->path);
    *there = false;
    if (code == CLI_GO_ON) {
        for (size_t i = 0; i < queue->count; i++) {
            *there = *there || strcmp(queue->entries[i].name, chosen->entry->name) == 0;
        }
        zkl_queue_free(queue);
    }
    return code;
}

static int tell(const struct revoke *revoke, bool gave_way, int64_t waited_ms)
{
    const struct chosen *chosen = &revoke->chosen;
    if (!gave_way) {
        cli_error("\"%s\": the holder did not release within %.1f s; wait longer with -w, stop it "
                  "on its host, or "
                  "remove it with 'zklock release --force'",
                  chosen->name, (double)waited_ms / 1000);
    } else if (!cli.json) {
        cli_note("\"%s\": the holder released after %.1f s", chosen->name,
                 (double)waited_ms / 1000);
    }
    if (cli.json) {
        json_t *contender =
            queues_entry_json(chosen->queue, (size_t)(chosen->entry - chosen->queue->entries));
        json_t *told = json_pack("{s:i, s:s, s:s, s:b, s:I, s:o}", "v", QUEUES_VERSION, "event",
                                 "revoked", "path", chosen->path, "gave_way", gave_way, "wait_ms",
                                 (json_int_t)waited_ms, "contender", contender);
        if (!queues_print_json(told)) {
            return EXIT_FAILED;
        }
    }
    return gave_way ? EXIT_DONE : EXIT_NOT_GRANTED;
}

static int request_and_wait(const struct chosen *chosen, zkl_session *session)
{
    const struct revoke *revoke = (const struct revoke *)chosen;
    bool there = true;
    if (!cli.quiet) {
        chosen_show(chosen);
    }
    int code = request(chosen, session);
    int64_t begin_ms = clock_ms(CLOCK_MONOTONIC), waited_ms = 0;
    while (code == CLI_GO_ON) {
        code = look(chosen, session, &there);
        waited_ms = clock_ms(CLOCK_MONOTONIC) - begin_ms;
        if (code == CLI_GO_ON && (!there || waited_ms >= revoke->wait_ms)) {
            return tell(revoke, !there, waited_ms);
        }
        int64_t left_ms = revoke->wait_ms - waited_ms;
        poll(NULL, 0, left_ms < LOOK_MS ? (int)left_ms : LOOK_MS);
    }
    return code;
}

static int run(const struct cli_command *self, int argc, const char **argv)
{
    struct revoke revoke = {.chosen = {.verb = "ask"}, .wait_ms = WAIT_MS};
    int count;
    const char **words;
    int code = cli_parse(self, argc, argv, take, &revoke, &count, &words);
    if (code != CLI_GO_ON) {
        return code;
    }
    if (count != 1) {
        return cli_usage("revoke", "revoke: which lock? One, please");
    }
    revoke.chosen.name = words[0];
    return chosen_act(&revoke.chosen, request_and_wait);
}

const struct cli_command cmd_revoke = {
    .name = "revoke",
    .run = run,
    .arguments = "LOCK",
    .summary = "request that the holder release",
    .examples = "  zklock revoke backup               # shows whom, and waits for 10 s\n"
                "  zklock revoke -w 5m backup\n",
    .notes = "The holder accepts it if it was started with 'zklock run --revocable', or is a "
             "client that made its lock\n"
             "revocable (Curator's makeRevocable). It stops its CMD and releases: nothing is taken "
             "away by force.\n"
             "Exit codes: 0 it released; 1 nobody holds LOCK; 121 the holder accepts no request; "
             "122 no ensemble\n"
             "reached; 124 it did not release in time; 125 usage or own failure.\n",
    .options = options,
};
