/* words.c - messages, what a word the user typed means, and text on its way to a terminal: without
 * what could steer it, and as wide as fits. */
#include <ctype.h>
#include <poll.h>
#include <pwd.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <wchar.h>

#include "cli.h"

static enum cli_rank last_rank = CLI_NOTE;
char cli_last_words[CLI_MESSAGE_MAX];
zkl_error cli_failure;
bool cli_contends;

bool cli_takes(int fd)
{
    struct pollfd output = {.fd = fd, .events = POLLOUT};
    return poll(&output, 1, 0) == 1;
}

/* Opens the pipe or the terminal of fd again, with O_NONBLOCK: a write to the new descriptor does
 * not block. Set on fd, the flag would apply to every process that shares fd. Returns -1 for a
 * socket, for another user's terminal, and for a file, which a second descriptor would write at its
 * beginning. */
static int open_again(int fd)
{
    char path[32];
    struct stat status;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return fstat(fd, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode))
               ? open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
               : -1;
}

bool cli_write(int fd, const char *text)
{
    int again = cli_contends ? open_again(fd) : -1;
    if (cli_contends && again < 0 && !cli_takes(fd)) {
        errno = EAGAIN;
        return false;
    }
    ssize_t written = 1;
    while (*text && written > 0) {
        written = write(again < 0 ? fd : again, text, strlen(text));
        text += written > 0 ? written : 0;
    }
    int reason = errno;
    if (again >= 0) {
        close(again);
    }
    errno = reason;
    return *text == '\0';
}

__attribute__((format(printf, 2, 0))) static void say(enum cli_rank rank, const char *format,
                                                      va_list arguments)
{
    char line[CLI_MESSAGE_MAX];
    int size = vsnprintf(line, sizeof line, format, arguments);
    if (rank == CLI_ERROR || (rank == CLI_NOTE ? !cli.quiet : cli.verbose)) {
        cli_line(stderr, CLI_FOLD, "zklock: %s%s", line, size >= CLI_MESSAGE_MAX ? "..." : "");
    }
    if (rank >= last_rank) {
        last_rank = rank;
        cli_printable(line, strlen(line), cli_last_words, sizeof cli_last_words);
    }
}

void cli_forget_words(void)
{
    last_rank = CLI_NOTE;
    cli_last_words[0] = '\0';
}

void cli_say(enum cli_rank rank, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(rank, format, arguments);
    va_end(arguments);
}

int cli_usage(const char *command, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(CLI_ERROR, format, arguments);
    va_end(arguments);
    cli_print(stderr, "Try 'zklock %s%s--help'.\n", command ? command : "", command ? " " : "");
    return EXIT_FAILED;
}

const char *cli_remedy(int result)
{
    switch (result) {
    case ZKL_ECONNECT:
        return "; is it running? -s or $ZKLOCK_SERVERS says where, 'zklock doctor' asks each";
    case ZKL_EAUTH:
        return "; --auth-file has to give credentials that are accepted here";
    case ZKL_ECONFLICT: /* with a znode that a server told of, or with how others use the path */
        return cli_failure.zk_code != 0
                   ? "; name another LOCK"
                   : "; name another LOCK, or use this one as the others do: with the same -j, 0 "
                     "behind one who says K, or none; and as a JOB of 'once', or not";
    case ZKL_ENOENT:
        return "; create it first, or correct what follows the servers in -s or $ZKLOCK_SERVERS";
    default:
        return "";
    }
}

char *cli_lock_path(const char *lock)
{
    char *path;
    if (lock[0] == '-') {
        cli_error("'%s': options come before LOCK; a lock of that name is /locks/%s", lock, lock);
        return NULL;
    }
    if (asprintf(&path, "%s%s", lock[0] == '/' ? "" : "/locks/", lock) < 0) {
        cli_error("out of memory");
        return NULL;
    }
    if (zkl_path_check(path, &cli_failure) != ZKL_OK) {
        char plain[201]; /* it may be too long for the line */
        cli_printable(lock, strlen(lock), plain, sizeof plain);
        cli_error("\"%s\": %s", plain, cli_failure.text);
        free(path);
        return NULL;
    }
    return path;
}

#define WORD_MAX 32

void cli_compare(struct cli_nearest *nearest, const char *candidate)
{
    const char *word = nearest->word;
    size_t row[WORD_MAX + 1], length = strlen(word), width = strlen(candidate);
    if (length > WORD_MAX || width > WORD_MAX) {
        return;
    }
    /* Insertions, deletions and replacements that lead from the beginning of the one to that of the
     * other, a row for each letter of the word. */
    for (size_t j = 0; j <= width; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= width; j++) {
            size_t replaced = diagonal + (word[i - 1] != candidate[j - 1]);
            diagonal = row[j];
            row[j] = (row[j - 1] < diagonal ? row[j - 1] : diagonal) + 1;
            row[j] = replaced < row[j] ? replaced : row[j];
        }
    }
    /* more edits than two, or as many as there are letters, make another word */
    size_t limit = nearest->best ? nearest->distance : length < 3 ? length : 3;
    if (row[width] < limit) {
        nearest->best = candidate;
        nearest->distance = row[width];
    }
}

