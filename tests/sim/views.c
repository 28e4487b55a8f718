/* views.c - who watches in each process, and what it was shown: at no time what was not so, and in the end what is so. */
#include <string.h>

#include "groups.h"
#include "invariants_inside.h"
#include "member_list.h"
#include "name.h"
#include "observer.h"
#include "past.h"
#include "session_inside.h"

enum { NAME = 80 };

/* One of a path. */
struct view {
    struct zkl__member_list list; /* of a group; else: */
    struct zkl__observer observer;
    struct sim *s;
    int client, path;
    bool begun; /* else there was no memory */
    bool is_list;
    bool shown;
    int64_t asked;            /* the zxid that the process had seen when it asked for the last list */
    struct zkl__names *names; /* shown by the list */
    char leader[NAME];        /* shown by the observer; "": nobody */
};

struct sim_views {
    struct view all[3];
};

/* --- truth ----------------------------------------------------------------------------------------------------------- */

static bool lives(const struct sim *s, int node)
{
    return node >= 0 && s->nodes[node].owner != -1;
}

/* The children of the path that live with a session: how many, and are these the names. */
static bool are_members(const struct sim *s, int dir, const struct zkl__names *names)
{
    size_t count = 0;
    for (int child = s->paths[dir].first_child; child >= 0; child = s->paths[child].sibling) {
        bool member = lives(s, sim_node_at(s, child, sim_committed_zxid(s))), named = false;
        for (size_t i = 0; member && i < names->count; i++) {
            named = named || strcmp(names->all[i], sim_path_name(&s->paths[child])) == 0;
        }
        if (member && !named) {
            return false;
        }
        count += member;
    }
    return count == names->count;
}

/* "": nobody. */
static const char *first_of(const struct sim *s, int dir)
{
    const char *first = "";
    for (int child = s->paths[dir].first_child; child >= 0; child = s->paths[child].sibling) {
        const char *name = sim_path_name(&s->paths[child]);
        struct zkl__name parsed = zkl__name_parse(name);
        bool stands = lives(s, sim_node_at(s, child, sim_committed_zxid(s))) && parsed.kind != ZKL_KIND_FOREIGN &&
                      !zkl__sequence_used_up(parsed.sequence);
        if (stands && (!first[0] || zkl__sequence_diff(parsed.sequence, zkl__name_sequence(first)) < 0)) {
            first = name;
        }
    }
    return first;
}

/* --- what is shown: inside a step ------------------------------------------------------------------------------------- */

/* A member was there when the list was made, or later; and with a session, some time: a list brings names only. */
static void check_member(const struct view *view, const char *name)
{
    struct sim *s = view->s;
    bool there = false, lived = false;
    for (int node = s->paths[sim_path_of(s, sim_plan_path(view->path), name)].node; node >= 0;
         node = s->nodes[node].older) {
        there = there || (s->nodes[node].dzxid > view->asked && s->nodes[node].czxid <= sim_committed_zxid(s));
        lived = lived || s->nodes[node].owner != -1;
    }
    if (!there || !lived) {
        sim_fail(s, "member", "client %d is shown %s, which was %s", view->client, name,
                 there ? "never a member" : "gone before the list was asked for");
    }
}

static void show_members(void *owner, struct zkl__names *members)
{
    struct view *view = owner;
    const zkl_heap heap = sim_heap_api(&view->s->clients[view->client].heap);
    sim_say(view->s, "app", "%d is shown %zu members of %s", view->client, members->count, sim_plan_path(view->path));
    for (size_t i = 0; i < members->count; i++) {
        check_member(view, members->all[i]);
    }
    zkl__free(&heap, view->names);
    view->names = members;
    view->shown = true;
}

static void check_leader(const struct view *view, const struct zkl__leader *leader)
{
    struct sim *s = view->s;
    int node = s->paths[sim_path_of(s, sim_plan_path(view->path), leader->node)].node;
    if (node < 0) {
        sim_fail(s, "observed", "client %d is shown a leader that never was", view->client);
    } else if (leader->readable && leader->stat.czxid != s->nodes[node].czxid) {
        sim_fail(s, "observed", "client %d is shown another leader's token", view->client);
    } else if (!s->nodes[node].by_stranger &&
               !sim_was_first(s, node, s->nodes[node].czxid, sim_committed_zxid(s), false)) {
        sim_fail(s, "observed", "client %d is shown a leader who never stood first", view->client);
    }
}

static bool show_leader(void *owner, const struct zkl__leader *leader)
{
    struct view *view = owner;
    sim_say(view->s, "app", "%d is shown that %s leads %s", view->client, leader->node ? leader->node : "nobody",
            sim_plan_path(view->path));
    snprintf(view->leader, sizeof view->leader, "%s", leader->node ? leader->node : "");
    view->shown = true;
    if (leader->node) {
        check_leader(view, leader);
    }
    return true;
}

