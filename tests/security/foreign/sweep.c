/* sweep.c - every recipe where others have made znodes of every name: all names, in the directory and in those below it,
 * ephemeral, persistent, in a container, unreadable, with no data, with a byte and with a megabyte.
 *
 *   foreign_sweep memory
 *   foreign_sweep server VERBS ZKLOCK STEP     the recipes on a real server with each STEP-th name, then verbs.sh with the command ZKLOCK
 *
 * Built with the address and undefined behaviour sanitizers. A use of a recipe is good when it ends by its deadline with a
 * grant, or with an error that names the znode; a wait behind a foreign contender that a session owns may end with ETIMEOUT or
 * EBUSY, and from 3.8.4 and 3.9.2 on (ZOOKEEPER-2590) behind one that may not be read. No foreign znode is deleted, and none of
 * ours is left.
 *
 * A container is as persistent here, and so is a znode with a time to live: clients see no owner of either
 * (DataNode.getClientEphemeralOwner). A znode that may not be read has to count, since passing over a contender makes two holders.
 * Since ZOOKEEPER-2590 no request shows its owner to a client without rights on it:
 *  - exists, getData, getChildren, multiRead and check need READ; getACL READ or ADMIN; setData WRITE; setACL ADMIN
 *    (FinalRequestProcessor, PrepRequestProcessor);
 *  - create of a child fails if the znode is ephemeral, but checks the parent's CREATE first (pRequest2TxnCreate), and below a
 *    persistent one it makes a znode;
 *  - delete checks the directory's DELETE, then version and children, never the owner;
 *  - getEphemerals lists those of one's own session. getAllChildrenNumber and the directory's stat count both kinds alike. Without
 *    READ no watch event is sent (CVE-2024-23944). The four-letter word dump is for operators, and off by default. */
#include "recipes.h"
#include "ensemble.h"
#include "recorder.h"
#include "wait.h"

#include <pthread.h>
#include <stdatomic.h>

#define WORKERS 16
#define MEGABYTE (1000 * 1000) /* less than jute.maxbuffer with the rest of the request */
#define BRIEFLY 10             /* ms */
#define QUEUES 2               /* groups of recipes with a queue */

/* --- names ------------------------------------------------------------------------------------------------------------ */

enum { NAMES_MAX = 1000, NAME_BYTES = 256, PATH_BYTES = 512 };

/* Alone in its directory it may take another way through the code than among others: by its number in a queue, by its length
 * wherever a name is copied. */
enum decides { DECIDES_NOT, DECIDES_IN_QUEUES, DECIDES_EVERYWHERE };

struct foreign_name {
    char text[NAME_BYTES];
    enum decides decides;
};

#define UUID "0f8fad5b-d9cb-469f-a165-70867728950e"

/* Every tag that zkl__name_parse honours, and what ends like one. Alone in a directory, the first ones stand for all. */
static const char *const tags[] = {"-lock-",  "__READ__", "-lease-", "__lock__", "__rlock__", "__WRIT__",
                                   "-latch-", "lock-",    "latch-",  "-",        "__"};
enum { TAGS = sizeof tags / sizeof *tags, ALONE_BY_NUMBER = 2, ALONE_BY_LENGTH = 4 };

static const char *const heads[] = {"", "_c_" UUID, "_c_" UUID "-",
                                    "_c_0f8fad5b-d9cb-469f-a165-70867728950", /* cut short */
                                    "_c_"};
enum { HEADS = sizeof heads / sizeof *heads };

static const char *const numbers[] = {"0000000001", "0000000000",  "000000001",   "00000000001", "",
                                      "-000000001", "-0000000001", "-2147483648", "2147483646",  "2147483647",
                                      "2147483648", "4294967295",  "9999999999",  "000000000x",  "+000000001"};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

static const int lengths[] = {1, 9, 10, 11, 36, 63, 64, 65, 127, 128, 254, 255};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

