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
/* Connects, lists the queue of that name, finds the one, and leaves the rest to act. act's exit
 * code, or another one after it was said why. */
int chosen_act(struct chosen *chosen,
               int (*act)(const struct chosen *chosen, zkl_session *session));
/* Prints on standard error who it is. */
void chosen_show(const struct chosen *chosen);

#endif
