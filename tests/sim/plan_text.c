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
 * What is left out has its default, most often zero. '#' begins a remark. */
#include <stdlib.h>
#include <string.h>

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

enum form { NUMBER, TIME, WORD };
struct field {
    const char *name; /* NULL ends them */
    size_t at, size;  /* in the struct of the line */
    enum form form;
    int64_t otherwise;
    const char *const *words; /* by value; NULL ends them */
};
#define FIELD(type, name_, member, form_, otherwise_, words_)                                                          \
    {                                                                                                                  \
        .name = name_, .at = offsetof(struct type, member), .size = sizeof(((struct type *)0)->member), .form = form_, \
        .otherwise = otherwise_, .words = words_                                                                       \
    }

#define PLAN(name, member, form, otherwise) FIELD(sim_plan, name, member, form, otherwise, NULL)
static const struct field ensemble_fields[] = {
    PLAN("servers", servers, NUMBER, 3),
    PLAN("observers", observers, NUMBER, 0),
    PLAN("masters", masters, NUMBER, 0),
    PLAN("batches", batches, NUMBER, 0),
    PLAN("tick", tick, TIME, 2000 * SIM_MS),
    PLAN("timeout", timeout, TIME, 10000 * SIM_MS),
    PLAN("pause", pause, TIME, 500 * SIM_MS),
    PLAN("walk", walk, TIME, 0),
    {.name = NULL},
};
static const struct field network_fields[] = {
    PLAN("pct", scheduler, NUMBER, 0),
    PLAN("delay", delay, TIME, SIM_MS),
    PLAN("slow-once-in", slow_once_in, NUMBER, 0),
    PLAN("slow", slow, TIME, 0),
    PLAN("inbox", inbox_delay, TIME, 0),
    PLAN("preempt", preempt, TIME, 0),
    PLAN("ping-late", ping_late, TIME, 0),
    PLAN("late", late, TIME, 0),
    {.name = NULL},
};
static const struct field start_fields[] = {
    PLAN("clients", clients, NUMBER, 2),   PLAN("paths", paths, NUMBER, 1),
    PLAN("sequence", sequence, NUMBER, 0), PLAN("heal", heal, TIME, 0),
    PLAN("rules", rules, NUMBER, 0),       PLAN("bounds", bounds, NUMBER, 0),
    PLAN("skew", skew, TIME, 0),           PLAN("async", async, NUMBER, 0),
    PLAN("unlisted", unlisted, NUMBER, 0), {.name = NULL},
};
static const struct {
    const char *name;
    const struct field *fields;
} plan_lines[] = {{"ensemble", ensemble_fields}, {"network", network_fields}, {"start", start_fields}, {NULL, NULL}};

#define ACQUIRE(name, member, form, otherwise) FIELD(sim_acquire, name, member, form, otherwise, NULL)
static const struct field acquire_fields[] = {
    ACQUIRE("client", client, NUMBER, 0),
    ACQUIRE("thread", thread, NUMBER, 0),
    ACQUIRE("path", path, NUMBER, 0),
    ACQUIRE("after", after, TIME, 0),
    ACQUIRE("timeout", timeout, TIME, -1),
    ACQUIRE("hold", hold, TIME, 0),
    ACQUIRE("cancel", cancel, TIME, -1),
    ACQUIRE("max-hold", max_hold, TIME, 0),
    ACQUIRE("try", try_only, NUMBER, 0),
    ACQUIRE("fail", fail_on_expiry, NUMBER, 0),
    ACQUIRE("eager", eager, NUMBER, 0),
    ACQUIRE("let-go", ending, NUMBER, 0),
    FIELD(sim_acquire, "kind", kind, WORD, 0, kind_names),
    ACQUIRE("mark", mark, NUMBER, 0),
    ACQUIRE("downgrade", downgrade, NUMBER, 0),
    ACQUIRE("joint", joint, NUMBER, 0),
    FIELD(sim_acquire, "recipe", recipe, WORD, 0, recipe_names),
    ACQUIRE("linger", linger, TIME, 0),
    ACQUIRE("least", least, TIME, 0),
    ACQUIRE("crash-delay", delay, TIME, 0),
    {.name = NULL},
};

/* `n` and `value` are times or numbers, as the other two say. */
enum { N = 1, VALUE = 4 };
#define FAULT(name, member, form, otherwise) FIELD(sim_fault, name, member, form, otherwise, NULL)
static const struct field fault_fields[] = {
    FIELD(sim_fault, "on", trigger, WORD, 0, trigger_names),
    [N] = FAULT("n", when, NUMBER, 0),
    FIELD(sim_fault, "do", kind, WORD, 0, fault_names),
    FAULT("target", target, NUMBER, 0),
    [VALUE] = FAULT("value", value, NUMBER, 0),
    {.name = NULL},
};

