#include "verdict.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "court.h"

#define WORDS_MAX 10 /* of one kind that are told in full */
#define MS INT64_C(1000000)

const char *verdict_name(int kind)
{
    static const char *const names[] = {
#define VERDICT_NAME(name, words) words,
        VERDICTS(VERDICT_NAME)
#undef VERDICT_NAME
    };
    return kind >= 0 && kind < VERDICT_COUNT ? names[kind] : "?";
}

void court_accuse(struct court *c, enum verdict_kind kind, const char *format, ...)
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

const char *court_name(const struct history_names *names, int number)
{
    return number >= 0 && number < names->count ? names->names[number] : "-";
}

void *court_make(size_t count, size_t size)
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

struct hold *court_hold(struct court *c, const struct client *client)
{
    return client->hold >= 0 ? &c->holds[client->hold] : NULL;
}

void court_end_hold(struct hold *hold, int64_t at)
{
    hold->end = at < hold->end ? at : hold->end;
}

static void see_acquire(struct court *c, struct client *client, const struct history_event *e)
{
    if (client->pending) {
        court_accuse(c, VERDICT_NEVER_ENDED, "%s asked again at %" PRId64 ", its acquire before that had no end",
                     CLIENT(e->client), e->at);
    }
    if (client->hold >= 0 || e->path < 0) {
        court_accuse(c, VERDICT_GARBLED, "%s asks at %" PRId64 " while it holds, or for nothing", CLIENT(e->client),
                     e->at);
        return;
    }
    client->pending = true;
    client->unclean = false;
    client->path = e->path;
    client->takes = e->takes;
    client->deadline = e->lease;
    client->starved = 0;
    struct path *path = &c->paths[e->path];
    if (path->of != 0 && path->of != e->of) {
        court_accuse(c, VERDICT_GARBLED, "%s asks at %" PRId64 " for %d of %d, others for parts of %d",
                     CLIENT(e->client), e->at, e->takes, e->of, path->of);
    }
    path->of = e->of;
    path->used = true;
    c->v->waits++;
}

int64_t court_lateness(const struct court *c, const struct client *client, int64_t due, int64_t at)
{
    int64_t ready = at - client->starved;
    return ready <= due ? 0 : ready - due - spans_cover(&c->spans, client->process, due, ready);
}

void court_check_end(struct court *c, const struct client *client, const char *what, int path, int64_t due, int64_t at)
{
    int64_t over = due ? court_lateness(c, client, due, at) : 0;
    c->v->worst_end_ns = over > c->v->worst_end_ns ? over : c->v->worst_end_ns;
    if (over > c->options->slack_ns) {
        court_accuse(c, VERDICT_LATE_END, "%s %s %s until %" PRId64 ", %" PRId64 " ms too long",
                     CLIENT((int)(client - c->clients)), what, PATH(path), at, over / MS);
    }
}

static void see_done(struct court *c, struct client *client, const struct history_event *e)
{
    if (!client->pending) {
        court_accuse(c, VERDICT_ENDED_TWICE, "%s at %" PRId64 ": a completion, and nothing was pending",
                     CLIENT(e->client), e->at);
        return;
    }
    client->pending = false;
    court_check_end(c, client, "waited for", client->path, client->deadline, e->at);
    if (e->good && !client->leaving) {
        c->holds[c->hold_count] = (struct hold){.path = client->path,
                                                .client = e->client,
                                                .takes = client->takes,
                                                .token = e->token,
                                                .start = e->at,
                                                .seen = e->at,
                                                .end = e->lease};
        client->hold = (int64_t)c->hold_count++;
        c->v->grants++;
        c->v->shared += client->takes < c->paths[client->path].of ? 1 : 0;
        int releasing = c->paths[client->path].releasing;
        c->v->handed += releasing >= 0 && c->clients[releasing].process == client->process ? 1 : 0;
        c->paths[client->path].releasing = -1;
        court_see_recovery(c, client, e);
        c->v->too_late += e->lease <= e->at ? 1 : 0;
    }
}

