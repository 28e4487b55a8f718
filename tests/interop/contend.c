/* contend PATH ROUNDS RECIPE: takes and gives back, so many times, what RECIPE says is at PATH, as this library's contender: lock, rw
 * (writes, reads, and becomes a reader while it writes, in turn), latch (leads), semaphore (of one permit). The same in contend.py,
 * contend.go and Contend.java; see run.sh.
 *
 * It begins when its standard input ends, and prints when it was inside: TIME in|out MODE KIND PID, with the time in ns, and mode w (alone)
 * or r (with other readers). run.sh compares those of all contenders. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <zklock/zklock.h>

#define KIND "zklock"

static void ask(int code, const char *what, const zkl_error *err)
{
    if (code != ZKL_OK) {
        fprintf(stderr, KIND " %d: %s: %s\n", (int)getpid(), what, err->text);
        exit(1);
    }
}

static void print_time(const char *event, char mode)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    printf("%lld%09ld %s %c " KIND " %d\n", (long long)now.tv_sec, now.tv_nsec, event, mode, (int)getpid());
}

/* Whoever writes stays for 1 ms, so that an overlap shows; a reader for 20 ms, so that others join it. */
static void visit(char mode)
{
    print_time("in", mode);
    nanosleep(&(struct timespec){0, mode == 'w' ? 1000000 : 20000000}, NULL);
    print_time("out", mode);
}

/* --- the recipe ------------------------------------------------------------------------------------------------------ */

static zkl_lock *lock;   /* of the recipe; of a read/write lock the writer: */
static zkl_lock *reader; /* NULL: no read/write lock */

static int make(zkl_session *session, const char *path, const char *recipe, zkl_error *err)
{
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.release_timeout_ms = 60000;
    if (strcmp(recipe, "latch") == 0) {
        return zkl_election_new(&lock, session, path, &options, err);
    }
    if (strcmp(recipe, "semaphore") == 0) {
        return zkl_semaphore_new(&lock, session, path, 1, &options, err);
    }
    if (strcmp(recipe, "rw") == 0) {
        int code = zkl_read_lock_new(&reader, session, path, &options, err);
        return code == ZKL_OK ? zkl_write_lock_new(&lock, session, path, &options, err) : code;
    }
    options.linger_ms = getenv("ZKLOCK_LINGER_MS") ? atoi(getenv("ZKLOCK_LINGER_MS")) : 0;
    return zkl_lock_new(&lock, session, path, &options, err);
}

enum { WRITE, READ, DOWNGRADE, WAYS };

static void play(int way)
{
    zkl_error err = {0};
    zkl_lock *taken = way == READ ? reader : lock;
    ask(zkl_lock_acquire(taken, 60000, NULL, &err), "acquire", &err);
    visit(way == READ ? 'r' : 'w');
    if (way == DOWNGRADE) {
        ask(zkl_write_lock_downgrade(lock, &err), "downgrade", &err);
        visit('r');
    }
    printf("round " KIND "\n");
    ask(zkl_lock_release(taken, &err), "release", &err);
}

int main(int argc, char **argv)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    zkl_session *session;
    zkl_error err = {0};
    options.session_timeout_ms = 15000; /* others.sh says why */
    setlinebuf(stdout);
    ask(zkl_session_open(&session, getenv("ZKLOCK_SERVERS"), &options, &err), "open", &err);
    ask(make(session, argv[1], argv[3], &err), "make", &err);
    puts("ready");
    getchar();
    for (int round = 0; round < atoi(argv[2]); round++) {
        play(reader ? round % WAYS : WRITE);
    }
    zkl_lock_free(lock);
    zkl_lock_free(reader);
    return zkl_session_close(session, 10000) == ZKL_OK ? 0 : 1;
}
