/* The simulated ensemble of tests/sim: three servers in virtual time, driven through its client handles, with no core above them.
 * It begins anew when a session is opened and none is: it has room for one script. */
#include "run.h"
#include "world.h"

enum { SERVERS = 3, PATIENCE_S = 60, RECORDS = 4096 };
_Static_assert((int)SIM_CLIENTS >= (int)SCRIPT_SLOTS, "each session of a script is a client's");

struct world_session {
    struct sim_world *world;
    int client;
    struct record *records[RECORDS];
    size_t count;
    uint64_t last_id;
};

struct sim_world {
    struct world world;
    struct sim *s;
    struct sim_plan plan;
    struct world_session *sessions[SIM_CLIENTS]; /* by client; NULL: not open */
    uint64_t runs;
    enum zkl__memory_rules rules;
};

static struct sim_world the_world; /* the listener is told of a struct sim, not of a world */

/* --- what handles tell --------------------------------------------------------------------------------------------- */

static void listen(struct sim *s, int client, const struct zkl__event *event)
{
    static const enum record_kind kinds[] = {[ZKL__EV_CONNECTED] = RECORD_CONNECTED,
                                             [ZKL__EV_SUSPENDED] = RECORD_SUSPENDED,
                                             [ZKL__EV_EXPIRED] = RECORD_EXPIRED,
                                             [ZKL__EV_REPLY] = RECORD_REPLY,
                                             [ZKL__EV_WATCH] = RECORD_WATCH};
    struct world_session *session = the_world.sessions[client];
    if (!session || session->count == RECORDS) {
        return;
    }
    struct record *record = calloc(1, sizeof *record);
    record->kind = kinds[event->kind];
    record->connection.session_id = event->session_id;
    if (event->kind == ZKL__EV_REPLY) {
        record->id = event->id;
        record_copy_reply(&record->reply, event->reply);
    } else if (event->kind == ZKL__EV_WATCH) {
        record->watch = event->watch;
        record->path = strdup(event->path);
    }
    session->records[session->count++] = record;
}

static const struct record *find(const struct world_session *session, enum record_kind kind, uint64_t id)
{
    for (size_t i = session->count; i-- > 0;) {
        if (session->records[i]->kind == kind && (kind != RECORD_REPLY || session->records[i]->id == id)) {
            return session->records[i];
        }
    }
    return NULL;
}

/* --- time ---------------------------------------------------------------------------------------------------------- */

static bool failed(const struct world_session *session, const char *what)
{
    fprintf(stderr, "sim: %s%s\n", what, session->count == RECORDS ? "; it told more than there is room for" : "");
    return false;
}

/* Lets events happen until it is so, or virtual patience ends. */
static bool until(struct world_session *session, bool (*so)(const struct world_session *session, uint64_t id),
                  uint64_t id)
{
    struct sim *s = session->world->s;
    int64_t end = sim_now(s) + PATIENCE_S * SIM_SECOND;
    while (!so(session, id)) {
        if (s->clock.due[sim_clock_next(&s->clock)] > end || !sim_step(s)) {
            return false;
        }
    }
    return true;
}

static bool is_answered(const struct world_session *session, uint64_t id)
{
    return find(session, RECORD_REPLY, id);
}

static bool is_connected(const struct world_session *session, uint64_t id)
{
    return session->world->s->clients[session->client].handle.state == SIM_HANDLE_CONNECTED;
}

/* Its end is applied everywhere. */
static bool is_over(const struct world_session *session, uint64_t id)
{
    const struct sim *s = session->world->s;
    const struct sim_session *it = &s->sessions[id];
    for (int i = 0; i < s->server_count; i++) {
        if (!it->ended || s->servers[i].applied <= it->ended_position) {
            return false;
        }
    }
    return true;
}

/* --- the world ----------------------------------------------------------------------------------------------------- */

