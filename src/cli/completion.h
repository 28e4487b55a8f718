/* completion.h - scripts for shells, made from the tables that parse the words. */
#ifndef CLI_COMPLETION_H
#define CLI_COMPLETION_H

#include "options.h"

/* Words before a CMD; -1: there is none. */
int completion_before_command(const struct cli_command *command);
/* The value of the option is a file. */
bool completion_is_file(const struct poptOption *option);
/* Prints the text, a backslash before each character that is one of `escaped`; for the inside of
 * single quotes, where `'` is written as `quote`. */
void completion_print(const char *text, const char *escaped, const char *quote);

void completion_zsh(void);
void completion_fish(void);

#endif
