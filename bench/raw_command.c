/* raw_command SERVERS DIR CMD [ARG...]: the floor of `zklock run`, as one process. A session, a
 * create and a list sent together, the command, the close of the session, which deletes the znode:
 * libzookeeper_mt called directly, with nothing that makes a lock of it. The directory must be
 * there. The first thing that goes wrong ends the program. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <zookeeper/zookeeper.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool connected;
static int answers; /* that came */

static void require(bool fine, const char *what)
{
    if (!fine) {
        fprintf(stderr, "raw_command: %s\n", what);
        exit(EXIT_FAILURE);
    }
}

static void answered(int rc)
{
    require(rc == ZOK, zerror(rc));
    pthread_mutex_lock(&mutex);
    answers++;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&mutex);
}

static void on_created(int rc, const char *path, const struct Stat *stat, const void *data)
{
    (void)path;
    (void)stat;
    (void)data;
    answered(rc);
}

static void on_list(int rc, const struct String_vector *names, const struct Stat *stat,
                    const void *data)
{
    (void)names;
    (void)stat;
    (void)data;
    answered(rc);
}

static void on_event(zhandle_t *zk, int type, int state, const char *path, void *data)
{
    (void)zk;
    (void)type;
    (void)path;
    (void)data;
    pthread_mutex_lock(&mutex);
    connected = state == ZOO_CONNECTED_STATE;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&mutex);
}

static int run(char **words)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        execvp(words[0], words);
        _exit(127);
    }
    require(pid > 0 && waitpid(pid, &status, 0) == pid, "no process");
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    char node[1024];
    require(argc > 3, "usage: raw_command SERVERS DIR CMD [ARG...]");
    snprintf(node, sizeof node, "%s/_c_00000000-0000-0000-0000-000000000000-lock-", argv[2]);
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    zhandle_t *zk =
        zookeeper_init2(argv[1], on_event, 10000, NULL, NULL, ZOO_NO_LOG_CLIENTENV, NULL);
    require(zk, "no handle");
    zoo_set_servers_resolution_delay(zk, -1);
    pthread_mutex_lock(&mutex);
    while (!connected) {
        pthread_cond_wait(&changed, &mutex);
    }
    pthread_mutex_unlock(&mutex);
    require(zoo_acreate2(zk, node, "bench", 5, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL | ZOO_SEQUENCE,
                         on_created, NULL) == ZOK &&
                zoo_aget_children2(zk, argv[2], 0, on_list, NULL) == ZOK,
            "nothing can be sent");
    pthread_mutex_lock(&mutex);
    while (answers < 2) {
        pthread_cond_wait(&changed, &mutex);
    }
    pthread_mutex_unlock(&mutex);
    int code = run(argv + 3);
    zookeeper_close(zk);
    return code;
}
