/* queues.h - queues as ls, check and watch show them. */
#ifndef CLI_QUEUES_H
#define CLI_QUEUES_H

#include <jansson.h>
#include <stdio.h>
#include <zklock/zklock.h>

#define QUEUES_VERSION 1 /* of the JSON */
#define QUEUES_LIST_MS 10000

/* Lists a queue; CLI_GO_ON, or the exit code after it was said why not. Free with zkl_queue_free. */
int queues_list(zkl_queue **queue, zkl_session *session, const char *path);
/* Nobody stands at the path itself, and it has folders: whoever holds a semaphore stands in "leases", who waits in "locks". */
bool queues_is_semaphore(const zkl_queue *queue);
/* PATH/NAME, malloced; NULL without memory. */
char *queues_below(const char *path, const char *name);
/* Says why a question to the servers failed; returns the exit code. */
int queues_complain(const char *what, int result, const zkl_error *error);
/* "00:02:13". */
void queues_age(int64_t age_ms, char *text, size_t size);
/* One object: {"v":1,"path":...,"contenders":[...],"foreign":0}. NULL without memory. */
json_t *queues_json(const char *path, const zkl_queue *queue);
/* A table for people, one line per contender below the path. */
void queues_print(FILE *out, const char *path, const zkl_queue *queue);
/* Prints an object on a line of its own, and drops it. False when it could not be written. */
bool queues_print_json(json_t *object);

#endif
