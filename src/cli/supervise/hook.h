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

struct hook {
    const char *program; /* NULL: there is none, and every function does nothing */
    int socket;
    zkl_state last; /* of the state that was last reported */
    bool failed;    /* an event could not be sent, which was said */
};

/* Starts the process; to be called while there is one thread. path and servers are for the
 * environment. False after it was said why: the program cannot be found or executed. */
bool hook_open(struct hook *hook, const char *path, const char *servers);
/* The lock was granted: begins to follow its state. */
void hook_granted(struct hook *hook, const char *node, int64_t token);
/* Reports jeopardy, safe and lost when the state has changed. */
void hook_follow(struct hook *hook, zkl_state state);
/* The grant is over. Says nothing if the loss was reported. */
void hook_ended(struct hook *hook, bool lost);
void hook_close(struct hook *hook);

#endif
