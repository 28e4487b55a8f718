/* words.c - messages, and what a word the user typed means. */
#include "cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One write per message: lines of several processes on one terminal stay whole. */
__attribute__((format(printf, 1, 0))) static void say(const char *format, va_list arguments)
{
    char line[2048];
    int size = vsnprintf(line, sizeof line, format, arguments);
    fprintf(stderr, "zklock: %s%s\n", line, size >= (int)sizeof line ? "..." : "");
}

void cli_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
}

void cli_note(const struct cli *cli, const char *format, ...)
{
    if (cli->quiet) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
}

void cli_detail(const struct cli *cli, const char *format, ...)
{
    if (!cli->verbose) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
}

int cli_usage(const char *command, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
    if (command) {
        fprintf(stderr, "Try 'zklock %s --help'.\n", command);
    } else {
        fputs("Try 'zklock --help'.\n", stderr);
    }
    return EXIT_FAILED;
}

char *cli_lock_path(const char *lock)
{
    char *path = NULL;
    if (asprintf(&path, "%s%s", lock[0] == '/' ? "" : "/locks/", lock) < 0) {
        return NULL;
    }
    return path;
}

void cli_printable(const char *text, size_t size, char *out, size_t out_size)
{
    size_t used = 0;
    for (size_t i = 0; i < size && used + 1 < out_size; i++) {
        unsigned char c = (unsigned char)text[i];
        /* U+0080 to U+009F are control characters too, C2 80 to C2 9F in UTF-8. */
        bool control = c < 0x20 || c == 0x7f || (c < 0xa0 && c >= 0x80 && i > 0 && (unsigned char)text[i - 1] == 0xc2);
        out[used++] = control ? '?' : (char)c;
    }
    out[used] = '\0';
}

const struct cli_command *cli_find_command(const char *name)
{
    for (int i = 0; cli_commands[i]; i++) {
        if (strcmp(cli_commands[i]->name, name) == 0) {
            return cli_commands[i];
        }
    }
    return NULL;
}

#define WORD_MAX 16

static size_t smallest(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

/* Insertions, deletions and replacements that lead from a to b. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t row[WORD_MAX + 1];
    size_t width = strlen(b);
    for (size_t j = 0; j <= width; j++) {
        row[j] = j;
    }
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= width; j++) {
            size_t above = row[j];
            row[j] = smallest(row[j - 1] + 1, above + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[width];
}

const char *cli_suggest_command(const char *word)
{
    const char *best = NULL;
    size_t best_distance = 3; /* more edits than two are another word */
    for (int i = 0; cli_commands[i] && strlen(word) <= WORD_MAX; i++) {
        size_t distance = edit_distance(word, cli_commands[i]->name);
        if (distance < best_distance && distance < strlen(word)) {
            best_distance = distance;
            best = cli_commands[i]->name;
        }
    }
    return best;
}
