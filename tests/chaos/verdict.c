#include "verdict.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "spans.h"

#define WORDS_MAX 10 /* of one kind that are told in full */
#define EVERYBODY -1 /* owner of the spans in which the lease is not judged */
#define MS INT64_C(1000000)
#define WEIGHTS_MAX 16 /* different ones that are asked for at one path */

struct hold {
    int path, client;
    int takes;
    int64_t token, start, end;
    bool lost, told;
    bool downgraded; /* what remains of the one before it, which has its token */
};

struct client {
    int process, next; /* next: another client of the process; -1: none */
    bool pending;
    int path, takes;
    int64_t deadline; /* 0: none */
    int64_t starved;  /* ns of the pending wait */
    int64_t hold;     /* -1: none */
};

struct court {
    const struct history *h;
    const struct verdict_options *options;
    struct verdict *v;
    struct spans spans;
    struct client *clients;
    struct hold *holds;
    size_t hold_count;
    int *first_client;   /* of a process */
    int64_t *stopped_at; /* of a process; 0: it runs */
    struct path {
        bool used, looked;
        int of;        /* how much there is; 0: nobody asked yet */
        int releasing; /* the client that released it whole last and is not back from it; -1: nobody */
        int64_t left, accepted;
    } * paths;
};

const char *verdict_name(int kind)
{
    static const char *const names[] = {
#define VERDICT_NAME(name, words) words,
        VERDICTS(VERDICT_NAME)
#undef VERDICT_NAME
    };
    return kind >= 0 && kind < VERDICT_COUNT ? names[kind] : "?";
}

__attribute__((format(printf, 3, 4))) static void accuse(struct court *c, enum verdict_kind kind, const char *format,
                                                         ...)
{
    FILE *words = c->options->words;
    if (c->v->found[kind]++ < WORDS_MAX && words) {
        va_list list;
        va_start(list, format);
        fprintf(words, "%s: ", verdict_name(kind));
        vfprintf(words, format, list);
        fputc('\n', words);
        va_end(list);
    }
}

static const char *name_of(const struct history_names *names, int number)
{
    return number >= 0 && number < names->count ? names->names[number] : "-";
}
#define CLIENT(number) name_of(&c->h->clients, number)
#define PATH(number) name_of(&c->h->paths, number)

static void *make(size_t count, size_t size)
{
    void *room = calloc(count + 1, size);
    if (!room) {
        fprintf(stderr, "verdict: out of memory\n");
        abort();
    }
    return room;
}

/* --- when who was kept from running ---------------------------------------------------------------------------------- */

static void collect_spans(struct court *c)
{
    for (size_t i = 0; i < c->h->count; i++) {
        const struct history_event *e = &c->h->events[i];
        int64_t *stopped = &c->stopped_at[e->process];
        if (e->op == HISTORY_late) {
            spans_add(&c->spans, e->process, e->at - e->lease, e->at);
        } else if (e->op == HISTORY_breach) {
            spans_add(&c->spans, EVERYBODY, e->at, e->lease);
        } else if (e->op == HISTORY_stopped) {
            *stopped = *stopped ? *stopped : e->at;
        } else if ((e->op == HISTORY_continued || e->op == HISTORY_killed) && *stopped) {
            spans_add(&c->spans, e->process, *stopped, e->at);
            *stopped = 0;
        }
    }
    spans_settle(&c->spans);
}

/* --- events in the order of time ------------------------------------------------------------------------------------- */

static struct hold *hold_of(struct court *c, const struct client *client)
{
    return client->hold >= 0 ? &c->holds[client->hold] : NULL;
}

static void end_hold(struct hold *hold, int64_t at)
{
    hold->end = at < hold->end ? at : hold->end;
}

static void see_acquire(struct court *c, struct client *client, const struct history_event *e)
{
    if (client->pending) {
        accuse(c, VERDICT_NEVER_ENDED, "%s asked again at %" PRId64 ", its acquire before that had no end",
               CLIENT(e->client), e->at);
    }
    if (client->hold >= 0 || e->path < 0) {
        accuse(c, VERDICT_GARBLED, "%s asks at %" PRId64 " while it holds, or for nothing", CLIENT(e->client), e->at);
        return;
    }
    client->pending = true;
    client->path = e->path;
    client->takes = e->takes;
    client->deadline = e->lease;
    client->starved = 0;
    struct path *path = &c->paths[e->path];
    if (path->of != 0 && path->of != e->of) {
        accuse(c, VERDICT_GARBLED, "%s asks at %" PRId64 " for %d of %d, others for parts of %d", CLIENT(e->client),
               e->at, e->takes, e->of, path->of);
    }
    path->of = e->of;
    path->used = true;
    c->v->waits++;
}

