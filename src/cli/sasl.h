/* sasl.h - SASL for the command: what Cyrus SASL asks back is answered from --auth-file. */
#ifndef CLI_SASL_H
#define CLI_SASL_H

#include "cli.h"

#include <zklock/session.h>

/* Fills in *sasl from --sasl and --sasl-server. secret: "USER:PASSWORD", copied for as long as the
 * process lives, since each new connection needs it; NULL: none. False, said: no SASL library, or
 * no name for the servers. */
bool cli_sasl(const struct cli *cli, const char *secret, zkl_sasl *sasl);

#endif
