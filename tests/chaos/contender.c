/* contender SERVERS TICK_MS TIMEOUT_MS DIR NAME SEED ROOT WORD... (contender.h): one process of many that contend, through the public API,
 * until it gets SIGTERM. Several threads are clients of one session, so that several stand in one queue and hand over to each other;
 * others are guests, a member of a group, an owner of pieces. What they do and see goes to DIR/NAME.history (history.h); holders write to the
 * resource (DIR/resource), now and then without looking whether they still hold. Descriptor 3 is a page of numbers (history.h). */
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "contender.h"
#include "dice.h"

#define CLIENTS 6
#define ARGUMENTS 8 /* before the words */

struct process process = {.record = -1, .resource = -1};

void process_give_up(const char *what, const zkl_error *err)
{
    fprintf(stderr, "%s: %s: %s\n", process.name, what, err ? err->text : strerror(errno));
    abort();
}

zkl_session *process_open_session(int64_t connect_timeout_ms, zkl_session_state_fn state_fn, void *payload)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    zkl_session *session = NULL;
    zkl_error err;
    int code;
    options.tick_ms = process.tick_ms;
    options.session_timeout_ms = process.timeout_ms;
    options.connect_timeout_ms = connect_timeout_ms;
    options.state_fn = state_fn;
    options.state_payload = payload;
    do {
        code = zkl_session_open(&session, process.servers, &options, &err);
    } while (code == ZKL_ECONNECT && !process.enough);
    if (code != ZKL_OK && code != ZKL_ECONNECT) {
        process_give_up("session", &err);
    }
    return code == ZKL_OK ? session : NULL;
}

/* --- objects ------------------------------------------------------------------------------------------------------------ */

#define READERS 1000 /* more than there can be at once */
#define PERMITS 3
#define RECOVER "recover:"

static const struct {
    const char *prefix;
    int of;
} kinds[] = {
    [OBJECT_LOCK] = {"", 1},           [OBJECT_RWLOCK] = {"rw:", READERS}, [OBJECT_SEMAPHORE] = {"sem:", PERMITS},
    [OBJECT_ELECTION] = {"elect:", 1}, [OBJECT_MULTILOCK] = {"multi:", 1},
};
#define COUNT ((int)(sizeof kinds / sizeof *kinds))

/* Kind and paths. */
static void parse(struct object *o, const char *word)
{
    o->kind = OBJECT_LOCK;
    o->recovers = strncmp(word, RECOVER, strlen(RECOVER)) == 0;
    word += o->recovers ? strlen(RECOVER) : 0;
    for (int i = 0; i < COUNT; i++) {
        size_t length = strlen(kinds[i].prefix);
        if (length > 0 && strncmp(word, kinds[i].prefix, length) == 0) {
            o->kind = (enum object_kind)i;
            word += length;
        }
    }
    o->path_count = 0;
    while (*word && o->path_count < OBJECT_PATHS) {
        size_t length = strcspn(word, ",");
        snprintf(o->paths[o->path_count++], HISTORY_WORD, "%.*s", (int)length, word);
        word += length + (word[length] == ',' ? 1 : 0);
    }
}

int object_new(struct object *o, zkl_session *session, const char *word, const zkl_lock_options *options,
               zkl_error *err)
{
    zkl_lock_options own = *options;
    const char *paths[OBJECT_PATHS] = {o->paths[0], o->paths[1]};
    parse(o, word);
    o->of = kinds[o->kind].of;
    o->takes = 1;
    own.payload = o;
    own.recover = o->recovers;
    own.revoke_fn = o->recovers ? own.revoke_fn : NULL;
    int code = ZKL_OK;
    switch (o->kind) {
    case OBJECT_LOCK:
        code = zkl_lock_new(&o->writer, session, o->paths[0], &own, err);
        break;
    case OBJECT_RWLOCK:
        code = zkl_read_lock_new(&o->reader, session, o->paths[0], &own, err);
        code = code == ZKL_OK ? zkl_write_lock_new(&o->writer, session, o->paths[0], &own, err) : code;
        break;
    case OBJECT_SEMAPHORE:
        code = zkl_semaphore_new(&o->writer, session, o->paths[0], o->of, &own, err);
        break;
    case OBJECT_ELECTION:
        code = zkl_election_new(&o->writer, session, o->paths[0], &own, err);
        break;
    case OBJECT_MULTILOCK:
        code = zkl_multilock_new(&o->writer, session, paths, (size_t)o->path_count, &own, err);
        break;
    }
    o->lock = o->writer;
    return code;
}