const char *cli_suggest_command(const char *word)
{
    struct cli_nearest nearest = {.word = word};
    for (int i = 0; cli_commands[i]; i++) {
        cli_compare(&nearest, cli_commands[i]->name);
    }
    return nearest.best;
}

const char *cli_instead(const char *command, const char *word)
{
    static const struct {
        const char *command, *word, *instead;
    } removed[] = {
        {"", "explain", "'run --report FILE' says how a run ended, 'zklock --json ls' who queues"},
        {"watch", "--record",
         "redirect 'zklock --json watch LOCK' to a file, or pipe it to logger"},
        {"watch", "--replay", "'zklock --json watch LOCK' prints every change as a line of text"},
        {"watch", "--speed", "removed together with --replay"},
        {"watch", "--span", "on a terminal, watch shows the table of 'zklock ls'"},
        {"completion", "zsh", "only bash is completed: 'zklock completion bash'"},
        {"completion", "fish", "only bash is completed: 'zklock completion bash'"},
    };
    for (size_t i = 0; i < sizeof removed / sizeof *removed; i++) {
        if (strcmp(command ? command : "", removed[i].command) == 0 &&
            strcmp(word, removed[i].word) == 0) {
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

bool duration_parse(const char *text, int64_t *ms)
{
    char *unit;
    int64_t thousandths = 0;
    if (!isdigit((unsigned char)*text)) {
        return false;
    }
    unsigned long long whole = strtoull(text, &unit, 10); /* ULLONG_MAX: too many digits */
    if (*unit == '.') {
        unit++;
        if (!isdigit((unsigned char)*unit)) {
            return false;
        }
        for (int64_t weight = 100; isdigit((unsigned char)*unit); unit++, weight /= 10) {
            thousandths += (*unit - '0') * weight; /* finer digits are dropped */
        }
    }
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(units[i].name, unit) == 0 &&
            whole <= (unsigned long long)(CLI_LONGEST_MS / units[i].ms)) {
            *ms = (int64_t)whole * units[i].ms + thousandths * units[i].ms / 1000;
            return true;
        }
    }
    return false;
}

/* --- who we are ------------------------------------------------------------------------------- */

/* Names are UTF-8 by habit only, and metadata always. */
const char *identity_own(void)
{
    static char text[512];
    char host[256] = "", plain[256], name[128];
    if (gethostname(host, sizeof host - 1) != 0) {
        snprintf(host, sizeof host, "?");
    }
    cli_printable(host, strlen(host), plain, sizeof plain);
    const struct passwd *user = getpwuid(geteuid());
    if (user) {
        cli_printable(user->pw_name, strlen(user->pw_name), name, sizeof name);
    } else {
        snprintf(name, sizeof name, "%u", (unsigned)geteuid());
    }
    snprintf(text, sizeof text, "%s:%d (%s)", plain, (int)getpid(), name);
    return text;
}

bool identity_parse(struct identity *identity, const char *text, size_t size)
{
    char copy[512];
    int length = 0;
    struct identity parsed;
    if (size >= sizeof copy || memchr(text, '\0', size)) {
        return false;
    }
    memcpy(copy, text, size);
    copy[size] = '\0';
    if (sscanf(copy, "%255[^:]:%9d (%127[^)])%n", parsed.host, &parsed.pid, parsed.user, &length) !=
            3 ||
        (size_t)length != size || parsed.pid <= 0) {
        return false;
    }
    *identity = parsed;
    return true;
}

/* --- text for a terminal ---------------------------------------------------------------------- */

#define LINE_MAX_BYTES 4096
#define INDENT 8 /* of the second line of one that is folded: nothing of ours begins there */

/* The character that text begins with: its bytes, 0 when they are not UTF-8. */
static size_t decode(const unsigned char *text, size_t size, uint32_t *point)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000}; /* what needs so many bytes */
    unsigned char first = text[0];
    size_t length = first < 0x80       ? 1
                    : first >> 5 == 6  ? 2
                    : first >> 4 == 14 ? 3
                    : first >> 3 == 30 ? 4
                                       : 0;
    if (length == 0 || length > size) {
        return 0;
    }
    uint32_t value = length == 1 ? first : first & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if (text[i] >> 6 != 2) {
            return 0;
        }
        value = value << 6 | (text[i] & 0x3f);
    }
    *point = value;
    return value < least[length] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)
               ? 0
               : length;
}

/* Controls, what makes text run the other way, and what is not seen at all: a name must not look
 * like another one. */