/* What recipes put beside their contenders, and what is no contender at all. The last ones no server takes. */
static const char *const other_names[] = {"ready",
                                          "__party__",
                                          "__REVOKE__",
                                          "mark",
                                          "...",
                                          ".hidden-lock-0000000001",
                                          "a.b",
                                          "%n%s%s-lock-0000000001",
                                          "schl\xc3\xbcssel-lock-0000000001",
                                          "\xe2\x82\xac__READ__0000000001",
                                          "\xf0\x9f\x94\x92-lease-0000000001",
                                          "\xff\xfe-lock-0000000001",
                                          "a\x1b[2J-lock-0000000001",
                                          "a\nb-lock-0000000001",
                                          "a\x1b[2J__READ__0000000001",
                                          "\x01"};
enum { OTHERS = sizeof other_names / sizeof *other_names };

/* Every tag, number and length that some code decides by. */
static struct foreign_name names[NAMES_MAX];
static size_t name_count;

static void add_name(const char *text, enum decides decides)
{
    if (name_count < NAMES_MAX) {
        snprintf(names[name_count].text, NAME_BYTES, "%s", text);
        names[name_count++].decides = decides;
    }
}

/* 'a' as often as it takes, then tag and number; or their end, where there is no room for all. */
static void add_of_length(int tag, int length)
{
    char end[32], text[NAME_BYTES];
    int size = snprintf(end, sizeof end, "%s0000000001", tags[tag]);
    memset(text, 'a', sizeof text);
    if (size <= length) {
        memcpy(text + length - size, end, (size_t)size);
    } else {
        memcpy(text, end + size - length, (size_t)length);
    }
    text[length] = '\0';
    bool alone = (length >= 63 && length <= 65) || length == 255;
    add_name(text, alone && tag < ALONE_BY_LENGTH ? DECIDES_EVERYWHERE : DECIDES_NOT);
}

static void fill_names(void)
{
    char text[NAME_BYTES];
    for (int tag = 0; tag < TAGS; tag++) {
        for (int head = 0; head < HEADS; head++) {
            for (int number = 0; number < NUMBERS; number++) {
                snprintf(text, sizeof text, "%s%s%s", heads[head], tags[tag], numbers[number]);
                add_name(text, head == 0 && tag < ALONE_BY_NUMBER ? DECIDES_IN_QUEUES : DECIDES_NOT);
            }
        }
        for (int i = 0; i < LENGTHS; i++) {
            add_of_length(tag, lengths[i]);
        }
    }
    for (int i = 0; i < OTHERS; i++) {
        add_name(other_names[i],
                 strchr(other_names[i], '\x1b') ? DECIDES_EVERYWHERE : DECIDES_NOT); /* in the text of an error */
    }
}

/* --- scenes ----------------------------------------------------------------------------------------------------------- */

enum { PERSISTENT, EPHEMERAL }; /* the first two */
static const struct znode {
    const char *name;
    enum zkl__create_mode mode;
    bool unreadable;
} znodes[] = {{"persistent", ZKL__PERSISTENT, false},
              {"ephemeral", ZKL__EPHEMERAL, false},
              {"container", ZKL__CONTAINER, false},
              {"unreadable", ZKL__PERSISTENT, true},
              {"unreadable-ephemeral", ZKL__EPHEMERAL, true}};
enum { ZNODES = sizeof znodes / sizeof *znodes };

/* Only beside the other of the pair it looks like the other recipe's. */
static const struct {
    const char *name, *other;
} places[] = {{"", ""}, {"/locks", "/leases"}, {"/leases", "/locks"}, {"/members", "/pieces"}, {"/pieces", "/members"}};
enum { PLACES = sizeof places / sizeof *places };

/* What others have made before each recipe is used. */
struct scene {
    int znode, place;
    const struct foreign_name *first;
    size_t names, step; /* so many of them, each step-th */
    size_t bytes;       /* of data */
    int groups;         /* so many groups of recipes are used */
};

static struct {
    const char *servers;
    const struct zkl__store_ops *store;
    struct scene *scenes;
    size_t count;
    bool hides_owners; /* exists needs READ, so who may not read a znode cannot know that no session owns it */
    atomic_size_t next;
    atomic_int uses, grants, bad;
} all;

static void complain(const struct scene *scene, const char *recipe, bool async, const char *what, const zkl_error *err)
{
    all.bad++;
    printf("%s%s, %s znodes in '%s' (%zu, the first '%.40s', %zu bytes): %s%s%s\n", recipe, async ? " async" : "",
           znodes[scene->znode].name, places[scene->place].name, scene->names, scene->first->text, scene->bytes, what,
           err ? ": " : "", err ? err->text : "");
}

