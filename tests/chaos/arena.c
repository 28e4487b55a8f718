#include "arena.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "contest.h"
#include "dice.h"
#include "store_client.h"

#define LONG 60000 /* ms */

/* What stands at each path, and the directories in which its contenders have their znodes. */
static const struct {
    const char *recipe, *name, *queues[2];
    bool exclusive; /* one may hold */
} all_paths[ARENA_PATHS] = {
    {"", "a", {""}, true},
    {"", "b", {""}, true},
    {"", "c", {""}, true},
    {"rw:", "r", {""}, false},
    {"sem:", "s", {"/locks", "/leases"}, false},
    {"elect:", "e", {""}, true},
    {"recover:", "w", {""}, true},
};

static void complain(struct arena *a, const char *what)
{
    fprintf(stderr, "%s: %s\n", a->kind, what);
    a->failed = true;
}

static void note(struct arena *a, enum history_op op, const char *who, const char *path, int64_t token, int64_t lease)
{
    history_write(a->record,
                  &(struct history_line){.client = who, .op = op, .path = path, .token = token, .lease = lease});
}

void arena_tell(struct arena *a, const char *what, int who)
{
    history_write(a->record,
                  &(struct history_line){.client = "nemesis", .op = HISTORY_fault, .result = what, .token = who});
}

void arena_pace(struct arena *a, int64_t low_ms, int64_t high_ms)
{
    poll(NULL, 0, (int)dice_between(&a->dice, low_ms, high_ms));
}

/* A path that somebody holds for long just now; -1: there is none for a while. */
static int long_held(struct arena *a)
{
    int path = (int)dice_below(&a->dice, ARENA_PATHS);
    int64_t end = now_ms() + 2000;
    do {
        path = (path + 1) % ARENA_PATHS;
        int stayer = a->page->stayer[path];
        if (stayer > 0 && stayer <= ARENA_CONTENDERS) {
            return path;
        }
    } while (look_again(end));
    return -1;
}

struct target {
    int contender;
    int64_t session;
};

static bool aim_at_holder(struct arena *a, struct target *target)
{
    int path = long_held(a), stayer = path >= 0 ? a->page->stayer[path] : 0;
    if (stayer > 0) {
        *target = (struct target){stayer - 1, a->page->session[path]};
    }
    return stayer > 0;
}

/* Whose znode it is: its data ends with the process' id. */
static bool aim_at_entry(struct arena *a, struct target *target, const zkl_queue_entry *entry)
{
    const char *colon = entry->data ? strrchr(entry->data, ':') : NULL;
    for (int i = 0; colon && i < ARENA_CONTENDERS; i++) {
        if (a->contenders[i].pid == atoi(colon + 1)) {
            *target = (struct target){i, entry->session_id};
            return true;
        }
    }
    return false;
}

/* The one behind the first, or the last one, of a queue that is one. */
static bool aim_at_waiter(struct arena *a, struct target *target, bool next)
{
    int path = (int)dice_below(&a->dice, ARENA_PATHS);
    int64_t end = now_ms() + 2000;
    bool found = false;
    do {
        char name[2 * HISTORY_WORD];
        zkl_queue *queue;
        path = (path + 1) % ARENA_PATHS;
        snprintf(name, sizeof name, "%s%s", a->paths[path], all_paths[path].queues[0]);
        if (zkl_queue_list(&queue, a->eye, name, 1000, NULL) == ZKL_OK) {
            found = queue->count > 1 && aim_at_entry(a, target, &queue->entries[next ? 1 : queue->count - 1]);
            zkl_queue_free(queue);
        }
    } while (!found && look_again(end));
    return found;
}

static struct target aim(struct arena *a)
{
    struct target target = {(int)dice_below(&a->dice, ARENA_CONTENDERS), 0};
    int64_t role = dice_below(&a->dice, 8);
    bool hit = role < 4 ? aim_at_holder(a, &target) : role < 7 ? aim_at_waiter(a, &target, role < 6) : false;
    arena_tell(a, !hit ? "aim-any" : role < 4 ? "aim-holder" : role < 6 ? "aim-next" : "aim-last", target.contender);
    return target;
}

int arena_aim(struct arena *a)
{
    return aim(a).contender;
}

int arena_aim_server(struct arena *a, int not_this)
{
    char session[32];
    snprintf(session, sizeof session, "sid=0x%lx,", (unsigned long)aim(a).session);
    for (int i = 0; i < ARENA_SERVERS; i++) {
        if (i != not_this && ensemble_ask_until(a->servers, i, "cons", session, true, 0)) {
            return i;
        }
    }
    return not_this < 0 ? (int)dice_below(&a->dice, ARENA_SERVERS)
                        : (not_this + 1 + (int)dice_below(&a->dice, ARENA_SERVERS - 1)) % ARENA_SERVERS;
}

