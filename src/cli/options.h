/* options.h - parsing by the tables: popt does the work, a subcommand only takes values. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "cli.h"

/* Values of long options that have no letter. */
enum {
    OPTION_SESSION_TIMEOUT = 256,
    OPTION_TICK,
    OPTION_LEADER_PAUSE,
    OPTION_OBSERVER_MASTERS,
    OPTION_AUTH_FILE,
    OPTION_TLS,
    OPTION_TLS_HOST,
    OPTION_SASL,
    OPTION_SASL_SERVER,
    OPTION_JSON,
    OPTION_DELAY,    /* OPTION_DELAY_AFTER_CRASH */
    OPTION_FIRST_OWN /* subcommands count from here */
};

#define OPTION_FLAG(name, letter, val, text)               \
    {                                                      \
        name, letter, POPT_ARG_NONE, NULL, val, text, NULL \
    }
#define OPTION_VALUE(name, letter, val, text, what)          \
    {                                                        \
        name, letter, POPT_ARG_STRING, NULL, val, text, what \
    }
#define OPTION_END                         \
    {                                      \
        NULL, '\0', 0, NULL, 0, NULL, NULL \
    }

extern const struct poptOption cli_global_options[];

/* Takes one option of a subcommand; false when its value is bad, which has been said. */
typedef bool (*cli_take_fn)(void *into, int option, const char *value);

#define CLI_GO_ON (-1)
/* Parses options up to the first word that is none: what follows is *rest, *count words of argv.
 * Nothing in it is looked at. Global options are taken too, and help. Returns CLI_GO_ON, or the
 * exit code to end with. command NULL: globals only. */
int cli_parse(const struct cli_command *command, int argc, const char **argv, cli_take_fn take,
              void *into, int *count, const char ***rest);

/* Frees the values of options. */
void cli_forget(void);

/* The values. Each says what is wrong, naming the option, before it returns false. */
bool cli_take_duration(const char *option, const char *value, int64_t *ms);
bool cli_take_number(const char *option, const char *value, long least, long most, int *number);

/* How long to wait for a lock: -w, -n, -E, the same wherever a subcommand waits for one. */
#define OPTIONS_WAIT                                                                       \
    OPTION_VALUE("wait", 'w', 'w', "give up after this long in the queue (never)", "DUR"), \
        OPTION_FLAG("try", 'n', 'n', "do not queue: now or not at all"),                   \
        OPTION_VALUE("conflict-exit-code", 'E', 'E', "exit code when not granted (124)", "CODE")

/* Where a lock or an election is held: contend_take takes it. */
#define OPTION_DELAY_AFTER_CRASH                          \
    OPTION_VALUE("delay-after-crash", '\0', OPTION_DELAY, \
                 "wait this long behind a holder that did not release (0)", "DUR")

void cli_help(const struct cli_command *command);
void cli_help_all(void);

/* For help texts. */
#define CLI_EXIT_CODES                                                                            \
    "Exit codes: CMD's own, or 128+n when signal n killed it; 120 lock lost, CMD stopped before " \
    "anybody "                                                                                    \
    "else could be granted; 121 access refused; 122 no ensemble reached, or no session; 124 not " \
    "granted in "                                                                                 \
    "time (-w, -n; -E changes it); 125 usage, configuration or own failure; 126 CMD cannot be "   \
    "executed, 127 "                                                                              \
    "not found.\n"

#endif
