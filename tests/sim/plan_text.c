/* plan_text.c - a plan as text, one thing per line; times are in ms.
 *
 *   seed 12
 *   ensemble servers=3 observers=0 masters=0 batches=0 tick=2000 timeout=10000 pause=500 walk=0
 *   network pct=0 delay=1 slow-once-in=0 slow=0 inbox=0 preempt=0 ping-late=0 late=0
 *   start clients=2 paths=1 sequence=0 heal=40000 seals=0 rules=0 watchers=0 async=0 unlisted=0
 *   client 0 ppm=999 hides=1       (rules, hides: numbers of enum sim_rules and sim_readers)
 *   acquire client=0 thread=0 path=0 after=0 timeout=-1 hold=100 cancel=-1 max-hold=0 try=0 fail=0 eager=0 let-go=0
 *           kind=mutex mark=0 downgrade=0 joint=0 recipe=by-seed linger=0 least=0 crash-delay=0
 *           (on the same line; kind: mutex, read or write; recipe: semaphore, group; in sim_recipes, lock, ...)
 *   fault on=create n=1 do=lose-replies target=0 value=0
 *   fault on=at n=1500 do=isolate target=1 value=9000
 *
 * What is left out is zero, or -1 for timeout and cancel. '#' begins a remark. */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

static const char *const trigger_names[SIM_TRIGGERS] = {"at",    "submit", "create",  "delete",  "commit", "make",
                                                        "reply", "grant",  "release", "connect", "multi"};
static const char *const kind_names[SIM_KINDS] = {"mutex", "read", "write"};
static const char *const recipe_names[SIM_RECIPES] = {"by-seed",   "lock",     "rwlock",        "semaphore",
                                                      "multilock", "election", "partition",     "group",
                                                      "once",      "barrier",  "double-barrier"};
static const char *const fault_names[SIM_FAULT_KINDS] = {"lose-replies",
                                                         "lose-requests",
                                                         "cut",
                                                         "move",
                                                         "hold-up",
                                                         "hold-down",
                                                         "hold-to-leader",
                                                         "hold-from-leader",
                                                         "isolate",
                                                         "pause-client",
                                                         "pause-server",
                                                         "pause-leader",
                                                         "kill-server",
                                                         "kill-leader",
                                                         "crash",
                                                         "expire",
                                                         "delete-node",
                                                         "write-node",
                                                         "foreign",
                                                         "reap",
                                                         "deny",
                                                         "no-memory",
                                                         "throttle",
                                                         "refuse",
                                                         "forge-node",
                                                         "forge-word",
                                                         "lose-touch",
                                                         "resize"};

const char *sim_fault_name(enum sim_fault_kind kind)
{
    return fault_names[kind];
}

/* --- writing --------------------------------------------------------------------------------------------------------- */

static double ms(int64_t time)
{
    return (double)time / 1e6;
}
static double ms_or_never(int64_t time)
{
    return time < 0 ? -1 : ms(time);
}

/* Whether a fault's value is a time. */
static bool timed(enum sim_fault_kind kind)
{
    switch (kind) {
    case SIM_HOLD_UP:
    case SIM_HOLD_DOWN:
    case SIM_HOLD_TO_LEADER:
    case SIM_HOLD_FROM_LEADER:
    case SIM_ISOLATE:
    case SIM_PAUSE_CLIENT:
    case SIM_PAUSE_SERVER:
    case SIM_PAUSE_LEADER:
    case SIM_KILL_SERVER:
    case SIM_KILL_LEADER:
    case SIM_CRASH:
        return true;
    default:
        return false;
    }
}

static void write_number(FILE *out, const char *name, int64_t value, bool time)
{
    if (time) {
        fprintf(out, " %s=%.6f", name, ms(value));
    } else {
        fprintf(out, " %s=%lld", name, (long long)value);
    }
}

static void write_fault(const struct sim_fault *it, FILE *out)
{
    fprintf(out, "fault on=%s", trigger_names[it->trigger]);
    write_number(out, "n", it->when, it->trigger == SIM_AT);
    fprintf(out, " do=%s target=%d", fault_names[it->kind], it->target);
    write_number(out, "value", it->value, timed(it->kind));
    fputc('\n', out);
}

static void write_acquire(const struct sim_acquire *it, FILE *out)
{
    fprintf(out,
            "acquire client=%d thread=%d path=%d after=%.6f timeout=%.6f hold=%.6f cancel=%.6f max-hold=%.6f try=%d "
            "fail=%d eager=%d let-go=%d kind=%s mark=%d downgrade=%d joint=%d recipe=%s linger=%.6f least=%.6f "
            "crash-delay=%.6f\n",
            it->client, it->thread, it->path, ms(it->after), ms_or_never(it->timeout), ms(it->hold),
            ms_or_never(it->cancel), ms(it->max_hold), it->try_only, it->fail_on_expiry, it->eager,
            it->ending == SIM_END_LET_GO, kind_names[it->kind], it->mark, it->downgrade, it->joint,
            recipe_names[it->recipe], ms(it->linger), ms(it->least), ms(it->delay));
}

