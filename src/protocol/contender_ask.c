/* contender_ask.c - what a contender asks of the store next, in each state. */
#include "contender_moves.h"

#include "farewell.h"
#include "path.h"

#include <string.h>

/* --- what it asks for ------------------------------------------------------------------------ */

void zkl__ask(struct zkl__contender *c, enum zkl__role role, struct zkl__op op)
{
    ZKL__ENSURE(c->out->op_count < (int)(sizeof c->out->ops / sizeof *c->out->ops));
    ZKL__ENSURE(!(c->under_way & UNDER_WAY(role)));
    c->under_way |= UNDER_WAY(role);
    c->out->ops[c->out->op_count].role = role;
    c->out->ops[c->out->op_count].op = op;
    c->out->op_count++;
}

/* The watch is set by the request that shows the predecessor still there: whatever happens to that
 * later fires it. */
void zkl__ask_list(struct zkl__contender *c)
{
    struct zkl__op list = {.kind = ZKL__OP_CHILDREN, .dir = c->config.path};
    list.watch = zkl__predecessor_list_watches(c);
    if (c->config.linger > 0) {
        list.watch = zkl__linger_list_watches(c) || list.watch;
    }
    zkl__ask(c, ZKL__ROLE_LIST, list);
}

void zkl__ask_node(struct zkl__contender *c, enum zkl__role role, enum zkl__op_kind kind,
                   const char *name)
{
    zkl__ask(c, role,
             (struct zkl__op){.kind = kind, .dir = c->config.path, .name = name, .version = -1});
}

bool zkl__child_path(const struct zkl__contender *c, char **path, size_t *room, const char *name)
{
    size_t need = strlen(c->config.path) + strlen(name) + 2;
    if (need > *room) {
        char *grown = zkl__resize(c->heap, *path, need);
        if (!grown) {
            return false;
        }
        *path = grown;
        *room = need;
    }
    return zkl__path_join(*path, *room, c->config.path, name) > 0;
}

/* --- what is next ---------------------------------------------------------------------------- */

static bool waits_in_line(struct zkl__contender *c)
{
    return zkl__linger_cares(&c->linger) && zkl__linger_waits(c);
}

static void advance_waiting(struct zkl__contender *c)
{
    bool lists = c->under_way & UNDER_WAY(ZKL__ROLE_LIST);
    /* Who follows a contender of its own session, or waits for the list of its create, needs no
     * czxid yet. Everybody else asks before it looks at its predecessor: who is older than we are
     * can only be said when our own czxid is known. */
    bool follows = c->state == ZKL__WATCHING && zkl__local_follows(&c->local);
    if (!follows && !(c->state == ZKL__CREATING && lists)) {
        zkl__node_ask_czxid(c);
    }
    switch (c->state) {
    case ZKL__NEW:
        if (!lists && !waits_in_line(c)) { /* one of the last attempt: its answer comes first */
            zkl__node_ask(c);
        }
        break;
    case ZKL__CREATING:
        if (!lists && !(c->under_way & UNDER_WAY(ZKL__ROLE_CREATE))) {
            zkl__node_ask(c);
        }
        break;
    case ZKL__MAKING:
        zkl__directory_ask(c);
        break;
    case ZKL__LISTING:
        if (!zkl__path_conflict_ask(c) && !lists) {
            zkl__ask_list(c);
            zkl__mark_ask(c);
        }
        break;
    case ZKL__WATCHING:
        if (zkl__inspection_goes_on(c)) {
            c->out->inspect = true;
        } else if (!zkl__local_follows(&c->local)) {
            zkl__predecessor_look(c);
        }
        break;
    default: /* ZKL__PROVING: the others do not wait */
        zkl__grant_advance(c);
        break;
    }
}

void zkl__contender_advance(struct zkl__contender *c)
{
    if (c->state == ZKL__REMOVING && zkl__farewell_done(c)) {
        zkl__contender_finish(c, ZKL_OK, "nothing of ours is left");
        return;
    }
    if (!c->event->connected || c->retry.at > c->event->now) {
        return;
    }
    if (zkl__contender_waits(c)) {
        advance_waiting(c);
    } else if (c->state == ZKL__REMOVING ||
               (c->state == ZKL__LOST && zkl__grant_overstayed(&c->grant))) {
        zkl__farewell_advance(c);
    } else if (zkl__contender_keeps(c)) {
        zkl__replacement_ask(c);
        zkl__own_watch_advance(c);
    }
}
