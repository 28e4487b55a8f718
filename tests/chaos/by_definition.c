#include "by_definition.h"

#include <string.h>

static int process_of(const struct history_event *e)
{
    return e->process;
}

/* Whether somebody is kept from running, or an assumption is broken (process -1), at that moment. */
static bool within(const struct history *h, int process, int64_t t)
{
    for (size_t i = 0; i < h->count; i++) {
        const struct history_event *e = &h->events[i];
        if (process < 0 && e->op == HISTORY_breach && t >= e->at && t < e->lease) {
            return true;
        }
        if (process >= 0 && process_of(e) == process && e->op == HISTORY_late && t >= e->at - e->lease && t < e->at) {
            return true;
        }
        if (process < 0 || process_of(e) != process || e->op != HISTORY_stopped || t < e->at) {
            continue;
        }
        for (size_t j = i + 1; j < h->count; j++) { /* stopped until it is told to continue, or killed */
            const struct history_event *f = &h->events[j];
            if (process_of(f) == process && (f->op == HISTORY_continued || f->op == HISTORY_killed)) {
                if (t < f->at) {
                    return true;
                }
                break;
            }
        }
    }
    return false;
}

static bool lets_go(const struct history_event *e)
{
    return e->op == HISTORY_free || e->op == HISTORY_close;
}

/* Until when the grant at i holds. */
static int64_t end_of(const struct history *h, size_t i)
{
    const struct history_event *grant = &h->events[i];
    int64_t lease = grant->lease, end = INT64_MAX;
    bool over = false;
    for (size_t j = i + 1; j < h->count && !over; j++) {
        const struct history_event *e = &h->events[j];
        if (e->client == grant->client && e->op == HISTORY_held && end == INT64_MAX && e->lease > lease) {
            lease = e->lease;
        }
        if ((e->client == grant->client && (e->op == HISTORY_lost || e->op == HISTORY_release || lets_go(e))) ||
            (process_of(e) == process_of(grant) && e->op == HISTORY_killed)) {
            end = e->at < end ? e->at : end;
            over = e->op != HISTORY_lost;
        }
    }
    return lease < end ? lease : end;
}

/* What comes while its client is being closed is nobody's. */
static bool is_grant(const struct history *h, size_t i)
{
    const struct history_event *e = &h->events[i];
    bool leaving = false;
    for (size_t j = 0; j < i; j++) {
        const struct history_event *before = &h->events[j];
        if (before->client == e->client && (lets_go(before) || before->op == HISTORY_closed)) {
            leaving = before->op == HISTORY_close;
        }
    }
    return e->op == HISTORY_done && e->good && !leaving;
}

/* How much the grant at i takes: what was asked for last before it. */
static int takes_of(const struct history *h, size_t i)
{
    size_t j = i;
    while (h->events[j].client != h->events[i].client || h->events[j].op != HISTORY_acquire) {
        j--;
    }
    return h->events[j].takes;
}

/* How much is taken of the path when the grant at i begins. */
static int taken_at(const struct history *h, size_t i)
{
    int taken = 0;
    for (size_t j = 0; j < h->count; j++) {
        const struct history_event *a = &h->events[j], *b = &h->events[i];
        if (is_grant(h, j) && a->path == b->path && a->at <= b->at && b->at < end_of(h, j)) {
            taken += takes_of(h, j);
        }
    }
    return taken;
}

static void compare_grants(const struct history *h, bool *found)
{
    for (size_t i = 0; i < h->count; i++) {
        const struct history_event *grant = &h->events[i];
        if (is_grant(h, i) && end_of(h, i) > grant->at && taken_at(h, i) > ROOM(grant->path) &&
            !within(h, -1, grant->at)) {
            found[VERDICT_DOUBLE_HOLD] = true;
        }
        for (size_t j = 0; j < h->count; j++) {
            const struct history_event *a = grant, *b = &h->events[j];
            if (i == j || !is_grant(h, i) || !is_grant(h, j) || a->path != b->path) {
                continue;
            }
            bool both = end_of(h, i) > a->at && end_of(h, j) > b->at,
                 room = takes_of(h, i) + takes_of(h, j) <= ROOM(a->path);
            if (a->token == b->token || (both && !room && a->at < b->at && a->token > b->token)) {
                found[VERDICT_TOKEN_ORDER] = true;
            }
        }
    }
}

