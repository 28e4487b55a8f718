#include "queues.h"

int queues_outcome(const char *what, int result)
{
    if (result != ZKL_OK) {
        cli_error("%s: %s%s", what, cli_failure.text, cli_remedy(result));
    }
    return cli_exit_code(result);
}

int queues_act(const char *lock, int (*act)(const char *path))
{
    char *path = cli_lock_path(lock);
    int code = path ? cli_connect(CLI_CALL_MS, NULL) : EXIT_FAILED;
    if (code == CLI_GO_ON) {
        code = act(path);
        zkl_session_close(cli_session, CLI_CALL_MS);
    }
    free(path);
    return code;
}

bool queues_paths(const char **locks)
{
    bool fine = true;
    for (; fine && *locks; locks++) {
        *locks = cli_lock_path(*locks);
        fine = *locks != NULL;
    }
    return fine;
}

int queues_list(zkl_queue **queue, const char *path)
{
    int result = zkl_queue_list(queue, cli_session, path, CLI_CALL_MS, &cli_failure);
    return queues_outcome(path, result);
}

static struct walk {
    queues_visit_fn visit;
    queues_fail_fn fail;
    queues_strays_fn strays;
    size_t count;
    int code; /* the first failure's; CLI_GO_ON: none */
} walk;

static void note_code(int code)
{
    walk.code = walk.code == CLI_GO_ON ? code : walk.code;
}

static void walk_to(const char *path);

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* What no lock's path can be is passed over: a name that another client chose. The names that lead
 * to no queue come first then; returns their count. */
static size_t walk_below(const char *path, const zkl_queue *queue)
{
    bool root = strcmp(path, "/") == 0;
    size_t strays = 0;
    const char **names = (const char **)(uintptr_t)queue->foreign_names; /* this walk's own */
    if (names) {
        qsort(names, queue->foreign, sizeof *names, compare_names);
    }
    for (size_t i = 0; i < queue->foreign && walk.code != EXIT_UNREACHABLE; i++) {
        /* One that is cut here is too long for a path as well. */
        char below[ZKL_PATH_MAX + 2];
        // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): queue->foreign counts them
        snprintf(below, sizeof below, "%s/%s", root ? "" : path, names[i]);
        size_t before = walk.count;
        if (zkl_path_check(below, NULL) == ZKL_OK) {
            walk_to(below);
        }
        if (walk.count == before) {
            names[strays++] = names[i];
        }
    }
    return strays;
}

static void walk_to(const char *path)
{
    zkl_queue *queue;
    int result = zkl_queue_list(&queue, cli_session, path, CLI_CALL_MS, &cli_failure);
    if (result != ZKL_OK) {
        walk.count++;
        note_code(walk.fail(path, result));
        return;
    }
    if (queue->count > 0) {
        walk.count++;
        note_code(walk.visit(path, queue));
    }
    size_t strays = walk_below(path, queue);
    if (queue->count > 0 && walk.strays) {
        walk.strays(path, queue->foreign_names, strays);
    }
    zkl_queue_free(queue);
}

int queues_visit_all(queues_visit_fn visit, queues_fail_fn fail, queues_strays_fn strays,
                     size_t *count)
{
    walk = (struct walk){visit, fail, strays, 0, CLI_GO_ON};
    walk_to("/locks");
    *count = walk.count;
    return walk.code;
}

int queues_say_failure(const char *path, int result)
{
    if (result != ZKL_EAUTH) {
        return queues_outcome(path, result);
    }
    cli_error("%s: its children may not be listed, so nothing is known of what is below%s", path,
              cli_remedy(ZKL_EAUTH));
    return EXIT_DENIED;
}

int queues_visit(const char *path, queues_visit_fn visit)
{
    zkl_queue *queue;
    walk = (struct walk){visit, queues_say_failure, NULL, 0, CLI_GO_ON};
    int code = queues_list(&queue, path);
    if (code != CLI_GO_ON) {
        return code;
    }
    if (queue->count == 0) {
        walk_below(path, queue);
    }
    if (walk.count == 0) {
        note_code(visit(path, queue));
    }
    zkl_queue_free(queue);
    return walk.code;
}

