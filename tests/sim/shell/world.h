/* world.h - what the files of this folder know of each other.
 *
 * Beside those of invariants.h, these must hold for the recipes. They are judged where a user
 * stands, or afterwards from the log of the servers (past.c):
 *
 *  exclusion   an object whose is_held is true holds alone, with readers only, or within the limit;
 *              a piece of a partition has one owner, from `assigned` to the end of `revoked`, or to
 *              zkl_partition_done
 *  token       rises; the list behind a semaphore's grant shows its lease
 *  guard       no guarded transaction under an older token after one under a newer, even when an
 *              operator takes the lock away
 *  revoked     a holder receives a request to release
 *  observed    an observer is notified of candidates that stood first, with what they published;
 *              only leaders publish
 *  told        the flag of an election's run is up when the lease ends; `revoked` says so when a
 *              piece was lost
 *  cap         a member never works on more pieces than cap
 *  shares      when all is quiet every piece that cap allows is owned, evenly
 *  member      when all is quiet each that joined is a member, and the last report to every watcher
 *              is the present list
 *  barrier     nobody continues while the barrier was there all the time
 *  early       into a double barrier only when all were in together, out only when all had left
 *  enter       once all were in together, or the sign says so, each waiting member is let in within
 *              ten round trips of a calm network
 *  once        one recorded success for each slot; the slot is that of the servers' clock; a slot
 *              behind the recorded one is done
 *  completion  a call without waiting is called back exactly once, before the close is
 *
 * Quiet: faults are healed, everybody is connected, and nothing has changed for two session
 * timeouts and five seconds. */
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
