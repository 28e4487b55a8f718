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

/* past.c: what was so, by the log. Zxids up to the last one committed. */
/* The most and the fewest members of the double barrier at dir, at any time from one zxid to another: every child that lives with a session. */
struct past_count {
    int most, fewest;
};
struct past_count past_members(struct sim *s, const char *dir, int64_t from, int64_t to);
/* Was path there, was it missing, at any time in between? */
bool past_there(struct sim *s, const char *path, int64_t from, int64_t to);
bool past_missing(struct sim *s, const char *path, int64_t from, int64_t to);
/* Was the sign of the double barrier at dir put up, or renewed, after this zxid? */
bool past_sign(struct sim *s, const char *dir, int64_t after);
/* The node that was made by this transaction, -1: none. */
int past_node_of(const struct sim *s, int64_t czxid);

/* The list of this directory's children that a client was shown last. */
void past_note_list(struct sim *s, int client, int path, int64_t zxid);
int64_t past_listed(int client, int path);
void past_begin(void);

/* claims.c: who says that he holds what. */
enum { PIECES = 3, RESOURCES = 16 };
struct claim {
    int client, thread;
    int resource; /* a path's index, or a piece's (claim_piece) */
    int count;    /* permits; an exclusive claim takes all */
    int limit;    /* of the resource, the highest since the last lease was made; 1 for an exclusive claim */
    bool shared;
    int64_t permits; /* of a semaphore: the last lease's czxid; 0: it is none */
    const void *object;
    bool (*holds)(const void *object);
    int64_t token, serial;
    int session; /* filled in: whose node has the token */
};
static inline int claim_piece(int path, int piece)
{
    return 4 + path * PIECES + piece;
}
void claims_begin(void);
/* The grant is checked against earlier ones. Its number. */
int claim_make(struct sim *s, const struct claim *claim);
void claim_drop(int number); /* -1: nothing */
void claims_drop_all(int client);
void claims_check(struct sim *s);
/* How many are held of these resources. */
int claims_held(int first, int resources);
/* An operator deleted a node of this session, or closed it: the printed exception. */
bool is_exempt(const struct sim *s, int session);

#endif
