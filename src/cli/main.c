/* main.c - the table of subcommands, and the way to one of them. */
#include <locale.h>
#include <malloc.h>

#include "cli.h"

struct cli cli = {
    .servers = "127.0.0.1:2181",
    .session_timeout_ms = 10000,
    .leader_pause_ms = 500,
};

const struct cli_command *const cli_commands[] = {
    &cmd_run,    &cmd_elect,   &cmd_once,   &cmd_hold,       &cmd_check,
    &cmd_ls,     &cmd_watch,   &cmd_revoke, &cmd_release,    &cmd_resize,
    &cmd_doctor, &cmd_sandbox, &cmd_bench,  &cmd_completion, NULL};

static int unknown(const char *word)
{
    const char *meant = cli_suggest_command(word), *instead = cli_instead(NULL, word);
    if (instead) {
        cli_error("'%s' is no more: %s", word, instead);
        return EXIT_FAILED;
    }
    return meant ? cli_usage(NULL, "there is no subcommand '%s'; did you mean '%s'?", word, meant)
                 : cli_usage(NULL, "there is no subcommand '%s'", word);
}

static int help(int count, const char **words)
{
    if (count == 0) {
        cli_help(NULL);
        return EXIT_DONE;
    }
    const struct cli_command *command = cli_find_command(words[0]);
    if (!command) {
        return unknown(words[0]);
    }
    cli_help(command);
    return EXIT_DONE;
}

static int run(const struct cli_command *command, int argc, const char **argv)
{
    int count;
    const char **words;
    int code = cli_parse(command, argc, argv, &count, &words);
    if (code != CLI_GO_ON) {
        return code;
    }
    if (count < command->least || count > command->most) {
        return cli_usage(command->name, "%s: %s", command->name, command->wanted);
    }
    return command->run(count, words);
}

static int dispatch(int argc, const char **argv)
{
    int count;
    const char **words;
    int code = cli_parse(NULL, argc, argv, &count, &words);
    if (code != CLI_GO_ON) {
        return code;
    }
    if (count == 0) {
        fputs(
            "zklock runs a command on one host at a time.\n\n"
            "  zklock run backup -- pg_dump shop          # queue, run, release\n"
            "  zklock sandbox -- zklock run demo -- date  # try it without a server of your own\n\n"
            "'zklock --help' has the rest.\n",
            stderr);
        return EXIT_FAILED;
    }
    if (strcmp(words[0], "help") == 0) {
        return help(count - 1, words + 1);
    }
    const struct cli_command *command = cli_find_command(words[0]);
    return command ? run(command, count, words) : unknown(words[0]);
}

/* Descriptors 0 to 2 are open from here on: else a pipe of ours could become somebody's standard
 * output. What was closed cannot be written to, so that nobody takes lost output for printed. */
static void open_standard_files(void)
{
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0) {
            exit(EXIT_FAILED);
        }
    }
}

/* What was printed may still be on its way, and a disk full. */
static int finish_standard_output(int code)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) {
        return code;
    }
    cli_error("standard output: %s", errno ? strerror(errno) : "it was not written whole");
    return EXIT_FAILED;
}

int main(int argc, char **argv)
{
#ifdef M_ARENA_MAX
    mallopt(M_ARENA_MAX, 1); /* else glibc maps an arena for each of the library's threads */
#endif
    open_standard_files();
    if (isatty(STDOUT_FILENO) || isatty(STDERR_FILENO)) {
        setlocale(LC_CTYPE,
                  "C.UTF-8"); /* for wcwidth alone; in glibc, and so the same everywhere */
    }
    const char *servers = getenv("ZKLOCK_SERVERS");
    if (servers && *servers) {
        cli.servers = servers;
    }
    int code = dispatch(argc, (const char **)argv);
    return finish_standard_output(code == CLI_GO_ON ? EXIT_DONE : code);
}
