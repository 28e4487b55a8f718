/* drivers.c - programs for mutate.py: each uses one or two recipes through the address of a liar, beside a
 * rival whose server is honest. They judge one thing: whether both held at once.
 *
 *   mutate_drivers LIAR HONEST PATH RECIPE... */
#include <pthread.h>
#include <stdatomic.h>

#include "recipes.h"
#include "wait.h"

#define ROUNDS 3
#define SHORT_MS 60 /* what the rival holds, and what a hold lasts: a session timeout has several */
#define LONG_MS 700 /* an acquire's timeout */

static zkl_session *liar, *honest;
static const char *path;
static atomic_int grants, text_bytes;

static void on_log(const zkl_log_record *record, void *payload)
{
    text_bytes += (int)(strlen(record->line) + strlen(record->text));
}

static zkl_session *open_session(const char *servers)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    zkl_session *session = NULL;
    options.session_timeout_ms = 1000;
    options.tick_ms = 100;
    options.leader_pause_ms = 20;
    options.connect_timeout_ms = 2000;
    options.log_fn = on_log;
    options.log_level = ZKL_LOG_DEBUG;
    return zkl_session_open(&session, servers, &options, NULL) == ZKL_OK ? session : NULL;
}

/* --- what is acquired, held and released ----------------------------------------------------------------------------- */

static void on_lock_state(zkl_lock *lock, zkl_state state, void *payload)
{
    text_bytes += (int)strlen(zkl_state_name(state)) + (zkl_lock_is_held(lock) ? 1 : 0);
}

static void on_revoke(zkl_lock *lock, void *payload)
{
    zkl_lock_cancel(lock);
}

/* A plain lock has other options from time to time. */
static zkl_lock *make(const struct recipe *recipe, zkl_session *session)
{
    static atomic_int made;
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    zkl_lock *lock = NULL;
    int number = recipe->make == zkl_lock_new ? made++ % 3 : 0;
    options.recover = number == 1;
    options.state_fn = on_lock_state;
    options.revoke_fn = number == 2 ? on_revoke : NULL;
    options.release_timeout_ms = 200;
    recipe->make(&lock, session, path, &options, NULL);
    return lock;
}

/* Two of three permits: so two cannot hold at once. */
static int acquire(zkl_lock *lock, int64_t timeout_ms)
{
    zkl_grant grant;
    zkl_error err;
    return zkl_lock_recipe(lock) == ZKL_RECIPE_SEMAPHORE ? zkl_semaphore_acquire(lock, 2, timeout_ms, &grant, &err)
                                                         : zkl_lock_acquire(lock, timeout_ms, &grant, &err);
}

static bool holds(const zkl_lock *lock)
{
    bool semaphore = zkl_lock_recipe(lock) == ZKL_RECIPE_SEMAPHORE;
    return (!semaphore || zkl_semaphore_tokens(lock, NULL, 0) > 1) && zkl_lock_is_held(lock);
}

static void read_once(void)
{
    zkl_lock *reader = NULL;
    if (zkl_read_lock_new(&reader, liar, path, NULL, NULL) == ZKL_OK &&
        zkl_lock_acquire(reader, SHORT_MS, NULL, NULL) == ZKL_OK) {
        zkl_lock_release(reader, NULL);
    }
    zkl_lock_free(reader);
}

/* After the verb of its own that its recipe has. */
static void release(zkl_lock *lock)
{
    zkl_recipe recipe = zkl_lock_recipe(lock);
    if (recipe == ZKL_RECIPE_WRITE_LOCK) {
        zkl_write_lock_downgrade(lock, NULL);
    } else if (recipe == ZKL_RECIPE_SEMAPHORE) {
        zkl_semaphore_release(lock, 1, NULL);
    } else if (recipe == ZKL_RECIPE_ELECTION) {
        zkl_election_publish(lock, "here I am", SHORT_MS, NULL);
    }
    zkl_lock_release(lock, NULL);
    if (recipe == ZKL_RECIPE_WRITE_LOCK) {
        read_once();
    }
}

struct contest {
    zkl_lock *ours, *rival;
    pthread_t thread;
    int code;
};

