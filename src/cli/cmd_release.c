/* cmd_release.c - what operators do to a lock: remove a holder, request that it release, give a
 * semaphore another limit. */

#include "queues.h"

/* The one contender that an operator means: by its token, or since it holds alone. */
static struct chosen {
    const char *name; /* LOCK as it was typed */
    int64_t token;    /* 0: the holder */
    /* Found: */
    char path[ZKL_PATH_MAX + 16];
    zkl_queue *queue;
    const zkl_queue_entry *entry;
} chosen;

static bool take_token(const char *value)
{
    char *end;
    chosen.token = strtoll(value, &end, 10);
    bool fine = chosen.token > 0 && chosen.token < INT64_MAX && !*end;
    if (!fine) {
        cli_error("--token: '%s' is none; 'zklock ls' shows them", value);
    }
    return fine;
}

/* Sets entry when it is only one; returns how many are meant. */
static size_t choose(void)
{
    size_t meant = 0;
    for (size_t i = 0; i < chosen.queue->count; i++) {
        const zkl_queue_entry *entry = &chosen.queue->entries[i];
        if (chosen.token ? entry->token == chosen.token : entry->holds) {
            chosen.entry = entry;
            meant++;
        }
    }
    return meant;
}

static int say_ended(void)
{
    cli_note("\"%s\": it has ended by itself meanwhile", chosen.name);
    return EXIT_NOBODY;
}

/* verb: what is to be done to it, for messages. CLI_GO_ON, or the exit code after it was said why
 * not. */
static int find_chosen(const char *path, const char *verb)
{
    char *below = chosen.path + strlen(path);
    int code = queues_list_holders(&chosen.queue, path, chosen.path, sizeof chosen.path);
    size_t meant = code == CLI_GO_ON ? choose() : 0;
    if (code == CLI_GO_ON && meant == 0 && chosen.token && strcmp(below, "/leases") == 0) {
        /* Of a semaphore a token may be a waiter's, too. */
        zkl_queue_free(chosen.queue);
        snprintf(below, sizeof "/leases", "/locks");
        code = queues_list(&chosen.queue, chosen.path);
        meant = code == CLI_GO_ON ? choose() : 0;
    }
    if (code == CLI_GO_ON && meant == 0) {
        cli_note(chosen.token ? "\"%s\": no contender has this token" : "\"%s\": nobody holds it",
                 chosen.name);
        return EXIT_NOBODY;
    }
    if (meant > 1) {
        queues_print(stderr, chosen.path, chosen.queue);
        cli_error("\"%s\" is held by several: say with --token which one to %s", chosen.name, verb);
        return EXIT_FAILED;
    }
    return code;
}

/* Prints on standard error who it is. */
static void show_chosen(void)
{
    const zkl_queue_entry *entry = chosen.entry;
    const char *what = entry->holds ? "holds" : entry->forged ? "stray" : "waits";
    cli_line(stderr, CLI_FOLD, "%s", chosen.path);
    if (entry->token) {
        cli_line(stderr, CLI_FOLD, "  who      %s, %s for %s", queues_who(entry).bytes, what,
                 queues_age(queues_age_ms(entry->created_ms)).bytes);
        cli_line(stderr, CLI_FOLD, "  session  %s", queues_session(entry).bytes);
        cli_line(stderr, CLI_FOLD, "  token    %" PRId64, entry->token);
    } else {
        cli_line(stderr, CLI_FOLD, "  who      (not readable), %s", what);
    }
    cli_line(stderr, CLI_FOLD, "  znode    %s", entry->name);
}

/* --- release ---------------------------------------------------------------------------------- */

static bool force, yes;

static const struct cli_option release_options[] = {
    OPTION_FLAG("force", 'f', &force, "required: it is removed from outside, not released"),
    OPTION_FLAG("yes", 'y', &yes, "do not ask; for scripts"),
    OPTION_TAKEN("token", '\0', "TOKEN", take_token,
                 "this contender, holding or waiting, as 'zklock ls' shows it"),
    {0},
};

