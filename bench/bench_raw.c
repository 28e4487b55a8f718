/* bench_raw SERVERS: the floor. What a lock's round trips cost with nothing around them:
 * libzookeeper_mt called directly, name resolution switched off. The first thing that goes wrong
 * ends the program: this is not a lock for anybody's use.
 *
 * Built twice: with the client library's two threads, and (ONE_THREAD, libzookeeper_st) with none:
 * who waits for an answer reads the socket himself, and what he sends goes out in his own thread.
 * The difference is what those threads cost.
 *
 * sessions: acquire is create and list sent together; when somebody is before us, a get with a
 * watch on him, and a list once he has gone. Release is a delete. Its own jobs, GRANTED - ASKED
 * being what is asked for:
 * - event: one session deletes a node (ASKED), the watch of another tells of it (GRANTED)
 * - read: a get and its answer
 * - idle: nothing, for MS ms
 *
 * bench_raw SERVERS DIR CMD [ARG...]: the floor of `zklock run`, as one process. A session, a
 * create and a list sent together, the command, the close of the session, which deletes the znode.
 * The directory must be there. */
#include "driver.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <zookeeper/zookeeper.h>

struct handle {
    zhandle_t *zk;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int connects;  /* that came, as all that is counted here */
    int answers;   /* that nobody has waited for */
    int deletions; /* since a watch was set */
    int rc;
    int64_t event_ns; /* of the last event */
    char dir[256], node[320];
    char before[320]; /* the nearest node before ours in the last list; "": we are first */
};

static void answered(struct handle *h, int rc)
{
    pthread_mutex_lock(&h->mutex);
    h->rc = rc;
    h->answers++;
    pthread_cond_signal(&h->changed);
    pthread_mutex_unlock(&h->mutex);
}

static void on_void(int rc, const void *h)
{
    answered((struct handle *)(uintptr_t)h, rc);
}

static void on_created(int rc, const char *path, const struct Stat *stat, const void *data)
{
    struct handle *h = (struct handle *)(uintptr_t)data;
    (void)stat;
    if (rc == ZOK) {
        snprintf(h->node, sizeof h->node, "%s", path);
    }
    answered(h, rc);
}

/* All names are of one length, and differ in the number at their end only. */
static void on_list(int rc, const struct String_vector *names, const struct Stat *stat,
                    const void *data)
{
    struct handle *h = (struct handle *)(uintptr_t)data;
    const char *own = h->node + strlen(h->dir) + 1, *before = "";
    (void)stat;
    for (int i = 0; rc == ZOK && i < names->count; i++) {
        before = strcmp(names->data[i], own) < 0 && strcmp(names->data[i], before) > 0
                     ? names->data[i]
                     : before;
    }
    h->before[0] = '\0';
    if (*before) {
        snprintf(h->before, sizeof h->before, "%s/%s", h->dir, before);
    }
    answered(h, rc);
}

static void on_data(int rc, const char *value, int size, const struct Stat *stat, const void *h)
{
    (void)value;
    (void)size;
    (void)stat;
    answered((struct handle *)(uintptr_t)h, rc);
}

static void on_event(zhandle_t *zk, int type, int state, const char *path, void *data)
{
    struct handle *h = data;
    (void)zk;
    (void)path;
    pthread_mutex_lock(&h->mutex);
    h->event_ns = now_ns();
    h->deletions += type == ZOO_DELETED_EVENT;
    h->connects += state == ZOO_CONNECTED_STATE;
    pthread_cond_signal(&h->changed);
    pthread_mutex_unlock(&h->mutex);
}

#ifdef ONE_THREAD
static void await_change(struct handle *h)
{
    struct timeval until;
    struct pollfd socket;
    int interest;
    pthread_mutex_unlock(&h->mutex); /* callbacks run in here */
    int rc = zookeeper_interest(h->zk, &socket.fd, &interest, &until);
    if (rc != ZOK) {
        die("raw: %s", zerror(rc));
    }
    socket.events = (short)((interest & ZOOKEEPER_READ ? POLLIN : 0) |
                            (interest & ZOOKEEPER_WRITE ? POLLOUT : 0));
    poll(&socket, 1, (int)(until.tv_sec * 1000 + until.tv_usec / 1000));
    zookeeper_process(h->zk, (socket.revents & (POLLIN | POLLHUP) ? ZOOKEEPER_READ : 0) |
                                 (socket.revents & POLLOUT ? ZOOKEEPER_WRITE : 0));
    pthread_mutex_lock(&h->mutex);
}
#else
static void await_change(struct handle *h)
{
    pthread_cond_wait(&h->changed, &h->mutex);
}
#endif

static void await_count(struct handle *h, const int *count, int least)
{
    pthread_mutex_lock(&h->mutex);
    while (*count < least) {
        await_change(h);
    }
    pthread_mutex_unlock(&h->mutex);
}

