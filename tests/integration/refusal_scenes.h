/* refusal_scenes.h - what test_refusals.c runs while a server refuses something: every recipe, at every point at which it sends requests. */
#ifndef ZKL_TESTS_REFUSAL_SCENES_H
#define ZKL_TESTS_REFUSAL_SCENES_H

#include <zookeeper/zookeeper.h>

#include <zklock/zklock.h>

#include "access_kit.h"
#include "ensemble.h"

#define SECOND 1000 /* ms */
#define DEEP 16     /* znodes of a scene, more than there ever are */

/* Of the test's. */
extern struct ensemble *server;
extern zhandle_t *operator; /* to whom nothing is refused */
extern zkl_session *others; /* of the same credentials, without a chroot: whoever else is there */

struct stage {
    const struct scene *scene;
    const struct access_kind *kind; /* of a scene that is the same for all kinds */
    char root[64];                  /* the chroot */
    zkl_session *session;
    void *object, *rival; /* rival: somebody else's */
    pthread_t thread;     /* of what begins before anything is refused */
    long received;        /* by the server, from session, before; and in the first second */
    long sent;
    int code; /* what came of it */
};

struct scene {
    const char *name;
    void (*prepare)(struct stage *stage); /* nothing is refused yet */
    int (*run)(struct stage *stage);      /* for a second at most; its end does not matter, its code is shown */
    void (*end)(struct stage *stage);
};

extern const struct scene kind_scenes[]; /* for each of access_kinds */
extern const int kind_scene_count;
extern const struct scene scenes[];
extern const int scene_count;
#define STAGES_MAX 100 /* of all of them */

extern const zkl_acl open_acl;
/* By the operator; again when the server is too busy. */
void create(const char *path);

#endif
