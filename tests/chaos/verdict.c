#include "verdict.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "wait.h"

#define WORDS_MAX 10   /* of one kind that are told in full */
#define WEIGHTS_MAX 16 /* different ones that are asked for at one path */

/* --- spans of time: when a process was kept from running, when an assumption did not hold ------------------------------- */

struct spans {
    struct span {
        int owner;
        int64_t from, to;
        int64_t before; /* length of this owner's spans before this one */
    } * all;
    size_t count, size;
};

static void spans_add(struct spans *s, int owner, int64_t from, int64_t to)
{
    if (s->count == s->size) {
        s->size = s->size ? 2 * s->size : 64;
        s->all = realloc(s->all, s->size * sizeof *s->all);
        if (!s->all) {
            fprintf(stderr, "spans: out of memory\n");
            abort();
        }
    }
    if (from < to) {
        s->all[s->count++] = (struct span){.owner = owner, .from = from, .to = to};
    }
}

static int compare_spans(const void *left, const void *right)
{
    const struct span *a = left, *b = right;
    if (a->owner != b->owner) {
        return a->owner < b->owner ? -1 : 1;
    }
    return (a->from > b->from) - (a->from < b->from);
}

/* After the last add: sorts, and makes one of those that touch. */
static void spans_settle(struct spans *s)
{
    size_t kept = 0;
    if (s->count > 0) {
        qsort(s->all, s->count, sizeof *s->all, compare_spans);
    }
    for (size_t i = 0; i < s->count; i++) {
        struct span *last = kept > 0 ? &s->all[kept - 1] : NULL, *next = &s->all[i];
        bool same = last && last->owner == next->owner;
        if (same && next->from <= last->to) {
            last->to = next->to > last->to ? next->to : last->to;
        } else {
            next->before = same ? last->before + last->to - last->from : 0;
            s->all[kept++] = *next;
        }
    }
    s->count = kept;
}

/* How much of the time before t they cover. */
static int64_t cover_before(const struct spans *s, int owner, int64_t t)
{
    size_t low = 0, high = s->count; /* the last one that begins before t is before high */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct span *span = &s->all[middle];
        if (span->owner < owner || (span->owner == owner && span->from < t)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == 0 || s->all[low - 1].owner != owner) {
        return 0;
    }
    const struct span *span = &s->all[low - 1];
    return span->before + (t < span->to ? t : span->to) - span->from;
}

/* How much of [from, to) the owner's spans cover. */
static int64_t spans_cover(const struct spans *s, int owner, int64_t from, int64_t to)
{
    return from < to ? cover_before(s, owner, to) - cover_before(s, owner, from) : 0;
}

static void spans_free(struct spans *s)
{
    free(s->all);
}

/* --- what is known of clients and grants while a history is judged ---------------------------------------------------- */

#define EVERYBODY -1 /* owner of the spans in which the lease is not judged */

struct hold {
    int path, client;
    int takes;
    int64_t token, start, end;
    bool lost, told;
    int64_t seen; /* when its holder looked last and held */
    int64_t lost_at;
    bool downgraded; /* what remains of the one before it, which has its token */
};

struct client {
    int process, next; /* next: another client of the process; -1: none */
    bool pending;
    bool lost;    /* the grant that it released last */
    bool unclean; /* the pending grant says so */
    int path, takes;
    int64_t deadline; /* 0: none */
    int64_t starved;  /* ns of the pending wait, or since the loss */
    int64_t hold;     /* -1: none */
    bool leaving;     /* it is being freed or closed: what it is granted now is not held */
    int64_t left_by;  /* when its close has to be over */
};

/* A process as one of a group. */
struct member {
    bool joined;
    int path; /* of the group that it watches; -1: none */
    int list; /* what it was told last, a number of a word */
};

