#include "ledger.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <zklock/zookeeper.h>

#include "process.h"
#include "wait.h"

void ledger_commit(struct ledger *ledger, const char *client)
{
    char path[128];
    zkl_op op = {.kind = ZKL_OP_CREATE, .path = path, .mode = ZKL_CREATE_PERSISTENT_SEQUENTIAL};
    int number = ledger->count++;
    snprintf(path, sizeof path, "%s/ledger%s/%" PRIx64 ".%d-", process.root, strrchr(ledger->lock->paths[0], '/'),
             (uint64_t)ledger->token, number);
    int64_t began = boot_ns();
    int code = zkl_lock_commit(ledger->lock->lock, &op, 1, ZKL_WAIT_FOREVER, NULL, NULL);
    process_note(ledger->lock, &(struct history_line){.at = began,
                                                      .client = client,
                                                      .session = zkl_session_id(process.session),
                                                      .op = HISTORY_commit,
                                                      .result = zkl_error_name(code),
                                                      .token = ledger->token,
                                                      .lease = number});
}
