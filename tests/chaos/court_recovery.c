#include "court.h"

#include <inttypes.h>

static void see_grant(struct court *c, const struct client *client, struct path *path, const struct history_event *e)
{
    path->last_grant = e->token > path->last_grant ? e->token : path->last_grant;
    c->v->unclean += client->unclean ? 1 : 0;
    if (path->crashed && !client->unclean) {
        court_accuse(c, VERDICT_CRASH_UNTOLD, "%s was granted %s at %" PRId64 ", the first one after a crash",
                     CLIENT(e->client), PATH(client->path), e->at);
    }
}

/* A holder that had been stopped for long and lost is killed when others have held since: they were told. */
static void see_crash(struct path *path, int64_t token)
{
    path->crashed = path->crashed || (path->recovers && path->last_grant == token);
}

/* From the call on the next one may be granted, who need not be told: until it has returned that it was none. */
static void see_release(const struct court *c, const struct client *client)
{
    const struct hold *hold = &c->holds[client->hold];
    struct path *path = &c->paths[hold->path];
    if (path->crashed && path->last_grant == hold->token && !hold->lost) {
        path->crashed = false;
        path->clearing = hold->token;
    }
}

static void see_released(struct path *path, const struct history_event *e)
{
    if (e->good) {
        path->crashed = false;
    } else if (path->clearing == e->token && path->last_grant == e->token) {
        path->crashed = true;
    }
}

void court_see_recovery(struct court *c, const struct client *client, const struct history_event *e)
{
    struct path *path = e->path >= 0 ? &c->paths[e->path] : NULL;
    if (e->op == HISTORY_killed) {
        const struct hold *hold = &c->holds[client->hold];
        see_crash(&c->paths[hold->path], hold->token);
    } else if (path && e->op == HISTORY_removed && e->good) {
        see_crash(path, e->token);
    } else if (path && e->op == HISTORY_recovers) {
        path->recovers = true;
    } else if (path && e->op == HISTORY_done) {
        see_grant(c, client, path, e);
    } else if (e->op == HISTORY_release) {
        see_release(c, client);
    } else if (path && e->op == HISTORY_released) {
        see_released(path, e);
    }
}