/* Of a semaphore: the first in "locks" waits for a permit, and the newest znode of its session in
 * "leases" will be that permit. */
static void pass_over_next(const zkl_queue *leases, const char *path)
{
    char locks[ZKL_PATH_MAX + 16];
    zkl_queue *queue;
    int64_t next = 0; /* its session; 0: there is none, or it may not be known */
    snprintf(locks, sizeof locks, "%s/locks", path);
    if (zkl_queue_list(&queue, cli_session, locks, CLI_CALL_MS, NULL) == ZKL_OK) {
        size_t first = queues_holder(queue);
        next = first < queue->count ? queue->entries[first].session_id : 0;
        zkl_queue_free(queue);
    }
    zkl_queue_entry *entries = (zkl_queue_entry *)(uintptr_t)leases->entries; /* our own list */
    size_t i = next != 0 ? leases->count : 0;
    while (i > 0 && entries[i - 1].session_id != next) {
        i--;
    }
    if (i > 0) {
        entries[i - 1].holds = false;
    }
}

int queues_list_holders(zkl_queue **queue, const char *path, char *at, size_t at_size)
{
    int code = queues_list(queue, path);
    snprintf(at, at_size, "%s", path);
    /* Nobody stands at a semaphore's path itself, and whoever holds it stands in "leases". */
    for (size_t i = 0; code == CLI_GO_ON && (*queue)->count == 0 && i < (*queue)->foreign; i++) {
        if (strcmp((*queue)->foreign_names[i], "leases") == 0) {
            zkl_queue_free(*queue);
            snprintf(at, at_size, "%s/leases", path);
            code = queues_list(queue, at);
            if (code == CLI_GO_ON) {
                pass_over_next(*queue, path);
            }
            return code;
        }
    }
    return code;
}

size_t queues_holder(const zkl_queue *queue)
{
    size_t i = 0;
    while (i < queue->count && !queue->entries[i].holds) {
        i++;
    }
    return i;
}

struct cli_text queues_age(int64_t age_ms)
{
    struct cli_text text;
    int64_t s = age_ms > 0 ? age_ms / 1000 : 0;
    snprintf(text.bytes, sizeof text.bytes, "%02" PRId64 ":%02" PRId64 ":%02" PRId64, s / 3600,
             s / 60 % 60, s % 60);
    return text;
}

/* "0x10000ba885e002a", as ZooKeeper writes a session in its logs. */
struct cli_text queues_session(const zkl_queue_entry *entry)
{
    struct cli_text text;
    snprintf(text.bytes, sizeof text.bytes, "0x%" PRIx64, (uint64_t)entry->session_id);
    return text;
}

int64_t queues_age_ms(int64_t time_ms)
{
    int64_t age;
    bool fits = !__builtin_sub_overflow(clock_ms(CLOCK_REALTIME), time_ms,
                                        &age); /* a server may say anything */
    return fits && age > 0 ? age : 0;
}

struct cli_text queues_who(const zkl_queue_entry *entry)
{
    struct cli_text text = {""};
    cli_printable(entry->data, entry->data_size, text.bytes, sizeof text.bytes);
    if (!*text.bytes) {
        cli_printable(entry->name, strlen(entry->name), text.bytes, sizeof text.bytes);
    }
    return text;
}

struct cli_text queues_utc(int64_t time_ms)
{
    struct cli_text text = {"?"}; /* a year that no calendar has: a server may say anything */
    time_t seconds = (time_t)(time_ms / 1000);
    struct tm utc;
    if (gmtime_r(&seconds, &utc)) {
        strftime(text.bytes, sizeof text.bytes, "%Y-%m-%dT%H:%M:%SZ", &utc);
    }
    return text;
}

static const char *kind_name(zkl_kind kind)
{
    static const char *const names[] = {
        [ZKL_KIND_FOREIGN] = "foreign", [ZKL_KIND_LOCK] = "lock",
        [ZKL_KIND_READ] = "read",       [ZKL_KIND_WRITE] = "write",
        [ZKL_KIND_LATCH] = "latch",     [ZKL_KIND_LEASE] = "lease",
        [ZKL_KIND_KAZOO] = "kazoo",     [ZKL_KIND_KAZOO_READ] = "kazoo-read",
    };
    return (unsigned)kind < sizeof names / sizeof *names ? names[kind] : "?";
}

