/* recipes.h - each recipe used once at a path where foreign znodes are: acquired and released, joined and left, read and written. */
#ifndef ZKL_TESTS_FOREIGN_RECIPES_H
#define ZKL_TESTS_FOREIGN_RECIPES_H

#include "handle_kit.h"

#define STUCK 1000 /* instead of a code: an asynchronous call was never completed */

struct use {
    zkl_session *session;
    const char *path;
    bool async;
    int64_t timeout_ms;  /* of what may wait for a foreign contender */
    int64_t patience_ms; /* of what waits for nobody */
    int64_t briefly_ms;  /* of what waits for somebody who does not come */
    zkl_error err;       /* of the call whose code is returned */
};

struct recipe {
    const char *name;
    bool has_async;
    int group;                /* recipes of one group may follow one another at a path */
    int (*run)(struct use *); /* or NULL */
    /* After that, or NULL: a lock, which is acquired, used by its verb and released. */
    handle_make_fn make;
    int (*verb)(struct use *, zkl_lock *);
    bool recover, revocable;
    int64_t linger_ms, delay_ms;
};

extern const struct recipe recipes[];
extern const int recipe_count;

/* The code of the call that decides: ZKL_OK, or why not. */
int recipe_use(const struct recipe *recipe, struct use *use);

#endif