static void begin_anew(struct sim_world *self)
{
    self->plan = (struct sim_plan){.servers = SERVERS,
                                   .clients = SIM_CLIENTS,
                                   .paths = 0,
                                   .tick = 1000 * SIM_MS,
                                   .timeout = 40000 * SIM_MS,
                                   .delay = SIM_MS,
                                   .slow_once_in = 4,
                                   .slow = 30 * SIM_MS,
                                   .rules = self->rules,
                                   .heal = SIM_NEVER};
    sim_reset(self->s, &self->plan, ++self->runs);
    self->s->listener = listen;
    sim_ensemble_start(self->s);
}

/* Of the plan nothing: there are no chroots and no access lists. */
static struct world_session *session_open(struct world *world, const struct world_plan *plan, int64_t *id)
{
    struct sim_world *self = world->state;
    int client = 0, open = 0;
    for (int i = SIM_CLIENTS; i-- > 0;) {
        open += self->sessions[i] != NULL;
        client = self->sessions[i] ? client : i;
    }
    if (open == 0) {
        begin_anew(self);
    }
    struct world_session *session = calloc(1, sizeof *session);
    session->world = self;
    session->client = client;
    self->sessions[client] = session;
    sim_handle_open(self->s, client);
    if (!until(session, is_connected, 0)) {
        failed(session, "no session in time");
        self->sessions[client] = NULL;
        free(session);
        return NULL;
    }
    *id = find(session, RECORD_CONNECTED, 0)->connection.session_id;
    return session;
}

static void session_submit(struct world_session *session, const struct zkl__op *op, uint64_t *id, int *code)
{
    *id = 0;
    *code = zkl__store_check(op, 0) == ZKL_OK
                ? sim_handle_submit(session->world->s, session->client, session->last_id + 1, op)
                : ZKL_EINVAL;
    if (*code == ZKL_OK) {
        *id = ++session->last_id;
    }
}

static bool session_wait(struct world_session *session, uint64_t id)
{
    return until(session, is_answered, id) || failed(session, "no reply in time");
}

static bool session_close(struct world_session *session)
{
    struct sim *s = session->world->s;
    int number = s->clients[session->client].handle.session;
    sim_handle_close(s, session->client);
    bool over = until(session, is_over, (uint64_t)number) || failed(session, "the session does not end");
    session->world->sessions[session->client] = NULL;
    return over;
}

static bool session_cut(struct world_session *session)
{
    struct sim *s = session->world->s;
    sim_handle_cut(s, session->client, 0);
    sim_arm(s, SLOT_LIBRARY + session->client, SIM_NEVER); /* no new one before heal */
    return true;
}

static bool session_heal(struct world_session *session)
{
    struct sim *s = session->world->s;
    sim_arm(s, SLOT_LIBRARY + session->client, sim_now(s));
    return until(session, is_connected, 0) || failed(session, "not connected again");
}

static const struct record *session_told(struct world_session *session, size_t n)
{
    return n < session->count ? session->records[n] : NULL;
}

static void session_free(struct world_session *session)
{
    for (size_t i = 0; i < session->count; i++) {
        record_free(session->records[i]);
    }
    free(session);
}

struct world *world_of_sim(enum zkl__memory_rules rules)
{
    the_world = (struct sim_world){.world = {.name = "simulated",
                                             .features = SCRIPT_CUTS | SCRIPT_CHROOT,
                                             .lags = true,
                                             .small = true,
                                             .open = session_open,
                                             .submit = session_submit,
                                             .wait = session_wait,
                                             .close = session_close,
                                             .cut = session_cut,
                                             .heal = session_heal,
                                             .told = session_told,
                                             .free = session_free},
                                   .s = sim_new()};
    the_world.world.state = &the_world;
    the_world.rules = rules;
    return &the_world.world;
}

void world_sim_free(struct world *world)
{
    struct sim_world *self = world->state;
    sim_free(self->s);
}