/* What the library is not blamed for: its process was stopped, or late as a whole, or the very thread that was to return got no
 * processor: that is taken to have been at the end of the wait, and counts once where both were so. */
static void check_end(struct court *c, const struct client *client, const struct history_event *e)
{
    int64_t deadline = client->deadline, ready = e->at - client->starved;
    if (deadline == 0 || ready <= deadline) {
        return;
    }
    int64_t over = ready - deadline - spans_cover(&c->spans, client->process, deadline, ready);
    c->v->worst_end_ns = over > c->v->worst_end_ns ? over : c->v->worst_end_ns;
    if (over > c->options->slack_ns) {
        accuse(c, VERDICT_LATE_END, "%s waited for %s until %" PRId64 ", %" PRId64 " ms too long", CLIENT(e->client),
               PATH(client->path), e->at, over / MS);
    }
}

static void see_done(struct court *c, struct client *client, const struct history_event *e)
{
    if (!client->pending) {
        accuse(c, VERDICT_ENDED_TWICE, "%s at %" PRId64 ": a completion, and nothing was pending", CLIENT(e->client),
               e->at);
        return;
    }
    client->pending = false;
    check_end(c, client, e);
    if (e->good) {
        c->holds[c->hold_count] = (struct hold){.path = client->path,
                                                .client = e->client,
                                                .takes = client->takes,
                                                .token = e->token,
                                                .start = e->at,
                                                .end = e->lease};
        client->hold = (int64_t)c->hold_count++;
        c->v->grants++;
        c->v->shared += client->takes < c->paths[client->path].of ? 1 : 0;
        int releasing = c->paths[client->path].releasing;
        c->v->handed += releasing >= 0 && c->clients[releasing].process == client->process ? 1 : 0;
        c->paths[client->path].releasing = -1;
        c->v->too_late += e->lease <= e->at ? 1 : 0;
    }
}

/* It may take effect at any time from the call on: others may come in at once. */
static void see_downgrade(struct court *c, struct client *client, const struct history_event *e)
{
    struct hold *whole = hold_of(c, client);
    if (!whole || e->takes > whole->takes) {
        accuse(c, VERDICT_GARBLED, "%s downgrades at %" PRId64 " what it has not", CLIENT(e->client), e->at);
        return;
    }
    struct hold *rest = &c->holds[c->hold_count];
    *rest = *whole;
    rest->takes = e->takes;
    rest->start = e->at;
    rest->downgraded = true;
    end_hold(whole, e->at);
    client->hold = (int64_t)c->hold_count++;
}

static void see_release(struct court *c, struct client *client, const struct history_event *e)
{
    struct hold *hold = hold_of(c, client);
    if (!hold) {
        accuse(c, VERDICT_GARBLED, "%s releases at %" PRId64 " and holds nothing", CLIENT(e->client), e->at);
        return;
    }
    if (hold->lost && !hold->told) {
        accuse(c, VERDICT_NOT_TOLD, "%s lost %s, token %" PRId64 ", and was never told", CLIENT(e->client),
               PATH(hold->path), hold->token);
    }
    end_hold(hold, e->at);
    c->paths[hold->path].releasing = hold->takes == c->paths[hold->path].of ? e->client : -1;
    client->hold = -1;
}

static void see_released(struct court *c, const struct history_event *e)
{
    if (e->path >= 0 && c->paths[e->path].releasing == e->client) {
        c->paths[e->path].releasing = -1;
    }
}

/* What a holder says of its grant while it has it. */
static void see_hold(struct court *c, struct client *client, const struct history_event *e)
{
    struct hold *hold = hold_of(c, client);
    if (!hold) { /* told may come when all is over */
        if (e->op != HISTORY_told) {
            accuse(c, VERDICT_GARBLED, "%s at %" PRId64 " speaks of a grant that it has not", CLIENT(e->client), e->at);
        }
    } else if (e->op == HISTORY_held && !hold->lost) {
        hold->end = e->lease > hold->end ? e->lease : hold->end;
    } else if (e->op == HISTORY_lost && !hold->lost) {
        hold->lost = true;
        c->v->losses++;
        end_hold(hold, e->at);
    } else if (e->op == HISTORY_told) {
        hold->told = true;
    }
}

static void see_killed(struct court *c, const struct history_event *e)
{
    c->v->killed++;
    for (int i = c->first_client[e->process]; i >= 0; i = c->clients[i].next) {
        struct client *client = &c->clients[i];
        if (client->hold >= 0) {
            end_hold(hold_of(c, client), e->at);
        }
        client->hold = -1;
        client->pending = false;
    }
}

