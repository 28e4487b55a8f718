/* hook.h - a program of the user's, run at each change of a grant: granted, jeopardy, safe, lost,
 * released.
 *
 * The hooks run in a process of their own, one after the other, in the order of the events. zklock
 * sends an event and goes on: a hook that hangs delays the hooks behind it and nothing else. The
 * process outlives zklock until it has run what it was sent, so that *released* and *lost* reach
 * the program, too. */
#ifndef CLI_HOOK_H
#define CLI_HOOK_H

#include <stdbool.h>
#include <stdint.h>

#include <zklock/zklock.h>

extern const char *hook_program; /* NULL: there is none, and every function does nothing */

/* Starts the process; to be called while there is one thread. path is for the environment. False
 * after a message: the program cannot be found or executed. */
bool hook_open(const char *path);
/* The lock was granted: begins to follow its state. */
void hook_granted(const char *node, int64_t token);
/* Reports jeopardy, safe and lost when the state has changed. */
void hook_follow(zkl_state state);
/* The grant has ended. Reports nothing if the loss was reported. */
void hook_ended(bool lost);
void hook_close(void);

#endif