/* --- what others make -------------------------------------------------------------------------------------------------- */

static const zkl_acl_entry blind = {ZKL_PERM_ALL & ~ZKL_PERM_READ, "world", "anyone"};
static const zkl_acl unreadable = {1, &blind};

/* FinalRequestProcessor, the case of OpCode.exists. */
static bool exists_needs_read(void)
{
    struct recorder *stranger = recorder_connect(all.store, all.servers);
    const struct zkl__op make = {
        .kind = ZKL__OP_CREATE, .dir = "/unreadable", .mode = ZKL__PERSISTENT, .acl = &unreadable};
    const struct zkl__op exists = {.kind = ZKL__OP_EXISTS, .dir = "/unreadable"};
    recorder_do(stranger, &make);
    bool refused = recorder_do(stranger, &exists)->reply.rc == ZKL__RC_NOAUTH;
    recorder_free(stranger);
    return refused;
}

/* Makes the directory path + below, and writes its path to out. */
static void make_directory(char out[PATH_BYTES], struct recorder *stranger, const char *path, const char *below)
{
    snprintf(out, PATH_BYTES, "%s%s", path, below);
    const struct zkl__op op = {.kind = ZKL__OP_CREATE, .dir = out, .mode = ZKL__PERSISTENT};
    recorder_do(stranger, &op);
}

/* Returns how many there are: a server takes no control characters. */
static size_t populate(struct recorder *stranger, const struct scene *scene, const char *path)
{
    static const char data[MEGABYTE] = "x";
    const struct znode *znode = &znodes[scene->znode];
    uint64_t last = 0;
    char dir[PATH_BYTES];
    make_directory(dir, stranger, path, "");
    make_directory(dir, stranger, path, places[scene->place].other);
    make_directory(dir, stranger, path, places[scene->place].name);
    for (size_t i = 0; i < scene->names; i++) {
        const struct zkl__op op = {.kind = ZKL__OP_CREATE,
                                   .dir = dir,
                                   .name = scene->first[i * scene->step].text,
                                   .mode = znode->mode,
                                   .acl = znode->unreadable ? &unreadable : NULL,
                                   .data = data,
                                   .size = scene->bytes};
        uint64_t id = recorder_submit(stranger, &op, NULL);
        last = id ? id : last;
        if (i % 100 == 99) { /* a session has room for so many operations */
            recorder_reply(stranger, last, SOON);
        }
    }
    const struct zkl__op list = {.kind = ZKL__OP_CHILDREN, .dir = dir};
    return recorder_do(stranger, &list)->reply.child_count;
}

/* Of the foreign ones, and of ours. */
static void count_children(struct recorder *stranger, const struct scene *scene, const char *path, size_t *foreign,
                           size_t *ours)
{
    static const char *const made[] = {"locks", "leases", "members", "pieces", "ready", "keeps-the-record"};
    char dir[PATH_BYTES];
    snprintf(dir, sizeof dir, "%s%s", path, places[scene->place].name);
    const struct zkl__op list = {.kind = ZKL__OP_CHILDREN, .dir = dir};
    const struct zkl__reply *reply = &recorder_do(stranger, &list)->reply;
    *foreign = *ours = 0;
    size_t at = 0; /* the name found last: in memory the next child is the one made before it */
    for (size_t i = 0; i < reply->child_count; i++) {
        bool known = false, beside = false;
        for (size_t j = 0; j < scene->names && !known; j++) {
            at = (at > 0 ? at : scene->names) - 1;
            known = strcmp(reply->children[i], scene->first[at * scene->step].text) == 0;
        }
        for (size_t j = 0; j < sizeof made / sizeof *made; j++) {
            beside = beside || strcmp(reply->children[i], made[j]) == 0;
        }
        *foreign += known;
        *ours += !known && !beside && strlen(reply->children[i]) > 1; /* not the directory of a piece */
    }
}

/* --- one use ------------------------------------------------------------------------------------------------------------ */

/* A session owns it, or nobody can know that none does. */
static bool must_count(const struct scene *scene)
{
    const struct znode *znode = &znodes[scene->znode];
    return znode->mode == ZKL__EPHEMERAL || (znode->unreadable && all.hides_owners);
}