static void see_write(struct court *c, const struct history_event *e)
{
    if (e->path < 0) {
        accuse(c, VERDICT_GARBLED, "a write to nothing at %" PRId64, e->at);
        return;
    }
    struct path *path = &c->paths[e->path];
    c->v->writes++;
    c->v->refused += e->good ? 0 : 1;
    if (e->good && e->token < path->accepted) {
        accuse(c, VERDICT_STALE_ACCEPTED, "%s took a write with token %" PRId64 " at %" PRId64 ", after %" PRId64,
               PATH(e->path), e->token, e->at, path->accepted);
    }
    path->accepted = e->good && e->token > path->accepted ? e->token : path->accepted;
}

/* A client is known to its process from its first event on. */
static struct client *meet(struct court *c, const struct history_event *e)
{
    struct client *client = &c->clients[e->client];
    if (client->process < 0) {
        client->process = e->process;
        client->next = c->first_client[e->process];
        c->first_client[e->process] = e->client;
    }
    return client;
}

static void see(struct court *c, const struct history_event *e)
{
    struct client *client = meet(c, e);
    switch (e->op) {
    case HISTORY_acquire:
        see_acquire(c, client, e);
        break;
    case HISTORY_cancel:
        if (client->pending && (client->deadline == 0 || e->at < client->deadline)) {
            client->deadline = e->at;
        }
        break;
    case HISTORY_starved:
        client->starved += e->lease;
        break;
    case HISTORY_done:
        see_done(c, client, e);
        break;
    case HISTORY_held:
    case HISTORY_lost:
    case HISTORY_told:
        see_hold(c, client, e);
        break;
    case HISTORY_downgrade:
        see_downgrade(c, client, e);
        break;
    case HISTORY_release:
        see_release(c, client, e);
        break;
    case HISTORY_released:
        see_released(c, e);
        break;
    case HISTORY_killed:
        see_killed(c, e);
        break;
    case HISTORY_write:
        see_write(c, e);
        break;
    case HISTORY_queue:
        if (e->path >= 0) {
            c->paths[e->path].looked = true;
            c->paths[e->path].left = e->token;
        }
        break;
    default:
        break;
    }
}

static void see_the_end(struct court *c)
{
    for (int i = 0; i < c->h->clients.count; i++) {
        if (c->clients[i].pending) {
            accuse(c, VERDICT_NEVER_ENDED, "%s still waits for %s", CLIENT(i), PATH(c->clients[i].path));
        }
    }
    for (int i = 0; i < c->h->paths.count; i++) {
        if (c->paths[i].looked && c->paths[i].left > 0) {
            accuse(c, VERDICT_ORPHAN, "%" PRId64 " at %s", c->paths[i].left, PATH(i));
        } else if (c->paths[i].used && !c->paths[i].looked) {
            accuse(c, VERDICT_NOBODY_LOOKED, "at %s", PATH(i));
        }
    }
}

/* --- grants of each path --------------------------------------------------------------------------------------------- */

static int compare_starts(const void *left, const void *right)
{
    const struct hold *a = left, *b = right;
    if (a->path != b->path) {
        return a->path < b->path ? -1 : 1;
    }
    if (a->start != b->start) {
        return a->start < b->start ? -1 : 1;
    }
    return (a->token > b->token) - (a->token < b->token);
}

static int compare_tokens(const void *left, const void *right)
{
    const struct hold *a = left, *b = right;
    if (a->path != b->path) {
        return a->path < b->path ? -1 : 1;
    }
    return (a->token > b->token) - (a->token < b->token);
}

static void accuse_double(struct court *c, const struct hold *first, const struct hold *second)
{
    if (spans_cover(&c->spans, EVERYBODY, second->start, second->start + 1) > 0) {
        c->v->excused++;
        return;
    }
    accuse(c, VERDICT_DOUBLE_HOLD,
           "%s: %s, token %" PRId64 ", was granted at %" PRId64 ", while %s, token %" PRId64 ", held until %" PRId64
           ", %" PRId64 " us longer",
           PATH(second->path), CLIENT(second->client), second->token, second->start, CLIENT(first->client),
           first->token, first->end, (first->end - second->start) / 1000);
}

/* The grants of one path that are seen while a sweep goes over them in the order of their starts. */
struct scene {
    int path;
    const struct hold **active; /* they hold now */
    size_t active_count;
    const struct hold *highest[WEIGHTS_MAX]; /* by its token, of all that take as much as it does */
    int weight_count;
};