/* It may take effect at any time from the call on: others may come in at once. */
static void see_downgrade(struct court *c, struct client *client, const struct history_event *e)
{
    struct hold *whole = court_hold(c, client);
    if (!whole || e->takes > whole->takes) {
        court_accuse(c, VERDICT_GARBLED, "%s downgrades at %" PRId64 " what it has not", CLIENT(e->client), e->at);
        return;
    }
    struct hold *rest = &c->holds[c->hold_count];
    *rest = *whole;
    rest->takes = e->takes;
    rest->start = e->at;
    rest->downgraded = true;
    court_end_hold(whole, e->at);
    client->hold = (int64_t)c->hold_count++;
}

static void see_release(struct court *c, struct client *client, const struct history_event *e)
{
    struct hold *hold = court_hold(c, client);
    if (!hold) {
        court_accuse(c, VERDICT_GARBLED, "%s releases at %" PRId64 " and holds nothing", CLIENT(e->client), e->at);
        return;
    }
    if (hold->lost && !hold->told) {
        court_accuse(c, VERDICT_NOT_TOLD, "%s lost %s, token %" PRId64 ", and was never told", CLIENT(e->client),
                     PATH(hold->path), hold->token);
    }
    court_see_recovery(c, client, e);
    court_end_hold(hold, e->at);
    c->paths[hold->path].releasing = hold->takes == c->paths[hold->path].of ? e->client : -1;
    client->hold = -1;
    client->lost = hold->lost;
}

static void see_released(struct court *c, const struct client *client, const struct history_event *e)
{
    if (e->good && client->lost) {
        court_accuse(c, VERDICT_RELEASED_LOST, "%s had lost %s, and its release at %" PRId64 " says it had not",
                     CLIENT(e->client), PATH(e->path), e->at);
    }
    court_see_recovery(c, client, e);
    if (e->path >= 0 && c->paths[e->path].releasing == e->client) {
        c->paths[e->path].releasing = -1;
    }
}

static void see_lost(struct court *c, struct client *client, struct hold *hold, int64_t at)
{
    hold->lost = true;
    hold->lost_at = at;
    client->starved = 0;
    c->v->losses++;
    court_end_hold(hold, at);
}

/* Lost: by the lease's end, since the holder looks at that only. */
static void see_told(struct court *c, const struct client *client, struct hold *hold, const struct history_event *e)
{
    int64_t over = hold->lost && !hold->told ? court_lateness(c, client, hold->lost_at, e->at) : 0;
    hold->told = true;
    c->v->worst_told_ns = over > c->v->worst_told_ns ? over : c->v->worst_told_ns;
    if (over > c->options->slack_ns) {
        court_accuse(c, VERDICT_TOLD_LATE,
                     "%s saw that it had lost %s at %" PRId64 ", and was told %" PRId64 " ms later", CLIENT(e->client),
                     PATH(hold->path), hold->lost_at, over / MS);
    }
}

/* What a holder says of its grant while it has it. */
static void see_hold(struct court *c, struct client *client, const struct history_event *e)
{
    struct hold *hold = court_hold(c, client);
    if (!hold) { /* told may come when all is over */
        if (e->op != HISTORY_told) {
            court_accuse(c, VERDICT_GARBLED, "%s at %" PRId64 " speaks of a grant that it has not", CLIENT(e->client),
                         e->at);
        }
    } else if (e->op == HISTORY_held && !hold->lost) {
        hold->end = e->lease > hold->end ? e->lease : hold->end;
        hold->seen = e->at;
    } else if (e->op == HISTORY_lost && !hold->lost) {
        see_lost(c, client, hold, e->at);
    } else if (e->op == HISTORY_told) {
        see_told(c, client, hold, e);
    }
}

