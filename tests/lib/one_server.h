/* one_server.h - on_servers.h with one server, and sessions on it. */
#ifndef ZKL_TESTS_ONE_SERVER_H
#define ZKL_TESTS_ONE_SERVER_H

#include "contest.h"
#include "on_servers.h"
#include "proxy.h"

#define TICK 500      /* ms, of the server */
#define TIMEOUT 12000 /* ms, of sessions: a process that stands still for seconds keeps its locks */

extern struct recorder *eye;      /* on its queues */
extern struct recorder *intruder; /* somebody who is no client of ours */

zkl_session *open_one(void);
/* Contenders in sessions of their own. */
void queue_here(struct queue_of *queue, const char *path, int count);
/* A session whose connection and answers can be lost. */
zkl_session *open_behind(struct proxy **proxy);
void close_behind(zkl_session *session, struct proxy *proxy);

/* As TESTS of check.h; 77, "skipped", where there is no ZooKeeper. */
#define TESTS_ON_ONE_SERVER(suite_name)                 \
    int main(int argc, char **argv)                     \
    {                                                   \
        return one_server_main(suite_name, argc, argv); \
    }
int one_server_main(const char *suite_name, int argc, char **argv);

#endif
