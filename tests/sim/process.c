/* process.c - a simulated process: its clock, its core behind the port, its end. */
#include <stdarg.h>

#include "invariants.h"
#include "name.h"
#include "sim.h"

/* --- clocks ---------------------------------------------------------------------------------------------------------- */

#define MILLION INT64_C(1000000)

int64_t sim_local(const struct sim *s, int client, int64_t now)
{
    int64_t rate = MILLION + s->clients[client].clock_ppm;
    int64_t shown = rate == MILLION ? now : now / MILLION * rate + now % MILLION * rate / MILLION;
    return s->clients[client].clock_base + shown;
}

int64_t sim_true(const struct sim *s, int client, int64_t local)
{
    int64_t rate = MILLION + s->clients[client].clock_ppm;
    int64_t since = local - s->clients[client].clock_base;

    return since / rate * MILLION + (since % rate * MILLION + rate - 1) / rate;
}

/* --- the port -------------------------------------------------------------------------------------------------------- */

struct port {
    struct sim *s;
    int client;
};
static struct port ports[SIM_CLIENTS]; /* where a core's port points; the same for every run */

static int port_submit(void *ctx, uint64_t id, const struct zkl__op *op)
{
    struct port *port = ctx;
    return sim_handle_submit(port->s, port->client, id, op);
}

static void port_state(void *ctx, zkl_connection_state state, int code)
{
    struct port *port = ctx;
    struct sim_client *client = &port->s->clients[port->client];
    sim_hash(port->s, (uint64_t)state * 31 + code);
    client->reopen = state == ZKL_SESSION_LOST;
}

static void port_log(void *ctx, zkl_log_level level, const char *path, unsigned number, const char *what)
{
    struct port *port = ctx;
    char name[96];
    snprintf(name, sizeof name, path ? "%d %s#%u" : "%d session", port->client, path, number);
    if (level == ZKL_LOG_DEBUG) {
        sim_say_it(port->s, name, "%s", what);
    }
}

/* --- steps ----------------------------------------------------------------------------------------------------------- */

void sim_core_event(struct sim *s, int client, struct zkl__event event)
{
    struct sim_client *it = &s->clients[client];
    event.now = sim_local(s, client, sim_now(s));
    sim_judge_connection(s, client, event.kind);
    if (s->listener) {
        s->listener(s, client, &event);
    }
    if (s->shell) {
        s->shell->event(s, client, &event);
        return;
    }
    if (!it->core) {
        return;
    }
    assert(!s->stepping);
    it->last_step = event.now;
    sim_hash(s, event.kind ^ event.now ^ event.id << 32);
    sim_judge_before(s, client);
    s->stepping = true;
    zkl__session_step(it->core, &event);
    s->stepping = false;
    int64_t next = zkl__core_next(it->core);
    sim_judge_step(s, client, next, event.kind == ZKL__EV_TIME);
    if (next < INT64_MAX) {
        int64_t late = s->plan->late ? (dice_at(s->seed, (SLOT_TIMER + client), s->steps) % s->plan->late) : 0;
        next = sim_max(sim_true(s, client, next), sim_now(s)) + late;
    }
    sim_arm(s, SLOT_TIMER + client, next);
    if (it->reopen) {
        it->reopen = false;
        sim_handle_close(s, client);
        sim_handle_open(s, client);
    }
    if (it->process == SIM_CLOSING && zkl__core_idle(it->core)) {
        sim_process_free(s, client);
    }
}

void sim_timer_due(struct sim *s, int client)
{
    sim_arm(s, SLOT_TIMER + client, SIM_NEVER);
    sim_core_event(s, client, (struct zkl__event){.kind = ZKL__EV_TIME});
}

/* --- life ------------------------------------------------------------------------------------------------------------ */

