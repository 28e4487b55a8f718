/* signals.h - signals as bytes in a pipe, for a loop that polls. Ones that were ignored at the
 * start stay ignored; INT and QUIT, which a script's shell has its background ignore, only when
 * they come from the keyboard: who sends one means it. */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include <stdbool.h>

/* Catches TERM INT HUP QUIT USR1 USR2 CONT WINCH, ignores PIPE XFSZ TTOU. CLI_GO_ON, or the exit
 * code after it was said why not. */
int signals_catch(void);
/* yes: from now on TERM, INT, HUP or QUIT ends the process immediately. The process begins so. For
 * calls that cannot be interrupted, and whose end leaves nothing behind. */
void signals_end_at_once(bool yes);
/* Readable while one waits. */
int signals_fd(void);
/* The next one; 0: none waits. */
int signals_next(void);
/* TERM, INT, HUP or QUIT. */
bool signals_is_end(int number);

#endif