static bool is_one_line(const char *text)
{
    for (const char *at = text; *at; at++) {
        if ((unsigned char)*at < ' ' || *at == 0x7f) {
            return false;
        }
    }
    return *text;
}

static void judge(const struct scene *scene, const struct recipe *recipe, const struct use *use, int code)
{
    const char *wrong = NULL;
    all.uses++;
    if (code == ZKL_OK) {
        all.grants++;
    } else if (code == STUCK) {
        wrong = "no completion";
    } else if (code == ZKL_EBUSY || code == ZKL_ETIMEOUT) {
        wrong = must_count(scene) || strcmp(recipe->name, "double-barrier") == 0 ? NULL
                                                                                 : "waits behind what no session owns";
    } else if (code != ZKL_ECONFLICT) {
        wrong = "another error";
    } else if (scene->place == 0 && !must_count(scene)) {
        wrong = "a conflict with what no session owns";
    } else if (use->err.path[0] != '/' || !is_one_line(use->err.text)) {
        wrong = "an error that names no znode, or with control characters";
    }
    if (wrong) {
        complain(scene, recipe->name, use->async, wrong, &use->err);
    }
}

static void use_once(const struct scene *scene, const struct recipe *recipe, zkl_session *session, const char *path,
                     bool async)
{
    /* Who waits for a contender that counts waits in vain; everybody else is granted. */
    struct use use = {.session = session,
                      .path = path,
                      .async = async,
                      .timeout_ms = !must_count(scene) ? SOON
                                    : async            ? BRIEFLY
                                                       : 0,
                      .patience_ms = SOON,
                      .briefly_ms = BRIEFLY};
    int64_t began = now_ms();
    int code = recipe_use(recipe, &use);
    if (now_ms() - began > use.timeout_ms + SOON) {
        complain(scene, recipe->name, async, "late", &use.err);
    }
    judge(scene, recipe, &use, code);
}

/* Those of one group follow one another at a path of their own. */
static void play_group(const struct scene *scene, size_t number, int group, struct recorder *stranger,
                       zkl_session *session)
{
    char path[64];
    size_t foreign, ours;
    snprintf(path, sizeof path, "/s%zu.%d", number, group);
    size_t made = populate(stranger, scene, path);
    for (int i = 0; i < recipe_count; i++) {
        if (recipes[i].group == group) {
            use_once(scene, &recipes[i], session, path, false);
            if (recipes[i].has_async) {
                use_once(scene, &recipes[i], session, path, true);
            }
        }
    }
    const struct recipe *verbs = &recipes[recipe_count - 1];
    int64_t end = now_ms() + SOON;
    do {
        count_children(stranger, scene, path, &foreign, &ours);
    } while (ours > 0 && look_again(end));
    if (ours > 0) {
        complain(scene, path, false, "a znode of ours is left", NULL);
    }
    size_t removed = group == verbs->group ? 2 : 0;
    if (foreign + removed < made && foreign + removed < scene->names) {
        complain(scene, path, false, "a foreign znode was deleted", NULL);
    }
}

/* In memory each worker has a tree of its own: the end of a session looks at all znodes. */
static void *work(void *number)
{
    zkl_session *session = NULL;
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    char servers[PATH_BYTES];
    int length = snprintf(servers, sizeof servers, "%s", all.servers);
    if (all.store == &zkl__store_memory) {
        snprintf(servers + length, sizeof servers - (size_t)length, "-%d", (int)(intptr_t)number);
    }
    options.tick_ms = 500;
    options.session_timeout_ms = 60000;
    if (zkl_session_open(&session, servers, &options, NULL) != ZKL_OK) {
        all.bad++;
        return NULL;
    }
    for (size_t i = all.next++; i < all.count; i = all.next++) {
        struct recorder *stranger = recorder_connect(all.store, servers);
        for (int group = 0; group < all.scenes[i].groups; group++) {
            play_group(&all.scenes[i], i, group, stranger, session);
        }
        recorder_free(stranger);
    }
    zkl_session_close(session, SOON);
    return NULL;
}

/* --- the command ------------------------------------------------------------------------------------------------------ */

