/* execute.h - this process becomes a command. */
#ifndef CLI_EXECUTE_H
#define CLI_EXECUTE_H

/* As execvp(); returns only when that failed: errno, ENOENT when the command is nowhere. */
int execute(const char *const *argv);
/* Whether execute() would find it and may execute it: 0 or errno. A script without an interpreter
 * passes. */
int execute_check(const char *name);

#endif
