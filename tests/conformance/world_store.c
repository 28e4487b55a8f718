/* The stores behind store.h, each driven through a recorder; connections to a real server go through a proxy when they
 * are to be lost. */
#include "proxy.h"
#include "world.h"

enum { PATIENCE_MS = 20000, SERVERS_TEXT = 512 };

struct world_session {
    const struct zkl__store_ops *ops;
    struct recorder *recorder;
    struct proxy *proxy; /* or NULL */
    int64_t id;
};

struct store_world {
    struct world world;
    const struct zkl__store_ops *ops;
    char servers[SERVERS_TEXT];
    unsigned opened;
    enum zkl__memory_rules rules;
};

static bool failed(const struct world_session *session, const char *what)
{
    fprintf(stderr, "%s: %s\n", session->ops == &zkl__store_zookeeper ? "zookeeper" : "memory", what);
    return false;
}

/* The server that it is compared with removes no empty containers, so nor does the in-process store. */
static int64_t no_housekeeping(struct zkl__store *store, int64_t now_ns)
{
    return INT64_MAX;
}

static struct zkl__store_ops unswept_memory; /* zkl__store_memory but for that */

static bool is_memory(const struct zkl__store_ops *ops)
{
    return ops == &unswept_memory;
}

/* In front of one of the servers, each in turn. */
static struct proxy *start_proxy(struct store_world *self)
{
    char list[SERVERS_TEXT];
    const char *addresses[8];
    unsigned count = 0;
    char *rest = strcpy(list, self->servers);
    for (char *address = strsep(&rest, ","); address && count < 8; address = strsep(&rest, ",")) {
        addresses[count++] = address;
    }
    return proxy_start(addresses[self->opened % count]);
}

/* Where a session of this plan connects to. memory: has no chroots, only trees: another one, which is as empty. */
static void address_of(char out[SERVERS_TEXT], const struct store_world *self, const struct world_session *session,
                       const struct world_plan *plan)
{
    const char *servers = session->proxy ? proxy_address(session->proxy) : self->servers;
    if (is_memory(self->ops) && plan->chroot[0] != '\0') {
        snprintf(out, SERVERS_TEXT, "%.100s-chroot", servers);
    } else {
        snprintf(out, SERVERS_TEXT, "%s%s", servers, plan->chroot);
    }
}

static void session_free(struct world_session *session)
{
    recorder_free(session->recorder);
    if (session->proxy) {
        proxy_stop(session->proxy);
    }
    free(session);
}

static struct world_session *session_open(struct world *world, const struct world_plan *plan, int64_t *id)
{
    struct store_world *self = world->state;
    struct world_session *session = calloc(1, sizeof *session);
    char servers[SERVERS_TEXT];
    zkl_error err = {0};
    session->ops = self->ops;
    session->proxy = plan->cuts && !is_memory(self->ops) ? start_proxy(self) : NULL;
    self->opened++;
    address_of(servers, self, session, plan);
    struct zkl__store_config config = recorder_config(servers);
    config.timeout_ms = 60000; /* a server that stands still for seconds is no event of the script */
    config.acl = plan->acl;
    config.auth_scheme = plan->identity ? "digest" : NULL;
    config.auth = plan->identity;
    config.auth_size = plan->identity ? strlen(plan->identity) : 0;
    session->recorder = recorder_open(self->ops, &config, NULL, &err);
    const struct record *first =
        session->recorder ? recorder_nth(session->recorder, RECORD_CONNECTED, 0, PATIENCE_MS) : NULL;
    if (!first) {
        failed(session, session->recorder ? "no session in time" : err.text);
        session_free(session);
        return NULL;
    }
    *id = session->id = first->connection.session_id;
    if (is_memory(self->ops)) { /* a tree of its own for each chroot */
        zkl__memory_set_rules(servers, self->rules);
    }
    return session;
}

static void session_submit(struct world_session *session, const struct zkl__op *op, uint64_t *id, int *code)
{
    *id = recorder_submit(session->recorder, op, code);
}

static bool session_wait(struct world_session *session, uint64_t id)
{
    return recorder_reply(session->recorder, id, PATIENCE_MS) || failed(session, "no reply in time");
}

static bool session_close(struct world_session *session)
{
    int code = recorder_close(session->recorder, PATIENCE_MS);
    return code == ZKL_OK || failed(session, "close: the server did not confirm");
}

static bool session_cut(struct world_session *session)
{
    size_t before = recorder_count(session->recorder, RECORD_SUSPENDED);
    if (session->proxy) {
        proxy_down(session->proxy);
    } else if (zkl__memory_suspend(session->id) != ZKL_OK) {
        return failed(session, "suspend failed");
    }
    return recorder_nth(session->recorder, RECORD_SUSPENDED, before, PATIENCE_MS) || failed(session, "not suspended");
}

static bool session_heal(struct world_session *session)
{
    size_t before = recorder_count(session->recorder, RECORD_CONNECTED);
    if (session->proxy) {
        proxy_refuse(session->proxy, false);
    } else if (zkl__memory_resume(session->id) != ZKL_OK) {
        return failed(session, "resume failed");
    }
    return recorder_nth(session->recorder, RECORD_CONNECTED, before, PATIENCE_MS) ||
           failed(session, "not connected again");
}

static const struct record *session_told(struct world_session *session, size_t n)
{
    return recorder_at(session->recorder, n, 0);
}

static const struct world template = {
    .features = SCRIPT_ACLS | SCRIPT_CUTS | SCRIPT_CHROOT | SCRIPT_ROOT | SCRIPT_PARTS_STAT,
    .open = session_open,
    .submit = session_submit,
    .wait = session_wait,
    .close = session_close,
    .cut = session_cut,
    .heal = session_heal,
    .told = session_told,
    .free = session_free,
};

struct world *world_of_store(const char *servers, enum zkl__memory_rules rules)
{
    struct store_world *self = calloc(1, sizeof *self);
    zkl_error err = {0};
    self->world = template;
    self->world.state = self;
    self->ops = zkl__store_find(servers, &err);
    if (!self->ops) {
        fprintf(stderr, "%s\n", err.text);
        free(self);
        return NULL;
    }
    if (self->ops == &zkl__store_memory) {
        unswept_memory = zkl__store_memory;
        unswept_memory.tick = no_housekeeping;
        self->ops = &unswept_memory;
    }
    self->world.name = self->servers;
    self->world.lags = strchr(servers, ',') != NULL;
    if (self->world.lags) {
        self->world.features &= ~(unsigned)SCRIPT_ROOT; /* /zookeeper/config lists the servers then */
    }
    self->rules = rules;
    snprintf(self->servers, sizeof self->servers, "%s", servers);
    return &self->world;
}

void world_free(struct world *world)
{
    if (world) {
        free(world->state);
    }
}
