/* rival.h - a process that waits for a lock, holds it, says so, and can be killed.
 *
 * The process is this program once more: its main begins with
 *
 *   if (rival_is(argc, argv)) {
 *       return rival_main(argv);
 *   }
 *
 * It dies with the thread that started it. */
#ifndef ZKL_TESTS_RIVAL_H
#define ZKL_TESTS_RIVAL_H

#include <stdbool.h>
#include <stdint.h>

struct rival;

struct rival_options {
    const char *servers, *path;
    int64_t session_timeout_ms, tick_ms;
};

/* What it says; the times are CLOCK_BOOTTIME, which is the same in every process. */
struct rival_word {
    int64_t at_ns;
    int64_t value; /* queued: the session's id. granted: the token. released: the code */
};

bool rival_is(int argc, char **argv);
int rival_main(char **argv);

/* NULL: it could not be started. Returns at once. */
struct rival *rival_start(const struct rival_options *options);
/* Waits until it says "queued", "granted", "lost" or "released"; other words on the way are dropped. False: not in time, or it ended. */
bool rival_says(struct rival *rival, const char *word, struct rival_word *said, int64_t timeout_ms);
/* Whether it has said nothing that was not asked for. */
bool rival_silent(struct rival *rival);
/* To release; "released" follows, and the end. */
void rival_release(struct rival *rival);
void rival_kill(struct rival *rival); /* SIGKILL; gone when this returns */
/* Kills it if it is there. */
void rival_free(struct rival *rival);

#endif