struct court {
    const struct history *h;
    const struct verdict_options *options;
    struct verdict *v;
    struct spans spans;
    struct client *clients;
    struct hold *holds;
    size_t hold_count;
    int *first_client;      /* of a process */
    int64_t *stopped_at;    /* of a process; 0: it runs */
    struct member *members; /* of a process */
    struct path {
        bool used, looked;
        int of; /* how much there is; 0: nobody asked yet */
        bool recovers;
        bool crashed;       /* the holder before was killed, and nobody has released since */
        int64_t clearing;   /* token of who was told, and called release; 0: nobody */
        int64_t last_grant; /* the highest token */
        int releasing;      /* the client that released it whole last and is not back from it; -1: nobody */
        int64_t left, accepted;
        int64_t rest, owner_by,
            list_by; /* rest: since when nothing is broken. 0: nobody said so, or it has been looked at */
    } * paths;
    int64_t rest_by; /* the earliest of all owner_by and list_by; 0: none */
};

#define CLIENT(number) name_of(&c->h->clients, number)
#define PATH(number) name_of(&c->h->paths, number)

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

/* "-" for -1. */
static const char *name_of(const struct history_names *names, int number)
{
    return number >= 0 && number < names->count ? names->names[number] : "-";
}

/* Room for so many, zeroed; never NULL. */
static void *make_room(size_t count, size_t size)
{
    void *room = calloc(count + 1, size);
    if (!room) {
        fprintf(stderr, "verdict: out of memory\n");
        abort();
    }
    return room;
}

/* The grant of a client; NULL: none. */
static struct hold *hold_of(struct court *c, const struct client *client)
{
    return client->hold >= 0 ? &c->holds[client->hold] : NULL;
}

static void end_hold(struct hold *hold, int64_t at)
{
    hold->end = at < hold->end ? at : hold->end;
}

/* How much later than due something is, without what the library is not blamed for: the process was stopped, or late as a whole, or the very
 * thread that was to do it got no processor: that is taken to have been at the end, and counts once where both were so. */
static int64_t lateness(const struct court *c, const struct client *client, int64_t due, int64_t at)
{
    int64_t ready = at - client->starved;
    return ready <= due ? 0 : ready - due - spans_cover(&c->spans, client->process, due, ready);
}

