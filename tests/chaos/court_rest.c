#include "court.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "wait.h"

/* --- what is seen ---------------------------------------------------------------------------------------------------- */

static void see_rest(struct court *c, const struct history_event *e)
{
    struct path *path = &c->paths[e->path];
    path->rest = e->at;
    *(e->op == HISTORY_list_by ? &path->list_by : &path->owner_by) = e->lease;
    c->rest_by = c->rest_by == 0 || e->lease < c->rest_by ? e->lease : c->rest_by;
}

void court_see_group(struct court *c, const struct history_event *e)
{
    struct member *member = &c->members[e->process];
    if (e->path < 0) {
        court_accuse(c, VERDICT_GARBLED, "a member of nothing at %" PRId64, e->at);
    } else if (e->op == HISTORY_owner_by || e->op == HISTORY_list_by) {
        see_rest(c, e);
    } else if (e->op == HISTORY_listed) {
        member->path = e->path;
        member->list = e->word;
        c->v->listed++;
    } else {
        member->joined = e->op == HISTORY_joined;
        c->paths[e->path].used = true;
    }
}

/* --- what has to be so ----------------------------------------------------------------------------------------------- */

/* Seen to hold since nothing is broken. */
static void check_owner(struct court *c, int path)
{
    bool owned = false;
    for (int i = 0; i < c->h->clients.count; i++) {
        const struct hold *hold = court_hold(c, &c->clients[i]);
        owned = owned || (hold && hold->path == path && hold->end >= c->paths[path].rest);
    }
    if (!owned) {
        court_accuse(c, VERDICT_UNOWNED, "%s, %" PRId64 " ms after the last fault", PATH(path),
                     (c->paths[path].owner_by - c->paths[path].rest) / MS);
    }
}

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* "a+b": those who joined. */
static char *list_members(const struct court *c)
{
    const char **names = court_make((size_t)c->h->processes.count, sizeof *names);
    char *list = court_make((size_t)c->h->processes.count, HISTORY_WORD + 1);
    size_t count = 0;
    for (int i = 0; i < c->h->processes.count; i++) {
        if (c->members[i].joined) {
            names[count++] = court_name(&c->h->processes, i);
        }
    }
    qsort(names, count, sizeof *names, compare_names);
    for (size_t i = 0; i < count; i++) {
        strcat(strcat(list, i > 0 ? "+" : ""), names[i]);
    }
    free(names);
    return list;
}

/* Who joins watches, too: a member that was told of nobody has no list. */
static void check_lists(struct court *c, int path)
{
    char *list = list_members(c);
    for (int i = 0; i < c->h->processes.count; i++) {
        const struct member *member = &c->members[i];
        const char *told = member->path == path ? court_name(&c->h->words, member->list) : "-";
        if ((member->joined || member->path == path) && strcmp(told, list) != 0) {
            court_accuse(c, VERDICT_WRONG_LIST, "%s was told of %s at %s, where %s are",
                         court_name(&c->h->processes, i), told, PATH(path), list);
        }
    }
    free(list);
}

void court_check_rest(struct court *c, int64_t now)
{
    if (c->rest_by == 0 || now <= c->rest_by) {
        return;
    }
    c->rest_by = 0;
    for (int i = 0; i < c->h->paths.count; i++) {
        struct path *path = &c->paths[i];
        int64_t due = path->list_by > path->owner_by ? path->list_by : path->owner_by;
        if (path->rest && now > due) {
            if (path->list_by) {
                check_lists(c, i);
            } else {
                check_owner(c, i);
            }
            path->rest = 0;
        } else if (path->rest) {
            c->rest_by = c->rest_by == 0 || due < c->rest_by ? due : c->rest_by;
        }
    }
}
