/* handle_kit.h - a lock of every recipe, driven by the same verbs: on real servers and on memory:. */
#ifndef ZKL_TESTS_HANDLE_KIT_H
#define ZKL_TESTS_HANDLE_KIT_H

#include <zklock/zklock.h>
#include <zklock/zookeeper.h>

/* What makes a lock of one recipe, at and below path. */
typedef int (*handle_make_fn)(zkl_lock **out, zkl_session *session, const char *path, const zkl_lock_options *options,
                              zkl_error *err);

struct handle_recipe {
    zkl_recipe recipe;
    const char *noun; /* as errors name it */
    handle_make_fn make;
};
enum { HANDLE_RECIPES = 6 };
extern const struct handle_recipe handle_recipes[HANDLE_RECIPES];

/* A lock of that recipe; fails the test for good when it cannot be made. */
zkl_lock *handle_make(const struct handle_recipe *recipe, zkl_session *session, const char *path,
                      const zkl_lock_options *options);

/* Acquires, commits, releases, waits, cancels and runs a section: what a lock of any recipe does,
 * beside a rival in another session. record: a path whose parent exists, for what is written under
 * the lock. */
void handle_drive(const struct handle_recipe *recipe, zkl_session *session, zkl_session *other, const char *path,
                  const char *record);

/* While a section runs, the lock is released, the rival holds it, and the same object is acquired again: that grant is not the section's.
 * A zkl_section_fn. */
struct handle_replaced {
    zkl_lock *lock, *rival;
    int result;    /* of the section */
    int64_t first; /* token */
    zkl_grant second;
};
int handle_replace(const zkl_cancel *cancel, int64_t token, void *replaced);

zkl_stats kit_stats(zkl_session *session);

#endif