/* Of a wait, or a close, that had to be over; what: "waited for", with a path or nothing behind it. */
static void check_end(struct court *c, const struct client *client, const char *what, int path, int64_t due, int64_t at)
{
    int64_t over = due ? lateness(c, client, due, at) : 0;
    c->v->worst_end_ns = over > c->v->worst_end_ns ? over : c->v->worst_end_ns;
    if (over > c->options->slack_ns) {
        accuse(c, VERDICT_LATE_END, "%s %s %s until %" PRId64 ", %" PRId64 " ms too long",
               CLIENT((int)(client - c->clients)), what, PATH(path), at, over / MS);
    }
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

/* --- what is freed or closed with all it has and waits for ------------------------------------------------------------ */

/* From the call on it holds nothing; what it waits for may still be granted, for nobody. */
static void let_go(struct court *c, struct client *client, const struct history_event *e)
{
    struct hold *hold = hold_of(c, client);
    if (hold) {
        end_hold(hold, e->at);
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
        accuse(c, VERDICT_NEVER_ENDED, "%s waits for %s, and its session was closed at %" PRId64, CLIENT(e->client),
               PATH(client->path), e->at);
    }
    check_end(c, client, "closed its session, at", e->path, client->left_by, e->at);
    client->pending = false;
    client->leaving = false;
}

static void see_leaving(struct court *c, struct client *client, const struct history_event *e)
{
    if (e->op == HISTORY_free || e->op == HISTORY_close) {
        let_go(c, client, e);
    } else if (e->op == HISTORY_closed) {
        see_closed(c, client, e);
    } else if (e->op == HISTORY_freed) {
        client->pending = false;
        client->leaving = false;
    } else if (e->token > 0) {
        accuse(c, VERDICT_ORPHAN, "%" PRId64 " of %s at %s, and the servers had confirmed its session's end", e->token,
               CLIENT(e->client), PATH(e->path));
    }
}

/* --- crashes: a grant that tells of one, a release, the end of a process that holds ----------------------------------- */

static void note_grant(struct court *c, const struct client *client, struct path *path, const struct history_event *e)
{
    path->last_grant = e->token > path->last_grant ? e->token : path->last_grant;
    c->v->unclean += client->unclean ? 1 : 0;
    if (path->crashed && !client->unclean) {
        accuse(c, VERDICT_CRASH_UNTOLD, "%s was granted %s at %" PRId64 ", the first one after a crash",
               CLIENT(e->client), PATH(client->path), e->at);
    }
}

/* A holder that had been stopped for long and lost is killed when others have held since: they were told. */
static void note_crash(struct path *path, int64_t token)
{
    path->crashed = path->crashed || (path->recovers && path->last_grant == token);
}

/* From the call on the next one may be granted, who need not be told: until it has returned that it was none. */
static void note_release(const struct court *c, const struct client *client)
{
    const struct hold *hold = &c->holds[client->hold];
    struct path *path = &c->paths[hold->path];
    if (path->crashed && path->last_grant == hold->token && !hold->lost) {
        path->crashed = false;
        path->clearing = hold->token;
    }
}

static void note_released(struct path *path, const struct history_event *e)
{
    if (e->good) {
        path->crashed = false;
    } else if (path->clearing == e->token && path->last_grant == e->token) {
        path->crashed = true;
    }
}

static void see_recovery(struct court *c, const struct client *client, const struct history_event *e)
{
    struct path *path = e->path >= 0 ? &c->paths[e->path] : NULL;
    if (e->op == HISTORY_killed) {
        const struct hold *hold = &c->holds[client->hold];
        note_crash(&c->paths[hold->path], hold->token);
    } else if (path && e->op == HISTORY_removed && e->good) {
        note_crash(path, e->token);
    } else if (path && e->op == HISTORY_recovers) {
        path->recovers = true;
    } else if (path && e->op == HISTORY_done) {
        note_grant(c, client, path, e);
    } else if (e->op == HISTORY_release) {
        note_release(c, client);
    } else if (path && e->op == HISTORY_released) {
        note_released(path, e);
    }
}

/* --- who is in a group, who was told of whom, what has to be so when nothing is broken any more ----------------------- */

static void see_rest(struct court *c, const struct history_event *e)
{
    struct path *path = &c->paths[e->path];
    path->rest = e->at;
    *(e->op == HISTORY_list_by ? &path->list_by : &path->owner_by) = e->lease;
    c->rest_by = c->rest_by == 0 || e->lease < c->rest_by ? e->lease : c->rest_by;
}

static void see_group(struct court *c, const struct history_event *e)
{
    struct member *member = &c->members[e->process];
    if (e->path < 0) {
        accuse(c, VERDICT_GARBLED, "a member of nothing at %" PRId64, e->at);
    } else if (e->op == HISTORY_owner_by || e->op == HISTORY_list_by) {
        see_rest(c, e);
    } else if (e->op == HISTORY_listed) {
        member->path = e->path;
        member->list = e->word;
        c->v->listed++;
    } else {
        member->joined = e->op == HISTORY_joined;
        c->paths[e->path].used = true;
    }
}

/* Seen to hold since nothing is broken. */
static void check_owner(struct court *c, int path)
{
    bool owned = false;
    for (int i = 0; i < c->h->clients.count; i++) {
        const struct hold *hold = hold_of(c, &c->clients[i]);
        owned = owned || (hold && hold->path == path && hold->end >= c->paths[path].rest);
    }
    if (!owned) {
        accuse(c, VERDICT_UNOWNED, "%s, %" PRId64 " ms after the last fault", PATH(path),
               (c->paths[path].owner_by - c->paths[path].rest) / MS);
    }
}

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* "a+b": those who joined. */
static char *list_members(const struct court *c)
{
    const char **names = make_room((size_t)c->h->processes.count, sizeof *names);
    char *list = make_room((size_t)c->h->processes.count, HISTORY_WORD + 1);
    size_t count = 0;
    for (int i = 0; i < c->h->processes.count; i++) {
        if (c->members[i].joined) {
            names[count++] = name_of(&c->h->processes, i);
        }
    }
    qsort(names, count, sizeof *names, compare_names);
    for (size_t i = 0; i < count; i++) {
        strcat(strcat(list, i > 0 ? "+" : ""), names[i]);
    }
    free(names);
    return list;
}

/* Who joins watches, too: a member that was told of nobody has no list. */
static void check_lists(struct court *c, int path)
{
    char *list = list_members(c);
    for (int i = 0; i < c->h->processes.count; i++) {
        const struct member *member = &c->members[i];
        const char *told = member->path == path ? name_of(&c->h->words, member->list) : "-";
        if ((member->joined || member->path == path) && strcmp(told, list) != 0) {
            accuse(c, VERDICT_WRONG_LIST, "%s was told of %s at %s, where %s are", name_of(&c->h->processes, i), told,
                   PATH(path), list);
        }
    }
    free(list);
}

static void check_rest(struct court *c, int64_t now)
{
    if (c->rest_by == 0 || now <= c->rest_by) {
        return;
    }
    c->rest_by = 0;
    for (int i = 0; i < c->h->paths.count; i++) {
        struct path *path = &c->paths[i];
        int64_t due = path->list_by > path->owner_by ? path->list_by : path->owner_by;
        if (path->rest && now > due) {
            if (path->list_by) {
                check_lists(c, i);
            } else {
                check_owner(c, i);
            }
            path->rest = 0;
        } else if (path->rest) {
            c->rest_by = c->rest_by == 0 || due < c->rest_by ? due : c->rest_by;
        }
    }
}

/* --- guarded transactions: committed in which order, and what was answered -------------------------------------------- */

static int compare_places(const struct history_event *a, const struct history_event *b)
{
    if (a->path != b->path) {
        return a->path < b->path ? -1 : 1;
    }
    if (a->token != b->token) {
        return a->token < b->token ? -1 : 1;
    }
    return (a->lease > b->lease) - (a->lease < b->lease);
}

static int compare_commits(const void *left, const void *right)
{
    return compare_places(*(const struct history_event *const *)left, *(const struct history_event *const *)right);
}

static void see_commit(struct court *c, const struct history_event *e)
{
    if (e->good && e->path >= 0 && e->token < c->paths[e->path].last_grant) {
        accuse(c, VERDICT_STALE_COMMITTED,
               "%s: %s began one under %" PRId64 " at %" PRId64 ", which was done; %" PRId64 " had been granted",
               PATH(e->path), CLIENT(e->client), e->token, e->at, c->paths[e->path].last_grant);
    }
}

/* Grants of one path have rising tokens: so have their transactions. */
static void check_order(struct court *c, int64_t *highest, const struct history_event *e)
{
    if (e->token < highest[e->path]) {
        accuse(c, VERDICT_STALE_COMMITTED, "%s: one of grant %" PRId64 " after one of grant %" PRId64, PATH(e->path),
               e->token, highest[e->path]);
    }
    highest[e->path] = e->token > highest[e->path] ? e->token : highest[e->path];
}

/* Done is done, not done is not; no answer is either. */
static void check_answer(struct court *c, const struct history_event *e, bool there)
{
    const char *answer = name_of(&c->h->words, e->word);
    bool refused = strcmp(answer, "ZKL_ELOST") == 0 || strcmp(answer, "ZKL_ENOTHELD") == 0;
    if (there ? refused : e->good) {
        accuse(c, VERDICT_COMMIT_BELIED, "%s: %s was told %s at %" PRId64 " of %" PRId64 " of grant %" PRId64 ", %s",
               PATH(e->path), CLIENT(e->client), answer, e->at, e->lease, e->token,
               there ? "which was carried out" : "which was not carried out");
    }
}

static void judge_commits(struct court *c)
{
    int64_t *highest = make_room((size_t)c->h->paths.count, sizeof *highest);
    const struct history_event **ledger = make_room(c->h->count, sizeof *ledger);
    size_t count = 0;
    for (size_t i = 0; i < c->h->count; i++) {
        const struct history_event *e = &c->h->events[i];
        if (e->op == HISTORY_committed && e->path >= 0) {
            check_order(c, highest, e);
            ledger[count++] = e;
        }
    }
    c->v->commits = count;
    qsort(ledger, count, sizeof *ledger, compare_commits);
    for (size_t i = 0; i < c->h->count; i++) {
        const struct history_event *e = &c->h->events[i];
        if (e->op == HISTORY_commit) {
            check_answer(c, e, bsearch(&e, ledger, count, sizeof *ledger, compare_commits) != NULL);
        }
    }
    free(ledger);
    free(highest);
}

/* --- requests to give way, and places that an operator took away ------------------------------------------------------ */

/* Something about one grant: that it was asked for, that its place was removed. */
struct act {
    int path;
    int64_t token, at, until;
};
static int compare_grants(const void *left, const void *right)
{
    const struct act *a = left, *b = right;
    if (a->path != b->path) {
        return a->path < b->path ? -1 : 1;
    }
    return (a->token > b->token) - (a->token < b->token);
}

static int compare_times(const void *left, const void *right)
{
    const struct act *a = left, *b = right;
    int order = compare_grants(a, b);
    return order != 0 ? order : (a->at > b->at) - (a->at < b->at);
}

static struct act *collect(const struct court *c, enum history_op op, bool all, size_t *count)
{
    struct act *acts = make_room(c->h->count, sizeof *acts);
    *count = 0;
    for (size_t i = 0; i < c->h->count; i++) {
        const struct history_event *e = &c->h->events[i];
        if (e->op == op && e->path >= 0 && (e->good || all)) {
            acts[(*count)++] = (struct act){e->path, e->token, e->at, e->lease};
        }
    }
    qsort(acts, *count, sizeof *acts, compare_times);
    return acts;
}

static void end_removed(struct court *c)
{
    size_t count;
    struct act *removed = collect(c, HISTORY_removed, true, &count);
    for (size_t i = 0; i < c->hold_count; i++) {
        struct hold *hold = &c->holds[i];
        const struct act key = {hold->path, hold->token, 0, 0};
        const struct act *at = bsearch(&key, removed, count, sizeof *removed, compare_grants);
        for (; at; at = at > removed && compare_grants(at - 1, &key) == 0 ? at - 1 : NULL) {
            end_hold(hold, at->at);
        }
    }
    free(removed);
}

/* Something not before it, by the same holder. */
static bool is_heard(const struct act *heard, size_t count, const struct act *asked)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_times(&heard[middle], asked) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < count && compare_grants(&heard[low], asked) == 0;
}

