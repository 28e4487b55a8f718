/* cli.h - shared by the subcommands: the command table, options, messages, text for a terminal,
 * clocks, signals, the session, files that others read.
 *
 * Data goes to stdout, everything else to stderr. Every message names the thing and what to do
 * about it. A process runs one subcommand, so what its options say stands in static variables. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zklock/zklock.h>

/* What the exit codes mean; scripts rely on the numbers. */
enum cli_exit {
    EXIT_DONE = 0,
    EXIT_PROBLEM = 1,          /* doctor: something is not as it should be */
    EXIT_NOBODY = 1,           /* check: nobody holds the lock; release: nothing was removed */
    EXIT_NOT_DONE = 1,         /* once --status: the slot is not recorded */
    EXIT_LOST = 120,           /* the lock was lost while CMD ran; CMD was stopped */
    EXIT_DENIED = 121,         /* authentication or ACL refused */
    EXIT_UNREACHABLE = 122,    /* no ensemble reached, or no session, in time */
    EXIT_NOT_GRANTED = 124,    /* not granted within -w or -n */
    EXIT_FAILED = 125,         /* usage, configuration, own failure */
    EXIT_CANNOT_EXECUTE = 126, /* CMD is there but cannot be executed */
    EXIT_NOT_FOUND = 127,      /* CMD is not there */
    EXIT_SIGNAL = 128          /* + n: ended by signal n */
};

/* --- options --------------------------------------------------------------------------------- */

/* An option: how it is typed, what help and completion say of it, and where its value goes. */
struct cli_option {
    enum { CLI_FLAG, CLI_TEXT, CLI_DURATION, CLI_NUMBER, CLI_TAKEN } kind;
    const char *name;
    char letter;       /* '\0': it has none */
    const char *value; /* what help calls its value; NULL: it has none */
    const char *text;
    /* A bool, a const char *, an int64_t of milliseconds, or an int. */
    void *into;
    int64_t least, most;
    /* CLI_TAKEN: called with the value; false after a message about it. */
    bool (*take)(const char *value);
};

#define OPTION_FLAG(name, letter, to, text)            \
    {                                                  \
        CLI_FLAG, name, letter, NULL, text, .into = to \
    }
#define OPTION_TEXT(name, letter, value, to, text)      \
    {                                                   \
        CLI_TEXT, name, letter, value, text, .into = to \
    }
#define OPTION_DURATION(name, letter, into, least, most, text)           \
    {                                                                    \
        CLI_DURATION, name, letter, "DUR", text, into, least, most, NULL \
    }
#define OPTION_NUMBER(name, letter, value, into, least, most, text)    \
    {                                                                  \
        CLI_NUMBER, name, letter, value, text, into, least, most, NULL \
    }
#define OPTION_TAKEN(name, letter, value, taker, text)      \
    {                                                       \
        CLI_TAKEN, name, letter, value, text, .take = taker \
    }
/* The longest duration: a hundred years. */
#define CLI_LONGEST_MS (INT64_C(100) * 366 * 24 * 3600 * 1000)
#define CLI_DAY_MS INT64_C(86400000)

/* The global options: of the process, set by main.c. */
struct cli {
    const char *servers;
    int64_t session_timeout_ms;
    int64_t tick_ms; /* 0: not given, until the options are parsed */
    int64_t leader_pause_ms;
    const char *observer_masters; /* "detect", "none", "some"; NULL: not given, until the options
                                     are parsed */
    const char *auth_file;
    const char *tls; /* PEM files: "ca,certificate,key" */
    const char *tls_host;
    const char *sasl;        /* mechanism; NULL: no SASL */
    const char *sasl_server; /* "[SERVICE/]HOST" */
    bool json;
    bool quiet;
    bool verbose;
};
extern struct cli cli;
extern const struct cli_option cli_global_options[]; /* ends without a name, as each table does */

/* A subcommand: everything that help, completion and dispatch need to know. */
struct cli_command {
    const char *name;
    /* With the words that follow the options, and NULL behind them. CLI_GO_ON or the exit code. */
    int (*run)(const char **words);
    /* "LOCK K": so many words. "LOCK [--] CMD [ARG...]": one or more. "[LOCK]": it may be missing.
     */
    const char *arguments;
    const char *wanted;  /* the message when there are fewer or more */
    const char *summary; /* one line */
    /* whole lines of 79 columns at most: each a command to type, or a # comment */
    const char *examples;
    const char *notes;                /* the same, of prose, below the options. NULL: none */
    const struct cli_option *options; /* NULL: none */
};