/* --- processes ------------------------------------------------------------------------------------------------------- */

void arena_sibling(char path[512], const char *program)
{
    ssize_t length = readlink("/proc/self/exe", path, 400);
    path[length > 0 ? length : 0] = '\0';
    char *base = strrchr(path, '/');
    strcpy(base ? base + 1 : path, program);
}

/* A program beside ours gets fd as 3, and dies with us. */
static pid_t spawn(const char *program, char *const *argv, int fd)
{
    char path[512];
    arena_sibling(path, program);
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent || dup2(fd, 3) != 3) {
            _exit(127);
        }
        execv(path, argv);
        _exit(127);
    }
    return pid;
}

static void start_resource(struct arena *a)
{
    char *argv[ARENA_PATHS + 3] = {"resource", a->dir};
    a->page_fd = memfd_create("page", MFD_CLOEXEC);
    if (a->page_fd < 0 || ftruncate(a->page_fd, PAGE_BYTES) != 0) {
        complain(a, "no memory to share");
        return;
    }
    a->page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, a->page_fd, 0);
    for (int i = 0; i < ARENA_PATHS; i++) {
        argv[2 + i] = a->paths[i];
    }
    a->resource = spawn("chaos_resource", argv, a->page_fd);
    if (!WITHIN(LONG, a->page->ready)) {
        complain(a, "no resource");
    }
}

static void start_contender(struct arena *a, int number)
{
    struct contender *c = &a->contenders[number];
    char servers[256], tick[16], timeout[16], seed[32];
    char *argv[ARENA_WORDS + 9] = {"contender", servers, tick, timeout, a->dir, c->name, seed, a->root};
    snprintf(servers, sizeof servers, "%s", ensemble_servers(a->servers));
    if (c->links[0]) {
        snprintf(servers, sizeof servers, "%s,%s,%s", proxy_address(c->links[0]), proxy_address(c->links[1]),
                 proxy_address(c->links[2]));
    }
    snprintf(tick, sizeof tick, "%d", ARENA_TICK);
    snprintf(timeout, sizeof timeout, "%d", ARENA_TIMEOUT);
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)dice_next(&a->dice));
    snprintf(c->name, sizeof c->name, "p%d-%d", number, c->incarnation++);
    for (int i = 0; i < ARENA_WORDS; i++) {
        argv[8 + i] = a->words[i];
    }
    a->page->settled[number] = 0;
    c->pid = spawn("chaos_contender", argv, a->page_fd);
}

/* False when that process is still there. */
static bool is_gone(struct arena *a, struct contender *c, bool expected)
{
    int status;
    if (c->pid <= 0) {
        return true;
    }
    if (waitpid(c->pid, &status, WNOHANG) != c->pid) {
        return false;
    }
    c->pid = 0;
    if (!expected || status != 0) {
        fprintf(stderr, "%s ended with status 0x%x\n", c->name, (unsigned)status);
        complain(a, "a contender died by itself");
    }
    return true;
}

void arena_kill(struct arena *a, int number)
{
    struct contender *c = &a->contenders[number];
    if (!is_gone(a, c, false)) {
        kill(c->pid, SIGKILL);
        waitpid(c->pid, NULL, 0);
        note(a, HISTORY_killed, c->name, NULL, 0, 0); /* behind its last act */
        start_contender(a, number);
    }
}

static void remove_entry(struct arena *a, const char *path, const zkl_queue_entry *entry)
{
    struct history_line line = {
        .at = boot_ns(), .client = "nemesis", .op = HISTORY_removed, .path = path, .token = entry->token};
    int code = zkl_queue_remove(a->eye, path, entry->name, entry->token, SOON, NULL);
    if (code != ZKL_ENOTHELD) {
        line.result = zkl_error_name(code);
        history_write(a->record, &line);
    }
}

int arena_holder(struct arena *a, int *path)
{
    *path = long_held(a);
    return *path >= 0 && all_paths[*path].exclusive ? a->page->stayer[*path] - 1 : -1;
}

void arena_remove(struct arena *a, int path)
{
    zkl_queue *queue;
    if (zkl_queue_list(&queue, a->eye, a->paths[path], 1000, NULL) != ZKL_OK) {
        return;
    }
    size_t which = dice_once_in(&a->dice, 5) ? 1 : 0;
    if (which < queue->count) {
        remove_entry(a, a->paths[path], &queue->entries[which]);
    }
    zkl_queue_free(queue);
}

