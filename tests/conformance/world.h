/* world.h - a store that scripts are played on: the adapter that a further store needs.
 *
 * The runner calls from one thread. Functions that return bool print to stderr what went wrong and return false; the run
 * is over then. */
#ifndef ZKL_CONFORMANCE_WORLD_H
#define ZKL_CONFORMANCE_WORLD_H

#include "memory.h"
#include "recorder.h"
#include "steps.h"

struct world_session;

struct world_plan {
    const char *chroot; /* "/k0000001", made before as a plain node; "": none. A store that has no chroots ignores it */
    const char *identity; /* "user:password" for the digest scheme; NULL: none */
    const zkl_acl *acl;   /* of creates; NULL: the store's own default */
    bool cuts;            /* its connection will be lost */
};

struct world {
    const char *name;
    unsigned features; /* SCRIPT_... that it can do. SCRIPT_CHROOT: scripts may ask for it, see above */
    bool small;        /* has room for one script; begins anew when a session is opened and none is */
    bool lags;         /* one session may see less than another saw before: it needs a write as a barrier */
    void *state;

    /* A session, connected; *id: the server's number for it. NULL: failed. */
    struct world_session *(*open)(struct world *world, const struct world_plan *plan, int64_t *id);
    /* Submits op behind what was submitted before; *id as the reply's record will have it, 0 when it was refused, and then *code
     * says why. */
    void (*submit)(struct world_session *session, const struct zkl__op *op, uint64_t *id, int *code);
    /* Waits for the reply to id, and so for all before it. */
    bool (*wait)(struct world_session *session, uint64_t id);
    /* Ends the session; true once the store says that it is over. */
    bool (*close)(struct world_session *session);
    /* Loses the connection, returns when `suspended` was told; and the other way round. With SCRIPT_CUTS only. */
    bool (*cut)(struct world_session *session);
    bool (*heal)(struct world_session *session);
    /* The nth (from 0) that it was told, NULL: no more. Records live until free. */
    const struct record *(*told)(struct world_session *session, size_t n);
    void (*free)(struct world_session *session);
};

/* One of the stores behind store.h, by its servers string; memory: is known by its name, and keeps these rules. */
struct world *world_of_store(const char *servers, enum zkl__memory_rules rules);
void world_free(struct world *world);

/* The simulated ensemble. One at a time. */
struct world *world_of_sim(enum zkl__memory_rules rules);
void world_sim_free(struct world *world);

#endif
