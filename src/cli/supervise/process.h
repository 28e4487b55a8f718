/* process.h - processes of ours: how one begins, and how one becomes a command. */
#ifndef CLI_PROCESS_H
#define CLI_PROCESS_H

#include <signal.h>
#include <stdint.h>
#include <sys/types.h>

/* Starts a process that calls run with its end of a socket, of whole messages, and with payload,
 * and must not return from that. Its name is for ps. All signals are blocked in it; `before` is the
 * signal mask that it had, for its children. To be called while there is one thread. The other end
 * of the socket is *socket. -1 after a message. */
pid_t process_start(const char *name, int *socket,
                    void (*run)(int socket, const sigset_t *before, void *payload), void *payload);
/* Only CMD needs standard input and output: a reader of CMD's output must see its end when CMD has
 * ended. Standard error stays open. */
void process_close_standard_files(void);
/* A descriptor that is readable when a child of such a process has ended. */
int process_children(void);
/* Empties that descriptor. */
void process_forget_children(int children);

/* Puts the lock and the servers into the environment, for CMD or a hook: with the servers what
 * belongs to them, for a zklock in there that is told neither. */
void process_set_lock(const char *path);
/* Puts the grant there, too. */
void process_set_grant(const char *node, int64_t token);
/* As execvp(); returns only when that failed: errno, ENOENT when the command is nowhere. */
int execute(const char *const *argv);
/* Whether execute() would find it and may execute it: 0 or errno. A script without an interpreter
 * passes. */
int execute_check(const char *name);

#endif
