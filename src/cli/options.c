#include "options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zklock/version.h>

#define DAY_MS 86400000
#define TICK_MS 2000 /* ZooKeeper's own default, as in its zoo_sample.cfg */

const struct poptOption cli_global_options[] = {
    OPTION_VALUE("servers", 's', 's', "the ensemble; else $ZKLOCK_SERVERS, else 127.0.0.1:2181",
                 "HOST:PORT[,HOST:PORT...][/CHROOT]"),
    OPTION_VALUE("session-timeout", '\0', OPTION_SESSION_TIMEOUT,
                 "a dead holder's place is free after this (10s)", "DUR"),
    OPTION_VALUE("tick", '\0', OPTION_TICK,
                 "the servers' tickTime, or more; else $ZKLOCK_TICK, else 2s", "DUR"),
    OPTION_VALUE("leader-pause", '\0', OPTION_LEADER_PAUSE,
                 "the longest freeze of the leader to survive (500ms)", "DUR"),
    OPTION_VALUE("observer-masters", '\0', OPTION_OBSERVER_MASTERS,
                 "do observers follow followers: detect, none, some; else "
                 "$ZKLOCK_OBSERVER_MASTERS, else detect",
                 "WHICH"),
    OPTION_VALUE("auth-file", '\0', OPTION_AUTH_FILE,
                 "one line, SCHEME:CREDENTIALS, in a file that only you can read", "FILE"),
    OPTION_VALUE("tls", '\0', OPTION_TLS,
                 "speak TLS, where the ZooKeeper client library can (Debian's cannot)",
                 "CA,CERT,KEY"),
    OPTION_VALUE("tls-host", '\0', OPTION_TLS_HOST,
                 "the name in the servers' certificates; else the one in --servers", "NAME"),
    OPTION_VALUE("sasl", '\0', OPTION_SASL, "authenticate by SASL, as in GSSAPI or DIGEST-MD5",
                 "MECHANISM"),
    OPTION_VALUE("sasl-server", '\0', OPTION_SASL_SERVER, "the servers' name for SASL",
                 "[SERVICE/]HOST"),
    OPTION_FLAG("json", '\0', OPTION_JSON, "one JSON object per line instead of text"),
    OPTION_FLAG("quiet", 'q', 'q', "errors only"),
    OPTION_FLAG("verbose", 'v', 'v', "say more, the client's log included"),
    OPTION_FLAG("help", 'h', 'h', "this text"),
    OPTION_FLAG("version", 'V', 'V', "the version"),
    OPTION_END,
};

bool cli_take_duration(const char *option, const char *value, int64_t *ms)
{
    if (duration_parse(value, ms)) {
        return true;
    }
    cli_error("%s: '%s' is no duration; write 250ms, 5s, 2m or 1h", option, value);
    return false;
}

bool cli_take_number(const char *option, const char *value, long least, long most, int *number)
{
    char *end = NULL;
    errno = 0;
    long parsed = strtol(value, &end, 10);
    if (errno || end == value || *end || parsed < least || parsed > most) {
        cli_error("%s: '%s' is not a number from %ld to %ld", option, value, least, most);
        return false;
    }
    *number = (int)parsed;
    return true;
}

/* A client that gives up within milliseconds is never connected, and a tick of nothing none: say so
 * here, where the option's name is known. */
static bool take_from(const char *option, const char *value, int64_t least_ms, int64_t *ms)
{
    if (!cli_take_duration(option, value, ms)) {
        return false;
    }
    if (*ms < least_ms || *ms > DAY_MS) {
        cli_error("%s: '%s' is out of range; %" PRId64 "ms to 24h is possible", option, value,
                  least_ms);
        return false;
    }
    return true;
}

static bool take_observer_masters(const char *option, const char *value)
{
    if (strcmp(value, "detect") != 0 && strcmp(value, "none") != 0 && strcmp(value, "some") != 0) {
        cli_error("%s: '%s' is none of detect, none, some", option, value);
        return false;
    }
    cli.observer_masters = value;
    return true;
}

static bool take_global(int option, const char *value)
{
    switch (option) {
    case 's':
        cli.servers = value;
        return true;
    case OPTION_SESSION_TIMEOUT:
        return take_from("--session-timeout", value, 100, &cli.session_timeout_ms);
    case OPTION_TICK:
        return take_from("--tick", value, 1, &cli.tick_ms);
    case OPTION_LEADER_PAUSE:
        return take_from("--leader-pause", value, 0, &cli.leader_pause_ms);
    case OPTION_OBSERVER_MASTERS:
        return take_observer_masters("--observer-masters", value);
    case OPTION_TLS:
        cli.tls = value;
        return true;
    case OPTION_TLS_HOST:
        cli.tls_host = value;
        return true;
    case OPTION_SASL:
        cli.sasl = value;
        return true;
    case OPTION_SASL_SERVER:
        cli.sasl_server = value;
        return true;
    case OPTION_AUTH_FILE:
        cli.auth_file = value;
        return true;
    case OPTION_JSON:
        cli.json = true;
        return true;
    case 'q':
        cli.quiet = true;
        return true;
    default:
        cli.verbose = true;
        return true;
    }
}

static bool is_global(int option)
{
    for (const struct poptOption *o = cli_global_options; o->longName; o++) {
        if (o->val == option) {
            return true;
        }
    }
    return false;
}