static int find_and_remove(const char *path)
{
    int code = find_chosen(path, "remove");
    if (code != CLI_GO_ON) {
        return code;
    }
    if (!yes || !cli.quiet) {
        show_chosen();
    }
    if (!yes) { /* without a terminal nobody can confirm: then --yes was given */
        char answer[16] = "";
        cli_print(stderr,
                  "The next contender in the queue is granted immediately. This one notices with "
                  "its next\nheartbeat, so for a moment both may be at work. Remove it? [y/N] ");
        if (!fgets(answer, sizeof answer, stdin)) {
            cli_print(stderr, "\n");
        }
        if (strcasecmp(answer, "y\n") != 0 && strcasecmp(answer, "yes\n") != 0) {
            cli_note("nothing was removed");
            return EXIT_NOBODY;
        }
    }
    int result = zkl_queue_remove(cli_session, chosen.path, chosen.entry->name, chosen.entry->token,
                                  CLI_CALL_MS, &cli_failure);
    if (result == ZKL_ENOTHELD) {
        return say_ended();
    }
    if (result != ZKL_OK) {
        return queues_outcome(chosen.path, result);
    }
    if (cli.json) {
        json_t *removed = json_pack("{s:s, s:s, s:o}", "event", "removed", "path", chosen.path,
                                    "contender", queues_entry_json(chosen.queue, chosen.entry));
        return queues_print_json(removed) ? EXIT_DONE : EXIT_FAILED;
    }
    cli_note("\"%s\": removed", chosen.name);
    return EXIT_DONE;
}

static int run_release(const char **words)
{
    if (!force) {
        return cli_usage(
            "release",
            "release: a lock is released by its holder; --force removes the holder from outside");
    }
    if (!yes && !isatty(STDIN_FILENO)) {
        return cli_usage("release",
                         "release: standard input is no terminal to ask on; --yes does without");
    }
    chosen.name = words[0];
    return queues_act(chosen.name, find_and_remove);
}

const struct cli_command cmd_release = {
    .name = "release",
    .run = run_release,
    .arguments = "LOCK",
    .wanted = "which lock? One, please",
    .summary = "remove a holder that is stuck: operators only",
    .examples = "  zklock release --force backup              # shows whom, asks\n"
                "  zklock release --force --yes backup        # for scripts\n"
                "  zklock release --force --token 4711 render # one of several\n",
    .notes = "The holder's znode is deleted: exactly the one that was shown. A zklock that\n"
             "held by it notices with its next heartbeat, stops its CMD and ends with 120;\n"
             "the next contender does not wait for that. So for a moment two may be at work:\n"
             "where that matters, stop the holder itself. If its process has ended already,\n"
             "the lock is free after its session timeout, without this.\n\n"
             "Exit codes: 0 removed; 1 nothing was removed (nobody held it, or you said no);\n"
             "121 access refused; 122 no ensemble reached; 125 usage or own failure.\n",
    .options = release_options,
};

/* --- revoke ----------------------------------------------------------------------------------- */

#define LOOK_MS 200

static int64_t wait_ms = 10000;

static const struct cli_option revoke_options[] = {
    OPTION_DURATION("wait", 'w', &wait_ms, 0, CLI_LONGEST_MS,
                    "how long to wait for its release (10s)"),
    OPTION_TAKEN("token", '\0', "TOKEN", take_token,
                 "this one of several holders, as 'zklock ls' shows it"),
    {0},
};

/* As it was given, for a command that names the same contender. */
static const char *token_option(void)
{
    static char text[32];
    if (chosen.token) {
        snprintf(text, sizeof text, " --token %" PRId64, chosen.token);
    }
    return text;
}

