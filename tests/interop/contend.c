/* contend PATH ROUNDS SCENE RECIPE: takes and gives back, so many times, what RECIPE says is at PATH, as this library's contender: lock, rw
 * (writes, reads, and becomes a reader while it writes, in turn), latch (leads), semaphore (of one permit). The same in contend.py,
 * contend.go and Contend.java; see run.sh.
 *
 * The scene is a directory. Whoever is inside has a file there, MODE.KIND.PID, with mode w (alone) or r (with other readers); it makes
 * that file first and looks for others then, so of two who overlap one sees it at the least. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
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

/* --- the scene ----------------------------------------------------------------------------------------------------- */

/* Looks at the others inside: true when one of another kind is. A file whose owner was killed is none: its znode is gone, or we would not be
 * here. */
static bool look(const char *scene, char mode)
{
    char their_mode, kind[16];
    int pid;
    bool company = false;
    DIR *directory = opendir(scene);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        if (sscanf(entry->d_name, "%c.%15[a-z].%d", &their_mode, kind, &pid) != 3 || pid == getpid()) {
            continue;
        }
        if (kill(pid, 0) != 0) {
            unlinkat(dirfd(directory), entry->d_name, 0);
            continue;
        }
        if (mode == 'w' || their_mode == 'w') {
            printf("OVERLAP %c." KIND ".%d with %s\n", mode, (int)getpid(), entry->d_name);
        }
        company = company || strcmp(kind, KIND) != 0;
    }
    closedir(directory);
    return company;
}

/* A reader stays until it has seen one of another kind, 20 ms at most; the first time, which is what is to be shown, 300 ms. */
static void visit(const char *scene, char mode)
{
    static bool met;
    char name[4096];
    snprintf(name, sizeof name, "%s/%c." KIND ".%d", scene, mode, (int)getpid());
    close(open(name, O_CREAT | O_WRONLY, 0600));
    bool company = look(scene, mode);
    for (int i = 0; mode == 'r' && !company && i < (met ? 20 : 300); i++) {
        nanosleep(&(struct timespec){0, 1000000}, NULL);
        company = look(scene, mode);
    }
    if (mode == 'r' && company) {
        printf("together\n");
        met = true;
    }
    unlink(name);
}

/* --- the recipe ------------------------------------------------------------------------------------------------------ */

static zkl_lock *lock;   /* of the recipe; of a read/write lock the writer: */
static zkl_lock *reader; /* NULL: no read/write lock */

static int make(zkl_session *session, const char *path, const char *recipe, zkl_error *err)
{
    if (strcmp(recipe, "latch") == 0) {
        return zkl_election_new(&lock, session, path, NULL, err);
    }
    if (strcmp(recipe, "semaphore") == 0) {
        return zkl_semaphore_new(&lock, session, path, 1, NULL, err);
    }
    if (strcmp(recipe, "rw") == 0) {
        int code = zkl_read_lock_new(&reader, session, path, NULL, err);
        return code == ZKL_OK ? zkl_write_lock_new(&lock, session, path, NULL, err) : code;
    }
    zkl_lock_options options = ZKL_LOCK_OPTIONS_INIT;
    options.linger_ms = getenv("ZKLOCK_LINGER_MS") ? atoi(getenv("ZKLOCK_LINGER_MS")) : 0;
    return zkl_lock_new(&lock, session, path, &options, err);
}

enum { WRITE, READ, DOWNGRADE, WAYS };

static void play(int way, const char *scene)
{
    zkl_error err = {0};
    zkl_lock *taken = way == READ ? reader : lock;
    ask(zkl_lock_acquire(taken, 60000, NULL, &err), "acquire", &err);
    visit(scene, way == READ ? 'r' : 'w');
    if (way == DOWNGRADE) {
        ask(zkl_write_lock_downgrade(lock, &err), "downgrade", &err);
        visit(scene, 'r');
    }
    printf("round " KIND "\n");
    fflush(stdout);
    ask(zkl_lock_release(taken, &err), "release", &err);
}

int main(int argc, char **argv)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    zkl_session *session;
    zkl_error err = {0};
    if (argc != 5 || !getenv("ZKLOCK_SERVERS")) {
        fprintf(stderr, "usage: ZKLOCK_SERVERS=... contend PATH ROUNDS SCENE RECIPE\n");
        return 2;
    }
    options.session_timeout_ms = 15000; /* others.sh says why */
    ask(zkl_session_open(&session, getenv("ZKLOCK_SERVERS"), &options, &err), "open", &err);
    ask(make(session, argv[1], argv[4], &err), "make", &err);
    for (int round = 0; round < atoi(argv[2]); round++) {
        play(reader ? round % WAYS : WRITE, argv[3]);
    }
    zkl_lock_free(lock);
    zkl_lock_free(reader);
    return zkl_session_close(session, 10000) == ZKL_OK ? 0 : 1;
}
