#include "dice.h"
#include "steps.h"

/* Blocks that live as long as the script. */
struct script_text {
    struct script_text *next;
    char text[];
};

enum { KNOWN = 20 };

struct maker {
    struct script *script;
    const struct script_options *options; /* the script's */
    uint64_t random;
    bool cut[SCRIPT_SLOTS];
    char known[KNOWN]
              [SCRIPT_PATH]; /* of nodes that are probably there, so that operations meet; the first is the base */
    int known_count;
};

/* --- chance -------------------------------------------------------------------------------------------------------- */

static int below(struct maker *m, int bound)
{
    return (int)(dice_next(&m->random) % (uint64_t)bound);
}

static bool one_in(struct maker *m, int n)
{
    return below(m, n) == 0;
}

#define PICK(m, array) ((array)[below(m, (int)(sizeof(array) / sizeof *(array)))])

/* --- words --------------------------------------------------------------------------------------------------------- */

static void *keep(struct maker *m, size_t size)
{
    struct script_text *block = calloc(1, sizeof *block + size);
    if (!block) {
        abort();
    }
    block->next = m->script->texts;
    m->script->texts = block;
    return block->text;
}

static const char *keep_text(struct maker *m, const char *text)
{
    size_t size = strlen(text) + 1;
    return memcpy(keep(m, size), text, size);
}

/* What the digest scheme makes of "alice:a". */
#define ALICE "alice:AIueg8ag5ALfqeEyKdLnva1Wvi0="

static const zkl_acl_entry entries[] = {
    {ZKL_PERM_ALL, "world", "anyone"},
    {ZKL_PERM_READ, "world", "anyone"},
    {ZKL_PERM_READ | ZKL_PERM_WRITE, "world", "anyone"},
    {ZKL_PERM_READ | ZKL_PERM_CREATE, "world", "anyone"},
    {ZKL_PERM_ALL & ~ZKL_PERM_DELETE, "world", "anyone"},
    {ZKL_PERM_ALL, "auth", ""},
    {ZKL_PERM_READ, "auth", ""},
    {ZKL_PERM_ALL, "digest", ALICE},
    {ZKL_PERM_ALL, "digest", "carol:nobodyhasthatone"},
    {0, "world", "anyone"},
    {ZKL_PERM_ALL, "auth", "something"},
};

/* A server takes none of these, or some of them after a second look. */
static const zkl_acl_entry odd_entries[] = {
    {ZKL_PERM_ALL, "world", "someone"}, {ZKL_PERM_ALL, "world", ""},       {ZKL_PERM_ALL, "nonsense", "x"},
    {ZKL_PERM_ALL, "digest", "plain"},  {ZKL_PERM_ALL, "digest", "user:"}, {ZKL_PERM_ALL, "digest", ":x"},
    {ZKL_PERM_ALL, "digest", "a:b:c"},  {ZKL_PERM_ALL, "digest", "a:b:"},  {ZKL_PERM_ALL, "digest", ""},
    {ZKL_PERM_ALL, "digest", ":"},      {ZKL_PERM_ALL, "digest", "::x"},   {ZKL_PERM_ALL, "", ""},
};

static const zkl_acl *some_acl(struct maker *m)
{
    if (!(m->options->features & SCRIPT_ACLS) || !one_in(m, 5)) {
        return NULL;
    }
    size_t count = one_in(m, 30) ? 0 : one_in(m, 3) ? 2 : 1;
    zkl_acl_entry *list = keep(m, (count + 1) * sizeof *list);
    for (size_t i = 0; i < count; i++) {
        list[i] = one_in(m, 12) ? PICK(m, odd_entries) : PICK(m, entries);
    }
    zkl_acl *acl = keep(m, sizeof *acl);
    *acl = (zkl_acl){count, list};
    return acl;
}

/* --- paths --------------------------------------------------------------------------------------------------------- */