/* For the verbs that read a queue: foreign znodes in all directories of a queue of each kind, owned and not, and some with a megabyte. */
static bool verbs_are_good(const char *servers, const char *verbs, const char *zklock)
{
    static const struct {
        const char *path;
        int place;
    } queues[] = {{"/locks/plain", 0},     {"/locks/semaphore", 1}, {"/locks/semaphore", 2},
                  {"/locks/semaphore", 0}, {"/locks/partition", 3}, {"/locks/partition", 4}};
    struct recorder *stranger = recorder_connect(&zkl__store_zookeeper, servers);
    char locks[PATH_BYTES];
    make_directory(locks, stranger, "/locks", "");
    for (size_t i = 0; i < sizeof queues / sizeof *queues; i++) {
        int place = queues[i].place;
        populate(stranger, &(struct scene){EPHEMERAL, place, names + 2, 2, 400, MEGABYTE, 0}, queues[i].path);
        populate(stranger, &(struct scene){PERSISTENT, place, names, name_count / 6, 6, 0, 0}, queues[i].path);
        populate(stranger, &(struct scene){EPHEMERAL, place, names + 3, name_count / 6 - 1, 6, 1, 0}, queues[i].path);
    }
    char command[1000];
    snprintf(command, sizeof command, "'%s' '%s' '%s' /locks/plain /locks/semaphore /locks/partition", verbs, zklock,
             servers);
    bool good = system(command) == 0;
    recorder_free(stranger);
    return good;
}

/* --- whole -------------------------------------------------------------------------------------------------------------- */

static void add_scene(struct scene scene)
{
    all.scenes = realloc(all.scenes, (all.count + 1) * sizeof *all.scenes);
    all.scenes[all.count++] = scene;
}

/* All names together in each place, then alone what decides by its form. step: a real server gets fewer. */
static void write_scenes(size_t step)
{
    const int groups = recipes[recipe_count - 1].group + 1;
    for (int place = 0; place < PLACES; place++) {
        for (int znode = 0; znode < ZNODES; znode++) {
            add_scene((struct scene){znode, place, names, name_count / step, step, 0, groups});
        }
        add_scene((struct scene){PERSISTENT, place, names, 2, 1, MEGABYTE, groups});
        add_scene((struct scene){EPHEMERAL, place, names, 2, 1, MEGABYTE, groups});
        add_scene((struct scene){EPHEMERAL, place, names, 2, 1, 1, groups});
    }
    for (size_t i = 0; i < name_count; i += step) {
        int places_used = names[i].decides == DECIDES_EVERYWHERE  ? PLACES
                          : names[i].decides == DECIDES_IN_QUEUES ? 2
                                                                  : 0;
        for (int place = 0; place < places_used; place++) {
            int used = names[i].decides == DECIDES_EVERYWHERE ? groups : QUEUES;
            add_scene((struct scene){PERSISTENT, place, &names[i], 1, 1, 0, used});
            add_scene((struct scene){EPHEMERAL, place, &names[i], 1, 1, 0, used});
        }
    }
}

static int sweep(const char *servers, const struct zkl__store_ops *store, size_t step)
{
    pthread_t threads[WORKERS];
    int64_t began = now_ms();
    all.servers = servers;
    all.store = store;
    all.hides_owners = exists_needs_read();
    write_scenes(step);
    for (int i = 0; i < WORKERS; i++) {
        pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i);
    }
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(threads[i], NULL);
    }
    printf("%zu scenes, %d uses, %d grants, %d bad, %lld ms\n", all.count, all.uses, all.grants, all.bad,
           (long long)(now_ms() - began));
    free(all.scenes);
    return all.bad > 0;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    fill_names();
    if (argc == 2 && strcmp(argv[1], "memory") == 0) {
        return sweep("memory:sweep", &zkl__store_memory, 1);
    }
    if (argc != 5) {
        return 2;
    }
    if (!ensemble_available()) {
        return 77;
    }
    struct ensemble *server = ensemble_start(&(struct ensemble_options){.tick_ms = 500});
    if (!server) {
        return 1;
    }
    bool bad = sweep(ensemble_servers(server), &zkl__store_zookeeper, strtoul(argv[4], NULL, 10));
    bad = !verbs_are_good(ensemble_servers(server), argv[2], argv[3]) || bad;
    ensemble_stop(server);
    return bad;
}
