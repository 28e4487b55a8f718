/* arena_inside.h - what arena.c, its beginning, and arena_stop.c, its end, share. */
#ifndef ZKL_CHAOS_ARENA_INSIDE_H
#define ZKL_CHAOS_ARENA_INSIDE_H

#include "arena.h"

#define ARENA_LONG 60000 /* ms */

void arena_complain(struct arena *a, const char *what);
void arena_note(struct arena *a, enum history_op op, const char *who, const char *path, int64_t token, int64_t lease);
/* The directories, below a path, in which its contenders have their znodes: the first, the second; NULL: there is none. */
const char *arena_queue(int path, int number);
/* False when that process is still there. */
bool arena_gone(struct arena *a, struct contender *c, bool expected);

#endif