extern const struct cli_command cmd_run, cmd_elect, cmd_once, cmd_hold, cmd_check, cmd_ls,
    cmd_watch, cmd_revoke, cmd_release, cmd_resize, cmd_doctor, cmd_sandbox, cmd_bench,
    cmd_completion;

/* The commands for people, in the order of help; ends with NULL. */
extern const struct cli_command *const cli_commands[];

#define CLI_GO_ON (-1)
/* False after a message that names the option. */
bool cli_take_number(const char *option, const char *value, int64_t least, int64_t most,
                     int *number);
bool cli_take_duration(const char *option, const char *value, int64_t least, int64_t most,
                       int64_t *ms);
/* "250ms", "5s", "1.5m", "1h"; a bare number is seconds. False when text is none, or longer than a
 * hundred years. */
bool duration_parse(const char *text, int64_t *ms);

/* command NULL: of the whole. */
void cli_help(const struct cli_command *command);
#define CLI_EXIT_CODES                                                                 \
    "Exit codes: CMD's own, or 128+n when signal n killed it; 120 lock lost, CMD\n"    \
    "stopped before anybody else could be granted; 121 access refused; 122 no\n"       \
    "ensemble reached, or no session; 124 not granted: not in time (-w), or held by\n" \
    "another client (-n); -E changes it; 125 usage, configuration or own failure;\n"   \
    "126 CMD cannot be executed, 127 not found.\n"

/* What to use instead of a subcommand (command NULL), or of an option or operand of one, that is no
 * more; NULL when there never was one. */
const char *cli_instead(const char *command, const char *word);

/* A mistyped word: begin with word and zeroes, compare it with each candidate; best is the nearest,
 * NULL when none is near. */
struct cli_nearest {
    const char *word;
    const char *best;
    size_t distance;
};
void cli_compare(struct cli_nearest *nearest, const char *candidate);
/* The subcommand that a mistyped word most likely meant; NULL when none is near. */
const char *cli_suggest_command(const char *word);

/* --- messages -------------------------------------------------------------------------------- */

