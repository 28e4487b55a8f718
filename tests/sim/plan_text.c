/* plan_text.c - a plan as text, one thing per line. Times are in ms. `shrink` makes a failing one small.
 *
 *   seed 12
 *   ensemble servers=3 observers=0 masters=0 batches=0 tick=2000 timeout=10000 pause=500 walk=0
 *   network pct=0 delay=1 slow-once-in=0 slow=0 inbox=0 preempt=0 ping-late=0 late=0
 *   start clients=2 paths=1 sequence=0 heal=40000 rules=0 async=0 unlisted=0
 *   client 0 ppm=999 hides=1       (rules, hides: numbers of enum zkl__memory_rules and sim_readers)
 *   acquire client=0 thread=0 path=0 after=0 timeout=-1 hold=100 cancel=-1 max-hold=0 try=0 fail=0 eager=0 let-go=0
 *           kind=mutex mark=0 downgrade=0 joint=0 recipe=by-seed linger=0 least=0 crash-delay=0
 *           (on the same line; kind: mutex, read or write; recipe: semaphore, group; in sim_recipes, lock, ...)
 *   fault on=create n=1 do=lose-replies target=0 value=0
 *   fault on=at n=1500 do=isolate target=1 value=9000
 *
 * What is left out has its default, most often zero. What the first three say may stand in any line of theirs. '#' begins a remark. */

#include "run.h"

static const char *const trigger_names[SIM_TRIGGERS + 1] = {"at",    "submit", "create",  "delete",  "commit", "make",
                                                            "reply", "grant",  "release", "connect", "multi"};
static const char *const kind_names[SIM_KINDS + 1] = {"mutex", "read", "write"};
static const char *const recipe_names[SIM_RECIPES + 1] = {"by-seed",   "lock",     "rwlock",        "semaphore",
                                                          "multilock", "election", "partition",     "group",
                                                          "once",      "barrier",  "double-barrier"};
static const char *const fault_names[SIM_FAULT_KINDS + 1] = {"lose-replies",
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
                                                             "lose-touch",
                                                             "resize"};

const char *sim_fault_name(enum sim_fault_kind kind)
{
    return fault_names[kind];
}

/* --- what stands in a line --------------------------------------------------------------------------------------------- */

struct field {
    const char *line; /* written before it: the first word of its line */
    const char *name; /* NULL ends them */
    size_t at, size;  /* in the struct of the line: an int64_t is a time */
    int64_t otherwise;
    const char *const *words; /* by value; NULL ends them */
};
#define FIELD(type, name_, member, ...)                                                                             \
    {                                                                                                               \
        .name = name_, .at = offsetof(struct type, member), .size = sizeof(((struct type *)0)->member), __VA_ARGS__ \
    }

#define PLAN(name, member, ...) FIELD(sim_plan, name, member, __VA_ARGS__)
static const struct field plan_fields[] = {
    PLAN("servers", servers, .line = "ensemble", .otherwise = 3),
    PLAN("observers", observers),
    PLAN("masters", masters),
    PLAN("batches", batches),
    PLAN("tick", tick, .otherwise = 2000 * SIM_MS),
    PLAN("timeout", timeout, .otherwise = 10000 * SIM_MS),
    PLAN("pause", pause, .otherwise = 500 * SIM_MS),
    PLAN("walk", walk),
    PLAN("pct", scheduler, .line = "network"),
    PLAN("delay", delay, .otherwise = SIM_MS),
    PLAN("slow-once-in", slow_once_in),
    PLAN("slow", slow),
    PLAN("inbox", inbox_delay),
    PLAN("preempt", preempt),
    PLAN("ping-late", ping_late),
    PLAN("late", late),
    PLAN("clients", clients, .line = "start", .otherwise = 2),
    PLAN("paths", paths, .otherwise = 1),
    PLAN("sequence", sequence),
    PLAN("heal", heal),
    PLAN("rules", rules),
    PLAN("bounds", bounds),
    PLAN("skew", skew),
    PLAN("async", async),
    PLAN("unlisted", unlisted),
    {.name = NULL},
};

#define ACQUIRE(name, member, ...) FIELD(sim_acquire, name, member, __VA_ARGS__)
static const struct field acquire_fields[] = {
    ACQUIRE("client", client, .line = "acquire"),
    ACQUIRE("thread", thread),
    ACQUIRE("path", path),
    ACQUIRE("after", after),
    ACQUIRE("timeout", timeout, .otherwise = -1),
    ACQUIRE("hold", hold),
    ACQUIRE("cancel", cancel, .otherwise = -1),
    ACQUIRE("max-hold", max_hold),
    ACQUIRE("try", try_only),
    ACQUIRE("fail", fail_on_expiry),
    ACQUIRE("eager", eager),
    ACQUIRE("let-go", ending),
    ACQUIRE("kind", kind, .words = kind_names),
    ACQUIRE("mark", mark),
    ACQUIRE("downgrade", downgrade),
    ACQUIRE("joint", joint),
    ACQUIRE("recipe", recipe, .words = recipe_names),
    ACQUIRE("linger", linger),
    ACQUIRE("least", least),
    ACQUIRE("crash-delay", delay),
    {.name = NULL},
};

enum { N = 1, VALUE = 4 };
#define FAULT(name, member, ...) FIELD(sim_fault, name, member, __VA_ARGS__)
static const struct field fault_fields[] = {
    FAULT("on", trigger, .line = "fault", .words = trigger_names),
    [N] = FAULT("n", when),
    FAULT("do", kind, .words = fault_names),
    FAULT("target", target),
    [VALUE] = FAULT("value", value),
    {.name = NULL},
};

