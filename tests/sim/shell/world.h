/* world.h - what the files of this folder know of each other. */
#ifndef SIM_SHELL_WORLD_H
#define SIM_SHELL_WORLD_H

#include "fiber.h"
#include "invariants.h"

/* threads.c */
void threads_begin(void);
void threads_forget(int client);

/* store.c */
void store_inbox_due(struct sim *s, int client);
void store_event(struct sim *s, int client, const struct zkl__event *event);
void store_forget(int client);

/* actors.c */
extern const struct sim_shell actors_shell;

/* claims.c: who says that he holds what. */
struct claim {
    int client, thread, path;
    int count; /* permits; an exclusive claim takes all */
    int limit; /* of the path; 1 for an exclusive claim */
    bool shared;
    const void *object;
    bool (*holds)(const void *object);
    int64_t token;
};
void claims_begin(void);
/* The grant is checked against earlier ones. Its number. */
int claim_make(struct sim *s, const struct claim *claim);
void claim_drop(int number);
void claims_drop_all(int client);
void claims_check(struct sim *s);

#endif
