#include "rival.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "contest.h"
#include "self.h"

#define FLAG "--rival"

/* --- the process ------------------------------------------------------------------------------------------------------- */

static void say(const char *word, int64_t value)
{
    char line[128];
    int size = snprintf(line, sizeof line, "%s %" PRId64 " %" PRId64 "\n", word, boot_ns(), value);
    if (write(1, line, (size_t)size) != size) {
        _exit(1); /* nobody listens any more */
    }
}

static void on_state(zkl_lock *lock, zkl_state state, void *payload)
{
    (void)lock;
    (void)payload;
    if (state == ZKL_STATE_LOST) {
        say("lost", 0);
    }
}

bool rival_is(int argc, char **argv)
{
    return argc == 6 && strcmp(argv[1], FLAG) == 0;
}

int rival_main(char **argv)
{
    zkl_session *session = contest_session(argv[2], atoll(argv[4]), atoll(argv[5]));
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.state_fn = on_state;
    zkl_lock *lock = contest_lock(session, argv[3], &options);
    struct waiter waiter;
    char byte;
    waiter_queue(&waiter, lock, ZKL_WAIT_FOREVER);
    say("queued", zkl_session_id(session));
    pthread_join(waiter.thread, NULL);
    if (waiter.code != ZKL_OK) {
        fprintf(stderr, "rival: %s\n", waiter.err.text);
        return 1;
    }
    say("granted", waiter.grant.token);
    while (read(0, &byte, 1) < 0) { /* until told, or nobody is there to tell us */
    }
    int code = zkl_lock_release(lock, NULL);
    say("released", code);
    zkl_lock_free(lock);
    return zkl_session_close(session, SOON) == ZKL_OK ? 0 : 1;
}

/* --- its owner --------------------------------------------------------------------------------------------------------- */

struct rival {
    pid_t pid;
    int in, out; /* what it reads, what it says */
    size_t size;
    char line[256];
};

static void become_rival(const struct rival_options *o, pid_t parent, const int in[2], const int out[2])
{
    char session[24], tick[24];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(1);
    }
    snprintf(session, sizeof session, "%" PRId64, o->session_timeout_ms);
    snprintf(tick, sizeof tick, "%" PRId64, o->tick_ms);
    dup2(in[0], 0);
    dup2(out[1], 1);
    syscall(SYS_close_range, 3, ~0U, 0);
    execl(self_path(), "rival", FLAG, o->servers, o->path, session, tick, (char *)NULL);
    _exit(127);
}

struct rival *rival_start(const struct rival_options *options)
{
    int in[2], out[2];
    pid_t parent = getpid();
    struct rival *rival = calloc(1, sizeof *rival);
    if (!rival || pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) {
        perror("rival");
        free(rival);
        return NULL;
    }
    rival->pid = fork();
    if (rival->pid == 0) {
        become_rival(options, parent, in, out);
    }
    close(in[0]);
    close(out[1]);
    rival->in = in[1];
    rival->out = out[0];
    return rival;
}

/* The next line, without its end; false: none in time. */
static bool next_line(struct rival *rival, char line[256], int64_t end_ms)
{
    for (;;) {
        char *newline = memchr(rival->line, '\n', rival->size);
        if (newline) {
            size_t length = (size_t)(newline - rival->line);
            memcpy(line, rival->line, length);
            line[length] = '\0';
            rival->size -= length + 1;
            memmove(rival->line, newline + 1, rival->size);
            return true;
        }
        struct pollfd fd = {.fd = rival->out, .events = POLLIN};
        int64_t left = end_ms - now_ms();
        if (poll(&fd, 1, left > 0 ? (int)left : 0) <= 0) {
            return false;
        }
        ssize_t got = read(rival->out, rival->line + rival->size, sizeof rival->line - rival->size);
        if (got <= 0) {
            return false;
        }
        rival->size += (size_t)got;
    }
}

bool rival_says(struct rival *rival, const char *word, struct rival_word *said, int64_t timeout_ms)
{
    char line[256], found[32];
    int64_t end = now_ms() + timeout_ms;
    while (next_line(rival, line, end)) {
        struct rival_word heard;
        if (sscanf(line, "%31s %" SCNd64 " %" SCNd64, found, &heard.at_ns, &heard.value) == 3 &&
            strcmp(found, word) == 0) {
            *said = heard;
            return true;
        }
    }
    fprintf(stderr, "rival %d does not say %s\n", (int)rival->pid, word);
    return false;
}

bool rival_silent(struct rival *rival)
{
    struct pollfd fd = {.fd = rival->out, .events = POLLIN};
    return rival->size == 0 && poll(&fd, 1, 0) == 0;
}

void rival_release(struct rival *rival)
{
    close(rival->in);
    rival->in = -1;
}

void rival_kill(struct rival *rival)
{
    if (rival->pid > 0) {
        kill(rival->pid, SIGKILL);
        waitpid(rival->pid, NULL, 0);
        rival->pid = 0;
    }
}

void rival_free(struct rival *rival)
{
    if (rival) {
        rival_kill(rival);
        if (rival->in >= 0) {
            close(rival->in);
        }
        close(rival->out);
        free(rival);
    }
}
