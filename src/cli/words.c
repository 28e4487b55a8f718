/* words.c - messages, and what a word the user typed means. */
#include "cli.h"

#include <ctype.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zklock/types.h>

#define MESSAGE_MAX 2048

static pthread_mutex_t last_mutex = PTHREAD_MUTEX_INITIALIZER; /* the HTTP server has threads */
static enum rank { DETAIL, NOTE, ERROR } last_rank = NOTE;
static char last_words[MESSAGE_MAX];

/* One write per message: lines of several processes on one terminal stay whole. */
__attribute__((format(printf, 3, 0))) static void say(enum rank rank, bool shown,
                                                      const char *format, va_list arguments)
{
    char line[MESSAGE_MAX];
    int size = vsnprintf(line, sizeof line, format, arguments);
    if (shown) {
        cli_line(stderr, CLI_FOLD, "zklock: %s%s", line, size >= MESSAGE_MAX ? "..." : "");
    }
    pthread_mutex_lock(&last_mutex);
    if (rank >= last_rank) {
        last_rank = rank;
        cli_printable(line, strlen(line), last_words, sizeof last_words);
    }
    pthread_mutex_unlock(&last_mutex);
}

const char *cli_last_words(void)
{
    return last_words;
}

void cli_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(ERROR, true, format, arguments);
    va_end(arguments);
}

void cli_note(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(NOTE, !cli.quiet, format, arguments);
    va_end(arguments);
}

void cli_detail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(DETAIL, cli.verbose, format, arguments);
    va_end(arguments);
}

int cli_usage(const char *command, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(ERROR, true, format, arguments);
    va_end(arguments);
    if (command) {
        fprintf(stderr, "Try 'zklock %s --help'.\n", command);
    } else {
        fputs("Try 'zklock --help'.\n", stderr);
    }
    return EXIT_FAILED;
}

const char *cli_remedy(int result)
{
    switch (result) {
    case ZKL_ECONNECT:
        return "; is it running? -s or $ZKLOCK_SERVERS says where, 'zklock doctor' asks each";
    case ZKL_EAUTH:
        return "; --auth-file has to give credentials that are accepted here";
    case ZKL_ECONFLICT:
        return "; all who use one LOCK say the same -j, 0, or none: 'zklock ls' shows how it is "
               "used";
    case ZKL_ENOENT:
        return "; create it first, or correct what follows the servers in -s or $ZKLOCK_SERVERS";
    default:
        return "";
    }
}

char *cli_lock_path(const char *lock)
{
    char *path;
    zkl_error error;
    if (lock[0] == '-') {
        cli_error("'%s': options come before LOCK; a lock of that name is /locks/%s", lock, lock);
        return NULL;
    }
    if (asprintf(&path, "%s%s", lock[0] == '/' ? "" : "/locks/", lock) < 0) {
        cli_error("out of memory");
        return NULL;
    }
    if (zkl_path_check(path, &error) != ZKL_OK) {
        char plain[201]; /* it may be too long for the line */
        cli_printable(lock, strlen(lock), plain, sizeof plain);
        cli_error("\"%s\": %s", plain, error.text);
        free(path);
        return NULL;
    }
    return path;
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

#define WORD_MAX 32

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

void cli_compare(struct cli_nearest *nearest, const char *candidate)
{
    size_t length = strlen(nearest->word);
    if (length > WORD_MAX || strlen(candidate) > WORD_MAX) {
        return;
    }
    /* more edits than two, or as many as there are letters, make another word */
    size_t limit = nearest->best ? nearest->distance : length < 3 ? length : 3;
    size_t distance = edit_distance(nearest->word, candidate);
    if (distance < limit) {
        nearest->best = candidate;
        nearest->distance = distance;
    }
}

const char *cli_suggest_command(const char *word)
{
    struct cli_nearest nearest = {.word = word};
    for (int i = 0; cli_commands[i]; i++) {
        if (!cli_commands[i]->hidden) {
            cli_compare(&nearest, cli_commands[i]->name);
        }
    }
    return nearest.best;
}

const char *cli_instead(const char *command, const char *word)
{
    static const struct {
        const char *command, *word, *instead;
    } removed[] = {
        {NULL, "explain",
         "'run --report FILE' says how a run ended, 'zklock --json ls' who queues"},
        {"watch", "--record",
         "redirect 'zklock --json watch LOCK' to a file, or pipe it to logger"},
        {"watch", "--replay", "'zklock --json watch LOCK' prints every change as a line of text"},
        {"watch", "--speed", "removed together with --replay"},
        {"watch", "--span", "on a terminal, watch shows the table of 'zklock ls'"},
        {"completion", "zsh", "only bash is completed: 'zklock completion bash'"},
        {"completion", "fish", "only bash is completed: 'zklock completion bash'"},
    };
    for (size_t i = 0; i < sizeof removed / sizeof *removed; i++) {
        bool same = command && removed[i].command ? strcmp(command, removed[i].command) == 0
                                                  : command == removed[i].command;
        if (same && strcmp(word, removed[i].word) == 0) {
            return removed[i].instead;
        }
    }
    return NULL;
}

/* --- durations -------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int64_t ms;
} units[] = {{"ms", 1}, {"s", 1000}, {"", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};

static int64_t unit_ms(const char *name)
{
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(units[i].name, name) == 0) {
            return units[i].ms;
        }
    }
    return 0;
}

/* Digits after the point, as thousandths; finer ones are dropped. */
static int64_t thousandths(const char **text)
{
    int64_t value = 0;
    int64_t weight = 100;
    for (; isdigit((unsigned char)**text); (*text)++) {
        value += (**text - '0') * weight;
        weight /= 10;
    }
    return value;
}

bool duration_parse(const char *text, int64_t *ms)
{
    int64_t whole = 0;
    int64_t fraction = 0;
    if (!isdigit((unsigned char)*text)) {
        return false;
    }
    for (; isdigit((unsigned char)*text); text++) {
        whole = whole * 10 + (*text - '0');
        if (whole > CLI_LONGEST_MS) {
            return false;
        }
    }
    if (*text == '.') {
        text++;
        if (!isdigit((unsigned char)*text)) {
            return false;
        }
        fraction = thousandths(&text);
    }
    int64_t unit = unit_ms(text);
    if (unit == 0 || whole > CLI_LONGEST_MS / unit) {
        return false;
    }
    *ms = whole * unit + fraction * unit / 1000;
    return true;
}
