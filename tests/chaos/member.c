#include "member.h"

#include <stdio.h>
#include <string.h>

#include "dice.h"
#include "process.h"
#include "wait.h"

#define PATIENCE 5000 /* ms: of one try to join */

struct member {
    char path[HISTORY_WORD];
    zkl_group *group;
    zkl_group_observer *watcher;
    uint64_t dice;
};

static void note(const struct member *m, enum history_op op, const char *result)
{
    history_write(process.record, &(struct history_line){.client = process.name,
                                                         .session = zkl_session_id(process.session),
                                                         .op = op,
                                                         .path = m->path,
                                                         .result = result});
}

/* "p0-0+p1-3+p2-1". Those that were killed are in it for a while: what does not fit is cut, and is no list of the living. */
static void on_changed(zkl_group_observer *watcher, const char *const *ids, size_t count, void *payload)
{
    char text[HISTORY_WORD] = "";
    (void)watcher;
    for (size_t i = 0; i < count; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s", i > 0 ? "+" : "", ids[i]);
    }
    note(payload, HISTORY_listed, count > 0 ? text : NULL);
}

/* For a while, long enough to lose a session or two in it, or not; when all is calm, to the end. */
static void stay(struct member *m)
{
    int64_t end = now_ms() + (dice_once_in(&m->dice, 3) ? 60000 : dice_between(&m->dice, 100, 4000));
    while (!atomic_load(&process.enough) && (process_calm() || now_ms() < end)) {
        if (process_calm()) {
            process_settled(PAGE_MEMBER);
        }
        poll(NULL, 0, 10);
    }
}

static void join_and_leave(struct member *m)
{
    if (zkl_group_join(m->group, PATIENCE, NULL) == ZKL_OK) {
        note(m, HISTORY_joined, NULL);
        stay(m);
        note(m, HISTORY_left, NULL);
        zkl_group_leave(m->group, NULL);
    }
}

void *member_run(void *seed)
{
    struct member m = {.dice = *(uint64_t *)seed};
    zkl_error err;
    snprintf(m.path, sizeof m.path, "%.40s/g", process.root);
    if (zkl_group_new(&m.group, process.session, m.path, process.name, NULL, &err) != ZKL_OK ||
        zkl_group_observe(&m.watcher, process.session, m.path, on_changed, &m, &err) != ZKL_OK) {
        process_give_up(m.path, &err);
    }
    while (!atomic_load(&process.enough)) {
        join_and_leave(&m);
    }
    zkl_group_observer_free(m.watcher);
    zkl_group_free(m.group);
    return NULL;
}