json_t *queues_number(bool known, int64_t value)
{
    return known ? json_integer(value) : NULL;
}

/* NULL: no UTF-8. What is longer than the library shows may be cut within a character. */
static json_t *data_json(const zkl_queue_entry *entry)
{
    size_t size = entry->data_size, least = size < ZKL_DATA_MAX ? size : size - 3;
    json_t *text = json_stringn(entry->data, size);
    while (!text && size > least) {
        text = json_stringn(entry->data, --size);
    }
    return text;
}

/* What an access list hides is not known, and no number says so. */
json_t *queues_entry_json(const zkl_queue *queue, const zkl_queue_entry *entry)
{
    bool known = entry->token != 0, readable = entry->readable;
    struct identity identity = {0};
    bool ours = readable && identity_parse(&identity, entry->data, entry->data_size);
    return json_pack(
        "{s:I, s:b, s:b, s:s?, s:s, s:o?, s:s?, s:s?, s:o?, s:o?, s:b, s:o?, s:o*, s:o*, s:o*}",
        "position", (json_int_t)(entry - queue->entries), "holds", entry->holds, "stray",
        entry->forged, "name", entry->name, "kind", kind_name(entry->kind), "token",
        queues_number(known, entry->token), "session", known ? queues_session(entry).bytes : NULL,
        "created", known ? queues_utc(entry->created_ms).bytes : NULL, "created_ms",
        queues_number(known, entry->created_ms), "age_ms",
        queues_number(known, queues_age_ms(entry->created_ms)), "readable", readable, "identity",
        readable ? data_json(entry) : NULL, "host", ours ? json_string(identity.host) : NULL, "pid",
        queues_number(ours, identity.pid), "user", ours ? json_string(identity.user) : NULL);
}

json_t *queues_json(const char *path, const zkl_queue *queue)
{
    json_t *contenders = json_array();
    for (size_t i = 0; i < queue->count; i++) {
        json_array_append_new(contenders, queues_entry_json(queue, &queue->entries[i]));
    }
    return json_pack("{s:s, s:o, s:I}", "path", path, "contenders", contenders, "foreign",
                     (json_int_t)queue->foreign);
}

void queues_print(FILE *out, const char *path, const zkl_queue *queue)
{
    cli_line(out, CLI_CUT, "%s", path);
    if (queue->count > 0) {
        cli_line(out, CLI_CUT, "  %-5s  %-8s  %8s  %-18s  %-10s  %s", "queue", "age", "token",
                 "session", "kind", "who");
    } else {
        cli_line(out, CLI_CUT, "  nobody");
    }
    for (size_t i = 0; i < queue->count; i++) {
        const zkl_queue_entry *entry = &queue->entries[i];
        bool known = entry->token != 0; /* what an access list hides is not: age, token, session */
        char token[24] = "-", position[24];
        if (known) {
            snprintf(token, sizeof token, "%" PRId64, entry->token);
        }
        snprintf(position, sizeof position,
                 entry->holds    ? "holds"
                 : entry->forged ? "stray"
                                 : "%zu",
                 i);
        cli_line(out, CLI_CUT, "  %-5s  %-8s  %8s  %-18s  %-10s  %s", position,
                 known ? queues_age(queues_age_ms(entry->created_ms)).bytes : "-", token,
                 known ? queues_session(entry).bytes : "-", kind_name(entry->kind),
                 entry->readable ? queues_who(entry).bytes : "(not readable)");
    }
    if (queue->foreign > 0) {
        cli_line(out, CLI_CUT, "  and %zu znodes that are no contenders", queue->foreign);
    }
}

char *queues_json_text(json_t *object)
{
    json_t *whole = json_pack("{s:i}", "v", 1);
    char *text = json_object_update_new(whole, object) == 0
                     ? json_dumps(whole, JSON_COMPACT | JSON_ENSURE_ASCII)
                     : NULL;
    json_decref(whole);
    return text;
}

bool queues_print_json(json_t *object)
{
    char *text = queues_json_text(object);
    bool printed = text && puts(text) >= 0 && cli_flush();
    free(text);
    return printed;
}
