/* help.c - --help: examples first, then the tables, folded to 80 columns. */
#include <stdio.h>
#include <string.h>

#include "options.h"

#define WIDTH 79
#define OPTION_COLUMN 31

/* One paragraph, folded; it begins at column `at`, its other lines at `indent`. */
static void print_folded(const char *text, size_t length, size_t at, size_t indent)
{
    bool first = true;
    while (length > 0) {
        size_t word = 0;
        while (word < length && text[word] != ' ' && text[word] != '\n') {
            word++;
        }
        if (!first && at + 1 + word > WIDTH) {
            printf("\n%*s", (int)indent, "");
            at = indent;
            first = true;
        }
        printf("%s%.*s", first ? "" : " ", (int)word, text);
        at += word + !first;
        first = false;
        text += word + (word < length);
        length -= word + (word < length);
    }
    putchar('\n');
}

/* Paragraphs; a line that begins with a space is a line of its own. */
static void print_notes(const char *text)
{
    while (*text) {
        size_t length = strcspn(text, "\n");
        while (length > 0 && *text != ' ' && text[length] == '\n' && text[length + 1] &&
               !strchr(" \n", text[length + 1])) {
            length += 1 + strcspn(text + length + 1, "\n");
        }
        if (*text == ' ') {
            printf("%.*s\n", (int)length, text);
        } else {
            print_folded(text, length, 0, 0);
        }
        text += length + (text[length] == '\n');
    }
}

static void print_option(const struct poptOption *option)
{
    char names[96];
    snprintf(names, sizeof names, "  %c%c%c --%s%s%s", option->shortName ? '-' : ' ',
             option->shortName ? option->shortName : ' ', option->shortName ? ',' : ' ',
             option->longName, option->argDescrip ? "=" : "",
             option->argDescrip ? option->argDescrip : "");
    if (strlen(names) < OPTION_COLUMN) {
        printf("%-*s", OPTION_COLUMN, names);
    } else {
        printf("%s\n%*s", names, OPTION_COLUMN, "");
    }
    print_folded(option->descrip, strlen(option->descrip), OPTION_COLUMN, OPTION_COLUMN);
}

static void print_options(const char *title, const struct poptOption *options)
{
    if (options->longName) {
        printf("\n%s:\n", title);
    }
    for (; options->longName; options++) {
        print_option(options);
    }
}

void cli_help(const struct cli_command *command)
{
    char usage[256];
    printf("zklock %s - %s\n\n%s\n", command->name, command->summary, command->examples);
    snprintf(usage, sizeof usage, "Usage: zklock [global options] %s [options]%s%s", command->name,
             *command->arguments ? " " : "", command->arguments);
    print_folded(usage, strlen(usage), 0, 14);
    print_options("Options", command->options);
    print_options("Global options", cli_global_options);
    if (command->notes) {
        putchar('\n');
        print_notes(command->notes);
    }
}

void cli_help_all(void)
{
    puts("zklock - one of many, in the order they asked, on Apache ZooKeeper\n");
    puts("  zklock run backup -- pg_dump shop          # one at a time, the others queue");
    puts("  zklock run -n nightly -- ./job             # or not at all if one is at it");
    puts("  zklock sandbox -- zklock run demo -- date  # without a server of your own\n");
    puts("Usage: zklock [global options] SUBCOMMAND [options] [LOCK] [-- CMD "
         "[ARG...]]\n\nSubcommands:");
    for (int i = 0; cli_commands[i]; i++) {
        if (!cli_commands[i]->hidden) {
            printf("  %-10s %s\n", cli_commands[i]->name, cli_commands[i]->summary);
        }
    }
    print_options("Global options", cli_global_options);
    putchar('\n');
    print_notes(
        "'zklock SUBCOMMAND --help' tells the rest. LOCK is a znode path, or a name below /locks.\n"
        "\n" CLI_EXIT_CODES);
}