static void see_killed(struct court *c, const struct history_event *e)
{
    c->v->killed++;
    for (int i = c->first_client[e->process]; i >= 0; i = c->clients[i].next) {
        struct client *client = &c->clients[i];
        if (client->hold >= 0) {
            court_see_recovery(c, client, e);
            court_end_hold(court_hold(c, client), e->at);
        }
        client->hold = -1;
        client->pending = false;
        client->leaving = false;
    }
    c->members[e->process] = (struct member){.path = -1};
}

static void see_write(struct court *c, const struct history_event *e)
{
    if (e->path < 0) {
        court_accuse(c, VERDICT_GARBLED, "a write to nothing at %" PRId64, e->at);
        return;
    }
    struct path *path = &c->paths[e->path];
    c->v->writes++;
    c->v->refused += e->good ? 0 : 1;
    if (e->good && e->token < path->accepted) {
        court_accuse(c, VERDICT_STALE_ACCEPTED, "%s took a write with token %" PRId64 " at %" PRId64 ", after %" PRId64,
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
        see_released(c, client, e);
        break;
    case HISTORY_free:
    case HISTORY_freed:
    case HISTORY_close:
    case HISTORY_closed:
    case HISTORY_remains:
        court_see_leaving(c, client, e);
        break;
    case HISTORY_joined:
    case HISTORY_left:
    case HISTORY_listed:
    case HISTORY_owner_by:
    case HISTORY_list_by:
        court_see_group(c, e);
        break;
    case HISTORY_commit:
        court_see_commit(c, e);
        break;
    case HISTORY_recovers:
    case HISTORY_removed:
    case HISTORY_unclean:
        court_see_recovery(c, client, e);
        client->unclean = e->op == HISTORY_unclean;
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
            court_accuse(c, VERDICT_NEVER_ENDED, "%s still waits for %s", CLIENT(i), PATH(c->clients[i].path));
        }
    }
    for (int i = 0; i < c->h->paths.count; i++) {
        if (c->paths[i].looked && c->paths[i].left > 0) {
            court_accuse(c, VERDICT_ORPHAN, "%" PRId64 " at %s", c->paths[i].left, PATH(i));
        } else if (c->paths[i].used && !c->paths[i].looked) {
            court_accuse(c, VERDICT_NOBODY_LOOKED, "at %s", PATH(i));
        }
        if (c->paths[i].rest) {
            court_accuse(c, VERDICT_NOBODY_LOOKED, "at %s when it should have come to rest", PATH(i));
        }
    }
}

/* --- whole ----------------------------------------------------------------------------------------------------------- */

void verdict_judge(struct verdict *verdict, const struct history *history, const struct verdict_options *options)
{
    struct court court = {.h = history, .options = options, .v = verdict}, *c = &court;
    memset(verdict, 0, sizeof *verdict);
    c->clients = court_make((size_t)history->clients.count, sizeof *c->clients);
    c->first_client = court_make((size_t)history->processes.count, sizeof *c->first_client);
    c->stopped_at = court_make((size_t)history->processes.count, sizeof *c->stopped_at);
    c->members = court_make((size_t)history->processes.count, sizeof *c->members);
    c->paths = court_make((size_t)history->paths.count, sizeof *c->paths);
    c->holds = court_make(history->count, sizeof *c->holds);
    for (int i = 0; i < history->clients.count; i++) {
        c->clients[i] = (struct client){.process = -1, .next = -1, .path = -1, .hold = -1};
    }
    for (int i = 0; i < history->processes.count; i++) {
        c->first_client[i] = -1;
        c->members[i].path = -1;
    }
    for (int i = 0; i < history->paths.count; i++) {
        c->paths[i].releasing = -1;
    }
    collect_spans(c);
    for (size_t i = 0; i < history->count; i++) {
        court_check_rest(c, history->events[i].at);
        see(c, &history->events[i]);
    }
    see_the_end(c);
    court_end_removed(c);
    court_judge_grants(c);
    court_judge_commits(c);
    court_judge_requests(c);
    spans_free(&c->spans);
    free(c->clients);
    free(c->first_client);
    free(c->stopped_at);
    free(c->members);
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