void sim_process_start(struct sim *s, int client)
{
    struct sim_client *it = &s->clients[client];
    if (s->shell) {
        it->process = s->shell->start(s, client) ? SIM_RUNNING : SIM_STOPPED;
        return;
    }
    ports[client] = (struct port){s, client};
    struct zkl__port port = {.ctx = &ports[client],
                             .submit = port_submit,
                             .state = port_state,
                             .log = s->trace ? port_log : NULL,
                             .log_level = ZKL_LOG_DEBUG};
    struct zkl__core_config config = {.heap = sim_heap_api(&it->heap),
                                      .tick_ns = s->tick,
                                      .pause_ns = s->plan->pause,
                                      .masters = s->plan->observers ? ZKL__MASTERS_ASK : ZKL__MASTERS_NONE,
                                      .watch_bytes_max = 4096,
                                      .ops_max = SIM_OUTSTANDING - 8,
                                      .unlisted_part = s->plan->unlisted};
    uint64_t seed[2] = {dice_at(s->seed, (SLOT_PROCESS + client), it->incarnation)};
    seed[1] = dice_mix(seed[0]);
    memcpy(config.seed, seed, sizeof config.seed);
    it->core = zkl__core_new(&config, &port);
    if (!it->core) { /* no memory: the process tries again */
        sim_arm(s, SLOT_PROCESS + client, sim_now(s) + 10 * SIM_MS);
        return;
    }
    it->process = SIM_RUNNING;
    sim_handle_open(s, client);
    sim_app_start(s, client);
}

void sim_process_free(struct sim *s, int client)
{
    struct sim_client *it = &s->clients[client];
    if (it->process == SIM_STOPPED) {
        return;
    }
    sim_handle_close(s, client);
    if (s->shell) {
        s->shell->stop(s, client);
    } else if (it->core) {
        zkl__core_free(it->core);
    }
    it->core = NULL;
    it->process = SIM_STOPPED;
    it->paused_until = 0;
    sim_clock_set(&s->clock, SLOT_TIMER + client, SIM_NEVER);
    sim_judge_freed(s, client);
}

void sim_process_crash(struct sim *s, int client, int64_t down_for)
{
    struct sim_client *it = &s->clients[client];
    if (it->process != SIM_RUNNING) {
        return;
    }
    sim_say(s, "process", "%d crashes", client);
    if (it->handle.conn >= 0) {
        sim_conn_abandon(s, it->handle.conn, SIM_MESSAGES); /* the kernel sends what it has, and a FIN */
        it->handle.conn = -1;
    }
    if (!s->shell) {
        sim_app_crashed(s, client);
    }
    sim_process_free(s, client);
    sim_clock_set(&s->clock, SLOT_PROCESS + client, sim_now(s) + down_for);
}

void sim_process_due(struct sim *s, int client)
{
    sim_clock_set(&s->clock, SLOT_PROCESS + client, SIM_NEVER);
    sim_process_start(s, client);
}

void sim_process_close(struct sim *s, int client)
{
    struct sim_client *it = &s->clients[client];
    if (it->process == SIM_RUNNING) {
        it->process = SIM_CLOSING;
        sim_core_event(s, client, (struct zkl__event){.kind = ZKL__EV_CLOSE});
    }
}

/* --- the trace ------------------------------------------------------------------------------------------------------- */

/* In a story a uuid is its first four digits: who is who is all that matters. */
static void shorten_uuids(char *line)
{
    for (char *at = strstr(line, "_c_"); at; at = strstr(at + 1, "_c_")) {
        if (strlen(at) > 3 + ZKL__UUID_LENGTH && at[3 + ZKL__UUID_LENGTH] == '-') {
            memmove(at + 7, at + 3 + ZKL__UUID_LENGTH, strlen(at + 3 + ZKL__UUID_LENGTH) + 1);
        }
    }
}

void sim_say_it(struct sim *s, const char *who, const char *format, ...)
{
    char line[700];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (s->story) {
        if (strstr(line, ": sync /")) {
            return; /* the keepalive of a connection says nothing */
        }
        shorten_uuids(line);
    }
    fprintf(s->trace, "%10.3f  %-14s %s\n", (double)sim_now(s) / 1e6, who, line);
}