void sim_plan_write(const struct sim_plan *plan, uint64_t seed, FILE *out)
{
    fprintf(out, "seed %llu\n", (unsigned long long)seed);
    fprintf(out,
            "ensemble servers=%d observers=%d masters=%d batches=%d tick=%.6f timeout=%.6f pause=%.6f "
            "walk=%.6f\n",
            plan->servers, plan->observers, plan->masters, plan->batches, ms(plan->tick), ms(plan->timeout),
            ms(plan->pause), ms(plan->walk));
    fprintf(out,
            "network pct=%d delay=%.6f slow-once-in=%d slow=%.6f inbox=%.6f preempt=%.6f ping-late=%.6f "
            "late=%.6f\n",
            plan->scheduler == SIM_PCT, ms(plan->delay), plan->slow_once_in, ms(plan->slow), ms(plan->inbox_delay),
            ms(plan->preempt), ms(plan->ping_late), ms(plan->late));
    fprintf(out,
            "start clients=%d paths=%d sequence=%lld heal=%.6f seals=%d rules=%d bounds=%d skew=%.6f watchers=%d "
            "async=%d unlisted=%d\n",
            plan->clients, plan->paths, (long long)plan->sequence, ms(plan->heal), plan->seals, (int)plan->rules,
            plan->bounds, ms(plan->skew), plan->watchers, plan->async, plan->unlisted);
    for (int i = 0; i < plan->clients; i++) {
        if (plan->ppm[i] || plan->hides[i]) {
            fprintf(out, "client %d ppm=%lld hides=%d\n", i, (long long)plan->ppm[i], (int)plan->hides[i]);
        }
    }
    for (int i = 0; i < plan->acquire_count; i++) {
        write_acquire(&plan->acquires[i], out);
    }
    for (int i = 0; i < plan->fault_count; i++) {
        write_fault(&plan->faults[i], out);
    }
}

/* --- reading --------------------------------------------------------------------------------------------------------- */

/* The word behind " name=", or NULL. */
static const char *word(const char *line, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = strstr(line, name); at; at = strstr(at + 1, name)) {
        if (at > line && at[-1] == ' ' && at[length] == '=') {
            return at + length + 1;
        }
    }
    return NULL;
}

static int64_t number(const char *line, const char *name, int64_t otherwise)
{
    const char *at = word(line, name);
    return at ? strtoll(at, NULL, 10) : otherwise;
}

static int64_t time_of(const char *line, const char *name, int64_t otherwise)
{
    const char *at = word(line, name);
    if (!at || *at == '-') {
        return otherwise;
    }
    char *end;
    int64_t time = strtoll(at, &end, 10) * SIM_MS;
    int64_t unit = SIM_MS / 10;
    for (at = *end == '.' ? end + 1 : end; *at >= '0' && *at <= '9' && unit > 0; at++) {
        time += (*at - '0') * unit;
        unit /= 10;
    }
    return time;
}

static int choice(const char *line, const char *name, const char *const *names, int count)
{
    const char *at = word(line, name);
    for (int i = 0; at && i < count; i++) {
        size_t length = strlen(names[i]);
        if (strncmp(at, names[i], length) == 0 && (at[length] == ' ' || at[length] == '\n' || at[length] == '\0')) {
            return i;
        }
    }
    return -1;
}

static bool read_fault(struct sim_plan *plan, const char *line)
{
    int trigger = choice(line, "on", trigger_names, SIM_TRIGGERS);
    int kind = choice(line, "do", fault_names, SIM_FAULT_KINDS);
    if (trigger < 0 || kind < 0 || plan->fault_count == SIM_FAULTS) {
        return false;
    }
    struct sim_fault *it = &plan->faults[plan->fault_count++];
    it->trigger = (enum sim_trigger)trigger;
    it->kind = (enum sim_fault_kind)kind;
    it->when = it->trigger == SIM_AT ? time_of(line, "n", 0) : number(line, "n", 1);
    it->target = (int)number(line, "target", 0);
    it->value = timed(it->kind) ? time_of(line, "value", 0) : number(line, "value", 0);
    return true;
}

