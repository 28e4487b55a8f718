#include "lock_kit.h"

#include "handle_kit.h"
#include "thread.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <poll.h>
#include <sys/wait.h>

#define PATIENCE_MS 30000
#define LOOK_EACH_MS 5 /* as in wait.h */

int64_t now_ms(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (int64_t)at.tv_sec * 1000 + at.tv_nsec / 1000000;
}

/* Where the library has no thread, what is waited for comes about in a wait of the library's. */
bool look_again(int64_t end_ms)
{
    static pthread_mutex_t nobodys = PTHREAD_MUTEX_INITIALIZER;
    struct zkl__signal never;
    if (zkl__threadless) {
        zkl__signal_init(&never);
        pthread_mutex_lock(&nobodys);
        zkl__signal_wait(&never, &nobodys, zkl__clock_now() + LOOK_EACH_MS * ZKL__MS);
        pthread_mutex_unlock(&nobodys);
        zkl__signal_deinit(&never);
    } else {
        poll(NULL, 0, LOOK_EACH_MS);
    }
    return now_ms() < end_ms;
}

zkl_session *kit_open(const zkl_session_options *options)
{
    zkl_session *session = NULL;
    zkl_error err = {0};
    int code = zkl_session_open(&session, PLACE, options, &err);
    if (code != ZKL_OK) {
        fprintf(stderr, "open: %s: %s\n", zkl_error_name(code), err.text);
    }
    ASSERT_OK_FATAL(code);
    return session;
}

zkl_session_options kit_short(void)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    options.session_timeout_ms = 2000;
    options.tick_ms = 100;
    options.leader_pause_ms = 20;
    return options;
}

zkl_session_options kit_ends_soon(void)
{
    zkl_session_options options = kit_short();
    options.session_timeout_ms = 8000;
    options.connect_timeout_ms = 60000; /* so long a slot may be recorded after its section, on a busy machine */
    return options;
}

zkl_session_options kit_dispatched(void)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    options.callbacks = ZKL_CALLBACKS_DISPATCH;
    return options;
}

zkl_lock *kit_make(zkl_recipe recipe, zkl_session *session, const char *path, const zkl_lock_options *options)
{
    return kit_keep(handle_make(&handle_recipes[recipe], session, path, options));
}

zkl_lock *kit_lock(zkl_session *session, const char *path, const zkl_lock_options *options)
{
    return kit_make(ZKL_RECIPE_LOCK, session, path, options);
}

zkl_lock *kit_hold(zkl_session *session, const char *path, const zkl_lock_options *options)
{
    zkl_lock *lock = kit_lock(session, path, options);
    kit_acquire(lock);
    return lock;
}

bool kit_unclean(zkl_lock *lock)
{
    zkl_grant grant = {0};
    ASSERT_OK(zkl_lock_acquire(lock, PATIENCE_MS, &grant, NULL));
    kit_release(lock);
    return grant.unclean;
}

bool kit_held_for(const zkl_lock *lock, int64_t ms)
{
    int64_t end_ms = now_ms() + ms;
    bool held = true;
    while (held && look_again(end_ms)) {
        held = zkl_lock_is_held(lock);
    }
    return held;
}

bool kit_renewed(const zkl_lock *lock, int64_t ms)
{
    int64_t left_ms = zkl_lock_remaining_ms(lock), end_ms = now_ms() + left_ms + ms, give_up_ms = end_ms + PATIENCE_MS;
    bool held = true, later = false;
    while (held && !later && look_again(give_up_ms)) {
        int64_t at_ms = now_ms(); /* before it asks: a stall between makes the end no later */
        later = at_ms + zkl_lock_remaining_ms(lock) >= end_ms;
        held = zkl_lock_is_held(lock);
    }
    return held && later;
}

static size_t count_queue(zkl_session *session, const char *path, bool foreign_too)
{
    zkl_queue *queue = NULL;
    if (zkl_queue_list(&queue, session, path, PATIENCE_MS, NULL) != ZKL_OK) {
        return SIZE_MAX;
    }
    size_t count = queue->count + (foreign_too ? queue->foreign : 0);
    zkl_queue_free(queue);
    return count;
}

size_t kit_queue(zkl_session *session, const char *path)
{
    return count_queue(session, path, false);
}

size_t kit_children(zkl_session *session, const char *path)
{
    return count_queue(session, path, true);
}

size_t kit_group(zkl_session *session, const char *path)
{
    zkl_members *members = NULL;
    if (zkl_group_list(&members, session, path, PATIENCE_MS, NULL) != ZKL_OK) {
        return SIZE_MAX;
    }
    size_t count = members->count;
    zkl_members_free(members);
    return count;
}