/* Writes "zklock: ..." to stderr: an error always, a note unless -q, a detail with -v only. */
enum cli_rank { CLI_DETAIL, CLI_NOTE, CLI_ERROR };
void cli_say(enum cli_rank rank, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define cli_error(...) cli_say(CLI_ERROR, __VA_ARGS__)
#define cli_note(...) cli_say(CLI_NOTE, __VA_ARGS__)
#define cli_detail(...) cli_say(CLI_DETAIL, __VA_ARGS__)
/* Set while a lock is waited for or held, and in the keeper: nobody who fails to read standard
 * error (Ctrl-S on the terminal, a full pipe) may delay what is done. A line that would have to
 * wait is left out. */
extern bool cli_contends;
/* False: a write to it would have to wait. */
bool cli_takes(int fd);
/* Writes the whole text, without waiting when cli_contends. False with errno: not all of it; EAGAIN
 * if it had to wait. */
bool cli_write(int fd, const char *text);
/* As fprintf. All that zklock writes to stderr but the line about the queue goes through here: what
 * that does not take is left out and counted. */
void cli_print(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Says how many lines were left out, if any. The next line does so, too. */
void cli_tell_unread(void);
/* The last message of cli_error or cli_usage, without "zklock: "; if there was none, of cli_note.
 */
#define CLI_MESSAGE_MAX 2048
extern char cli_last_words[CLI_MESSAGE_MAX];
/* They were about something that is over. */
void cli_forget_words(void);
/* A usage error: the message, then where help is. Returns EXIT_FAILED. */
int cli_usage(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A short text, until the end of the statement that it was made in. */
struct cli_text {
    char bytes[256];
};

/* Copies text from the network without characters that control a terminal. Bytes that are not UTF-8
 * become '?'. Cut to the room. */
void cli_printable(const char *text, size_t size, char *out, size_t out_size);

/* Writes a line that has foreign text in it: without characters that control a terminal, and never
 * wider than the terminal, which would break it, and the rest could look like a line of ours. A
 * pipe gets it whole. main.c looks whether it could be written. */
enum cli_long { CLI_FOLD, CLI_CUT };
void cli_line(FILE *out, enum cli_long too_long, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Breaks a text at spaces into lines of so many columns. Its first line begins in column `at`, the
 * others are indented. A word that is longer than a line is broken, too. */
void cli_fold(FILE *out, const char *text, size_t at, size_t indent, size_t columns);
/* Makes a text fit a terminal: cut to so many columns, between characters. To a terminal that is
 * not UTF-8 each byte of a character may be a control, so there all but ASCII becomes '?'. */
void cli_cut(char *text, size_t columns);
/* What was printed is written to standard output; false: it cannot be, and main.c will say why. */
bool cli_flush(void);
/* Width of the terminal that fd is; 80 when it is none. */
size_t cli_columns(int fd);

/* What to do about a result of the library, to end a message with: "; ..." or nothing. */
const char *cli_remedy(int result);

/* LOCK as a znode path that can be one: itself when absolute, else below /locks. Malloced; NULL
 * after it was said why. */
char *cli_lock_path(const char *lock);

/* "host:pid (user)": who stands behind a contender's znode. */
struct identity {
    char host[256];
    int pid;
    char user[128];
};

/* Ours, as metadata of a contender. */
const char *identity_own(void);
/* False when the text is of another form: other clients write what they like. */
bool identity_parse(struct identity *identity, const char *text, size_t size);

/* --- clocks ----------------------------------------------------------------------------------- */

/* CLOCK_BOOTTIME counts while the machine sleeps: leases are measured by it. */
#define NS_PER_MS 1000000LL

static inline int64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000LL + now.tv_nsec;
}

static inline int64_t clock_ms(clockid_t clock)
{
    return clock_ns(clock) / NS_PER_MS;
}

static inline int64_t now_ms(void)
{
    return clock_ms(CLOCK_MONOTONIC);
}

/* --- signals ---------------------------------------------------------------------------------- */

/* Signals as bytes in a pipe, for a loop that polls. Ones that were ignored at the start stay
 * ignored; INT and QUIT, which a script's shell has its background ignore, only when they come from
 * the keyboard: who sends one means it. */

/* Catches TERM INT HUP QUIT USR1 USR2 CONT WINCH, ignores PIPE XFSZ TTOU. CLI_GO_ON, or the exit
 * code after it was said why not. */
int signals_catch(void);
/* TERM, INT, HUP or QUIT ends the process immediately. The process begins so. For calls that cannot
 * be interrupted, and whose end leaves nothing behind. */
extern volatile sig_atomic_t signals_end_at_once;
/* Ctrl-C was typed, here or at a CMD that has the terminal. */
extern volatile sig_atomic_t signals_interrupted;
/* Then a code for SIGINT is the end by that signal: after an exit, a shell goes on with its script.
 * Else returns. */
void signals_end_as_typed(int code);
/* Ctrl-Z comes as SIGTSTP among the signals, or stops the process, which is how it begins. */
void signals_catch_stop(bool caught);
/* The first is readable while one waits. */
extern int signals_pipe[2];
/* The next one; 0: none waits. */
int signals_next(void);
/* TERM, INT, HUP or QUIT. */
bool signals_is_end(int number);

/* --- servers ---------------------------------------------------------------------------------- */

/* Before a CMD is started: a descriptor that --auth-file names is not for CMD. False after it was
 * said why not. */
bool cli_hide_secret(void);
#define CLI_CALL_MS 10000 /* for what the servers are asked */
/* Opens a session by the global options, and says why not. done: of zkl_session_open_async, which
 * does not wait; NULL: waits. */
int cli_connect(int64_t connect_timeout_ms, zkl_done_fn done);
/* The one that was opened last. */
extern zkl_session *cli_session;
/* Of the library's last call that failed, or the last answer to one that does not wait. */
extern zkl_error cli_failure;
/* The tickTime of a server by the bounds of its sessions; 0: they do not tell. False, with
 * cli_failure: it gives none. */
bool cli_probe_tick(const char *server, int64_t *tick_ms);
/* What an error of the library means for the command's exit code. */
int cli_exit_code(int zkl_code);

/* Sends one of ZooKeeper's four-letter commands ("srvr", "conf") to host:port; the response is all
 * that arrives until the server closes the connection, up to 4 KB, and stands until the next one.
 * timeout_ms: for each connection, and for the whole response. NULL, with the reason in ask_why:
 * there is no response. */
const char *ask(const char *host, const char *port, const char *question, int timeout_ms);
extern const char *ask_why;

/* --- files that others read ------------------------------------------------------------------- */

/* What stands in a file that is written here is the old content or the new one, never a part. The
 * new content is written beside it and renamed. A name that is a symbolic link is refused: whoever
 * may write in the directory would choose what is overwritten. What is there and is no regular file
 * (a pipe, a terminal) is written to as it is. */

/* Can file be written? Nothing is changed. False with errno. */
bool newfile_check(const char *file);
/* Writes text to file, with its end ("\n", if it is not there). Who may read it stays as it was; a
 * new file is readable to all. False with errno, and then nothing is left behind. */
bool newfile_write(const char *file, const char *text, const char *end);
/* What to say about errno after one of these: the reason and what to do. Until the next call. */
const char *newfile_reason(void);

#endif