static void compare_writes(const struct history *h, bool *found)
{
    for (size_t i = 0; i < h->count; i++) {
        for (size_t j = i + 1; j < h->count; j++) {
            const struct history_event *a = &h->events[i], *b = &h->events[j];
            if (a->op == HISTORY_write && b->op == HISTORY_write && a->good && b->good && a->path == b->path &&
                b->token < a->token) {
                found[VERDICT_STALE_ACCEPTED] = true;
            }
        }
    }
}

static bool is_late(const struct history *h, int process, int64_t due, int64_t at)
{
    int64_t over = 0;
    for (int64_t t = due; t < at; t++) { /* times are small here */
        over += within(h, process, t) ? 0 : 1;
    }
    return over > LATE_SLACK;
}

/* Whether the close at i, of a client whose wait began then, or now, is over late. */
static void follow_close(const struct history *h, size_t i, size_t began, bool *found)
{
    const struct history_event *close = &h->events[i];
    int64_t starved = 0;
    for (size_t j = began; j < h->count; j++) {
        const struct history_event *e = &h->events[j];
        bool own = e->client == close->client;
        starved += own && e->op == HISTORY_starved ? e->lease : 0;
        if (j > i && process_of(e) == process_of(close) && e->op == HISTORY_killed) {
            return;
        }
        if (j > i && own && e->op == HISTORY_closed) {
            found[VERDICT_LATE_END] |= is_late(h, process_of(e), close->lease, e->at - starved);
            return;
        }
    }
}

/* The wait that is asked for at i: its end, and whether that is late. */
static void follow_wait(const struct history *h, size_t i, bool *found)
{
    const struct history_event *asked = &h->events[i];
    int64_t deadline = asked->lease ? asked->lease : INT64_MAX, starved = 0;
    for (size_t j = i + 1; j < h->count; j++) {
        const struct history_event *e = &h->events[j];
        if (process_of(e) == process_of(asked) && e->op == HISTORY_killed) {
            return;
        }
        if (e->client == asked->client && e->op == HISTORY_cancel) {
            deadline = e->at < deadline ? e->at : deadline;
        }
        starved += e->client == asked->client && e->op == HISTORY_starved ? e->lease : 0;
        if (e->client == asked->client && e->op == HISTORY_done) {
            found[VERDICT_LATE_END] |= is_late(h, process_of(e), deadline, e->at - starved);
            return;
        }
        if (e->client == asked->client && e->op == HISTORY_close) {
            follow_close(h, j, i, found);
        }
        if (e->client == asked->client && (e->op == HISTORY_freed || e->op == HISTORY_closed)) {
            found[VERDICT_NEVER_ENDED] |= e->op == HISTORY_closed;
            return;
        }
    }
    found[VERDICT_NEVER_ENDED] = true;
}

/* Whether the client of the close at i waits: then the wait is followed through it. */
static bool waits(const struct history *h, size_t i)
{
    bool pending = false;
    for (size_t j = 0; j < i; j++) {
        const struct history_event *e = &h->events[j];
        if (e->client == h->events[i].client) {
            pending = e->op == HISTORY_acquire || (pending && e->op != HISTORY_done && e->op != HISTORY_freed);
        }
    }
    return pending;
}

void by_definition(const struct history *h, bool *found)
{
    memset(found, 0, VERDICT_COUNT * sizeof *found);
    compare_grants(h, found);
    compare_writes(h, found);
    for (size_t i = 0; i < h->count; i++) {
        if (h->events[i].op == HISTORY_acquire) {
            follow_wait(h, i, found);
        }
        if (h->events[i].op == HISTORY_close && !waits(h, i)) {
            follow_close(h, i, i, found);
        }
    }
}