/* The rival is asked between two looks at ours: both held at once. */
static void judge(const struct contest *c)
{
    if (holds(c->ours) && holds(c->rival) && holds(c->ours)) {
        printf("two holders\n");
    }
}

static void *wait_in_queue(void *arg)
{
    struct contest *c = arg;
    c->code = acquire(c->ours, LONG_MS);
    return NULL;
}

static void hold(const struct contest *c, int64_t ms)
{
    int64_t end = now_ms() + ms;
    while (holds(c->ours) && look_again(end)) {
        judge(c);
    }
}

/* Ours is behind the rival, which releases; then the other way round. */
static void contest_round(struct contest *c)
{
    if (acquire(c->rival, LONG_MS) == ZKL_OK) {
        pthread_create(&c->thread, NULL, wait_in_queue, c);
        int64_t end = now_ms() + SHORT_MS;
        while (look_again(end)) {
            judge(c);
        }
        release(c->rival);
        pthread_join(c->thread, NULL);
    } else {
        c->code = acquire(c->ours, LONG_MS);
    }
    if (c->code == ZKL_OK) {
        grants++;
        if (acquire(c->rival, 0) == ZKL_OK) {
            judge(c);
            release(c->rival);
        }
        hold(c, 2 * SHORT_MS);
    }
    release(c->ours);
}

static void run_contest(const struct recipe *recipe)
{
    for (int i = 0; i < ROUNDS; i++) {
        struct contest c = {.ours = make(recipe, liar), .rival = make(recipe, honest)};
        if (c.ours && c.rival) {
            contest_round(&c);
        }
        zkl_lock_free(c.ours);
        zkl_lock_free(c.rival);
    }
}

/* --- every recipe ----------------------------------------------------------------------------------------------------- */

struct rival {
    pthread_t thread;
    const struct recipe *recipe;
    char path[512];
};

static int use_recipe(const struct recipe *recipe, zkl_session *session, const char *at)
{
    struct use use = {
        .session = session, .path = at, .timeout_ms = LONG_MS, .patience_ms = LONG_MS, .briefly_ms = 2 * SHORT_MS};
    int code = recipe_use(recipe, &use);
    text_bytes += (int)strlen(use.err.text);
    return code;
}

static void *run_rival(void *arg)
{
    const struct rival *rival = arg;
    use_recipe(rival->recipe, honest, rival->path);
    return NULL;
}

/* Each kind of recipe at a path of its own. */
static void run_recipe(const struct recipe *recipe)
{
    struct rival rival = {.recipe = recipe};
    snprintf(rival.path, sizeof rival.path, "%s-%d", path, recipe->group);
    zkl_lock *holder = NULL;
    if (strncmp(recipe->name, "queue", 5) == 0 && zkl_lock_new(&holder, honest, rival.path, NULL, NULL) == ZKL_OK) {
        acquire(holder, LONG_MS);
    }
    for (int i = 0; i < ROUNDS; i++) {
        bool beside = pthread_create(&rival.thread, NULL, run_rival, &rival) == 0;
        if (use_recipe(recipe, liar, rival.path) == ZKL_OK) {
            grants++;
        }
        if (beside) {
            pthread_join(rival.thread, NULL);
        }
    }
    zkl_lock_free(holder);
}

/* A lock is contested with the rival; what else there is in ../foreign/recipes.h is used through the liar, beside the rival's at the same path.
 * False: there is no recipe of that name. */
static bool run_named(const char *name)
{
    for (int i = 0; i < recipe_count; i++) {
        if (strcmp(recipes[i].name, name) == 0) {
            (recipes[i].run ? run_recipe : run_contest)(&recipes[i]);
            return true;
        }
    }
    return false;
}

/* --- whole ------------------------------------------------------------------------------------------------------------ */

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 4) {
        path = argv[3];
        liar = open_session(argv[1]);
        honest = open_session(argv[2]);
        bool known = true;
        for (int i = 4; liar && honest && i < argc; i++) {
            known = run_named(argv[i]) && known;
        }
        zkl_session_close(liar, 500);
        zkl_session_close(honest, 500);
        printf("%d grants\n", grants);
        return known ? 0 : 2;
    }
    fprintf(stderr, "mutate_drivers LIAR HONEST PATH RECIPE...\n");
    return 2;
}
