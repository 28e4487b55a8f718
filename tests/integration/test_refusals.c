/* What a server refuses for good is not asked of it again and again, by any recipe: few requests in the first second, as the server counts
 * them. Each recipe has a session of its own below a chroot of its own. All run at the same time, and what is refused begins in
 * the middle of them: permissions, a quota, the chroot itself. */
#include <zookeeper/zookeeper.h>

#include "contest.h"
#include "on_servers.h"
#include "recipes.h"

#define TICK 500
#define TIMEOUT 12000 /* ms, of sessions: pings and heartbeats are rare */
#define SECOND 1000   /* ms */
#define FEW 20
#define OBJECTS 3 /* that a recipe has at most: each of them tries, and pauses */
#define NEEDED 30 /* requests, of one use of a recipe to which nothing is refused: more than any has */
#define DEEP 16   /* znodes of a stage, more than there ever are */
#define STAGES_MAX 100

static zhandle_t *operator; /* to whom nothing is refused */

/* --- stages ----------------------------------------------------------------------------------------------------------- */

struct stage {
    const struct recipe *recipe; /* used before, and again while something is refused */
    char root[64];               /* the chroot */
    zkl_session *session;
    long received; /* by the server, from session, before; and in the first second */
    long sent;
    int code; /* what came of it */
};

static const zkl_acl_entry open_entry = {ZKL_PERM_ALL, "world", "anyone"};
static const zkl_acl open_acl = {1, &open_entry};

static void create(const char *path)
{
    CU_ASSERT_EQUAL_FATAL(zoo_create(operator, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0), ZOK);
}

static int use_recipe(struct stage *stage)
{
    struct use use = {.session = stage->session,
                      .path = "/recipe",
                      .timeout_ms = SECOND,
                      .patience_ms = SECOND,
                      .briefly_ms = SECOND / 5};
    return recipe_use(stage->recipe, &use);
}

/* --- what the operator refuses ------------------------------------------------------------------------------------- */

/* All znodes of a tree, the deepest last. Returns how many. */
static int list_tree(const char *root, char (*paths)[256])
{
    int count = 1;
    snprintf(paths[0], sizeof *paths, "%s", root);
    for (int i = 0; i < count; i++) {
        struct String_vector names = {0};
        char parent[121]; /* a copy: the compiler cannot know that the two rows of paths are not the same */
        snprintf(parent, sizeof parent, "%.120s", paths[i]);
        (void)zoo_get_children(operator, paths[i], 0, &names);
        for (int k = 0; k < names.count && count < DEEP; k++) {
            snprintf(paths[count++], sizeof *paths, "%s/%.120s", parent, names.data[k]);
        }
        deallocate_String_vector(&names);
    }
    return count;
}

static void refuse_permissions(const struct stage *stage, int perms)
{
    static char own[] = "digest", id[] = "operator:XQHqStEfv6kcJeaQBUonvMUEO4Y=", world[] = "world",
                anyone[] = "anyone";
    struct ACL entries[] = {{ZOO_PERM_ALL, {own, id}}, {ZOO_PERM_ALL & ~ZOO_PERM_ADMIN & ~perms, {world, anyone}}};
    struct ACL_vector acl = {2, entries};
    char paths[DEEP][256];
    for (int i = list_tree(stage->root, paths) - 1; i >= 0; i--) {
        int rc = zoo_set_acl(operator, paths[i], -1, &acl);
        CU_ASSERT(rc == ZOK || (i > 0 && rc == ZNONODE));
    }
}

/* No znode and no byte more than there is. */
static void refuse_growth(const struct stage *stage, int perms)
{
    static const char limits[] = "count=-1,bytes=-1=;byteHardLimit=1;countHardLimit=1";
    static const char *const parts[] = {"", "/zookeeper_stats", "/zookeeper_limits"}, *const data[] = {
                                                                                          "", "count=1,bytes=0",
                                                                                          limits};
    for (int i = 0; i < 3; i++) {
        char path[256];
        snprintf(path, sizeof path, "/zookeeper/quota%s%s", stage->root, parts[i]);
        CU_ASSERT_EQUAL(zoo_create(operator, path, data[i], (int)strlen(data[i]), &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0),
                        ZOK);
    }
}

/* In one transaction: nothing of it is made again in between. */
static void refuse_existence(const struct stage *stage, int perms)
{
    char paths[DEEP][256];
    zoo_op_t ops[DEEP];
    zoo_op_result_t results[DEEP];
    int64_t end = now_ms() + SOON;
    int rc;
    do {
        int count = list_tree(stage->root, paths);
        for (int i = 0; i < count; i++) {
            zoo_delete_op_init(&ops[i], paths[count - 1 - i], -1);
        }
        rc = zoo_multi(operator, count, ops, results);
    } while (rc != ZOK && look_again(end));
    CU_ASSERT_EQUAL(rc, ZOK);
}

struct refusal {
    const char *name;
    void (*refuse)(const struct stage *stage, int perms);
    int perms;
    bool open; /* what the sessions make may be written by anybody: its access list changes, too */
};

/* --- a run of all stages ------------------------------------------------------------------------------------------- */

/* What the server has received from each of the sessions: "cons" has a line for each connection. */
static void count_requests(struct stage *stages, int count, bool before)
{
    char *text = ensemble_ask(server, 0, "cons");
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    for (int i = 0; i < count; i++) {
        char id[64];
        snprintf(id, sizeof id, "sid=0x%llx,", (unsigned long long)zkl_session_id(stages[i].session));
        char *at = strstr(text, id);
        long received = -1;
        for (char *line = at; line && line > text && received < 0; line--) {
            (void)sscanf(line, "recved=%ld", &received);
        }
        CU_ASSERT_FATAL(received >= 0);
        stages[i].sent = before ? 0 : received - stages[i].received;
        stages[i].received = before ? received : stages[i].received;
    }
    free(text);
}