/* Until when their holders saw that they held. */
static struct act *collect_holds(const struct court *c)
{
    struct act *holds = make_room(c->hold_count, sizeof *holds);
    for (size_t i = 0; i < c->hold_count; i++) {
        holds[i] = (struct act){c->holds[i].path, c->holds[i].token, c->holds[i].seen, 0};
    }
    qsort(holds, c->hold_count, sizeof *holds, compare_times);
    return holds;
}

static void judge_requests(struct court *c)
{
    size_t asked_count, heard_count;
    struct act *asked = collect(c, HISTORY_asked, false, &asked_count);
    struct act *heard = collect(c, HISTORY_heard, true, &heard_count);
    struct act *holds = collect_holds(c);
    c->v->heard = heard_count;
    for (size_t i = 0; i < asked_count; i++) {
        const struct act *hold = bsearch(&asked[i], holds, c->hold_count, sizeof *holds, compare_grants);
        if (hold && hold->at >= asked[i].until && !is_heard(heard, heard_count, &asked[i])) {
            accuse(c, VERDICT_UNHEARD,
                   "%s: the holder under %" PRId64 " was asked at %" PRId64 " to give way, and held until %" PRId64,
                   PATH(hold->path), hold->token, asked[i].at, hold->at);
        }
    }
    free(asked);
    free(heard);
    free(holds);
}