static int request_and_wait(const char *path)
{
    zkl_queue *queue;
    int64_t waited_ms = 0;
    bool gave_way = false;
    int code = find_chosen(path, "ask");
    if (code != CLI_GO_ON) {
        return code;
    }
    if (!cli.quiet) {
        show_chosen();
    }
    if (!chosen.entry->holds) {
        cli_error(
            "\"%s\": this contender waits, and has nothing to release; stop it on its host, or "
            "remove it with 'zklock release --force%s'",
            chosen.name, token_option());
        return EXIT_NOBODY;
    }
    int result =
        zkl_queue_revoke(cli_session, chosen.path, chosen.entry->name, CLI_CALL_MS, &cli_failure);
    if (result == ZKL_ENOTHELD) {
        return say_ended();
    }
    if (result == ZKL_EAUTH) {
        cli_error(
            "\"%s\": the holder accepts no request: it runs without --revocable, or its access "
            "list refuses us; stop it on its host, or remove it with 'zklock release --force%s'",
            chosen.name, token_option());
        return EXIT_DENIED;
    }
    code = queues_outcome(chosen.path, result);
    int64_t begin_ms = now_ms();
    while (code == CLI_GO_ON && (code = queues_list(&queue, chosen.path)) == CLI_GO_ON) {
        gave_way = true; /* its znode is not there any more */
        for (size_t i = 0; i < queue->count; i++) {
            gave_way = gave_way && strcmp(queue->entries[i].name, chosen.entry->name) != 0;
        }
        zkl_queue_free(queue);
        waited_ms = now_ms() - begin_ms;
        if (gave_way || waited_ms >= wait_ms) {
            break;
        }
        int64_t left_ms = wait_ms - waited_ms;
        poll(NULL, 0, left_ms < LOOK_MS ? (int)left_ms : LOOK_MS);
    }
    if (code != CLI_GO_ON) {
        return code;
    }
    if (!gave_way) {
        cli_error("\"%s\": the holder did not release within %.1f s; wait longer with -w, stop it "
                  "on its host, or remove it with 'zklock release --force%s'",
                  chosen.name, (double)waited_ms / 1000, token_option());
    } else if (!cli.json) {
        cli_note("\"%s\": the holder released after %.1f s", chosen.name, (double)waited_ms / 1000);
    }
    if (cli.json) {
        json_t *revoked =
            json_pack("{s:s, s:s, s:b, s:I, s:o}", "event", "revoked", "path", chosen.path,
                      "gave_way", gave_way, "wait_ms", (json_int_t)waited_ms, "contender",
                      queues_entry_json(chosen.queue, chosen.entry));
        if (!queues_print_json(revoked)) {
            return EXIT_FAILED;
        }
    }
    return gave_way ? EXIT_DONE : EXIT_NOT_GRANTED;
}

static int run_revoke(const char **words)
{
    chosen.name = words[0];
    return queues_act(chosen.name, request_and_wait);
}

const struct cli_command cmd_revoke = {
    .name = "revoke",
    .run = run_revoke,
    .arguments = "LOCK",
    .wanted = "which lock? One, please",
    .summary = "request that the holder release",
    .examples = "  zklock revoke backup               # shows whom, and waits for 10 s\n"
                "  zklock revoke -w 5m backup\n",
    .notes = "The holder accepts it if it was started with 'zklock run --revocable', or is a\n"
             "client that made its lock revocable (Curator's makeRevocable). It stops its CMD\n"
             "and releases: nothing is taken away by force. Exit codes: 0 it released; 1\n"
             "nobody holds LOCK, or --token is a waiter's; 121 the holder accepts no request;\n"
             "122 no ensemble reached; 124 it did not release in time; 125 usage or own\n"
             "failure.\n",
    .options = revoke_options,
};

/* --- resize ----------------------------------------------------------------------------------- */

static int limit;

static int resize(const char *path)
{
    int result = zkl_semaphore_resize(cli_session, path, limit, CLI_CALL_MS, &cli_failure);
    if (result == ZKL_ENOENT || result == ZKL_ECONFLICT) {
        cli_error("\"%s\": %s; the first 'zklock run -j K' sets a limit, where nobody uses LOCK "
                  "without -j",
                  chosen.name, cli_failure.text);
        return EXIT_NOBODY;
    }
    if (result != ZKL_OK) {
        return queues_outcome(path, result);
    }
    if (cli.json) {
        json_t *resized =
            json_pack("{s:s, s:s, s:i}", "event", "resized", "path", path, "limit", limit);
        return queues_print_json(resized) ? EXIT_DONE : EXIT_FAILED;
    }
    cli_note("\"%s\": %d at a time from now on", chosen.name, limit);
    return EXIT_DONE;
}

static int run_resize(const char **words)
{
    chosen.name = words[0];
    bool fine = cli_take_number("K", words[1], 1, ZKL_PERMITS_MAX, &limit);
    return fine ? queues_act(chosen.name, resize) : EXIT_FAILED;
}

const struct cli_command cmd_resize = {
    .name = "resize",
    .run = run_resize,
    .arguments = "LOCK K",
    .wanted = "which lock, and how many at a time? LOCK K, please",
    .summary = "let K run at a time from now on, where 'run -j' is used",
    .examples = "  zklock resize builds 8     # grants four waiters more, if K was 4\n"
                "  zklock resize builds 2     # jobs that run finish\n",
    .notes = "For 'zklock run -j 0 LOCK', which goes by what LOCK says. A 'run' with another\n"
             "-j is refused from then on: give all of them 0. The limit goes when nobody has\n"
             "used LOCK for a while, unless somebody made it as a persistent znode with the\n"
             "limit as its data. Needs WRITE on it. Exit codes: 0 it is so; 1 LOCK has no\n"
             "limit; 121 access refused; 122 no ensemble reached; 125 usage or own failure.\n",
};
