/* execute.h - this process becomes a command. */
#ifndef CLI_EXECUTE_H
#define CLI_EXECUTE_H

/* As execvp(); returns only when that failed: errno, ENOENT when the command is nowhere. */
int execute(const char *const *argv);

#endif
