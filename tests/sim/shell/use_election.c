/* use_election.c - candidates, leaders and who observes them. */
#include "world.h"

/* --- what leaders publish ---------------------------------------------------------------------------------------------- */

/* What leaders alone may publish stands on the znode of one who was first: with nobody before it but nodes of its own session, for these hand
 * over to each other before the delete is done. */
static void check_published(int dir)
{
    int64_t now = sim_committed_zxid(world);
    for (int child = world->paths[dir].first_child; child >= 0; child = world->paths[child].sibling) {
        int node = world->paths[child].node;
        const struct sim_value *value = sim_value_at(world, node, now);
        if (value->older >= 0 && world->nodes[node].owner > SIM_STRANGER && memchr(value->data, '+', value->size) &&
            !sim_was_first(node, value->zxid, true)) {
            sim_fail(world, "observed", "%s carries a leader's value, and was never first", world->paths[child].text);
        }
    }
}

/* either: in a turn's own thread, so that it may be a call without waiting. */
static int publish(struct turn *turn, zkl_lock *election, bool either)
{
    char value[3] = {(char)('0' + turn->client), '+', '\0'};
    int code = turn_told(turn, "publish",
                         either ? EITHER(turn, "publish", zkl_election_publish, election, value, 500)
                                : zkl_election_publish(election, value, 500, NULL));
    check_published(sim_path_of(world, turn->path, NULL));
    return code;
}

/* --- who observes -------------------------------------------------------------------------------------------------------- */

/* Whose znode it is, and what it published: a candidate its process's number, a leader the same with a plus. */
static void check_leader(struct turn *turn, const zkl_leader *leader)
{
    int node = world->paths[sim_path_of(world, turn->path, leader->node)].node;
    if (node < 0 || world->nodes[node].by_stranger) {
        return;
    }
    int64_t born = world->nodes[node].czxid;
    if (leader->token != born && leader->readable) {
        sim_fail_of(turn, "observed", "is told token %llx of a leader who has %llx", (unsigned long long)leader->token,
                    (unsigned long long)born);
    }
    if (!sim_was_first(node, sim_committed_zxid(world), false)) {
        sim_fail_of(turn, "observed", "is told of a leader who never stood first");
    }
    char owner = (char)('0' + world->sessions[world->nodes[node].owner].client);
    if (leader->readable && leader->value_size > 0 && leader->value[0] != owner && !world->faults.stranger) {
        sim_fail_of(turn, "observed", "is told %s of a leader in process %c", leader->value, owner);
    }
}

static void told(zkl_election_observer *observer, const zkl_leader *leader, void *payload)
{
    struct turn *turn = payload;
    snprintf(turn->seen, sizeof turn->seen, "%s", leader ? leader->node : "");
    turn_told(turn, leader ? "observes" : "observes nobody", ZKL_OK);
    if (leader) {
        sim_say(world, "app", "%d.%d sees %s lead, with %s", turn->client, turn->thread, leader->node,
                leader->value_size > 0 ? leader->value : "no value");
        check_leader(turn, leader);
        if (turn_dice(turn, 11, 4) == 0) {
            publish(turn, turn->object, false); /* leads or not */
        }
    }
}

/* When all is quiet its own observer sees the leader. */
static void check_seen(const struct turn *turn, const zkl_lock *election)
{
    char name[ZKL__NAME_MAX];
    if (turn->observes && is_quiet() && zkl_lock_node(election, name, sizeof name) > 0 && zkl_lock_is_held(election) &&
        strcmp(name, turn->seen) != 0) {
        sim_fail_of(turn, "observed", "leads, all is quiet, and its observer sees %s",
                    *turn->seen ? turn->seen : "nobody");
    }
}

/* --- who stands ---------------------------------------------------------------------------------------------------------- */

/* Under the run's flag: whoever leads no more has been told. */
static int lead(const zkl_cancel *cancel, int64_t token, void *payload)
{
    struct turn *turn = payload;
    zkl_lock *election = turn->object;
    turn_claim(turn, token, election);
    for (int i = 0; i < 8 && !zkl_cancel_raised(cancel); i++) {
        fiber_sleep(turn->plan->hold / 8);
        if (!zkl_lock_is_held(election) && !zkl_cancel_raised(cancel)) {
            sim_fail_of(turn, "told", "leads no more, and the flag is down");
        }
    }
    turn_drop(turn);
    return 1;
}

static void campaign(struct turn *turn, zkl_lock *election)
{
    zkl_grant grant;
    if (turn_acquire(turn, "campaign", election, &grant) == ZKL_OK) {
        turn_claim(turn, grant.token, election);
        fiber_sleep(turn->plan->hold / 2);
        if (turn->plan->eager) {
            publish(turn, election, true);
        }
        fiber_sleep(turn->plan->hold / 2);
        check_seen(turn, election);
        turn_drop(turn);
        turn_release(turn, election, "resign");
    } else if (publish(turn, election, true) == ZKL_OK) {
        sim_fail_of(turn, "outcome", "publishes, and does not lead");
    }
}

/* Leads, or no more; and at last it stands no longer. */
static void on_stand(zkl_lock *election, zkl_state state, int64_t token, const zkl_error *err, void *payload)
{
    struct async_call *call = payload;
    struct turn *turn = call->turn;
    if (state == ZKL_STATE_IDLE) {
        turn_drop(turn);
        async_done(err->code, err, call);
    } else if (state == ZKL_STATE_LOST) {
        turn_told(turn, "leads no more", err->code);
        turn_drop(turn);
    } else if (state == ZKL_STATE_HELD && turn->claims[0] < 0) {
        turn_claim(turn, token, election);
    }
}

/* Until it has held for so long, or a while. */
static void stand(struct turn *turn, zkl_lock *election, struct async_call *call)
{
    call->turn = turn;
    int code = turn_told(turn, "stands", zkl_election_stand(election, on_stand, call, NULL));
    if (code == ZKL_OK) {
        fiber_sleep(turn_short_timeout(turn) * SIM_MS / 4);
        fiber_sleep(turn->plan->hold);
        turn_told(turn, "leaves", zkl_election_leave(election, NULL));
    }
    turn_got(turn, "stand", async_wait(turn, call, code));
}

void use_election(struct turn *turn)
{
    zkl_lock *election;
    zkl_election_observer *observer = NULL;
    zkl_lock_options options = turn_options(turn);
    char value[] = {(char)('0' + turn->client), '\0'};
    options.metadata = value;
    if (zkl_election_new(&election, turn->session, turn->path, &options, NULL) != ZKL_OK) {
        return;
    }
    turn->object = election;
    if (turn_dice(turn, 4, 2)) {
        turn->observes = zkl_election_observe(&observer, turn->session, turn->path, told, turn, NULL) == ZKL_OK;
    }
    if (turn_dice(turn, 5, 3) == 0) {
        turn_got(turn, "run", zkl_election_run(election, 0, lead, turn, NULL, NULL));
    } else {
        struct async_call *call = turn_async(turn, "stand");
        call ? stand(turn, election, call) : campaign(turn, election);
    }
    zkl_election_observer_free(observer);
    zkl_lock_free(election);
}