void arena_halt(struct arena *a, int number)
{
    struct contender *c = &a->contenders[number];
    if (!is_gone(a, c, false)) {
        note(a, HISTORY_stopped, c->name, NULL, 0, 0);
        kill(c->pid, SIGSTOP);
    }
}

void arena_continue(struct arena *a, int number)
{
    struct contender *c = &a->contenders[number];
    if (c->pid > 0) {
        kill(c->pid, SIGCONT);
        note(a, HISTORY_continued, c->name, NULL, 0, 0);
    }
}

void arena_freeze_leader(struct arena *a, int64_t ms)
{
    int leader = ensemble_leader(a->servers);
    if (leader >= 0) {
        int64_t from = boot_ns();
        arena_tell(a, "freeze-leader", leader);
        ensemble_freeze(a->servers, leader);
        arena_pace(a, ms, ms);
        ensemble_thaw(a->servers, leader);
        int64_t to = boot_ns();
        arena_tell(a, "thaw", leader);
        if (to - from >= ARENA_PAUSE * MS) {
            history_write(a->record, &(struct history_line){.at = from,
                                                            .client = "nemesis",
                                                            .op = HISTORY_breach,
                                                            .lease = to + (ARENA_TIMEOUT + 2 * ARENA_TICK) * MS});
        }
    }
}

/* --- where guarded transactions go (client.c), a directory for each of the locks: made before, read when all is over ---- */

static void ledger_path(char *path, size_t size, const struct arena *a, int number)
{
    snprintf(path, size, "%s/ledger%s", a->root, number < 0 ? "" : strrchr(a->paths[number], '/'));
}

static enum zkl__rc make_znode(struct recorder *eye, const char *path)
{
    return recorder_rc(eye, op_create(path, NULL, ZKL__PERSISTENT));
}

static void ledgers_make(struct arena *a)
{
    struct recorder *eye = queue_eye(ensemble_servers(a->servers));
    char path[2 * HISTORY_WORD];
    enum zkl__rc rc = ZKL__RC_OK;
    make_znode(eye, "/chaos"); /* may be there */
    make_znode(eye, a->root);
    for (int i = -1; i < ARENA_PATHS && rc == ZKL__RC_OK; i++) {
        ledger_path(path, sizeof path, a, i);
        rc = make_znode(eye, path);
    }
    if (rc != ZKL__RC_OK) {
        complain(a, "no ledgers");
    }
    recorder_free(eye);
}

/* "TOKEN.NUMBER-0000000012" */
static void read_entry(struct arena *a, int path, const char *name)
{
    struct history_line line = {.client = "nemesis", .op = HISTORY_committed, .path = a->paths[path]};
    uint64_t token;
    int number, end = 0;
    char place[11];
    if (sscanf(name, "%" SCNx64 ".%d-%10[0-9]%n", &token, &number, place, &end) != 3 || name[end] != '\0') {
        complain(a, "a ledger cannot be read");
        return;
    }
    line.token = (int64_t)token;
    line.lease = number;
    line.result = place;
    history_write(a->record, &line);
}

/* Writes into the history what was committed. */
static void ledgers_read(struct arena *a, struct recorder *eye)
{
    for (int i = 0; i < ARENA_PATHS; i++) {
        char path[2 * HISTORY_WORD];
        ledger_path(path, sizeof path, a, i);
        const struct zkl__reply *list = queue_look(eye, path);
        for (size_t k = 0; k < list->child_count; k++) {
            read_entry(a, i, list->children[k]);
        }
    }
}

/* --- beginning ----------------------------------------------------------------------------------------------- */

void arena_start(struct arena *a, struct ensemble *servers, const char *parent, const char *kind, uint64_t seed,
                 bool links)
{
    *a = (struct arena){.servers = servers, .kind = kind, .dice = seed};
    snprintf(a->root, sizeof a->root, "/chaos/%.30s", kind);
    snprintf(a->dir, sizeof a->dir, "%.80s/%.30s", parent, kind);
    for (int i = 0; i < ARENA_PATHS; i++) {
        snprintf(a->paths[i], sizeof a->paths[i], "%s/%s", a->root, all_paths[i].name);
        snprintf(a->words[i], sizeof a->words[i], "%s%s", all_paths[i].recipe, a->paths[i]);
    }
    snprintf(a->words[ARENA_PATHS], sizeof *a->words, "multi:%s,%s", a->paths[0], a->paths[1]);
    if (mkdir(a->dir, 0700) != 0 || (a->record = history_open(a->dir, "nemesis")) < 0) {
        complain(a, "no directory for histories");
        return;
    }
    for (int i = 0; i < ARENA_PATHS; i++) {
        if (strcmp(all_paths[i].recipe, "recover:") == 0) {
            note(a, HISTORY_recovers, "nemesis", a->paths[i], 0, 0);
        }
    }
    a->eye = contest_session(ensemble_servers(servers), 10000, ARENA_TICK);
    ledgers_make(a);
    start_resource(a);
    for (int i = 0; i < ARENA_CONTENDERS; i++) {
        for (int j = 0; links && j < ARENA_SERVERS; j++) {
            a->contenders[i].links[j] = proxy_start(ensemble_address(servers, j));
        }
        start_contender(a, i);
    }
}