static void *run_stage(void *arg)
{
    struct stage *stage = arg;
    stage->code = use_recipe(stage);
    return NULL;
}

static void begin_stage(struct stage *stage, const struct refusal *refusal, int index)
{
    zkl_session_options options = contest_options(TIMEOUT, TICK);
    char servers[160], path[128];
    snprintf(stage->root, sizeof stage->root, "/%s-%d", refusal->name, index);
    snprintf(path, sizeof path, "%s/recipe", stage->root);
    create(stage->root);
    snprintf(servers, sizeof servers, "%s%s", ensemble_servers(server), stage->root);
    options.acl = refusal->open ? &open_acl : NULL;
    ASSERT_OK_FATAL(zkl_session_open(&stage->session, servers, &options, NULL));
    create(path);
    use_recipe(stage);
}

/* A recipe may go on without what is refused, so the requests that it needs come on top. took_ms: from one
 * count to the next, a second or what the machine makes of it. */
static void judge(const struct refusal *refusal, const struct stage *stages, int count, int64_t took_ms)
{
    int64_t few = FEW * (took_ms > SECOND ? took_ms : SECOND) / SECOND;
    for (int i = 0; i < count; i++) {
        const struct stage *stage = &stages[i];
        printf("%s, %s: %ld requests, %s\n", refusal->name, stage->recipe->name, stage->sent,
               zkl_error_name(stage->code));
        CU_ASSERT(stage->sent < few * OBJECTS + NEEDED);
    }
}

static void run_all(const struct refusal *refusal)
{
    static struct stage stages[STAGES_MAX];
    pthread_t threads[STAGES_MAX];
    int count = recipe_count;
    CU_ASSERT_FATAL(count <= STAGES_MAX);
    for (int i = 0; i < count; i++) {
        stages[i] = (struct stage){.recipe = &recipes[i]};
        begin_stage(&stages[i], refusal, i);
    }
    int64_t began = now_ms();
    count_requests(stages, count, true);
    for (int i = 0; i < count; i++) {
        refusal->refuse(&stages[i], refusal->perms);
    }
    for (int i = 0; i < count; i++) {
        pthread_create(&threads[i], NULL, run_stage, &stages[i]);
    }
    poll(NULL, 0, SECOND);
    count_requests(stages, count, false);
    int64_t took_ms = now_ms() - began;
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
    }
    if (refusal->refuse == refuse_existence) {
        zkl_error err;
        CU_ASSERT_EQUAL(zkl_barrier_set(stages[0].session, "/barrier", SOON, &err), ZKL_ENOENT);
        ASSERT_SAYS(err, "chroot");
    }
    for (int i = 0; i < count; i++) {
        zkl_session_close(stages[i].session, SECOND / 20); /* it would wait for deletes that are refused */
    }
    judge(refusal, stages, count, took_ms);
}

/* --- the tests ----------------------------------------------------------------------------------------------------- */

static const struct refusal refusals[] = {{"no-create", refuse_permissions, ZKL_PERM_CREATE, false},
                                          {"no-delete", refuse_permissions, ZKL_PERM_DELETE, false},
                                          {"no-write", refuse_permissions, ZKL_PERM_WRITE, true},
                                          {"no-read", refuse_permissions, ZKL_PERM_READ, true},
                                          {"no-read-of-directories", refuse_permissions, ZKL_PERM_READ, false},
                                          {"nothing-permitted", refuse_permissions, ZKL_PERM_ALL, true},
                                          {"quota", refuse_growth, 0, false},
                                          {"chroot-deleted", refuse_existence, 0, false}};

static void open_operator(void)
{
    static const char credentials[] = "operator:operator";
    zoo_set_debug_level(0);
    operator= zookeeper_init(ensemble_servers(server), NULL, 60000, NULL, NULL, 0);
    CU_ASSERT_PTR_NOT_NULL_FATAL(operator);
    CU_ASSERT_EQUAL_FATAL(zoo_add_auth(operator, "digest", credentials, sizeof credentials - 1, NULL, NULL), ZOK);
}

TEST(test_refused)
{
    open_operator();
    EACH_ROW (i, refusals) {
        run_all(&refusals[i]);
    }
    CU_ASSERT_EQUAL(zookeeper_close(operator), ZOK);
}

/* So many names that no request has room for are looked at together. They hide no member behind them. */
TEST(test_long_names)
{
    char path[1400];
    zkl_session *session;
    zkl_group *group;
    zkl_members *members;
    open_operator();
    create("/long");
    for (int i = 0; i < 64; i++) {
        snprintf(path, sizeof path, "/long/%01300d", i);
        create(path);
    }
    ASSERT_OK_FATAL(zkl_session_open(&session, ensemble_servers(server), NULL, NULL));
    ASSERT_OK_FATAL(zkl_group_new(&group, session, "/long", "member", NULL, NULL));
    ASSERT_OK(zkl_group_join(group, SOON, NULL));
    ASSERT_OK_FATAL(zkl_group_list(&members, session, "/long", SOON, NULL));
    CU_ASSERT_EQUAL_FATAL(members->count, 1);
    CU_ASSERT_STRING_EQUAL(members->members[0].id, "member");
    CU_ASSERT_TRUE(members->members[0].readable);
    zkl_members_free(members);
    zkl_group_free(group);
    kit_close(session);
    CU_ASSERT_EQUAL(zookeeper_close(operator), ZOK);
}

TESTS_ON_SERVERS("refusals", (&(struct ensemble_options){.tick_ms = TICK, .extra = "enforceQuota=true"}))
