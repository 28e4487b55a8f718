/* arena.h - three real servers, processes that contend on them, a resource that they write to, and a record of what is done to them. */
#ifndef ZKL_CHAOS_ARENA_H
#define ZKL_CHAOS_ARENA_H

#include <sys/types.h>

#include "ensemble.h"
#include "history.h"
#include "proxy.h"

#include <zklock/zklock.h>

#define ARENA_TICK 500     /* ms, of the servers */
#define ARENA_TIMEOUT 3000 /* ms, of the sessions */
#define ARENA_PAUSE 500    /* ms: the sessions' leader_pause_ms, its default */
#define ARENA_CONTENDERS 4
#define ARENA_SERVERS 3
#define ARENA_PATHS 7
#define ARENA_WORDS (ARENA_PATHS + 1)

struct arena {
    struct ensemble *servers;
    const char *kind;
    char dir[128]; /* of the histories */
    char root[40]; /* all paths are below it */
    char paths[ARENA_PATHS][HISTORY_WORD];
    char words[ARENA_WORDS]
              [2 * HISTORY_WORD + 8]; /* the same, as contenders are told (contender.h), and two of them at once */
    uint64_t dice;
    int record;
    zkl_session *eye; /* looks at the queues */
    pid_t resource;
    int page_fd;
    struct page *page;
    struct contender {
        pid_t pid;
        int incarnation;
        char name[HISTORY_WORD];
        struct proxy *links[ARENA_SERVERS]; /* to each server; NULL: it connects straight */
    } contenders[ARENA_CONTENDERS];
    int faults;
    bool failed; /* something went wrong that no history tells; words are on stderr */
};

/* Starts resource and contenders. links: contenders connect through proxies. */
void arena_start(struct arena *a, struct ensemble *servers, const char *parent, const char *kind, uint64_t seed,
                 bool links);
/* Nothing is broken any more: waits for progress on every path and for all to settle, lets the contenders end, and looks at the queues. */
void arena_stop(struct arena *a);

/* The nemesis' own pace: returns after that time. Nothing is waited for by this. */
void arena_pace(struct arena *a, int64_t low_ms, int64_t high_ms);
/* A program that lies beside ours. */
void arena_sibling(char path[512], const char *program);
/* A word for whoever reads the history. */
void arena_tell(struct arena *a, const char *what, int who);

/* A contender that is worth a fault just now, and the history is told for what: it holds for long (half of them), is the next in a queue, the
 * last, or any: faults that hit nobody show nothing. */
int arena_aim(struct arena *a);
/* A server, not that one, that such a contender is connected to, or any. not_this: -1 is none. */
int arena_aim_server(struct arena *a, int not_this);

void arena_kill(struct arena *a, int contender); /* SIGKILL, and another one takes its place */
/* A contender that holds for long what only one may hold, and what; -1: there is none for a while. */
int arena_holder(struct arena *a, int *path);
/* An operator takes away the place of who holds that, mostly, or of whoever is next. */
void arena_remove(struct arena *a, int path);
void arena_halt(struct arena *a, int contender); /* SIGSTOP */
void arena_continue(struct arena *a, int contender);

/* Freezes the server that leads for that long. One that is frozen longer than the sessions allow for breaks an assumption, and the
 * history says so, whether it was meant to or was slow to be woken. */
void arena_freeze_leader(struct arena *a, int64_t ms);

#endif
