/* session.h - a session by the global options, with the credentials that they name. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include <zklock/zklock.h>

#include "cli.h"

/* Before a CMD is started: a descriptor that --auth-file names is not for CMD. False after it was
 * said why not. */
bool cli_hide_secret(void);
/* Opens a session by the global options: for what does not contend. Says why not. */
int cli_connect(int64_t connect_timeout_ms, zkl_session **session);
/* The tickTime of a server by the bounds of its sessions; 0: they do not tell. CLI_GO_ON, or an
 * exit code, with error. */
int cli_probe_tick(const char *server, int64_t connect_timeout_ms, int64_t *tick_ms,
                   zkl_error *error);
/* What an error of the library means for the command's exit code. */
int cli_exit_code(int zkl_code);

#endif