/* --- life ------------------------------------------------------------------------------------------------------------- */

static void begin(struct sim *s, int client, struct view *view, int path)
{
    const char *dir = sim_plan_path(path);
    view->s = s;
    view->client = client;
    view->path = path;
    view->is_list = sim_path_is_group(s->plan, path);
    if (view->is_list) {
        view->list.dir = dir;
        view->list.show = show_members;
        view->begun = zkl__member_list_begin(&view->list, s->clients[client].core, view);
    } else {
        view->observer.dir = dir;
        view->observer.show = show_leader;
        view->begun = zkl__observer_begin(&view->observer, s->clients[client].core, view);
    }
}

void sim_views_begin(struct sim *s, int client)
{
    struct sim_client *it = &s->clients[client];
    const zkl_heap heap = sim_heap_api(&it->heap);
    it->views = s->plan->watchers > 1 ? zkl__zalloc(&heap, sizeof *it->views) : NULL;
    for (int path = 0; it->views && path < s->plan->paths; path++) {
        begin(s, client, &it->views->all[path], path);
    }
}

void sim_views_end(struct sim *s, int client)
{
    struct sim_client *it = &s->clients[client];
    const zkl_heap heap = sim_heap_api(&it->heap);
    for (int path = 0; it->views && path < s->plan->paths; path++) {
        zkl__member_list_end(&it->views->all[path].list);
        zkl__observer_end(&it->views->all[path].observer);
        zkl__free(&heap, it->views->all[path].names);
    }
    zkl__free(&heap, it->views);
    it->views = NULL;
}

bool sim_views_asked(const struct sim *s, int client, uint64_t id)
{
    const struct sim_client *it = &s->clients[client];
    const struct zkl__pending *p = it->core && it->views ? zkl__pending_find(&it->core->pendings, id) : NULL;
    for (int path = 0; p && path < s->plan->paths; path++) {
        const struct view *view = &it->views->all[path];
        if (p->owner == &view->list.watcher.machine || p->owner == &view->observer.watcher.machine) {
            return true;
        }
    }
    return false;
}

void sim_views_submit(struct sim *s, int client, const struct zkl__op *op)
{
    struct sim_client *it = &s->clients[client];
    for (int path = 0; it->views && path < s->plan->paths; path++) {
        struct view *view = &it->views->all[path];
        if (view->is_list && op->kind == ZKL__OP_CHILDREN && strcmp(op->dir, view->list.dir) == 0) {
            view->asked = it->handle.last_zxid;
        }
    }
}

/* --- the judge -------------------------------------------------------------------------------------------------------- */

/* Faults are healed, everybody is connected, and nothing has changed for longer than anything is put off (two seconds). */
static bool is_quiet(const struct sim *s)
{
    bool quiet = s->faults.healed && s->plan->slow_once_in == 0 && !s->faults.beyond;
    int64_t since = sim_now(s) - 2 * s->plan->timeout - 5 * SIM_SECOND;
    for (int client = 0; quiet && client < s->client_count; client++) {
        const struct sim_client *it = &s->clients[client];
        quiet = it->process == SIM_RUNNING && it->connected_at < since;
    }
    return quiet && s->judge.unrest < since && s->plan->heal < since;
}

static void judge(struct sim *s, const struct view *view)
{
    int dir = sim_path_of(s, sim_plan_path(view->path), NULL);
    if (view->is_list && (!view->shown || !are_members(s, dir, view->names))) {
        sim_fail(s, "member", "all is quiet, and client %d is shown other members of %s than there are", view->client,
                 sim_plan_path(view->path));
    } else if (!view->is_list && (!view->shown || strcmp(view->leader, first_of(s, dir)) != 0)) {
        sim_fail(s, "observed", "all is quiet, and client %d is shown %s as the leader, not %s", view->client,
                 view->leader[0] ? view->leader : "nobody", first_of(s, dir));
    }
}

void sim_judge_views(struct sim *s, int client)
{
    const struct sim_client *it = &s->clients[client];
    if (!s->plan->watchers || !is_quiet(s)) {
        return;
    }
    for (int path = 0; it->views && path < s->plan->paths; path++) {
        if (it->views->all[path].begun) {
            judge(s, &it->views->all[path]);
        }
    }
    sim_judge_members(s, client);
}

bool sim_views_rest(const struct sim *s)
{
    return !s->plan->watchers || s->plan->slow_once_in > 0 || s->faults.beyond || is_quiet(s);
}