/* --- its end ------------------------------------------------------------------------------------------------------------ */

/* Every path has taken another write: the queues move. */
static void await_progress(struct arena *a)
{
    for (int i = 0; i < ARENA_PATHS; i++) {
        long before = a->page->taken[i];
        if (!WITHIN(LONG, a->page->taken[i] != before)) {
            complain(a, "a minute after the last fault a queue does not move");
            return;
        }
    }
}

static const char *group_of(struct arena *a, char *path)
{
    snprintf(path, HISTORY_WORD, "%s/g", a->root);
    return path;
}

/* Nobody comes or goes any more. From the time when all are there, the pieces have owners, and the lists are right, in so long. */
static void await_rest(struct arena *a)
{
    const int64_t bound_ms = ARENA_TIMEOUT + 4 * ARENA_TICK;
    char path[HISTORY_WORD];
    a->page->calm = true;
    for (int i = 0; i < ARENA_CONTENDERS; i++) {
        if (!WITHIN(LONG, a->page->settled[i] == PAGE_ALL)) {
            complain(a, "a minute after the last fault somebody is no member");
            return;
        }
    }
    int64_t due = boot_ns() + bound_ms * MS;
    for (int i = 0; i < PIECES; i++) {
        pieces_path(path, a->root, i);
        note(a, HISTORY_owner_by, "nemesis", path, 0, due);
    }
    note(a, HISTORY_list_by, "nemesis", group_of(a, path), 0, due);
    (void)WITHIN(LONG, boot_ns() > due + ARENA_TICK * MS);
}

static void end_contenders(struct arena *a)
{
    for (int i = 0; i < ARENA_CONTENDERS; i++) {
        if (!is_gone(a, &a->contenders[i], false)) {
            kill(a->contenders[i].pid, SIGTERM);
        }
    }
    for (int i = 0; i < ARENA_CONTENDERS; i++) {
        struct contender *c = &a->contenders[i];
        if (!WITHIN(LONG, is_gone(a, c, true))) {
            complain(a, "a contender does not end");
            kill(c->pid, SIGABRT); /* a core tells where it hangs, if the machine keeps them */
            waitpid(c->pid, NULL, 0);
            c->pid = 0;
        }
        for (int j = 0; j < ARENA_SERVERS && c->links[j]; j++) {
            proxy_stop(c->links[j]);
        }
    }
}

/* Places of those that were killed go with their sessions; nothing else may be left by then. */
static int64_t orphans(struct recorder *eye, const char *path, const char *below)
{
    char name[2 * HISTORY_WORD];
    snprintf(name, sizeof name, "%s%s", path, below);
    return queue_becomes(eye, name, 0) ? 0 : 1;
}

static void look_for_orphans(struct arena *a, struct recorder *eye)
{
    char path[HISTORY_WORD];
    for (int i = 0; i < ARENA_PATHS; i++) {
        int64_t left = 0;
        for (int j = 0; j < 2 && all_paths[i].queues[j]; j++) {
            left += orphans(eye, a->paths[i], all_paths[i].queues[j]);
        }
        note(a, HISTORY_queue, "nemesis", a->paths[i], left, 0);
    }
    for (int i = -1; i < PIECES; i++) {
        pieces_path(path, a->root, i);
        note(a, HISTORY_queue, "nemesis", path, orphans(eye, path, ""), 0);
    }
    note(a, HISTORY_queue, "nemesis", group_of(a, path), orphans(eye, path, ""), 0);
}

void arena_stop(struct arena *a)
{
    if (a->page && !a->failed) {
        await_rest(a);
        await_progress(a);
    }
    end_contenders(a);
    struct recorder *eye = queue_eye(ensemble_servers(a->servers));
    look_for_orphans(a, eye);
    ledgers_read(a, eye);
    recorder_free(eye);
    if (a->resource > 0) {
        if (waitpid(a->resource, NULL, WNOHANG) != 0) {
            complain(a, "the resource died");
        } else {
            kill(a->resource, SIGKILL);
            waitpid(a->resource, NULL, 0);
        }
    }
    if (a->page) {
        munmap(a->page, PAGE_BYTES);
    }
    if (a->eye) {
        zkl_session_close(a->eye, SOON);
    }
    close(a->page_fd);
    close(a->record);
}
