/* contend PATH ROUNDS SCENE [RECIPE]: takes and gives back the lock (latch: leadership; semaphore: the one permit) at PATH so many times, as
 * this library's contender. The scene is a file that exists while somebody is inside; its words are the same in contend.py and
 * Contend.java (see run.sh). */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zklock/zklock.h>

static int die(const char *what, const zkl_error *err)
{
    fprintf(stderr, "zklock %d: %s: %s\n", (int)getpid(), what, err ? err->text : strerror(errno));
    return 1;
}

/* 0: alone inside. A scene whose owner was killed is cleared away: its znode is gone, or we would not be here. */
static int enter(const char *scene)
{
    char line[32] = "";
    for (;;) {
        int fd = open(scene, O_CREAT | O_EXCL | O_WRONLY, 0600);
        if (fd >= 0) {
            int length = snprintf(line, sizeof line, "%d", (int)getpid());
            int bad = write(fd, line, (size_t)length) != length;
            close(fd);
            return bad;
        }
        fd = open(scene, O_RDONLY);
        if (fd < 0) {
            return 1; /* it was there, and is gone: somebody is inside, or was until now */
        }
        ssize_t length = read(fd, line, sizeof line - 1);
        close(fd);
        line[length > 0 ? length : 0] = '\0';
        if (atoi(line) <= 0 || kill(atoi(line), 0) == 0 || errno != ESRCH) {
            return 1;
        }
        unlink(scene);
    }
}

/* The recipe under test: the pointers that are not NULL. */
static zkl_lock *lock;
static zkl_election *election;
static zkl_semaphore *semaphore;

static int make(zkl_session *session, const char *path, const char *recipe, zkl_error *err)
{
    if (strcmp(recipe, "latch") == 0) {
        return zkl_election_new(&election, session, path, NULL, err);
    }
    if (strcmp(recipe, "semaphore") == 0) {
        return zkl_semaphore_new(&semaphore, session, path, 1, NULL, err);
    }
    return zkl_lock_new(&lock, session, path, NULL, err);
}

static int take(zkl_error *err)
{
    return election    ? zkl_election_campaign(election, 60000, NULL, err)
           : semaphore ? zkl_semaphore_acquire(semaphore, 1, 60000, NULL, err)
                       : zkl_lock_acquire(lock, 60000, NULL, err);
}

static int give(zkl_error *err)
{
    return election    ? zkl_election_resign(election, err)
           : semaphore ? zkl_semaphore_release(semaphore, 0, err)
                       : zkl_lock_release(lock, err);
}

int main(int argc, char **argv)
{
    zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
    zkl_session *session;
    zkl_error err = {0};
    if (argc < 4 || !getenv("ZKLOCK_SERVERS")) {
        return die("usage: ZKLOCK_SERVERS=... contend PATH ROUNDS SCENE [RECIPE]", NULL);
    }
    options.session_timeout_ms = 5000;
    if (zkl_session_open(&session, getenv("ZKLOCK_SERVERS"), &options, &err) != ZKL_OK ||
        make(session, argv[1], argc > 4 ? argv[4] : "lock", &err) != ZKL_OK) {
        return die("open", &err);
    }
    for (int round = atoi(argv[2]); round > 0; round--) {
        if (take(&err) != ZKL_OK) {
            return die("acquire", &err);
        }
        if (enter(argv[3]) != 0) {
            printf("OVERLAP zklock %d\n", (int)getpid());
        }
        unlink(argv[3]);
        printf("round zklock\n");
        fflush(stdout);
        if (give(&err) != ZKL_OK) {
            return die("release", &err);
        }
    }
    zkl_lock_free(lock);
    zkl_election_free(election);
    zkl_semaphore_free(semaphore);
    return zkl_session_close(session, 10000) == ZKL_OK ? 0 : die("close", NULL);
}
