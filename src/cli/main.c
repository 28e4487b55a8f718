/* main.c - the table of subcommands, that of the global options, and the parsing of all: popt does
 * the work. */
#include <locale.h>
#include <malloc.h>
#include <popt.h>
#include <zklock/version.h>

#include "cli.h"

struct cli cli = {
    .servers = "127.0.0.1:2181",
    .session_timeout_ms = 10000,
    .leader_pause_ms = 500,
};

const struct cli_command *const cli_commands[] = {
    &cmd_run,    &cmd_elect,   &cmd_once,   &cmd_hold,   &cmd_check,   &cmd_ls,    &cmd_watch,
    &cmd_revoke, &cmd_release, &cmd_resize, &cmd_doctor, &cmd_sandbox, &cmd_bench, NULL};

/* --- options --------------------------------------------------------------------------------- */

#define TICK_MS 2000   /* ZooKeeper's own default, as in its zoo_sample.cfg */
#define OPTIONS_MAX 48 /* of a subcommand, with the global ones */

static bool help, version;

static bool take_masters(const char *source, const char *value)
{
    if (strcmp(value, "detect") != 0 && strcmp(value, "none") != 0 && strcmp(value, "some") != 0) {
        cli_error("%s: '%s' is none of detect, none, some", source, value);
        return false;
    }
    cli.observer_masters = value;
    return true;
}

static bool take_observer_masters(const char *value)
{
    return take_masters("--observer-masters", value);
}

/* A client that gives up within milliseconds is never connected, and a tick of nothing none. */
const struct cli_option cli_global_options[] = {
    OPTION_TEXT("servers", 's', "HOST:PORT[,HOST:PORT...][/CHROOT]", &cli.servers,
                "the ensemble; else $ZKLOCK_SERVERS, else 127.0.0.1:2181"),
    OPTION_DURATION("session-timeout", '\0', &cli.session_timeout_ms, 100, CLI_DAY_MS,
                    "a dead holder's place is free after this (10s)"),
    OPTION_DURATION("tick", '\0', &cli.tick_ms, 1, CLI_DAY_MS,
                    "the servers' tickTime, or more; else $ZKLOCK_TICK, else 2s"),
    OPTION_DURATION("leader-pause", '\0', &cli.leader_pause_ms, 0, CLI_DAY_MS,
                    "the longest freeze of the leader to survive (500ms)"),
    OPTION_TAKEN("observer-masters", '\0', "WHICH", take_observer_masters,
                 "do observers follow followers: detect, none, some; else "
                 "$ZKLOCK_OBSERVER_MASTERS, else detect"),
    OPTION_TEXT("auth-file", '\0', "FILE", &cli.auth_file,
                "one line, SCHEME:CREDENTIALS, in a file that only you can read"),
    OPTION_TEXT("tls", '\0', "CA,CERT,KEY", &cli.tls,
                "speak TLS, where the ZooKeeper client library can (Debian's cannot)"),
    OPTION_TEXT("tls-host", '\0', "NAME", &cli.tls_host,
                "the name in the servers' certificates; else the one in --servers"),
    OPTION_TEXT("sasl", '\0', "MECHANISM", &cli.sasl,
                "authenticate by SASL, as in GSSAPI or DIGEST-MD5"),
    OPTION_TEXT("sasl-server", '\0', "[SERVICE/]HOST", &cli.sasl_server,
                "the servers' name for SASL"),
    OPTION_FLAG("json", '\0', &cli.json, "one JSON object per line instead of text"),
    OPTION_FLAG("quiet", 'q', &cli.quiet, "errors only"),
    OPTION_FLAG("verbose", 'v', &cli.verbose, "say more, the client's log included"),
    OPTION_FLAG("help", 'h', &help, "this text"),
    OPTION_FLAG("version", 'V', &version, "the version"),
    {0},
};

/* --- values ---------------------------------------------------------------------------------- */

bool cli_take_duration(const char *option, const char *value, int64_t least, int64_t most,
                       int64_t *ms)
{
    int64_t parsed;
    if (!duration_parse(value, &parsed)) {
        cli_error("%s: '%s' is no duration; write 250ms, 5s, 2m or 1h", option, value);
        return false;
    }
    if (parsed < least || parsed > most) {
        cli_error("%s: '%s' is out of range; %" PRId64 "ms to %" PRId64 "h is possible", option,
                  value, least, most / 3600000);
        return false;
    }
    *ms = parsed;
    return true;
}