/* Few names, so that operations meet. */
static const char *const names[] = {"a", "b", "a", "b", "cc", "z\xc3\xa4"};
static const char *const prefixes[] = {"n-", "n-", "m", "_c_0123-lock-"};
static const char *const bad_paths[] = {"",      "a",      "//",    "/a/",  "/a//b", "/a/./b",
                                        "/a/..", "/../..", "/a/b/", "/./a", "a/b"};
static const char *const own_paths[] = {"/zookeeper", "/zookeeper/quota", "/zookeeper/config"};

static void append(char *path, const char *text)
{
    strncat(path, text, SCRIPT_PATH - 1 - strlen(path));
}

/* Made by a create, if that works. */
static void learn(struct maker *m, const char *path)
{
    if (strncmp(path, m->options->base, strlen(m->options->base)) == 0) {
        int at = m->known_count < KNOWN ? m->known_count++ : 1 + below(m, KNOWN - 1);
        snprintf(m->known[at], SCRIPT_PATH, "%s", path);
    }
}

static void unlearn(struct maker *m, const char *path)
{
    for (int i = m->known_count - 1; i > 0; i--) {
        if (strcmp(m->known[i], path) == 0) {
            memcpy(m->known[i], m->known[--m->known_count], SCRIPT_PATH);
        }
    }
}

static void some_known(struct maker *m, char out[SCRIPT_PATH])
{
    snprintf(out, SCRIPT_PATH, "%s", m->known[below(m, m->known_count)]);
}

static void append_name(struct maker *m, char *path)
{
    append(path, "/");
    if (one_in(m, 5)) {
        char name[64];
        snprintf(name, sizeof name, "%s%010d", PICK(m, prefixes), below(m, 5));
        append(path, name);
    } else {
        append(path, PICK(m, names));
    }
}

/* Paths that are out of place: of a bad form, the root, what a server has from the beginning. */
static bool odd_path(struct maker *m, char out[SCRIPT_PATH])
{
    bool root = (m->options->features & SCRIPT_ROOT) && !(m->options->features & SCRIPT_CHROOT);
    if (one_in(m, 80)) {
        snprintf(out, SCRIPT_PATH, "%s", PICK(m, bad_paths));
        return true;
    }
    if (root && one_in(m, 30)) {
        snprintf(out, SCRIPT_PATH, "%s", one_in(m, 3) ? PICK(m, own_paths) : "/");
        return true;
    }
    return false;
}

/* For everything but a create. */
static void some_path(struct maker *m, char out[SCRIPT_PATH])
{
    if (odd_path(m, out)) {
        return;
    }
    some_known(m, out);
    if (one_in(m, 8)) {
        append_name(m, out);
    }
}

/* For a create: below what is there, not too deep. */
static void new_path(struct maker *m, char out[SCRIPT_PATH])
{
    if (odd_path(m, out)) {
        return;
    }
    some_known(m, out);
    if (strlen(out) > SCRIPT_PATH / 3 || one_in(m, 3)) {
        snprintf(out, SCRIPT_PATH, "%s", m->options->base);
    }
    if (!one_in(m, 20)) {
        append_name(m, out);
    }
    if (one_in(m, 30)) {
        append_name(m, out);
    }
}

/* The directory and the name apart, or all in dir. */
static void set_path(struct maker *m, struct zkl__op *op, char *path)
{
    char *slash = strrchr(path, '/');
    if (!slash || slash[1] == '\0' || !one_in(m, 2)) {
        op->dir = keep_text(m, path);
        return;
    }
    op->name = keep_text(m, slash + 1);
    *slash = '\0';
    op->dir = keep_text(m, slash == path ? "/" : path);
}

/* --- operations ---------------------------------------------------------------------------------------------------- */

static void some_data(struct maker *m, struct zkl__op *op)
{
    static const char *const data[] = {"", "x", "some more", "zero\0inside"};
    op->data = PICK(m, data);
    op->size = op->data == data[3] ? 11 : strlen(op->data);
    op->data = op->size == 0 && one_in(m, 2) ? NULL : op->data;
}

