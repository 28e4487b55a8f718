/* help.c - --help: examples first, then the tables, folded to 79 columns. */
#include <string.h>

#include "cli.h"

#define WIDTH 79
#define OPTION_COLUMN 31

/* One paragraph, folded; it begins at column `at`, its other lines at `indent`. */
static void print_folded(const char *text, size_t at, size_t indent)
{
    bool first = true;
    while (*text) {
        size_t word = strcspn(text, " ");
        if (!first && at + 1 + word > WIDTH) {
            printf("\n%*s", (int)indent, "");
            at = indent;
            first = true;
        }
        printf("%s%.*s", first ? "" : " ", (int)word, text);
        at += word + !first;
        first = false;
        text += word + (text[word] == ' ');
    }
    putchar('\n');
}

static void print_options(const char *title, const struct cli_option *options)
{
    if (options->name) {
        printf("\n%s:\n", title);
    }
    for (; options->name; options++) {
        char names[96], letter[] = "    ";
        if (options->letter) {
            memcpy(letter, (char[]){'-', options->letter, ','}, 3);
        }
        int width = snprintf(names, sizeof names, "  %s--%s%s%s", letter, options->name,
                             options->value ? "=" : "", options->value ? options->value : "");
        if (width < OPTION_COLUMN) {
            printf("%-*s", OPTION_COLUMN, names);
        } else {
            printf("%s\n%*s", names, OPTION_COLUMN, "");
        }
        print_folded(options->text, OPTION_COLUMN, OPTION_COLUMN);
    }
}

static void help_all(void)
{
    puts("zklock - one of many, in the order they asked, on Apache ZooKeeper\n\n"
         "  zklock run backup -- pg_dump shop          # one at a time, the others queue\n"
         "  zklock run -n nightly -- ./job             # or not at all if one is at it\n"
         "  zklock sandbox -- zklock run demo -- date  # without a server of your own\n\n"
         "Usage: zklock [global options] SUBCOMMAND [options] [LOCK] [-- CMD [ARG...]]\n\n"
         "Subcommands:");
    for (int i = 0; cli_commands[i]; i++) {
        if (!cli_commands[i]->hidden) {
            printf("  %-10s %s\n", cli_commands[i]->name, cli_commands[i]->summary);
        }
    }
    print_options("Global options", cli_global_options);
    fputs("\n'zklock SUBCOMMAND --help' has the rest. LOCK is a znode path, or a name\n"
          "below /locks.\n\n" CLI_EXIT_CODES,
          stdout);
}

void cli_help(const struct cli_command *command)
{
    char usage[256];
    if (!command) {
        help_all();
        return;
    }
    printf("zklock %s - %s\n\n%s\n", command->name, command->summary, command->examples);
    snprintf(usage, sizeof usage, "Usage: zklock [global options] %s [options]%s%s", command->name,
             *command->arguments ? " " : "", command->arguments);
    print_folded(usage, 0, 14);
    print_options("Options", command->options);
    puts("\nThe global options, as -s for the servers, are in 'zklock --help'.");
    if (command->notes) {
        printf("\n%s", command->notes);
    }
}
