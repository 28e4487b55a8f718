/* groups.c - members of a group: how the application joins and leaves, and the end of it. Such an attempt has no seat in a queue: it is
 * a znode with a name of its own at its path. */
#include "groups.h"

#include <string.h>

#include "invariants_inside.h"

enum { ID = 8 };

struct sim_member {
    struct zkl__membership m; /* first */
    struct sim_attempt *attempt;
    struct sim_member *next; /* of the client */
    char make_path[32], id[ID];
};

bool sim_path_is_group(const struct sim_plan *plan, int path)
{
    for (int i = 0; i < plan->acquire_count; i++) {
        if (plan->acquires[i].recipe == SIM_GROUP && plan->acquires[i].path == path) {
            return true;
        }
    }
    return false;
}

bool sim_member_is(const struct sim_client *client, const void *memory)
{
    const struct sim_member *member = client->members;
    while (member && (const void *)member != memory) {
        member = member->next;
    }
    return member;
}

void sim_member_plain(void *memory, const struct sim_plan *plan)
{
    struct sim_member *member = memory;
    member->attempt = (void *)(member->attempt->plan - plan->acquires + 1);
}

/* --- what it tells: inside a step ------------------------------------------------------------------------------------ */

static void note(void *owner)
{
    struct sim_member *member = owner;
    struct sim_attempt *attempt = member->attempt;
    if (attempt->state == SIM_PENDING && member->m.joined) {
        sim_say(attempt->s, "app", "%d.%d is a member as %s", attempt->client, attempt->thread, member->id);
        attempt->s->judge.grants++;
        sim_app_joined(attempt);
    }
}

static void drop(struct sim_client *client, struct sim_member *member)
{
    struct sim_member **at = &client->members;
    while (*at != member) {
        at = &(*at)->next;
    }
    *at = member->next;
    zkl__membership_end(&member->m);
    const zkl_heap heap = sim_heap_api(&client->heap);
    zkl__free(&heap, member);
}

/* The last thing that it does. */
static void rests(void *owner)
{
    struct sim_member *member = owner;
    struct sim_attempt *attempt = member->attempt;
    if (attempt->state == SIM_RELEASING && member->m.node == ZKL__MEMBER_NONE) {
        sim_say(attempt->s, "app", "%d.%d has left", attempt->client, attempt->thread);
        drop(&attempt->s->clients[attempt->client], member);
        sim_app_left(attempt);
    }
}

/* --- what the application does ---------------------------------------------------------------------------------------- */

/* A third of all want the same id: one of these has it, the others wait. */
static void choose_id(const struct sim_attempt *attempt, char id[ID])
{
    bool shared = attempt->plan->kind == SIM_WRITE;
    snprintf(id, ID, shared ? "all" : "%d.%d", attempt->client, attempt->thread);
}

struct sim_member *sim_member_make(struct sim_attempt *attempt)
{
    struct sim_client *client = &attempt->s->clients[attempt->client];
    const zkl_heap heap = sim_heap_api(&client->heap);
    struct sim_member *member = zkl__zalloc(&heap, sizeof *member);
    if (!member) {
        return NULL;
    }
    const char *path = sim_plan_path(attempt->path);
    choose_id(attempt, member->id);
    strcpy(member->make_path, path);
    member->attempt = attempt;
    member->m = (struct zkl__membership){
        .note = note, .rests = rests, .path = path, .id = member->id, .data = "host:1", .make_path = member->make_path};
    if (!zkl__membership_begin(&member->m, client->core, member)) {
        zkl__free(&heap, member);
        return NULL;
    }
    member->next = client->members;
    client->members = member;
    return member;
}

static void wake(struct sim_attempt *attempt)
{
    sim_core_event(attempt->s, attempt->client,
                   (struct zkl__event){.kind = ZKL__EV_WAKE, .watcher = &attempt->member->m.watcher});
}

/* A name that this process wants twice is wanted once: the library refuses the second. */
void sim_member_join(struct sim_attempt *attempt)
{
    if (zkl__membership_has_rival(&attempt->member->m, false)) {
        drop(&attempt->s->clients[attempt->client], attempt->member);
        sim_app_left(attempt);
        return;
    }
    zkl__membership_join(&attempt->member->m);
    wake(attempt);
}

void sim_member_leave(struct sim_attempt *attempt)
{
    attempt->state = SIM_RELEASING;
    sim_say(attempt->s, "app", "%d.%d leaves", attempt->client, attempt->thread);
    zkl__membership_leave(&attempt->member->m);
    wake(attempt);
}

void sim_members_drop(struct sim_client *client)
{
    while (client->members) {
        drop(client, client->members);
    }
}

/* --- the judge -------------------------------------------------------------------------------------------------------- */

/* All is quiet: whoever joined is a member, under its present session. */
void sim_judge_members(struct sim *s, int client)
{
    for (const struct sim_member *member = s->clients[client].members; member; member = member->next) {
        const struct sim_attempt *attempt = member->attempt;
        int node = sim_node_at(s, sim_path_of(s, sim_plan_path(attempt->path), member->id), sim_committed_zxid(s));
        bool ours = node >= 0 && s->nodes[node].owner == s->clients[client].handle.session;
        bool shared = attempt->plan->kind == SIM_WRITE && node >= 0; /* by another one, since */
        if (attempt->state == SIM_HOLDING && !ours && !shared) {
            sim_fail(s, "member", "all is quiet, and %d.%d is no member as %s", client, attempt->thread, member->id);
        }
    }
}