/* `n` and `value` of a fault are times or numbers, as the other two say. */
static bool is_time(const struct field *field, const void *of)
{
    const struct sim_fault *fault = of;
    if (field == &fault_fields[N]) {
        return fault->trigger == SIM_AT;
    }
    if (field == &fault_fields[VALUE]) {
        return fault->kind >= SIM_HOLD_UP && fault->kind <= SIM_CRASH;
    }
    return field->size == sizeof(int64_t);
}

static int64_t get(const void *of, const struct field *field)
{
    const char *at = (const char *)of + field->at;
    return field->size == sizeof(bool)  ? *(const bool *)at
           : field->size == sizeof(int) ? *(const int *)(const void *)at
                                        : *(const int64_t *)(const void *)at;
}

static void set(void *of, const struct field *field, int64_t value)
{
    char *at = (char *)of + field->at;
    if (field->size == sizeof(bool)) {
        *(bool *)at = value;
    } else if (field->size == sizeof(int)) {
        *(int *)(void *)at = (int)value;
    } else {
        *(int64_t *)(void *)at = value;
    }
}

static void set_defaults(void *of, const struct field *fields)
{
    for (; fields->name; fields++) {
        set(of, fields, fields->otherwise);
    }
}

/* --- writing --------------------------------------------------------------------------------------------------------- */

static void write_fields(FILE *out, const struct field *fields, const void *of)
{
    for (const struct field *it = fields; it->name; it++) {
        int64_t value = get(of, it);
        fprintf(out, "%s%s %s=", it->line ? "\n" : "", it->line ? it->line : "", it->name);
        if (it->words) {
            fputs(it->words[value], out);
        } else if (is_time(it, of)) {
            fprintf(out, "%.6f", value < 0 ? -1 : (double)value / 1e6);
        } else {
            fprintf(out, "%" PRId64, value);
        }
    }
}

void sim_plan_write(const struct sim_plan *plan, uint64_t seed, FILE *out)
{
    fprintf(out, "seed %" PRIu64, seed);
    write_fields(out, plan_fields, plan);
    for (int i = 0; i < plan->clients; i++) {
        if (plan->ppm[i] || plan->hides[i]) {
            fprintf(out, "\nclient %d ppm=%" PRId64 " hides=%d", i, plan->ppm[i], plan->hides[i]);
        }
    }
    SIM_EACH_ACQUIRE (plan, it) {
        write_fields(out, acquire_fields, it);
    }
    SIM_EACH (it, plan->faults, plan->fault_count) {
        write_fields(out, fault_fields, it);
    }
    fputc('\n', out);
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

static int64_t time_of(const char *text)
{
    double ms = strtod(text, NULL);
    return ms < 0 ? -1 : (int64_t)(ms * 1e6 + 0.5);
}

/* -1: none of them. */
static int choice(const char *text, const char *const *words)
{
    for (int i = 0; words[i]; i++) {
        size_t length = strlen(words[i]);
        if (strncmp(text, words[i], length) == 0 && strchr(" \n", text[length])) {
            return i;
        }
    }
    return -1;
}

/* What the line does not name keeps what it has. False: a word that is none, or nothing that is known. */
static bool read_fields(void *of, const struct field *fields, const char *line)
{
    bool known = false;
    for (const struct field *it = fields; it->name; it++) {
        const char *text = word(line, it->name);
        if (!text) {
            continue;
        }
        known = true;
        set(of, it, it->words ? choice(text, it->words) : is_time(it, of) ? time_of(text) : strtoll(text, NULL, 10));
        if (it->words && get(of, it) < 0) {
            return false;
        }
    }
    return known;
}

/* False as well: the simulator has no room for it. */
static bool read_acquire(struct sim_plan *plan, const char *line)
{
    struct sim_acquire *it = &plan->acquires[plan->acquire_count++];
    set_defaults(it, acquire_fields);
    return read_fields(it, acquire_fields, line) && it->client < plan->clients && it->thread < SIM_THREADS &&
           it->path < 3;
}

static bool read_line(struct sim_plan *plan, uint64_t *seed, const char *line)
{
    if (strncmp(line, "seed ", 5) == 0) {
        *seed = strtoull(line + 5, NULL, 10);
    } else if (strncmp(line, "client ", 7) == 0) {
        int client = (line[7] - '0') % SIM_CLIENTS;
        const char *ppm = word(line, "ppm"), *hides = word(line, "hides");
        plan->ppm[client] = ppm ? strtoll(ppm, NULL, 10) : 0;
        plan->hides[client] = hides ? (enum sim_readers)atoi(hides) : SIM_ANYBODY;
    } else if (strncmp(line, "acquire ", 8) == 0) {
        return plan->acquire_count < SIM_ACQUIRES && read_acquire(plan, line);
    } else if (strncmp(line, "fault ", 6) == 0) {
        return plan->fault_count < SIM_FAULTS && read_fields(&plan->faults[plan->fault_count++], fault_fields, line);
    } else if (line[0] != '#' && line[0] != '\n') {
        return read_fields(plan, plan_fields, line) && plan->clients <= SIM_CLIENTS && plan->paths <= 3;
    }
    return true;
}

int sim_plan_read(struct sim_plan *plan, uint64_t *seed, FILE *in)
{
    char line[512];
    *plan = (struct sim_plan){.servers = 0};
    set_defaults(plan, plan_fields);
    *seed = 1;
    for (int number = 1; fgets(line, sizeof line, in); number++) {
        if (!read_line(plan, seed, line)) {
            return number;
        }
    }
    return 0;
}