/* Room beside those that hold when this one is granted. */
static void check_room(struct court *c, struct scene *scene, const struct hold *hold)
{
    const struct hold *longest = NULL;
    size_t kept = 0;
    int taken = 0;
    for (size_t i = 0; i < scene->active_count; i++) {
        const struct hold *other = scene->active[i];
        if (other->end > hold->start) {
            scene->active[kept++] = other;
            taken += other->takes;
            longest = !longest || other->end > longest->end ? other : longest;
        }
    }
    if (longest && taken + hold->takes > c->paths[hold->path].of) {
        accuse_double(c, longest, hold);
    }
    scene->active[kept++] = hold;
    scene->active_count = kept;
}

/* Those before it that had to go first have lower tokens. Others may have asked later and be known earlier. */
static void check_token(struct court *c, struct scene *scene, const struct hold *hold)
{
    int mine = -1;
    for (int i = 0; i < scene->weight_count; i++) {
        const struct hold *highest = scene->highest[i];
        mine = highest->takes == hold->takes ? i : mine;
        if (highest->takes + hold->takes > c->paths[hold->path].of && hold->token <= highest->token &&
            !(hold->downgraded && hold->client == highest->client && hold->token == highest->token)) {
            accuse(c, VERDICT_TOKEN_ORDER, "%s: %s was granted %" PRId64 " after %s was granted %" PRId64,
                   PATH(hold->path), CLIENT(hold->client), hold->token, CLIENT(highest->client), highest->token);
        }
    }
    if (mine < 0 && scene->weight_count == WEIGHTS_MAX) {
        accuse(c, VERDICT_GARBLED, "more than %d different parts of %s are asked for", WEIGHTS_MAX, PATH(hold->path));
    } else if (mine < 0) {
        scene->highest[scene->weight_count++] = hold;
    } else if (hold->token > scene->highest[mine]->token) {
        scene->highest[mine] = hold;
    }
}

/* A grant that was over before its holder could look (it was stopped in between) is known too late to have a place in this order. */
static void sweep_starts(struct court *c)
{
    struct scene scene = {.path = -1, .active = make(c->hold_count, sizeof *scene.active)};
    qsort(c->holds, c->hold_count, sizeof *c->holds, compare_starts);
    for (size_t i = 0; i < c->hold_count; i++) {
        const struct hold *hold = &c->holds[i];
        if (hold->end <= hold->start) {
            continue;
        }
        if (hold->path != scene.path) {
            scene.path = hold->path;
            scene.active_count = 0;
            scene.weight_count = 0;
        }
        check_room(c, &scene, hold);
        check_token(c, &scene, hold);
    }
    free(scene.active);
}

static void sweep_tokens(struct court *c)
{
    qsort(c->holds, c->hold_count, sizeof *c->holds, compare_tokens);
    for (size_t i = 1; i < c->hold_count; i++) {
        const struct hold *a = &c->holds[i - 1], *b = &c->holds[i];
        if (a->path == b->path && a->token == b->token &&
            !(a->client == b->client && (a->downgraded || b->downgraded))) {
            accuse(c, VERDICT_TOKEN_ORDER, "%s: %s and %s were both granted %" PRId64, PATH(a->path), CLIENT(a->client),
                   CLIENT(b->client), a->token);
        }
    }
}

/* --- whole ----------------------------------------------------------------------------------------------------------- */

void verdict_judge(struct verdict *verdict, const struct history *history, const struct verdict_options *options)
{
    struct court court = {.h = history, .options = options, .v = verdict}, *c = &court;
    memset(verdict, 0, sizeof *verdict);
    c->clients = make((size_t)history->clients.count, sizeof *c->clients);
    c->first_client = make((size_t)history->processes.count, sizeof *c->first_client);
    c->stopped_at = make((size_t)history->processes.count, sizeof *c->stopped_at);
    c->paths = make((size_t)history->paths.count, sizeof *c->paths);
    c->holds = make(history->count, sizeof *c->holds);
    for (int i = 0; i < history->clients.count; i++) {
        c->clients[i] = (struct client){.process = -1, .next = -1, .path = -1, .hold = -1};
    }
    for (int i = 0; i < history->processes.count; i++) {
        c->first_client[i] = -1;
    }
    for (int i = 0; i < history->paths.count; i++) {
        c->paths[i].releasing = -1;
    }
    collect_spans(c);
    for (size_t i = 0; i < history->count; i++) {
        see(c, &history->events[i]);
    }
    see_the_end(c);
    sweep_starts(c);
    sweep_tokens(c);
    spans_free(&c->spans);
    free(c->clients);
    free(c->first_client);
    free(c->stopped_at);
    free(c->paths);
    free(c->holds);
}

size_t verdict_total(const struct verdict *verdict)
{
    size_t total = 0;
    for (int i = 0; i < VERDICT_COUNT; i++) {
        total += verdict->found[i];
    }
    return total;
}