bool kit_readable(zkl_session *session, int timeout_ms)
{
    struct pollfd poller = {.fd = zkl_session_fd(session), .events = POLLIN};
    return poll(&poller, 1, timeout_ms) == 1;
}

zkl_session *one, *two;

void kit_set_up(const zkl_session_options *options)
{
    one = kit_open(options);
    two = kit_open(options);
}

void kit_set_up_with(zkl_session_options options)
{
    kit_set_up(&options);
}

/* Those that are not freed yet. Any thread. */
static struct {
    pthread_mutex_t mutex;
    size_t count;
    zkl_lock *locks[4096];
} kept = {.mutex = PTHREAD_MUTEX_INITIALIZER};

zkl_lock *kit_keep(zkl_lock *lock)
{
    pthread_mutex_lock(&kept.mutex);
    CU_ASSERT_FATAL(kept.count < sizeof kept.locks / sizeof *kept.locks);
    kept.locks[kept.count++] = lock;
    pthread_mutex_unlock(&kept.mutex);
    return lock;
}

void kit_free(zkl_lock *lock)
{
    pthread_mutex_lock(&kept.mutex);
    size_t i = 0;
    while (i < kept.count && kept.locks[i] != lock) {
        i++;
    }
    if (i < kept.count) {
        kept.locks[i] = kept.locks[--kept.count];
    }
    pthread_mutex_unlock(&kept.mutex);
    zkl_lock_free(lock);
}

/* NULL: none is left. */
static zkl_lock *last_kept(void)
{
    pthread_mutex_lock(&kept.mutex);
    zkl_lock *last = kept.count > 0 ? kept.locks[kept.count - 1] : NULL;
    pthread_mutex_unlock(&kept.mutex);
    return last;
}

void kit_tear_down(void)
{
    zkl_lock *last;
    while ((last = last_kept())) {
        kit_free(last);
    }
    kit_close(one);
    kit_close(two);
}

static enum zkl__rc meddle(const struct zkl__op *op)
{
    enum zkl__rc rc = ZKL__RC_UNKNOWN;
    ASSERT_OK(zkl__memory_meddle(PLACE, op, &rc));
    return rc;
}

static enum zkl__rc write_as(enum zkl__op_kind kind, const char *dir, const char *name, const char *data,
                             const zkl_acl *acl)
{
    return meddle(&(struct zkl__op){.kind = kind,
                                    .dir = dir,
                                    .name = name,
                                    .data = data,
                                    .size = data ? strlen(data) : 0,
                                    .version = -1,
                                    .acl = acl});
}

enum zkl__rc kit_write(enum zkl__op_kind kind, const char *dir, const char *name, const char *data)
{
    return write_as(kind, dir, name, data, NULL);
}

void kit_create(const char *dir, const char *name, const char *data, const zkl_acl *acl)
{
    CU_ASSERT_EQUAL(write_as(ZKL__OP_CREATE, dir, name, data, acl), ZKL__RC_OK);
}

void kit_create_longest(const char *dir)
{
    char name[ZKL__STORE_PATH] = "";
    memset(name, 'x', sizeof name - strlen(dir) - 2);
    CU_ASSERT_EQUAL(
        meddle(&(struct zkl__op){.kind = ZKL__OP_CREATE, .dir = dir, .name = name, .mode = ZKL__PERSISTENT_SEQUENTIAL}),
        ZKL__RC_OK);
}

void kit_remove_node(const zkl_lock *lock)
{
    char node[128];
    ASSERT_EVENTUALLY_FATAL(zkl_lock_node(lock, node, sizeof node) > 0);
    CU_ASSERT_EQUAL(kit_write(ZKL__OP_DELETE, zkl_lock_path(lock), node, NULL), ZKL__RC_OK);
}

void kit_remove_first(const char *path)
{
    zkl_queue *queue;
    ASSERT_OK_FATAL(zkl_queue_list(&queue, two, path, PATIENCE_MS, NULL));
    CU_ASSERT_FATAL(queue->count > 0);
    const zkl_queue_entry *first = &queue->entries[0];
    ASSERT_OK(zkl_queue_remove(two, path, first->name, first->token, PATIENCE_MS, NULL));
    zkl_queue_free(queue);
}

size_t kit_entries(const char *folder)
{
    size_t count = 0;
    DIR *dir = opendir(folder);
    CU_ASSERT_PTR_NOT_NULL_FATAL(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        count += entry->d_name[0] != '.';
    }
    closedir(dir);
    return count;
}

