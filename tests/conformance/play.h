/* play.h - a script played on a world, and the transcript of it: lines of text in which nothing is left that may differ
 * between two right stores. */
#ifndef ZKL_CONFORMANCE_PLAY_H
#define ZKL_CONFORMANCE_PLAY_H

#include "world.h"

enum { PLAY_SESSIONS = 64 }; /* sessions that one script may open; more are an error */

/* What one session was told, in order. zxids are ranks among those that the whole script saw; owners are numbers of
 * sessions. Times are not in it but checked: one zxid has one time, and later ones no earlier. Lines of watches that the end of a
 * session or a reconnect brought are sorted, as their order is nobody's promise. */
struct play_lines {
    char **lines;
    size_t count;
};

struct transcript {
    struct play_lines sessions[PLAY_SESSIONS];
    int session_count;
};

/* drop: ops to leave out (NULL: none), by index. chroot as in world_plan; `base` is cut out of the lines' paths. False: the world failed,
 * or broke a rule that needs no comparing; said on stderr. */
bool play(struct transcript *out, struct world *world, const struct script *script, const bool *drop,
          const char *chroot);
void transcript_free(struct transcript *transcript);

/* Prints the first difference, with some lines before it. False: there is none. */
bool transcript_differs(const struct transcript *a, const char *a_name, const struct transcript *b, const char *b_name,
                        bool print);

#endif