void object_free(struct object *o)
{
    zkl_lock_free(o->reader);
    zkl_lock_free(o->writer);
}

void object_roll(struct object *o, uint64_t *dice)
{
    bool whole = o->reader && dice_once_in(dice, 3);
    o->takes = whole ? o->of : o->reader ? 1 : (int)dice_between(dice, 1, o->of);
    o->lock = o->reader && !whole ? o->reader : o->writer;
}

int object_acquire(struct object *o, int64_t timeout_ms, zkl_grant *grant, zkl_error *err)
{
    return o->kind == OBJECT_SEMAPHORE ? zkl_semaphore_acquire(o->lock, o->takes, timeout_ms, grant, err)
                                       : zkl_lock_acquire(o->lock, timeout_ms, grant, err);
}

int object_acquire_async(struct object *o, zkl_acquired_fn done, zkl_error *err)
{
    return o->kind == OBJECT_SEMAPHORE ? zkl_semaphore_acquire_async(o->lock, o->takes, ZKL_WAIT_FOREVER, done, o, err)
                                       : zkl_lock_acquire_async(o->lock, ZKL_WAIT_FOREVER, done, o, err);
}

/* --- what is told of objects ---------------------------------------------------------------------------------------------- */

static int64_t session_of(const struct object *o)
{
    return o->session_id ? atomic_load(o->session_id) : zkl_session_id(process.session);
}

struct history_line object_line(const struct object *o, enum history_op op)
{
    return (struct history_line){.client = o->client, .session = session_of(o), .op = op};
}

void object_write_line(const struct object *o, const struct history_line *line)
{
    for (int i = 0; i < o->path_count; i++) {
        struct history_line part = *line;
        char name[HISTORY_WORD];
        snprintf(name, sizeof name, i == 0 ? "%.40s" : "%.40s+%d", line->client, i);
        part.client = name;
        part.path = o->paths[i];
        history_write(process.record, &part);
    }
}

void object_note(const struct object *o, enum history_op op, const char *result, int64_t token, int64_t lease)
{
    struct history_line line = object_line(o, op);
    line.result = result;
    line.token = token;
    line.lease = lease;
    object_write_line(o, &line);
}

void object_release(const struct object *o, int64_t token)
{
    object_note(o, HISTORY_release, NULL, token, 0);
    int code = zkl_lock_release(o->lock, NULL);
    object_note(o, HISTORY_released, zkl_error_name(code), token, 0);
}

void object_note_part(const struct object *o, enum history_op op, int64_t deadline)
{
    char part[HISTORY_WORD];
    snprintf(part, sizeof part, "%d/%d", o->takes, o->of);
    object_note(o, op, part, 0, deadline);
}

void object_note_done(const struct object *o, int code, const zkl_grant *grant, const zkl_error *why)
{
    if (code == ZKL_EUNSUPPORTED) {
        fprintf(stderr, "%s, %" PRId64 ": %s\n", object_line(o, HISTORY_done).client, boot_ns(), why->text);
    }
    if (code == ZKL_OK && grant && grant->unclean) {
        object_note(o, HISTORY_unclean, NULL, 0, 0);
    }
    struct history_line line = object_line(o, HISTORY_done);
    line.at = boot_ns();
    line.result = zkl_error_name(code);
    line.token = code == ZKL_OK && grant ? grant->token : 0;
    line.lease = code == ZKL_OK ? line.at + zkl_lock_remaining_ms(o->lock) * MS : 0;
    object_write_line(o, &line);
}

bool object_note_held(const struct object *o)
{
    struct history_line line = object_line(o, HISTORY_held);
    line.at = boot_ns();
    line.lease = line.at + zkl_lock_remaining_ms(o->lock) * MS;
    bool held = zkl_lock_is_held(o->lock);
    if (held) {
        object_write_line(o, &line);
    }
    return held;
}