bool cli_take_number(const char *option, const char *value, int64_t least, int64_t most,
                     int *number)
{
    errno = 0;
    long parsed = strtol(value, NULL, 10);
    bool digits = *value && !value[strspn(value, "0123456789")]; /* no sign, as in a duration */
    if (errno || !digits || parsed < least || parsed > most) {
        cli_error("%s: '%s' is not a number from %" PRId64 " to %" PRId64, option, value, least,
                  most);
        return false;
    }
    *number = (int)parsed;
    return true;
}

static bool take(const struct cli_option *option, const char *value)
{
    char name[32];
    bool by_letter = option->kind == CLI_NUMBER && option->letter;
    snprintf(name, sizeof name, by_letter ? "-%.1s" : "--%s",
             by_letter ? &option->letter : option->name);
    switch (option->kind) {
    case CLI_FLAG:
        *(bool *)option->into = true;
        return true;
    case CLI_TEXT:
        *(const char **)option->into = value;
        return true;
    case CLI_DURATION:
        return cli_take_duration(name, value, option->least, option->most, option->into);
    case CLI_NUMBER:
        return cli_take_number(name, value, option->least, option->most, option->into);
    default:
        return option->take(value);
    }
}

/* The tickTime and the observers belong to the servers, as their addresses do, and so have
 * variables as well. */
static bool take_environment(void)
{
    const char *given = getenv("ZKLOCK_TICK"), *masters = getenv("ZKLOCK_OBSERVER_MASTERS");
    if (!cli.observer_masters &&
        !take_masters("$ZKLOCK_OBSERVER_MASTERS", masters && *masters ? masters : "detect")) {
        return false;
    }
    if (cli.tick_ms == 0 && given && *given) {
        return cli_take_duration("$ZKLOCK_TICK", given, 1, CLI_DAY_MS, &cli.tick_ms);
    }
    cli.tick_ms = cli.tick_ms ? cli.tick_ms : TICK_MS;
    return true;
}

/* --- what is no option ----------------------------------------------------------------------- */

static void compare_all(struct cli_nearest *nearest, const struct cli_option *options)
{
    for (; options && options->name; options++) {
        cli_compare(nearest, options->name);
    }
}

/* The subcommand that has this option. */
static const struct cli_command *whose(const char *bad)
{
    bool is_long = strncmp(bad, "--", 2) == 0;
    for (int i = 0; cli_commands[i]; i++) {
        const struct cli_option *option = cli_commands[i]->options;
        for (; option && option->name; option++) {
            if (is_long ? strcmp(option->name, bad + 2) == 0 : option->letter == bad[1]) {
                return cli_commands[i];
            }
        }
    }
    return NULL;
}

/* Says what may have been meant: an option of a subcommand, before its name; or one that is spelt
 * nearly so. */
