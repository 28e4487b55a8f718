/* The same scripts on a real ZooKeeper, on the in-process store and on the simulated ensemble: the transcripts must be the same.
 *
 *   conformance [--seeds FIRST-LAST] [--seconds N] [--ops N] [--servers N] [--show]
 *
 * With --servers 0 the in-process store is what the simulated ensemble is compared with. A difference is shrunk to the operations it needs and printed with the command that repeats it. Exit code 0: none; 1: there is
 * one, or a store failed; 77: no server on this machine. */
#include "ensemble.h"
#include "play.h"
#include "wait.h"

#include <getopt.h>

/* Nodes of earlier scripts stay, and a list of the root gets longer; a fresh server from time to time. */
enum { SCRIPTS_PER_SERVER = 2000 };

struct options {
    uint64_t first, last;
    int64_t seconds; /* 0: no limit */
    size_t ops;
    int servers; /* real ones; 0: none */
    bool show;
};

enum { REAL, MEMORY, SIMULATED, WORLDS };

struct arena {
    const struct options *options;
    struct ensemble *ensemble;
    struct world *worlds[WORLDS];          /* REAL: NULL without servers */
    struct world_session *keepers[WORLDS]; /* they keep the trees, and make what chroots need; a small world has none */
    unsigned long runs;
    unsigned long long played_ops;
};

/* --- the stores ---------------------------------------------------------------------------------------------------- */

static void arena_close(struct arena *arena)
{
    for (int i = 0; i < WORLDS; i++) {
        if (arena->keepers[i]) {
            arena->worlds[i]->close(arena->keepers[i]);
            arena->worlds[i]->free(arena->keepers[i]);
            arena->keepers[i] = NULL;
        }
    }
    world_free(arena->worlds[REAL]);
    world_free(arena->worlds[MEMORY]);
    if (arena->worlds[SIMULATED]) {
        world_sim_free(arena->worlds[SIMULATED]);
    }
    memset(arena->worlds, 0, sizeof arena->worlds);
    if (arena->ensemble) {
        ensemble_stop(arena->ensemble);
        arena->ensemble = NULL;
    }
}

/* What the server tells of a znode that may not be read: its version's rules, for the models. */
static enum zkl__memory_rules rules_of_server(struct ensemble *ensemble)
{
    int version = ensemble ? ensemble_version(ensemble, 0) : 0;
    return version >= 30902 ? ZKL__RULES_EXISTS_NEEDS_READ : ZKL__RULES_EVENTS_NEED_READ;
}

static bool arena_open(struct arena *arena)
{
    struct ensemble_options how = {.servers = arena->options->servers,
                                   .java = "-Dznode.container.checkIntervalMs=86400000"};
    struct world_plan plan = {.chroot = ""};
    int64_t id;

    if (arena->options->servers > 0) {
        arena->ensemble = ensemble_start(&how);
        if (!arena->ensemble) {
            return false;
        }
    }
    enum zkl__memory_rules rules = rules_of_server(arena->ensemble);
    if (arena->ensemble) {
        arena->worlds[REAL] = world_of_store(ensemble_servers(arena->ensemble), rules);
    }
    arena->worlds[MEMORY] = world_of_store("memory:conformance", rules);
    arena->worlds[SIMULATED] = world_of_sim(rules);
    for (int i = 0; i < WORLDS; i++) {
        struct world *world = arena->worlds[i];
        if (world && !world->small && !(arena->keepers[i] = world->open(world, &plan, &id))) {
            arena_close(arena);
            return false;
        }
    }
    return true;
}

/* Which worlds play the script of a seed: the simulated one every second, and that has only what it can do. */
static int worlds_of(struct world *out[WORLDS], const struct arena *arena, uint64_t seed)
{
    int count = 0;
    for (int i = 0; i < WORLDS; i++) {
        if (arena->worlds[i] && (i != SIMULATED || seed % 2 == 0 || arena->options->servers == 0)) {
            out[count++] = arena->worlds[i];
        }
    }
    return count;
}

/* The node that is the chroot of the next run, in all trees: they stay alike down to the root. */
static bool make_chroot(struct arena *arena, const char *path)
{
    struct zkl__op op = {.kind = ZKL__OP_CREATE, .dir = path};
    for (int i = 0; i < WORLDS; i++) {
        uint64_t id;
        int code;
        if (!arena->keepers[i]) {
            continue;
        }
        arena->worlds[i]->submit(arena->keepers[i], &op, &id, &code);
        if (id == 0 || !arena->worlds[i]->wait(arena->keepers[i], id)) {
            return false;
        }
    }
    return true;
}

/* --- one script ---------------------------------------------------------------------------------------------------- */

enum verdict { SAME, DIFFERENT, BROKEN };

