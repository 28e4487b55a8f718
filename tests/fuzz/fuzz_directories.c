/* Whole directories, as other clients fill them, before a recipe: the first line names it, and each other line is a znode,
 *
 *   semaphore async
 *   p.aaaaaaaa__READ__0000000001
 *   el_c_0f8fad5b-d9cb-469f-a165-70867728950e-lock-0000000001<tab>data
 *
 * p: persistent, e: ephemeral, c: a container, u: unreadable; then where: in the path (.), or below it in locks (l), leases (L),
 * members (m) or pieces (p). Whatever stands there, the call ends with a grant or with an error that names the path. */
#include "fuzz.h"

#include "recipes.h"
#include "recorder.h"

#define TREE "memory:fuzz"
#define PATH "/fuzz"

enum { ZNODES_MAX = 64 };

static const struct recipe *find_recipe(const char *line, bool *async)
{
    size_t length = strcspn(line, " ");
    *async = strcmp(line + length, " async") == 0;
    for (int i = 0; i < recipe_count; i++) {
        if (strlen(recipes[i].name) == length && strncmp(recipes[i].name, line, length) == 0) {
            *async = *async && recipes[i].has_async;
            return &recipes[i];
        }
    }
    return NULL;
}

static void make(struct recorder *stranger, const char *dir, const char *name, enum zkl__create_mode mode,
                 const zkl_acl *acl, const char *data)
{
    const struct zkl__op op = {
        .kind = ZKL__OP_CREATE, .dir = dir, .name = name, .mode = mode, .acl = acl, .data = data, .size = strlen(data)};
    uint64_t id = recorder_submit(stranger, &op, NULL); /* not of a name that is no component of a path */
    MUST(id == 0 || recorder_reply(stranger, id, 20000));
}

static void make_znode(struct recorder *stranger, char *line)
{
    static const zkl_acl_entry blind = {ZKL_PERM_ALL & ~ZKL_PERM_READ, "world", "anyone"};
    static const zkl_acl unreadable = {1, &blind};
    static const struct {
        char letter;
        const char *dir;
    } places[] = {
        {'.', PATH}, {'l', PATH "/locks"}, {'L', PATH "/leases"}, {'m', PATH "/members"}, {'p', PATH "/pieces"}};
    if (strlen(line) < 3) {
        return;
    }
    char *data = strchr(line, '\t');
    if (data) {
        *data++ = '\0';
    }
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (line[1] == places[i].letter) {
            make(stranger, places[i].dir, NULL, ZKL__PERSISTENT, NULL, "");
            make(stranger, places[i].dir, line + 2,
                 line[0] == 'e'   ? ZKL__EPHEMERAL
                 : line[0] == 'c' ? ZKL__CONTAINER
                                  : ZKL__PERSISTENT,
                 line[0] == 'u' ? &unreadable : NULL, data ? data : "");
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct use use = {.path = PATH, .briefly_ms = 1, .patience_ms = 200, .timeout_ms = 1};
    char *text = fuzz_text(data, size), *rest = text;
    const struct recipe *recipe = find_recipe(strsep(&rest, "\n"), &use.async);
    if (recipe && zkl_session_open(&use.session, TREE, NULL, NULL) == ZKL_OK) {
        struct recorder *stranger = recorder_connect(&zkl__store_memory, TREE);
        make(stranger, PATH, NULL, ZKL__PERSISTENT, NULL, "");
        char *line;
        for (int i = 0; i < ZNODES_MAX && (line = strsep(&rest, "\n")); i++) {
            make_znode(stranger, line);
        }
        int code = recipe_use(recipe, &use);
        MUST(code == ZKL_OK || code == ZKL_EBUSY || code == ZKL_ETIMEOUT || code == ZKL_ECONFLICT);
        MUST(code == ZKL_OK || use.err.path[0] == '/');
        MUST(code == ZKL_OK || fuzz_one_line(use.err.text, sizeof use.err.text));
        recorder_free(stranger);
        zkl_session_close(use.session, 20000);
    }
    free(text);
    return 0;
}
