/* queues.h - queues as ls, check and watch show them. */
#ifndef CLI_QUEUES_H
#define CLI_QUEUES_H

#include <jansson.h>

#include "cli.h"

/* Calls act with the path of LOCK and a session. Returns what it does, or another exit code after
 * it was said why. */
int queues_act(const char *lock, int (*act)(const char *path));
/* Makes paths of LOCKs, in place. False after it was said why not. */
bool queues_paths(const char **locks);
/* Lists a queue; CLI_GO_ON, or the exit code after it was said why not. Free with zkl_queue_free.
 */
int queues_list(zkl_queue **queue, const char *path);
/* The same of those who may hold: of a semaphore its permits. at: path of what was listed. */
int queues_list_holders(zkl_queue **queue, const char *path, char *at, size_t at_size);
/* Told of a queue; CLI_GO_ON, or the exit code to end with. */
typedef int (*queues_visit_fn)(const char *path, const zkl_queue *queue);
/* Visits the queue at path; where nobody stands there but znodes do, the queues in use below it: a
 * semaphore's permits and waiters, the locks of a directory. One that fails stops none of the
 * others. CLI_GO_ON, or the first failure's exit code after it was said. */
int queues_visit(const char *path, queues_visit_fn visit);
/* Told of a path that could not be listed; CLI_GO_ON, or the exit code to end with. */
typedef int (*queues_fail_fn)(const char *path, int result);
/* Says it. */
int queues_say_failure(const char *path, int result);
/* Told of a queue's znodes that are no contenders and lead to no queue in use. */
typedef void (*queues_strays_fn)(const char *path, const char *const *names, size_t count);
/* Visits all queues in use at and below /locks, as queues_visit does. strays: may be NULL. *count:
 * how many there are, with the paths that could not be listed. */
int queues_visit_all(queues_visit_fn visit, queues_fail_fn fail, queues_strays_fn strays,
                     size_t *count);
/* Index of the first that holds; the queue's count when nobody does. */
size_t queues_holder(const zkl_queue *queue);
/* Says why a question to the servers failed, and returns the exit code; CLI_GO_ON if it did not. */
int queues_outcome(const char *what, int result);
/* "00:02:13". */
struct cli_text queues_age(int64_t age_ms);
/* "2026-02-03T04:05:06Z" of ms since 1970. */
struct cli_text queues_utc(int64_t time_ms);
/* Who it is, printable: what its znode says, else the znode's name. */
struct cli_text queues_who(const zkl_queue_entry *entry);
/* NULL, which is null in JSON, where it is not known. */
json_t *queues_number(bool known, int64_t value);
/* One contender. NULL without memory. */
json_t *queues_entry_json(const zkl_queue *queue, const zkl_queue_entry *entry);
/* One object: {"path":...,"contenders":[...],"foreign":0}. NULL without memory. */
json_t *queues_json(const char *path, const zkl_queue *queue);
/* A table for people, one line per contender below the path. */
void queues_print(FILE *out, const char *path, const zkl_queue *queue);
/* An object of ours as text, with the version of our JSON before all else; malloced. NULL without
 * memory. Drops the object. */
char *queues_json_text(json_t *object);
/* Prints that on a line of its own. False when it could not be written. */
bool queues_print_json(json_t *object);
/* "0x10000ba885e002a", as ZooKeeper writes a session in its logs. */
struct cli_text queues_session(const zkl_queue_entry *entry);
/* Age of what the servers dated so, by our clock: two clocks that differ make ages that differ. */
int64_t queues_age_ms(int64_t time_ms);

#endif