static bool read_acquire(struct sim_plan *plan, const char *line)
{
    if (plan->acquire_count == SIM_ACQUIRES) {
        return false;
    }
    struct sim_acquire *it = &plan->acquires[plan->acquire_count++];
    *it = (struct sim_acquire){.client = (int)number(line, "client", 0),
                               .thread = (int)number(line, "thread", 0),
                               .path = (int)number(line, "path", 0),
                               .after = time_of(line, "after", 0),
                               .timeout = time_of(line, "timeout", -1),
                               .hold = time_of(line, "hold", 0),
                               .cancel = time_of(line, "cancel", -1),
                               .max_hold = time_of(line, "max-hold", 0),
                               .try_only = number(line, "try", 0),
                               .fail_on_expiry = number(line, "fail", 0),
                               .eager = number(line, "eager", 0),
                               .ending = number(line, "let-go", 0) ? SIM_END_LET_GO : SIM_END_RELEASE};
    int kind = choice(line, "kind", kind_names, SIM_KINDS);
    it->kind = kind < 0 ? SIM_MUTEX : (enum sim_kind)kind;
    it->mark = number(line, "mark", 0);
    it->downgrade = number(line, "downgrade", 0);
    it->joint = number(line, "joint", 0);
    it->linger = time_of(line, "linger", 0);
    it->least = time_of(line, "least", 0);
    it->delay = time_of(line, "crash-delay", 0);
    plan->lingers = plan->lingers || it->linger > 0;
    int recipe = choice(line, "recipe", recipe_names, SIM_RECIPES);
    it->recipe = recipe < 0 ? SIM_BY_SEED : (enum sim_recipe)recipe;
    return it->client < plan->clients && it->thread < SIM_THREADS && it->path < 3;
}

static bool read_line(struct sim_plan *plan, uint64_t *seed, const char *line)
{
    if (line[0] == '#' || line[0] == '\n') {
        return true;
    }
    if (strncmp(line, "seed ", 5) == 0) {
        *seed = strtoull(line + 5, NULL, 10);
    } else if (strncmp(line, "ensemble ", 9) == 0) {
        plan->servers = (int)number(line, "servers", 3);
        plan->observers = (int)number(line, "observers", 0);
        plan->masters = number(line, "masters", 0);
        plan->batches = number(line, "batches", 0);
        plan->tick = time_of(line, "tick", 2000 * SIM_MS);
        plan->timeout = time_of(line, "timeout", 10000 * SIM_MS);
        plan->pause = time_of(line, "pause", 500 * SIM_MS);
        plan->walk = time_of(line, "walk", 0);
    } else if (strncmp(line, "network ", 8) == 0) {
        plan->scheduler = number(line, "pct", 0) ? SIM_PCT : SIM_UNIFORM;
        plan->delay = time_of(line, "delay", SIM_MS);
        plan->slow_once_in = (int)number(line, "slow-once-in", 0);
        plan->slow = time_of(line, "slow", 0);
        plan->inbox_delay = time_of(line, "inbox", 0);
        plan->preempt = time_of(line, "preempt", 0);
        plan->ping_late = time_of(line, "ping-late", 0);
        plan->late = time_of(line, "late", 0);
    } else if (strncmp(line, "start ", 6) == 0) {
        plan->clients = (int)number(line, "clients", 2);
        plan->paths = (int)number(line, "paths", 1);
        plan->sequence = number(line, "sequence", 0);
        plan->heal = time_of(line, "heal", 0);
        plan->seals = number(line, "seals", 0);
        plan->bounds = number(line, "bounds", 0);
        plan->watchers = (int)number(line, "watchers", 0);
        plan->async = number(line, "async", 0);
        plan->unlisted = (int)number(line, "unlisted", 0);
        plan->skew = time_of(line, "skew", 0);
        plan->rules = (enum sim_rules)number(line, "rules", SIM_EVENTS_NEED_READ);
        return plan->clients <= SIM_CLIENTS && plan->paths <= 3;
    } else if (strncmp(line, "client ", 7) == 0) {
        int client = line[7] - '0' < 6 ? line[7] - '0' : 0;
        plan->ppm[client] = number(line, "ppm", 0);
        plan->hides[client] = (enum sim_readers)number(line, "hides", SIM_ANYBODY);
    } else if (strncmp(line, "acquire ", 8) == 0) {
        return read_acquire(plan, line);
    } else if (strncmp(line, "fault ", 6) == 0) {
        return read_fault(plan, line);
    } else {
        return false;
    }
    return true;
}

int sim_plan_read(struct sim_plan *plan, uint64_t *seed, FILE *in)
{
    *plan = (struct sim_plan){.servers = 3,
                              .clients = 2,
                              .paths = 1,
                              .tick = 2000 * SIM_MS,
                              .timeout = 10000 * SIM_MS,
                              .pause = 500 * SIM_MS,
                              .delay = SIM_MS};
    *seed = 1;
    char line[512];
    for (int number_of_line = 1; fgets(line, sizeof line, in); number_of_line++) {
        if (!read_line(plan, seed, line)) {
            return number_of_line;
        }
    }
    return 0;
}
