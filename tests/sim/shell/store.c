/* store.c - store.h over a simulated client library (handle.c): its events come on a thread of its own. */
#include "store.h"
#include "world.h"

struct zkl__store {
    int client;
    struct zkl__store_events events;
    void *ctx;
};
static struct zkl__store stores[SIM_CLIENTS];

/* --- the completion thread -------------------------------------------------------------------------------------------- */

static void *complete(void *arg)
{
    int client = (int)(intptr_t)arg;
    for (;;) {
        struct sim_channel *inbox = &world->clients[client].handle.inbox;
        if (inbox->head && inbox->head->due <= sim_now(world)) {
            processes[client].busy = true;
            sim_inbox_due(world, client);
            processes[client].busy = false;
            continue;
        }
        sim_channel_rearm(world, inbox, SLOT_INBOX + client);
        fiber_wait(inbox, INT64_MAX);
    }
    return NULL;
}

/* Something for the core came in. */
void store_inbox_due(int client)
{
    sim_arm(world, SLOT_INBOX + client, SIM_NEVER);
    if (!processes[client].running) {
        processes[client].running = true;
        fiber_start(client, SLOT_TIMER + client, complete, (void *)(intptr_t)client);
    } else if (!processes[client].busy) {
        fiber_wake(&world->clients[client].handle.inbox);
    }
}

/* On the completion thread. */
void store_event(struct sim *s, int client, const struct zkl__event *event)
{
    struct zkl__store *store = &stores[client];
    sim_hash(s, event->kind ^ (uint64_t)event->now ^ event->id << 32);
    struct zkl__connection connection = {.session_id = event->session_id,
                                         .timeout_ms = event->timeout / SIM_MS,
                                         .fresh = event->fresh,
                                         .began_ns = event->began};
    switch (event->kind) {
    case ZKL__EV_CONNECTED:
        store->events.connected(store->ctx, &connection);
        break;
    case ZKL__EV_SUSPENDED:
        store->events.suspended(store->ctx);
        break;
    case ZKL__EV_EXPIRED:
        store->events.expired(store->ctx, ZKL__END_EXPIRED);
        break;
    case ZKL__EV_REPLY:
        store->events.reply(store->ctx, event->id, event->reply);
        break;
    default:
        store->events.watch(store->ctx, event->watch, event->path);
        break;
    }
}

/* --- the port ---------------------------------------------------------------------------------------------------------- */

static int sim_open(struct zkl__store **out, const struct zkl__store_config *config,
                    const struct zkl__store_events *events, void *ctx, zkl_error *err)
{
    int client = fiber_client();
    stores[client] = (struct zkl__store){.client = client, .events = *events, .ctx = ctx};
    sim_handle_open(world, client);
    *out = &stores[client];
    return ZKL_OK;
}

static int sim_submit(struct zkl__store *store, uint64_t id, const struct zkl__op *op)
{
    return sim_handle_submit(world, store->client, id, op);
}

static int64_t sim_tick(struct zkl__store *store, int64_t now)
{
    return INT64_MAX;
}

static int sim_close(struct zkl__store *store, int64_t timeout_ms, int64_t *again_ms)
{
    bool connected = world->clients[store->client].handle.state == SIM_HANDLE_CONNECTED;
    while (processes[store->client].busy) {
        fiber_sleep(10000);
    }
    sim_handle_close(world, store->client);
    return connected ? ZKL_OK : ZKL_ECONNECT;
}

static const struct zkl__store_ops ops = {.has_observers = true,
                                          .watch_bytes_max = 4096,
                                          .ops_max = SIM_OUTSTANDING - 8,
                                          .open = sim_open,
                                          .submit = sim_submit,
                                          .tick = sim_tick,
                                          .close = sim_close};

const struct zkl__store_ops *zkl__store_find(const char *servers, zkl_error *err)
{
    return &ops;
}

const char *zkl__store_without_port(const char *servers, size_t *length)
{
    return NULL;
}
