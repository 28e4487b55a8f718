/* multilock.c - several locks, all or none: one contender in several queues. */
#include "lock.h"

#include "base.h"
#include "name.h"

#include <zklock/multilock.h>

#include <string.h>

static const struct zkl__recipe multilock = {
    .noun = "multi-lock",
    .id = ZKL_RECIPE_MULTILOCK,
    .size = sizeof(zkl_lock),
    .rule = &zkl__rule_mutex,
    .several = true,
};

/* A contender with the same path twice would wait for itself. */
static int check_paths(const char *const *paths, size_t count, zkl_error *err)
{
    if (!paths || count == 0) {
        return zkl__fail_at(err, ZKL_EINVAL, NULL, "paths: at least one is needed");
    }
    if (count > ZKL_MULTILOCK_MAX) {
        return zkl__fail_at(err, ZKL_ELIMIT, NULL, "paths: %zu are more than %d", count,
                            ZKL_MULTILOCK_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        int rc = zkl__path_check(paths[i], err);
        for (size_t j = 0; rc == ZKL_OK && j < i; j++) {
            if (strcmp(paths[i], paths[j]) == 0) {
                rc = zkl__fail_at(err, ZKL_EINVAL, paths[i], "paths: %.200s is there twice",
                                  paths[i]);
            }
        }
        if (rc != ZKL_OK) {
            return rc;
        }
    }
    return ZKL_OK;
}

int zkl_multilock_new(zkl_lock **out, zkl_session *session, const char *const *paths, size_t count,
                      const zkl_lock_options *options, zkl_error *err)
{
    ZKL__CLEAR(out);
    int rc = check_paths(paths, count, err);
    return rc == ZKL_OK ? zkl__lock_make(out, &multilock, session, paths, count, options, err) : rc;
}

const char *zkl_multilock_path(const zkl_lock *lock, size_t index)
{
    bool has = lock && lock->recipe == &multilock && index < lock->path_count;
    return has ? lock->paths[index] : NULL;
}
