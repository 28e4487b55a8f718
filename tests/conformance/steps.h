/* steps.h - what is done to every store: a random sequence of steps, made from a seed.
 *
 * A step is a burst of operations that one session submits without waiting, or something that happens to a session. Steps
 * are told apart by waiting until everything is answered, so that the order in which several sessions reach the store is given by the
 * script; within a burst it is given by the session's own order. So a script has one right transcript. */
#ifndef ZKL_CONFORMANCE_STEPS_H
#define ZKL_CONFORMANCE_STEPS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op.h"

enum {
    SCRIPT_SLOTS = 3,   /* sessions at a time */
    SCRIPT_STEPS = 400, /* at most */
    BURST_OPS = 16,
    SCRIPT_PARTS = 5, /* of a multi */
    SCRIPT_PATH = 200 /* longest path, NUL included */
};

enum step_kind {
    STEP_BURST,
    STEP_OPEN,  /* a new session in the slot */
    STEP_CLOSE, /* the session in the slot is closed */
    STEP_CUT,   /* its connection is lost, and none comes until */
    STEP_HEAL   /* a connection of it is up again */
};

/* What a store must be able to do for a script. */
enum script_features {
    SCRIPT_ACLS = 1,       /* access lists, digest identities */
    SCRIPT_CUTS = 2,       /* connections can be lost */
    SCRIPT_CHROOT = 4,     /* sessions under a chroot, where there is one */
    SCRIPT_ROOT = 8,       /* the root itself is looked at; only with one script at a time */
    SCRIPT_PARTS_STAT = 16 /* a set inside a multi tells the stat as it was in the middle of it */
};

struct step {
    enum step_kind kind;
    int slot;
    size_t first, count; /* burst: which ops */
};

/* Bounds of one script, and what differs between runs of the same one. base lives as long as the script. */
struct script_options {
    uint64_t seed;
    size_t ops;
    unsigned features;
    const char *base; /* a path that nobody else uses; each run has another one */
};

struct script {
    struct script_options options; /* with the features that are in use */
    int slots;                     /* sessions in it: 2 or 3 */
    bool default_acl;              /* sessions have no access list of their own for creates */
    struct step steps[SCRIPT_STEPS];
    size_t step_count;
    struct zkl__op *ops;
    size_t op_count;
    struct script_text *texts; /* what ops point at */
};

struct script *script_make(const struct script_options *options);
void script_free(struct script *script);

/* Credentials of a slot ("user:password"), or NULL. */
const char *script_identity(int slot);

#endif