static int32_t some_version(struct maker *m)
{
    static const int32_t odd[] = {INT32_MAX, INT32_MIN, -2, 7};
    return one_in(m, 20) ? PICK(m, odd) : one_in(m, 2) ? -1 : below(m, 3);
}

static void make_sequential(struct maker *m, char path[SCRIPT_PATH])
{
    bool odd = odd_path(m, path);
    if (!odd || (path[0] == '\0' && !(m->options->features & SCRIPT_ROOT))) { /* that would be a child of the root */
        some_known(m, path);
    }
    append(path, strcmp(path, "/") == 0 ? "" : "/");
    append(path, one_in(m, 8) ? "" : PICK(m, prefixes));
}

static void make_create(struct maker *m, struct zkl__op *op, bool in_multi)
{
    static const enum zkl__create_mode modes[] = {
        ZKL__PERSISTENT, ZKL__PERSISTENT, ZKL__EPHEMERAL, ZKL__EPHEMERAL_SEQUENTIAL, ZKL__PERSISTENT_SEQUENTIAL,
        ZKL__CONTAINER};
    char path[SCRIPT_PATH];
    op->mode = PICK(m, modes);
    if (in_multi && op->mode == ZKL__CONTAINER) {
        op->mode = ZKL__PERSISTENT;
    }
    if (op->mode == ZKL__EPHEMERAL_SEQUENTIAL || op->mode == ZKL__PERSISTENT_SEQUENTIAL) {
        make_sequential(m, path);
    } else {
        new_path(m, path);
        learn(m, path);
    }
    set_path(m, op, path);
    some_data(m, op);
    op->acl = some_acl(m);
}

static void make_write(struct maker *m, struct zkl__op *op, bool in_multi)
{
    static const enum zkl__op_kind kinds[] = {ZKL__OP_CREATE, ZKL__OP_CREATE, ZKL__OP_CREATE, ZKL__OP_CREATE,
                                              ZKL__OP_DELETE, ZKL__OP_DELETE, ZKL__OP_SET,    ZKL__OP_CHECK};
    char path[SCRIPT_PATH];
    *op = (struct zkl__op){.kind = PICK(m, kinds)};
    if (op->kind == ZKL__OP_CREATE) {
        make_create(m, op, in_multi);
        return;
    }
    some_path(m, path);
    if (op->kind == ZKL__OP_DELETE && strcmp(path, m->options->base) == 0 && !one_in(m, 15)) {
        some_path(m, path); /* without the base little is left to do */
    }
    if (op->kind == ZKL__OP_DELETE && !in_multi) {
        unlearn(m, path);
    }
    set_path(m, op, path);
    op->version = some_version(m);
    if (op->kind == ZKL__OP_SET) {
        some_data(m, op);
    }
}

static void make_multi(struct maker *m, struct zkl__op *op)
{
    size_t count = (size_t)(1 + below(m, one_in(m, 3) ? SCRIPT_PARTS : 2));
    struct zkl__op *parts = keep(m, count * sizeof *parts);
    for (size_t i = 0; i < count; i++) {
        make_write(m, &parts[i], true);
    }
    *op = (struct zkl__op){.kind = ZKL__OP_MULTI, .parts = parts, .part_count = count};
}

static void make_read(struct maker *m, struct zkl__op *op)
{
    static const enum zkl__op_kind kinds[] = {ZKL__OP_GET,      ZKL__OP_GET,      ZKL__OP_EXISTS, ZKL__OP_EXISTS,
                                              ZKL__OP_CHILDREN, ZKL__OP_CHILDREN, ZKL__OP_SYNC,   ZKL__OP_UNWATCH};
    char path[SCRIPT_PATH];
    *op = (struct zkl__op){.kind = PICK(m, kinds)};
    some_path(m, path);
    set_path(m, op, path);
    op->watch = op->kind != ZKL__OP_SYNC && op->kind != ZKL__OP_UNWATCH && one_in(m, 2);
}