/* --- which grants overlap, which tokens are out of order -------------------------------------------------------------- */

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
    struct scene scene = {.path = -1, .active = make_room(c->hold_count, sizeof *scene.active)};
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

static void judge_grants(struct court *c)
{
    sweep_starts(c);
    sweep_tokens(c);
}

/* --- events in the order of time ------------------------------------------------------------------------------------- */

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
    client->unclean = false;
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

static void see_done(struct court *c, struct client *client, const struct history_event *e)
{
    if (!client->pending) {
        accuse(c, VERDICT_ENDED_TWICE, "%s at %" PRId64 ": a completion, and nothing was pending", CLIENT(e->client),
               e->at);
        return;
    }
    client->pending = false;
    check_end(c, client, "waited for", client->path, client->deadline, e->at);
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
        see_recovery(c, client, e);
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
    see_recovery(c, client, e);
    end_hold(hold, e->at);
    c->paths[hold->path].releasing = hold->takes == c->paths[hold->path].of ? e->client : -1;
    client->hold = -1;
    client->lost = hold->lost;
}

static void see_released(struct court *c, const struct client *client, const struct history_event *e)
{
    if (e->good && client->lost) {
        accuse(c, VERDICT_RELEASED_LOST, "%s had lost %s, and its release at %" PRId64 " says it had not",
               CLIENT(e->client), PATH(e->path), e->at);
    }
    see_recovery(c, client, e);
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
    end_hold(hold, at);
}