static enum verdict run(struct arena *arena, uint64_t seed, const bool *drop, bool print)
{
    char base[32], chroot[32];
    struct transcript transcripts[WORLDS] = {0};
    struct world *worlds[WORLDS];
    unsigned features = ~0U;
    int count = worlds_of(worlds, arena, seed);
    for (int i = 0; i < count; i++) {
        features &= worlds[i]->features;
    }
    snprintf(base, sizeof base, "/s%07lu", arena->runs);
    snprintf(chroot, sizeof chroot, "/k%07lu", arena->runs++);
    struct script *script = script_make(&(struct script_options){
        .seed = seed,
        .ops = arena->options->ops,
        .features = features,
        .base = base,
    });
    enum verdict verdict = make_chroot(arena, chroot) ? SAME : BROKEN;
    for (int i = 0; verdict == SAME && i < count; i++) {
        verdict = play(&transcripts[i], worlds[i], script, drop, chroot) ? SAME : BROKEN;
        if (verdict == SAME && i > 0 &&
            transcript_differs(&transcripts[0], worlds[0]->name, &transcripts[i], worlds[i]->name, print)) {
            verdict = DIFFERENT;
        }
    }
    for (int s = 0; arena->options->show && !drop && s < transcripts[0].session_count; s++) {
        for (size_t i = 0; i < transcripts[0].sessions[s].count; i++) {
            printf("session%d %s\n", s, transcripts[0].sessions[s].lines[i]);
        }
    }
    arena->played_ops += script->op_count;
    for (int i = 0; i < count; i++) {
        transcript_free(&transcripts[i]);
    }
    script_free(script);
    return verdict;
}

/* Leaves out what the difference does not need, one operation at a time. */
static void shrink(struct arena *arena, uint64_t seed, size_t ops)
{
    bool *drop = calloc(ops + 1, sizeof *drop);
    size_t left = ops;
    for (size_t i = 0; drop && i < ops; i++) {
        drop[i] = true;
        drop[i] = run(arena, seed, drop, false) == DIFFERENT;
        left -= drop[i];
    }
    printf("  needs %zu of its %zu operations:\n", left, ops);
    run(arena, seed, drop, true);
    free(drop);
}

static enum verdict judge(struct arena *arena, uint64_t seed)
{
    enum verdict verdict = run(arena, seed, NULL, true);
    if (verdict == DIFFERENT) {
        printf("seed %llu differs; to see it again: conformance --seeds %llu-%llu --ops %zu --servers %d\n",
               (unsigned long long)seed, (unsigned long long)seed, (unsigned long long)seed, arena->options->ops,
               arena->options->servers);
        shrink(arena, seed, arena->options->ops);
    }
    fflush(stdout);
    return verdict;
}

/* --- all of them --------------------------------------------------------------------------------------------------- */

static int run_all(const struct options *options)
{
    struct arena arena = {.options = options};
    int64_t began = now_ms();
    unsigned long scripts = 0, different = 0;
    enum verdict verdict = SAME;
    for (uint64_t seed = options->first; seed <= options->last && verdict != BROKEN && different < 10; seed++) {
        if (options->seconds > 0 && now_ms() - began > options->seconds * 1000) {
            break;
        }
        if (scripts % SCRIPTS_PER_SERVER == 0) {
            arena_close(&arena);
            if (!arena_open(&arena)) {
                return 1;
            }
        }
        verdict = judge(&arena, seed);
        different += verdict == DIFFERENT;
        scripts++;
    }
    arena_close(&arena);
    int64_t took = now_ms() - began;
    printf("conformance: %lu scripts, %llu operations on each store, %lu differ, %lld ms, %lld operations/s\n", scripts,
           arena.played_ops, different, (long long)took, (long long)arena.played_ops * 1000 / (took > 0 ? took : 1));
    return different > 0 || verdict == BROKEN;
}

static bool parse(struct options *options, int argc, char **argv)
{
    static const struct option longs[] = {
        {"seeds", required_argument, NULL, 's'}, {"seconds", required_argument, NULL, 't'},
        {"ops", required_argument, NULL, 'o'},   {"servers", required_argument, NULL, 'n'},
        {"show", no_argument, NULL, 'v'},        {0}};
    for (int c; (c = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
        char *end;
        if (c == 's') {
            options->first = strtoull(optarg, &end, 10);
            options->last = *end == '-' ? strtoull(end + 1, NULL, 10) : options->first;
        } else if (c == 't') {
            options->seconds = strtoll(optarg, NULL, 10);
        } else if (c == 'o') {
            options->ops = strtoul(optarg, NULL, 10);
        } else if (c == 'n') {
            options->servers = atoi(optarg);
        } else if (c == 'v') {
            options->show = true;
        } else {
            return false;
        }
    }
    options->last = options->seconds > 0 ? UINT64_MAX - 1 : options->last;
    return optind == argc && options->ops > 0 && options->servers >= 0;
}

int main(int argc, char **argv)
{
    struct options options = {.first = 1, .last = 300, .ops = 60, .servers = 1};
    if (!parse(&options, argc, argv)) {
        fprintf(stderr, "usage: conformance [--seeds FIRST-LAST] [--seconds N] [--ops N] [--servers N] [--show]\n");
        return 2;
    }
    if (options.servers > 0 && !ensemble_available()) {
        printf("conformance: skipped, no ZooKeeper server on this machine\n");
        return 77;
    }
    return run_all(&options);
}
