/* stage.h - a script under way: its sessions, what each was asked and told (play.c), and that as lines of text (transcript.c). */
#ifndef ZKL_CONFORMANCE_STAGE_H
#define ZKL_CONFORMANCE_STAGE_H

#include "play.h"

enum { FENCE = -1 };

/* Where the order of watches is free: records of one session, [from, to). */
struct loose {
    size_t from, to;
    struct loose *next;
};

struct refusal {
    long op;
    int code;
};

struct player {
    struct world_session *session;
    int slot;
    bool closed, cut;
    long *ops; /* by id of the reply: index of the op, or FENCE */
    size_t ops_room;
    struct refusal *refused;
    size_t refused_count;
    uint64_t last_id;
    struct loose *loose;
    const struct record **records;
    size_t record_count;
};

struct moment {
    int64_t zxid, time_ms;
};

struct stage {
    struct world *world;
    const struct script *script;
    const bool *drop;
    const char *chroot;
    struct player players[PLAY_SESSIONS];
    int count;
    int in_slot[SCRIPT_SLOTS]; /* which player, -1: none */
    struct moment *moments;    /* every zxid seen and the time that goes with it */
    size_t moment_count, moment_room;
};

/* Room for so many; ends the program when there is none. block may be NULL. */
void *stage_room(void *block, size_t count, size_t size);
/* How much the session has been told so far. */
size_t stage_told(struct stage *stage, const struct player *player);

/* Once all was told: keeps what the player was told, and the moments in it. */
void stage_collect(struct stage *stage, struct player *player);
/* When all is collected: sorts the moments, one for each zxid. False: times contradict. */
bool stage_settle_moments(struct stage *stage);
/* The lines of one session. */
void stage_write(struct play_lines *out, const struct stage *stage, const struct player *player);

#endif
