#include "court.h"

#include <inttypes.h>

/* From the call on it holds nothing; what it waits for may still be granted, for nobody. */
static void let_go(struct court *c, struct client *client, const struct history_event *e)
{
    struct hold *hold = court_hold(c, client);
    if (hold) {
        court_end_hold(hold, e->at);
        c->paths[hold->path].crashed = false; /* it may have been released well */
    }
    client->hold = -1;
    client->leaving = true;
    client->left_by = e->lease;
    client->starved = client->pending ? client->starved : 0; /* the wait, which has to end as well, began before */
}

static void see_closed(struct court *c, struct client *client, const struct history_event *e)
{
    c->v->closes++;
    if (client->pending) {
        court_accuse(c, VERDICT_NEVER_ENDED, "%s waits for %s, and its session was closed at %" PRId64,
                     CLIENT(e->client), PATH(client->path), e->at);
    }
    court_check_end(c, client, "closed its session, at", e->path, client->left_by, e->at);
    client->pending = false;
    client->leaving = false;
}

void court_see_leaving(struct court *c, struct client *client, const struct history_event *e)
{
    if (e->op == HISTORY_free || e->op == HISTORY_close) {
        let_go(c, client, e);
    } else if (e->op == HISTORY_closed) {
        see_closed(c, client, e);
    } else if (e->op == HISTORY_freed) {
        client->pending = false;
        client->leaving = false;
    } else if (e->token > 0) {
        court_accuse(c, VERDICT_ORPHAN, "%" PRId64 " of %s at %s, and the servers had confirmed its session's end",
                     e->token, CLIENT(e->client), PATH(e->path));
    }
}
