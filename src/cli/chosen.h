/* chosen.h - the one contender that an operator means: by its token, or since it holds alone. */
#ifndef CLI_CHOSEN_H
#define CLI_CHOSEN_H

#include <zklock/zklock.h>

#include "cli.h"

struct chosen {
    struct cli *cli;
    const char *name; /* LOCK as it was typed */
    const char *verb; /* what is to be done to it, for messages */
    int64_t token;    /* 0: the holder */
    /* Found: */
    char path[ZKL_PATH_MAX + 16];
    zkl_queue *queue;
    const zkl_queue_entry *entry;
};

/* Takes the value of --token. False after it was said why. */
bool chosen_take_token(struct chosen *chosen, const char *value);
/* Lists the queue at path and finds the one. CLI_GO_ON, or the exit code after it was said why;
 * free in both cases. */
int chosen_find(struct chosen *chosen, zkl_session *session, const char *path);
/* Prints on standard error who it is. */
void chosen_show(const struct chosen *chosen);
void chosen_free(struct chosen *chosen);

#endif