static enum form form_in_fault(const struct field *field, const struct sim_fault *fault)
{
    bool holds = fault->kind >= SIM_HOLD_UP && fault->kind <= SIM_CRASH;
    bool time = (field == &fault_fields[N] && fault->trigger == SIM_AT) || (field == &fault_fields[VALUE] && holds);
    return time ? TIME : field->form;
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

static void write_field(FILE *out, const struct field *field, enum form form, int64_t value)
{
    if (form == WORD) {
        fprintf(out, " %s=%s", field->name, field->words[value]);
    } else if (form == TIME) {
        fprintf(out, " %s=%.6f", field->name, value < 0 ? -1 : (double)value / 1e6);
    } else {
        fprintf(out, " %s=%lld", field->name, (long long)value);
    }
}

static void write_line(FILE *out, const char *name, const struct field *fields, const void *of)
{
    fputs(name, out);
    for (const struct field *it = fields; it->name; it++) {
        write_field(out, it, fields == fault_fields ? form_in_fault(it, of) : it->form, get(of, it));
    }
    fputc('\n', out);
}

void sim_plan_write(const struct sim_plan *plan, uint64_t seed, FILE *out)
{
    fprintf(out, "seed %llu\n", (unsigned long long)seed);
    for (int i = 0; plan_lines[i].name; i++) {
        write_line(out, plan_lines[i].name, plan_lines[i].fields, plan);
    }
    for (int i = 0; i < plan->clients; i++) {
        if (plan->ppm[i] || plan->hides[i]) {
            fprintf(out, "client %d ppm=%lld hides=%d\n", i, (long long)plan->ppm[i], (int)plan->hides[i]);
        }
    }
    SIM_EACH_ACQUIRE (plan, it) {
        write_line(out, "acquire", acquire_fields, it);
    }
    for (int i = 0; i < plan->fault_count; i++) {
        write_line(out, "fault", fault_fields, &plan->faults[i]);
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

static int64_t time_of(const char *text)
{
    char *end;
    int64_t time = strtoll(text, &end, 10) * SIM_MS, unit = SIM_MS / 10;
    for (const char *at = *end == '.' ? end + 1 : end; *at >= '0' && *at <= '9' && unit > 0; at++) {
        time += (*at - '0') * unit;
        unit /= 10;
    }
    return time < 0 ? -1 : time;
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
        enum form form = fields == fault_fields ? form_in_fault(it, of) : it->form;
        if (!text) {
            continue;
        }
        known = true;
        set(of, it, form == WORD ? choice(text, it->words) : form == TIME ? time_of(text) : strtoll(text, NULL, 10));
        if (form == WORD && get(of, it) < 0) {
            return false;
        }
    }
    return known;
}

/* As the simulator has room for it. */
static bool fits(const struct sim_plan *plan, const struct sim_acquire *it)
{
    return it->client < plan->clients && it->thread < SIM_THREADS && it->path < 3;
}

static bool read_acquire(struct sim_plan *plan, const char *line)
{
    struct sim_acquire *it = &plan->acquires[plan->acquire_count++];
    set_defaults(it, acquire_fields);
    return read_fields(it, acquire_fields, line) && fits(plan, it);
}

static bool read_line(struct sim_plan *plan, uint64_t *seed, const char *line)
{
    if (strncmp(line, "seed ", 5) == 0) {
        *seed = strtoull(line + 5, NULL, 10);
    } else if (strncmp(line, "client ", 7) == 0) {
        int client = line[7] - '0' < SIM_CLIENTS ? line[7] - '0' : 0;
        const char *ppm = word(line, "ppm"), *hides = word(line, "hides");
        plan->ppm[client] = ppm ? strtoll(ppm, NULL, 10) : 0;
        plan->hides[client] = hides ? (enum sim_readers)atoi(hides) : SIM_ANYBODY;
    } else if (strncmp(line, "acquire ", 8) == 0) {
        return plan->acquire_count < SIM_ACQUIRES && read_acquire(plan, line);
    } else if (strncmp(line, "fault ", 6) == 0) {
        return plan->fault_count < SIM_FAULTS && read_fields(&plan->faults[plan->fault_count++], fault_fields, line);
    } else if (line[0] != '#' && line[0] != '\n') {
        int i = 0;
        while (plan_lines[i].name && strncmp(line, plan_lines[i].name, strlen(plan_lines[i].name)) != 0) {
            i++;
        }
        return plan_lines[i].name && read_fields(plan, plan_lines[i].fields, line) && plan->clients <= SIM_CLIENTS &&
               plan->paths <= 3;
    }
    return true;
}

int sim_plan_read(struct sim_plan *plan, uint64_t *seed, FILE *in)
{
    char line[512];
    *plan = (struct sim_plan){.servers = 0};
    for (int i = 0; plan_lines[i].name; i++) {
        set_defaults(plan, plan_lines[i].fields);
    }
    *seed = 1;
    for (int number = 1; fgets(line, sizeof line, in); number++) {
        if (!read_line(plan, seed, line)) {
            return number;
        }
    }
    return 0;
}
