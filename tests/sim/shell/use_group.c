/* use_group.c - members, and who watches them. */
#include "world.h"

#include "shell.h"

enum { IDS = 24, ID = 8 };
struct sight { /* what was told last, joined */
    const struct turn *turn;
    char ids[IDS * ID];
    bool told;
};

static void put_id(char *ids, const char *id)
{
    strncat(ids, id, ID);
    strcat(ids, " ");
}

static void changed(zkl_group_observer *watcher, const char *const *ids, size_t count, void *payload)
{
    struct sight *sight = payload;
    sight->told = true;
    sight->ids[0] = '\0';
    for (size_t i = 0; i < count && i < IDS; i++) {
        put_id(sight->ids, ids[i]);
    }
    sim_say(world, "app", "%d.%d is told of %s", sight->turn->client, sight->turn->thread,
            count ? sight->ids : "nobody");
}

/* The children that live with a session, sorted. */
static void list_now(int dir, char *ids)
{
    const char *last = "";
    int64_t now = sim_committed_zxid(world);
    ids[0] = '\0';
    for (int i = 0; i < IDS; i++) {
        const char *next = NULL;
        SIM_EACH_CHILD (world, node, dir, now) {
            const char *name = sim_node_name(world, node);
            if (world->nodes[node].owner != -1 && strcmp(name, last) > 0 && (!next || strcmp(name, next) < 0)) {
                next = name;
            }
        }
        if (!next) {
            return;
        }
        put_id(ids, next);
        last = next;
    }
}

static void check_sight(struct turn *turn, const struct sight *sight)
{
    char ids[IDS * ID];
    list_now(sim_path_of(world, turn->path, NULL), ids);
    if (!sight->told || strcmp(ids, sight->ids) != 0) {
        sim_fail_of(turn, "member", "was told %s, and all is quiet, and there are %s",
                    sight->told ? sight->ids : "nothing", ids);
    }
}

/* Whoever joined is in it, under its own session. */
static void check(struct turn *turn, zkl_group *group, const char *id, const struct sight *sight)
{
    bool member = zkl_group_state(group) == ZKL_STATE_HELD;
    int64_t session_id = zkl__core_facts(turn->session->core).session_id;
    int node = sim_node_at(world, sim_path_of(world, turn->path, id), sim_committed_zxid(world));
    if (!member && strcmp(id, "all") != 0) { /* which several processes want: one has it, the others wait */
        sim_fail_of(turn, "member", "has not joined again as %s, and all is quiet", id);
    }
    if (member && (node < 0 || world->nodes[node].owner != (int)session_id - 1)) {
        sim_fail_of(turn, "member", "is no member as %s, and all is quiet", id);
    }
    if (sight) {
        check_sight(turn, sight);
    }
}

/* Two at one id are possible, in a process or in several: then one waits for the other. */
static void choose_id(const struct turn *turn, char *id, size_t size)
{
    int64_t dice = turn_dice(turn, 7, 8);
    snprintf(id, size, "%d.%d", turn->client, dice ? turn->thread : 0);
    if (dice > 5) {
        snprintf(id, size, "all");
    }
}

void use_group(struct turn *turn)
{
    zkl_group *group;
    zkl_group_observer *watcher = NULL;
    struct sight sight = {.turn = turn};
    char id[ID];
    choose_id(turn, id, sizeof id);
    if (turn_dice(turn, 8, 2)) {
        zkl_group_observe(&watcher, turn->session, turn->path, changed, &sight, NULL);
    }
    if (zkl_group_new(&group, turn->session, turn->path, id, NULL, NULL) == ZKL_OK) {
        int code = EITHER_IN_TIME(turn, "join", zkl_group_join, group);
        if (code == ZKL_OK) {
            world->judge.grants++;
            turn_hold(turn);
            if (turn->plan->eager) {
                turn_told(turn, "update",
                          EITHER(turn, "update", zkl_group_update, group, "news", turn_short_timeout(turn)));
            }
            if (turn_dice(turn, 9, 2) && await_quiet()) {
                check(turn, group, id, watcher ? &sight : NULL);
            }
            if (!turn_frees(turn)) {
                turn_told(turn, "leave", EITHER(turn, "leave", zkl_group_leave, group));
            }
        }
        zkl_group_free(group);
    }
    zkl_group_observer_free(watcher);
}