static bool deceives(uint32_t point)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        {0, 0x1f},        {0x7f, 0x9f},       {0xad, 0xad},     {0x34f, 0x34f},   {0x61c, 0x61c},
        {0x115f, 0x1160}, {0x17b4, 0x17b5},   {0x180b, 0x180f}, {0x200b, 0x200f}, {0x2028, 0x202e},
        {0x2060, 0x206f}, {0x3164, 0x3164},   {0xfe00, 0xfe0f}, {0xfeff, 0xfeff}, {0xffa0, 0xffa0},
        {0xfff0, 0xfffb}, {0xe0000, 0xe0fff},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        if (point >= ranges[i].first && point <= ranges[i].last) {
            return true;
        }
    }
    return false;
}

void cli_printable(const char *text, size_t size, char *out, size_t out_size)
{
    size_t used = 0;
    for (size_t i = 0; i < size;) {
        uint32_t point = 0;
        size_t length = decode((const unsigned char *)text + i, size - i, &point);
        bool fine = length > 0 && !deceives(point);
        size_t room = fine ? length : 1;
        if (used + room >= out_size) {
            break;
        }
        memcpy(out + used, fine ? text + i : "?", room);
        used += room;
        i += length > 0 ? length : 1;
    }
    out[used] = '\0';
}

/* Bytes of the characters at the beginning of text that fit into so many columns, and those that
 * combine with the last of them. */
static size_t fitting(const char *text, size_t columns)
{
    size_t at = 0;
    for (size_t used = 0, size = strlen(text); at < size;) {
        uint32_t point = '?';
        size_t length = decode((const unsigned char *)text + at, size - at, &point);
        /* What the C library does not know may be newer than it, and wide. */
        int width = wcwidth((wchar_t)point);
        used += width >= 0 ? (size_t)width : point < 0x1100 ? 1 : 2;
        if (used > columns) {
            break;
        }
        at += length > 0 ? length : 1;
    }
    return at;
}

/* By the name of the locale, which after ssh is often not installed here. */
static bool terminal_is_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    const char *locale = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !(locale && *locale); i++) {
        locale = getenv(names[i]);
    }
    return locale && (strcasestr(locale, "UTF-8") || strcasestr(locale, "UTF8"));
}

void cli_cut(char *text, size_t columns)
{
    bool whole = terminal_is_utf8();
    for (char *byte = text; *byte && !whole; byte++) {
        *byte = (unsigned char)*byte < 0x80 ? *byte : '?';
    }
    text[fitting(text, columns)] = '\0';
}

size_t cli_columns(int fd)
{
    struct winsize size;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

static _Atomic unsigned unread; /* lines that standard error did not take */

/* One write per line: lines of several processes on one terminal stay whole. */
void cli_print(FILE *out, const char *format, ...)
{
    char text[2 * LINE_MAX_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (out != stderr) {
        fputs(text, out);
    } else if (!cli_write(STDERR_FILENO, text) && errno == EAGAIN) {
        unread++;
    }
}

void cli_fold(FILE *out, const char *text, size_t at, size_t indent, size_t columns)
{
    size_t before = 0;
    do {
        size_t fits = fitting(text, columns - at), length = fits;
        while (text[fits] && length > 0 && text[length] != ' ') {
            length--;
        }
        if (length == 0) { /* not one word fits, or not even a character */
            length = fits > 0 ? fits : strlen(text);
        }
        cli_print(out, "%*s%.*s\n", (int)before, "", (int)length, text);
        text += length;
        text += *text == ' ';
        at = before = indent;
    } while (*text);
}

void cli_tell_unread(void)
{
    unsigned count = atomic_exchange(&unread, 0);
    if (count > 0) {
        cli_line(
            stderr, CLI_FOLD,
            "zklock: here nobody read standard error, and %u line%s left out; the gravest until "
            "now: %s",
            count, count == 1 ? " was" : "s were", cli_last_words);
        unread = unread > 0 ? count : 0; /* nor does anybody now */
    }
}

void cli_line(FILE *out, enum cli_long too_long, const char *format, ...)
{
    char raw[LINE_MAX_BYTES] = "";
    char text[LINE_MAX_BYTES] = "";
    va_list arguments;
    if (out == stderr) {
        cli_tell_unread();
    }
    va_start(arguments, format);
    vsnprintf(raw, sizeof raw, format, arguments);
    va_end(arguments);
    cli_printable(raw, strlen(raw), text, sizeof text);
    size_t columns = cli_columns(fileno(out));
    bool terminal = isatty(fileno(out));
    if (terminal) {
        cli_cut(text, too_long == CLI_CUT ? columns : sizeof text);
    }
    if (terminal && too_long == CLI_FOLD) {
        cli_fold(out, text, 0, columns > (size_t)2 * INDENT ? INDENT : columns / 2, columns);
    } else {
        cli_print(out, "%s\n", text);
    }
}