/* Lost: by the lease's end, since the holder looks at that only. */
static void see_told(struct court *c, const struct client *client, struct hold *hold, const struct history_event *e)
{
    int64_t over = hold->lost && !hold->told ? lateness(c, client, hold->lost_at, e->at) : 0;
    hold->told = true;
    c->v->worst_told_ns = over > c->v->worst_told_ns ? over : c->v->worst_told_ns;
    if (over > c->options->slack_ns) {
        accuse(c, VERDICT_TOLD_LATE, "%s saw that it had lost %s at %" PRId64 ", and was told %" PRId64 " ms later",
               CLIENT(e->client), PATH(hold->path), hold->lost_at, over / MS);
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
            see_recovery(c, client, e);
            end_hold(hold_of(c, client), e->at);
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
        see_released(c, client, e);
        break;
    case HISTORY_free:
    case HISTORY_freed:
    case HISTORY_close:
    case HISTORY_closed:
    case HISTORY_remains:
        see_leaving(c, client, e);
        break;
    case HISTORY_joined:
    case HISTORY_left:
    case HISTORY_listed:
    case HISTORY_owner_by:
    case HISTORY_list_by:
        see_group(c, e);
        break;
    case HISTORY_commit:
        see_commit(c, e);
        break;
    case HISTORY_recovers:
    case HISTORY_removed:
    case HISTORY_unclean:
        see_recovery(c, client, e);
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
            accuse(c, VERDICT_NEVER_ENDED, "%s still waits for %s", CLIENT(i), PATH(c->clients[i].path));
        }
    }
    for (int i = 0; i < c->h->paths.count; i++) {
        if (c->paths[i].looked && c->paths[i].left > 0) {
            accuse(c, VERDICT_ORPHAN, "%" PRId64 " at %s", c->paths[i].left, PATH(i));
        } else if (c->paths[i].used && !c->paths[i].looked) {
            accuse(c, VERDICT_NOBODY_LOOKED, "at %s", PATH(i));
        }
        if (c->paths[i].rest) {
            accuse(c, VERDICT_NOBODY_LOOKED, "at %s when it should have come to rest", PATH(i));
        }
    }
}

/* --- whole ----------------------------------------------------------------------------------------------------------- */

void verdict_judge(struct verdict *verdict, const struct history *history, const struct verdict_options *options)
{
    struct court court = {.h = history, .options = options, .v = verdict}, *c = &court;
    memset(verdict, 0, sizeof *verdict);
    c->clients = make_room((size_t)history->clients.count, sizeof *c->clients);
    c->first_client = make_room((size_t)history->processes.count, sizeof *c->first_client);
    c->stopped_at = make_room((size_t)history->processes.count, sizeof *c->stopped_at);
    c->members = make_room((size_t)history->processes.count, sizeof *c->members);
    c->paths = make_room((size_t)history->paths.count, sizeof *c->paths);
    c->holds = make_room(history->count, sizeof *c->holds);
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
        check_rest(c, history->events[i].at);
        see(c, &history->events[i]);
    }
    see_the_end(c);
    end_removed(c);
    judge_grants(c);
    judge_commits(c);
    judge_requests(c);
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