static struct zkl__op *add_op(struct maker *m)
{
    struct script *script = m->script;
    script->steps[script->step_count - 1].count++;
    return &script->ops[script->op_count++];
}

static void fill_burst(struct maker *m, size_t left)
{
    size_t count = (size_t)(1 + below(m, one_in(m, 3) ? BURST_OPS : 5));
    count = count < left ? count : left;
    for (size_t i = 0; i < count; i++) {
        struct zkl__op *op = add_op(m);
        if (one_in(m, 9)) {
            make_multi(m, op);
        } else if (one_in(m, 2)) {
            make_read(m, op);
        } else {
            make_write(m, op, false);
        }
    }
}

/* --- steps --------------------------------------------------------------------------------------------------------- */

static bool add_step(struct maker *m, enum step_kind kind, int slot)
{
    struct script *script = m->script;
    if (script->step_count == SCRIPT_STEPS) {
        return false;
    }
    script->steps[script->step_count++] = (struct step){kind, slot, script->op_count, 0};
    return true;
}

/* What all the others stand on. */
static void add_base(struct maker *m)
{
    static const zkl_acl open = {1, entries};
    add_step(m, STEP_BURST, 0);
    struct zkl__op *op = add_op(m);
    *op = (struct zkl__op){
        .kind = ZKL__OP_CREATE, .dir = keep_text(m, m->options->base), .mode = ZKL__PERSISTENT, .acl = &open};
}

static void add_incident(struct maker *m, int slot)
{
    if (m->cut[slot]) {
        m->cut[slot] = !add_step(m, STEP_HEAL, slot);
    } else if ((m->options->features & SCRIPT_CUTS) && one_in(m, 2)) {
        m->cut[slot] = add_step(m, STEP_CUT, slot);
    } else if (add_step(m, STEP_CLOSE, slot)) {
        add_step(m, STEP_OPEN, slot);
    }
}

static void add_steps(struct maker *m)
{
    struct script *script = m->script;
    for (int slot = 0; slot < script->slots; slot++) {
        add_step(m, STEP_OPEN, slot);
    }
    add_base(m);
    while (script->op_count < m->options->ops && script->step_count < SCRIPT_STEPS - 2 * SCRIPT_SLOTS) {
        int slot = below(m, script->slots);
        if (one_in(m, 12)) {
            add_incident(m, slot);
        } else if (!m->cut[slot]) {
            add_step(m, STEP_BURST, slot);
            fill_burst(m, m->options->ops - script->op_count);
        } else if (one_in(m, 3)) {
            add_incident(m, slot);
        }
    }
    for (int slot = 0; slot < script->slots; slot++) {
        if (m->cut[slot]) {
            add_step(m, STEP_HEAL, slot);
        }
    }
}

/* Losing connections costs time: one script in five does. Access lists are in the others: see README.md. */
struct script *script_make(const struct script_options *options)
{
    struct script *script = calloc(1, sizeof *script);
    struct maker m = {.script = script, .options = &script->options, .random = options->seed, .known_count = 1};
    script->options = *options;
    script->slots = 2 + below(&m, SCRIPT_SLOTS - 1);
    script->options.features &= ~(unsigned)(one_in(&m, 5) ? SCRIPT_ACLS : SCRIPT_CUTS);
    script->default_acl = (script->options.features & SCRIPT_ACLS) && one_in(&m, 4);
    script->options.features &= one_in(&m, 2) ? ~0U : ~(unsigned)SCRIPT_CHROOT;
    script->ops = keep(&m, (options->ops + 2) * sizeof *script->ops);
    snprintf(m.known[0], SCRIPT_PATH, "%s", options->base);
    add_steps(&m);
    return script;
}

void script_free(struct script *script)
{
    while (script->texts) {
        struct script_text *text = script->texts;
        script->texts = text->next;
        free(text);
    }
    free(script);
}

const char *script_identity(int slot)
{
    static const char *const identities[SCRIPT_SLOTS] = {NULL, "alice:a", "bob:b"};
    return identities[slot];
}