static int refuse(const struct cli_command *command, const char *given, const char *why)
{
    char bad[64]; /* without its value; no option is as long */
    snprintf(bad, sizeof bad, "%.*s", (int)strcspn(given, "="), given);
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

/* --- parsing --------------------------------------------------------------------------------- */

/* Those that are not parsed yet, behind what popt takes for the program's name. */
static const char **words;
static int word_count;
static const char **values; /* popt appends a copy of each: whoever takes one may point to it */
static int value_count;

/* What popt knows of the options: each by its index in known, counted from 1. */
static int add(const struct cli_option *options, struct poptOption *table,
               const struct cli_option **known, int count)
{
    for (; options && options->name; options++) {
        known[count] = options;
        table[count] = (struct poptOption){
            .longName = options->name,
            .shortName = options->letter,
            .argInfo = options->value ? POPT_ARG_ARGV : POPT_ARG_NONE,
            .arg = options->value ? (void *)&values : NULL,
            .val = count + 1,
        };
        count++;
    }
    return count;
}

/* Parses options up to the first word that is none. Nothing behind it is looked at. Global options
 * are taken too, help and version obeyed. Returns CLI_GO_ON, or the exit code to end with. command
 * NULL: globals only. */
static int parse(const struct cli_command *command)
{
    const struct cli_option *known[OPTIONS_MAX];
    struct poptOption table[OPTIONS_MAX + 1] = {{0}};
    int own = command ? add(command->options, table, known, 0) : 0;
    add(cli_global_options, table, known, own);
    poptContext context =
        poptGetContext(NULL, word_count, words, table, POPT_CONTEXT_POSIXMEHARDER);
    int option = 0, code = context ? CLI_GO_ON : EXIT_FAILED;
    while (code == CLI_GO_ON && !help && !version && (option = poptGetNextOpt(context)) > 0) {
        const struct cli_option *taken = known[option - 1];
        bool fine = take(taken, taken->value ? values[value_count++] : "");
        code = fine ? CLI_GO_ON : EXIT_FAILED;
    }
    if (help || version) {
        help ? cli_help(command) : (void)printf("zklock %s\n", ZKL_VERSION);
        code = EXIT_DONE;
    } else if (code == CLI_GO_ON && option == POPT_ERROR_BADOPT) {
        code =
            refuse(command, poptBadOption(context, POPT_BADOPTION_NOALIAS), poptStrerror(option));
    } else if (code == CLI_GO_ON && option < -1) {
        code = cli_usage(command ? command->name : NULL, "%s: %s",
                         poptBadOption(context, POPT_BADOPTION_NOALIAS), poptStrerror(option));
    }
    /* Options end at the first other word, so what popt left over is the tail of the words. */
    const char **left = poptGetArgs(context);
    words += word_count;
    for (word_count = 0; left && left[word_count]; word_count++) {
        words--;
    }
    poptFreeContext(context);
    return code != CLI_GO_ON || !command || take_environment() ? code : EXIT_FAILED;
}

/* --- from the words to a subcommand ----------------------------------------------------------- */

static int dispatch(void)
{
    int code = parse(NULL);
    if (code != CLI_GO_ON) {
        return code;
    }
    if (word_count == 0) {
        cli_print(
            stderr,
            "zklock runs a command on one host at a time.\n\n"
            "  zklock run backup -- pg_dump shop          # queue, run, release\n"
            "  zklock sandbox -- zklock run demo -- date  # try it without a server of your own\n\n"
            "'zklock --help' has the rest.\n");
        return EXIT_FAILED;
    }
    bool asks = strcmp(words[0], "help") == 0;
    if (asks && word_count == 1) {
        cli_help(NULL);
        return EXIT_DONE;
    }
    const char *name = words[asks];
    const struct cli_command *command =
        strcmp(name, cmd_completion.name) == 0 ? &cmd_completion : NULL; /* not for people */
    for (int i = 0; !command && cli_commands[i]; i++) {
        command = strcmp(name, cli_commands[i]->name) == 0 ? cli_commands[i] : NULL;
    }
    if (!command) {
        const char *meant = cli_suggest_command(name), *instead = cli_instead(NULL, name);
        if (instead) {
            cli_error("'%s' is no more: %s", name, instead);
            return EXIT_FAILED;
        }
        return meant
                   ? cli_usage(NULL, "there is no subcommand '%s'; did you mean '%s'?", name, meant)
                   : cli_usage(NULL, "there is no subcommand '%s'", name);
    }
    if (asks) {
        cli_help(command);
        return EXIT_DONE;
    }
    code = parse(command);
    const char *arguments = command->arguments;
    bool any_number = strstr(arguments, "...") != NULL;
    int most = *arguments != '\0';
    for (const char *at = arguments; (at = strchr(at, ' ')); at++) {
        most++;
    }
    int least = *arguments == '[' ? 0 : any_number ? 1 : most;
    if (code == CLI_GO_ON && (word_count < least || (!any_number && word_count > most))) {
        return cli_usage(command->name, "%s: %s", command->name, command->wanted);
    }
    return code == CLI_GO_ON ? command->run(words) : code;
}

static int unwritten; /* errno */

bool cli_flush(void)
{
    bool done = fflush(stdout) == 0;
    unwritten = done ? unwritten : errno;
    return done;
}

int main(int argc, char **argv)
{
#ifdef M_ARENA_MAX
    mallopt(M_ARENA_MAX, 1); /* else glibc maps an arena for each of the library's threads */
#endif
    /* Whoever called us may have blocked signals. They are to end CMD, too, and CMD inherits this.
     */
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    /* Descriptors 0 to 2 are open from here on: else a pipe of ours could become somebody's
     * standard output. What was closed cannot be written to, so that nobody takes lost output for
     * printed. */
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0) {
            return EXIT_FAILED;
        }
    }
    if (isatty(STDOUT_FILENO) || isatty(STDERR_FILENO)) {
        setlocale(LC_CTYPE,
                  "C.UTF-8"); /* for wcwidth alone; in glibc, and so the same everywhere */
    }
    const char *servers = getenv("ZKLOCK_SERVERS");
    if (servers && *servers) {
        cli.servers = servers;
    }
    word_count = argc;
    words = (const char **)argv;
    int code = dispatch();
    /* What was printed may still be on its way, and a disk full. */
    if (!cli_flush() || ferror(stdout)) {
        cli_error("standard output: %s",
                  unwritten ? strerror(unwritten) : "it was not written whole");
        return EXIT_FAILED;
    }
    signals_end_as_typed(code);
    return code == CLI_GO_ON ? EXIT_DONE : code;
}
