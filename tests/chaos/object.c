#include "object.h"

#include <stdio.h>
#include <string.h>

#include "dice.h"

#define READERS 1000 /* more than there can be at once */
#define PERMITS 3
#define RECOVER "recover:"

static const struct {
    const char *prefix;
    int of;
} kinds[] = {
    [OBJECT_LOCK] = {"", 1},           [OBJECT_RWLOCK] = {"rw:", READERS}, [OBJECT_SEMAPHORE] = {"sem:", PERMITS},
    [OBJECT_ELECTION] = {"elect:", 1}, [OBJECT_MULTILOCK] = {"multi:", 1},
};
#define COUNT ((int)(sizeof kinds / sizeof *kinds))

/* Kind and paths. */
static void parse(struct object *o, const char *word)
{
    o->kind = OBJECT_LOCK;
    o->recovers = strncmp(word, RECOVER, strlen(RECOVER)) == 0;
    word += o->recovers ? strlen(RECOVER) : 0;
    for (int i = 0; i < COUNT; i++) {
        size_t length = strlen(kinds[i].prefix);
        if (length > 0 && strncmp(word, kinds[i].prefix, length) == 0) {
            o->kind = (enum object_kind)i;
            word += length;
        }
    }
    o->path_count = 0;
    while (*word && o->path_count < OBJECT_PATHS) {
        size_t length = strcspn(word, ",");
        snprintf(o->paths[o->path_count++], HISTORY_WORD, "%.*s", (int)length, word);
        word += length + (word[length] == ',' ? 1 : 0);
    }
}

int object_new(struct object *o, zkl_session *session, const char *word, const zkl_lock_options *options,
               zkl_error *err)
{
    zkl_lock_options own = *options;
    const char *paths[OBJECT_PATHS] = {o->paths[0], o->paths[1]};
    parse(o, word);
    o->of = kinds[o->kind].of;
    o->takes = 1;
    own.payload = o;
    own.recover = o->recovers;
    own.revoke_fn = o->recovers ? own.revoke_fn : NULL;
    int code = ZKL_OK;
    switch (o->kind) {
    case OBJECT_LOCK:
        code = zkl_lock_new(&o->writer, session, o->paths[0], &own, err);
        break;
    case OBJECT_RWLOCK:
        code = zkl_read_lock_new(&o->reader, session, o->paths[0], &own, err);
        code = code == ZKL_OK ? zkl_write_lock_new(&o->writer, session, o->paths[0], &own, err) : code;
        break;
    case OBJECT_SEMAPHORE:
        code = zkl_semaphore_new(&o->writer, session, o->paths[0], o->of, &own, err);
        break;
    case OBJECT_ELECTION:
        code = zkl_election_new(&o->writer, session, o->paths[0], &own, err);
        break;
    case OBJECT_MULTILOCK:
        code = zkl_multilock_new(&o->writer, session, paths, (size_t)o->path_count, &own, err);
        break;
    }
    o->lock = o->writer;
    return code;
}

void object_free(struct object *o)
{
    zkl_lock_free(o->reader);
    zkl_lock_free(o->writer);
}

void object_roll(struct object *o, uint64_t *dice)
{
    bool whole = o->reader && dice_once_in(dice, 3);
    o->takes = whole ? o->of : o->reader ? 1 : (int)dice_between(dice, 1, o->of);
    o->lock = o->reader && !whole ? o->reader : o->writer;
}

int object_acquire(struct object *o, int64_t timeout_ms, zkl_grant *grant, zkl_error *err)
{
    return o->kind == OBJECT_SEMAPHORE ? zkl_semaphore_acquire(o->lock, o->takes, timeout_ms, grant, err)
                                       : zkl_lock_acquire(o->lock, timeout_ms, grant, err);
}

int object_acquire_async(struct object *o, zkl_acquired_fn done, zkl_error *err)
{
    return o->kind == OBJECT_SEMAPHORE ? zkl_semaphore_acquire_async(o->lock, o->takes, ZKL_WAIT_FOREVER, done, o, err)
                                       : zkl_lock_acquire_async(o->lock, ZKL_WAIT_FOREVER, done, o, err);
}