void kit_await(pid_t child)
{
    int status = -1;
    CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
    CU_ASSERT_EQUAL(status, 0);
}

int kit_slots_taken(const zkl_stop *stop)
{
    int taken = 0;
    for (int i = 0; i < ZKL_STOP_SESSIONS_MAX; i++) {
        taken += stop->sessions[i].descriptor != 0;
    }
    return taken;
}

int kit_listen(char *servers, size_t size)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    CU_ASSERT_FATAL(bind(listener, (struct sockaddr *)&address, length) == 0 && listen(listener, 16) == 0 &&
                    getsockname(listener, (struct sockaddr *)&address, &length) == 0);
    snprintf(servers, size, "127.0.0.1:%d", ntohs(address.sin_port));
    return listener;
}

static void *run_acquire(void *arg)
{
    struct acquire *acquire = arg;
    acquire->code = zkl_lock_acquire(acquire->lock, acquire->timeout_ms, &acquire->grant, &acquire->err);
    return NULL;
}

void acquire_start(struct acquire *acquire, zkl_lock *lock, int64_t timeout_ms)
{
    *acquire = (struct acquire){.lock = lock, .timeout_ms = timeout_ms};
    CU_ASSERT_EQUAL_FATAL(pthread_create(&acquire->thread, NULL, run_acquire, acquire), 0);
}

int acquire_join(struct acquire *acquire)
{
    pthread_join(acquire->thread, NULL);
    return acquire->code;
}

void mailbox_put(struct mailbox *box, struct letter letter)
{
    pthread_mutex_lock(&box->mutex);
    letter.thread = pthread_self();
    if (box->count < sizeof box->letters / sizeof *box->letters) {
        box->letters[box->count++] = letter;
    }
    pthread_mutex_unlock(&box->mutex);
}

void mailbox_clear(struct mailbox *box)
{
    pthread_mutex_lock(&box->mutex);
    box->count = 0;
    pthread_mutex_unlock(&box->mutex);
}

size_t mailbox_count(struct mailbox *box)
{
    pthread_mutex_lock(&box->mutex);
    size_t count = box->count;
    pthread_mutex_unlock(&box->mutex);
    return count;
}

int mailbox_last(struct mailbox *box)
{
    size_t count = mailbox_count(box);
    return count > 0 ? mailbox_code(box, count) : -1000;
}

bool mailbox_wait(struct mailbox *box, size_t count)
{
    return EVENTUALLY(mailbox_count(box) >= count);
}

int mailbox_code(struct mailbox *box, size_t nth)
{
    if (!mailbox_wait(box, nth)) {
        return -1000;
    }
    pthread_mutex_lock(&box->mutex);
    int code = box->letters[nth - 1].code;
    pthread_mutex_unlock(&box->mutex);
    return code;
}

void on_acquired(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload)
{
    struct letter letter = {.from = lock, .code = code, .granted = grant != NULL};
    letter.grant = grant ? *grant : letter.grant;
    snprintf(letter.text, sizeof letter.text, "%s", err->text);
    mailbox_put(payload, letter);
}

void on_lock_state(zkl_lock *lock, zkl_state state, void *payload)
{
    mailbox_put(payload, (struct letter){.from = lock, .code = (int)state});
}

void on_revoke(zkl_lock *lock, void *payload)
{
    mailbox_put(payload, (struct letter){.from = lock});
}

void ignore_assigned(zkl_partition *partition, const char *piece, int64_t token, void *payload) {}

void ignore_revoked(zkl_partition *partition, const char *piece, bool lost, void *payload) {}

int run_nothing(const zkl_cancel *cancel, int64_t token, void *payload)
{
    return 1;
}

void on_leader(zkl_election_observer *observer, const zkl_leader *leader, void *payload)
{
    struct letter letter = {.from = observer, .granted = leader != NULL};
    if (leader) {
        CU_ASSERT(leader->session_id != 0 || !leader->readable);
        CU_ASSERT_EQUAL(leader->readable ? strlen(leader->value) : 0, leader->value_size);
        letter.grant.token = leader->token;
        snprintf(letter.text, sizeof letter.text, "%s", leader->readable ? leader->value : leader->node);
    }
    mailbox_put(payload, letter);
}

void on_session_state(zkl_session *session, zkl_connection_state state, void *payload)
{
    mailbox_put(payload, (struct letter){.from = session, .code = (int)state});
}

void on_ended(int code, const zkl_error *err, void *payload)
{
    struct letter letter = {.code = code};
    snprintf(letter.text, sizeof letter.text, "%s", code == ZKL_OK ? "" : err->text);
    mailbox_put(payload, letter);
}