/* sent: what the client library said to the requests. */
static int await_code(struct handle *h, int answers, int sent)
{
    if (sent != ZOK) {
        return sent;
    }
    await_count(h, &h->answers, answers);
    h->answers = 0;
    return h->rc;
}

static void await_answers(struct handle *h, int answers, const char *what, int sent)
{
    int rc = await_code(h, answers, sent);
    if (rc != ZOK) {
        die("raw: %s: %s", what, zerror(rc));
    }
}

static bool raw_acquire(void *contender)
{
    struct handle *h = contender;
    char prefix[320];
    snprintf(prefix, sizeof prefix, "%s/_c_00000000-0000-0000-0000-000000000000-lock-", h->dir);
    int sent = zoo_acreate2(h->zk, prefix, "bench", 5, &ZOO_OPEN_ACL_UNSAFE,
                            ZOO_EPHEMERAL | ZOO_SEQUENCE, on_created, h);
    sent = sent == ZOK ? zoo_aget_children2(h->zk, h->dir, 0, on_list, h) : sent;
    await_answers(h, 2, "create and list", sent);
    while (h->before[0]) {
        h->deletions = 0;
        int rc = await_code(h, 1, zoo_awget(h->zk, h->before, on_event, h, on_data, h));
        if (rc == ZOK) {
            await_count(h, &h->deletions, 1);
        } else if (rc != ZNONODE) {
            die("raw: get with a watch: %s", zerror(rc));
        }
        await_answers(h, 1, "list", zoo_aget_children2(h->zk, h->dir, 0, on_list, h));
    }
    return true;
}

static void raw_release(void *contender)
{
    struct handle *h = contender;
    await_answers(h, 1, "delete", zoo_adelete(h->zk, h->node, -1, on_void, h));
}

static struct handle *open_session(const char *servers, const char *dir)
{
    struct handle *h = allocate(1, sizeof *h);
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    pthread_mutex_init(&h->mutex, NULL);
    pthread_cond_init(&h->changed, NULL);
    snprintf(h->dir, sizeof h->dir, "%s", dir);
    h->zk = zookeeper_init2(servers, on_event, 10000, NULL, h, ZOO_NO_LOG_CLIENTENV, NULL);
    if (!h->zk) {
        die("raw: %s: no handle", servers);
    }
    zoo_set_servers_resolution_delay(h->zk, -1);
    await_count(h, &h->connects, 1);
    return h;
}

static void *raw_open(const struct job *job, int number)
{
    struct handle *h = open_session(job->servers, job->path);
    (void)number;
    int rc = await_code(
        h, 1, zoo_acreate2(h->zk, h->dir, NULL, -1, &ZOO_OPEN_ACL_UNSAFE, 0, on_created, h));
    if (rc != ZOK && rc != ZNODEEXISTS) {
        die("raw: create %s: %s", h->dir, zerror(rc));
    }
    return h;
}

static void raw_close(void *contender)
{
    struct handle *h = contender;
    zookeeper_close(h->zk);
    free(h);
}

static void run_read(const struct job *job, void **contenders)
{
    struct handle *h = contenders[0];
    for (int64_t end = now_ns() + job->ms * 1000000; now_ns() < end;) {
        pause_us(job->hold_us);
        struct section s = {.asked = now_ns()};
        await_answers(h, 1, "get", zoo_aget(h->zk, h->dir, 0, on_data, h));
        s.granted = s.released = s.done = now_ns();
        print_section(0, &s);
    }
}

/* b watches what a made; a deletes it; when does b hear of it? */
static void run_event(const struct job *job, void **contenders)
{
    int64_t end = now_ns() + job->ms * 1000000;
    for (int round = 0; now_ns() < end; round++) {
        struct handle *a = contenders[round % 2], *b = contenders[(round + 1) % 2];
        struct section s = {0};
        raw_acquire(a);
        b->deletions = 0;
        await_answers(b, 1, "get with a watch", zoo_awget(b->zk, a->node, on_event, b, on_data, b));
        pause_us(job->hold_us);
        s.asked = now_ns();
        raw_release(a);
        s.released = s.done = now_ns();
        await_count(b, &b->deletions, 1);
        s.granted = b->event_ns;
        print_section(0, &s);
    }
}

static void run_idle(const struct job *job, void **contenders)
{
    (void)contenders;
    pause_us(job->ms * 1000);
}

static int run_command(char **argv)
{
    int status = 0;
    struct handle *h = open_session(argv[1], argv[2]);
    raw_acquire(h);
    pid_t pid = fork();
    if (pid == 0) {
        execvp(argv[3], argv + 3);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        die("raw: no process");
    }
    raw_close(h);
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
}

const struct driver driver = {
    .open = raw_open,
    .acquire = raw_acquire,
    .release = raw_release,
    .close = raw_close,
    .own = (const struct own_job[]){{"read", run_read, false},
                                    {"event", run_event, false},
                                    {"idle", run_idle, false},
                                    {NULL, NULL, false}},
    .command = run_command,
};