/* popt hands over a copy of each value: it is kept, so that whoever takes it may point to it. */
static bool keep(char *value)
{
    char **kept = realloc(cli.kept, ((size_t)cli.kept_count + 1) * sizeof *kept);
    if (!kept) {
        free(value);
        cli_error("out of memory");
        return false;
    }
    cli.kept = kept;
    cli.kept[cli.kept_count++] = value;
    return true;
}

void cli_forget(void)
{
    for (int i = 0; i < cli.kept_count; i++) {
        free(cli.kept[i]);
    }
    free(cli.kept);
}

static int take(poptContext context, int option, cli_take_fn take_own, void *into)
{
    char *value = poptGetOptArg(context);
    bool fine = keep(value) &&
                (is_global(option) ? take_global(option, value) : take_own(into, option, value));
    return fine ? CLI_GO_ON : EXIT_FAILED;
}

static int version(void)
{
    printf("zklock %s\n", ZKL_VERSION);
    return EXIT_DONE;
}

static void compare_all(struct cli_nearest *nearest, const struct poptOption *options)
{
    for (; options->longName; options++) {
        cli_compare(nearest, options->longName);
    }
}

static bool has(const struct poptOption *options, const char *bad)
{
    bool is_long = strncmp(bad, "--", 2) == 0;
    for (; options->longName; options++) {
        if (is_long ? strcmp(options->longName, bad + 2) == 0 : options->shortName == bad[1]) {
            return true;
        }
    }
    return false;
}

static const struct cli_command *whose(const char *bad)
{
    for (int i = 0; cli_commands[i]; i++) {
        if (has(cli_commands[i]->options, bad)) {
            return cli_commands[i];
        }
    }
    return NULL;
}

/* Says what may have been meant: an option of a subcommand, before its name; or one that is spelt
 * nearly so. */
static int refuse(const struct cli_command *command, const char *bad, const char *why)
{
    const char *name = command ? command->name : NULL;
    const struct cli_command *owner = command ? NULL : whose(bad);
    const char *instead = cli_instead(name, bad);
    struct cli_nearest nearest = {.word = strncmp(bad, "--", 2) == 0 ? bad + 2 : ""};
    if (instead) {
        cli_error("%s is no more: %s", bad, instead);
        return EXIT_FAILED;
    }
    if (owner) {
        return cli_usage(NULL, "%s: %s here; it goes after the subcommand: zklock %s %s", bad, why,
                         owner->name, bad);
    }
    if (command) {
        compare_all(&nearest, command->options);
    }
    compare_all(&nearest, cli_global_options);
    return nearest.best ? cli_usage(name, "%s: %s; did you mean '--%s'?", bad, why, nearest.best)
                        : cli_usage(name, "%s: %s", bad, why);
}

static int take_all(poptContext context, const struct cli_command *command, cli_take_fn take_own,
                    void *into)
{
    int option;
    int code = CLI_GO_ON;
    while (code == CLI_GO_ON && (option = poptGetNextOpt(context)) >= 0) {
        if (option == 'h') {
            command ? cli_help(command) : cli_help_all();
            return EXIT_DONE;
        }
        code = option == 'V' ? version() : take(context, option, take_own, into);
    }
    if (code == CLI_GO_ON && option == POPT_ERROR_BADOPT) {
        return refuse(command, poptBadOption(context, POPT_BADOPTION_NOALIAS),
                      poptStrerror(option));
    }
    if (code == CLI_GO_ON && option < -1) {
        return cli_usage(command ? command->name : NULL, "%s: %s",
                         poptBadOption(context, POPT_BADOPTION_NOALIAS), poptStrerror(option));
    }
    return code;
}

/* The tickTime and the observers belong to the servers, as their addresses do, and so have
 * variables as well. */
static bool complete(void)
{
    const char *tick = getenv("ZKLOCK_TICK"), *masters = getenv("ZKLOCK_OBSERVER_MASTERS");
    if (!cli.observer_masters && !take_observer_masters("$ZKLOCK_OBSERVER_MASTERS",
                                                        masters && *masters ? masters : "detect")) {
        return false;
    }
    if (cli.tick_ms == 0 && tick && *tick) {
        return take_from("$ZKLOCK_TICK", tick, 1, &cli.tick_ms);
    }
    cli.tick_ms = cli.tick_ms ? cli.tick_ms : TICK_MS;
    return true;
}

int cli_parse(const struct cli_command *command, int argc, const char **argv, cli_take_fn take_own,
              void *into, int *count, const char ***rest)
{
    const struct poptOption own_and_global[] = {
        {NULL, '\0', POPT_ARG_INCLUDE_TABLE, (void *)(uintptr_t)(command ? command->options : NULL),
         0, NULL, NULL},
        {NULL, '\0', POPT_ARG_INCLUDE_TABLE, (void *)(uintptr_t)cli_global_options, 0, NULL, NULL},
        OPTION_END,
    };
    const struct poptOption *table = command ? own_and_global : cli_global_options;
    poptContext context = poptGetContext(NULL, argc, argv, table, POPT_CONTEXT_POSIXMEHARDER);
    if (!context) {
        cli_error("out of memory");
        return EXIT_FAILED;
    }
    int code = take_all(context, command, take_own, into);
    /* Options end at the first other word, so what popt left over is the tail of argv itself. */
    *count = 0;
    for (const char **left = poptGetArgs(context); left && left[*count]; (*count)++) {
    }
    *rest = argv + argc - *count;
    poptFreeContext(context);
    return code != CLI_GO_ON || !command || complete() ? code : EXIT_FAILED;
}