void object_note_starved(const struct object *o, int delay, int64_t before)
{
    int64_t starved = run_delay_ns(delay) - before;
    if (starved > LATE) {
        object_note(o, HISTORY_starved, NULL, 0, starved);
    }
}

void object_write(const struct object *o, int64_t token, bool stays)
{
    for (int i = 0; i < o->path_count; i++) {
        char text[128];
        int length = snprintf(text, sizeof text, "%s %s %" PRId64 " %" PRIx64 " %s", o->client, o->paths[i],
                              o->takes == o->of ? token : 0, (uint64_t)session_of(o), stays ? "stays" : "passes");
        while (send(process.resource, text, (size_t)length, 0) < 0) {
            if (errno != EINTR) {
                process_give_up("resource", NULL);
            }
        }
    }
}

/* --- whole --------------------------------------------------------------------------------------------------------------- */

/* What the machine alone does to a wait, in this process, all the time: that is not the library's. */
static void *run_control(void *unused)
{
    char name[HISTORY_WORD];
    snprintf(name, sizeof name, "%.30s.control", process.name);
    while (!process.enough) {
        int64_t due = boot_ns() + 10 * MS;
        poll(NULL, 0, 10);
        int64_t now = boot_ns();
        if (now - due > LATE) {
            history_write(process.record,
                          &(struct history_line){.at = now, .client = name, .op = HISTORY_late, .lease = now - due});
        }
    }
    return NULL;
}

static void *wait_for_the_end(void *signals)
{
    int signal;
    sigwait(signals, &signal);
    process.enough = true;
    return NULL;
}

static void find_resource(const char *dir)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%.90s/resource", dir);
    process.resource = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (connect(process.resource, (struct sockaddr *)&address, sizeof address) != 0) {
        process_give_up("resource", NULL);
    }
    process.page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0);
    if (process.page == MAP_FAILED) {
        process_give_up("page", NULL);
    }
}

static void take_arguments(char **argv, int argc)
{
    process.servers = argv[1];
    process.tick_ms = atoll(argv[2]);
    process.timeout_ms = atoll(argv[3]);
    process.name = argv[5];
    process.number = atoi(process.name + 1);
    process.root = argv[7];
    process.words = argv + ARGUMENTS;
    process.word_count = argc - ARGUMENTS;
    process.record = history_open(argv[4], process.name);
    find_resource(argv[4]);
}

/* Until there is enough of it. */
static void run_all(uint64_t seed)
{
    static struct client clients[CLIENTS];
    static void *(*const others[])(void *) = {run_control, guest_run, member_run, pieces_run};
    enum { OTHERS = sizeof others / sizeof *others, ALL = CLIENTS + OTHERS };
    pthread_t threads[ALL];
    uint64_t seeds[OTHERS];
    for (int i = 0; i < CLIENTS; i++) {
        client_init(&clients[i], i, seed);
        pthread_create(&threads[i], NULL, client_run, &clients[i]);
    }
    for (int i = 0; i < OTHERS; i++) {
        seeds[i] = dice_at(seed, 2, (uint64_t)i);
        pthread_create(&threads[CLIENTS + i], NULL, others[i], &seeds[i]);
    }
    for (int i = 0; i < ALL; i++) {
        pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < CLIENTS; i++) {
        client_deinit(&clients[i]);
    }
}

int main(int argc, char **argv)
{
    pthread_t waiter;
    sigset_t signals;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc <= ARGUMENTS || argc - ARGUMENTS > CLIENT_OBJECTS) {
        fprintf(stderr, "usage: contender SERVERS TICK_MS TIMEOUT_MS DIR NAME SEED ROOT WORD...\n");
        return 2;
    }
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    pthread_create(&waiter, NULL, wait_for_the_end, &signals);
    take_arguments(argv, argc);
    process.session = process_open_session(10000, NULL, NULL);
    if (!process.session) {
        return 0;
    }
    run_all(strtoull(argv[6], NULL, 0));
    pthread_join(waiter, NULL);
    int code = zkl_session_close(process.session, 10000);
    return code == ZKL_OK || code == ZKL_ETIMEOUT ? 0 : 1;
}
