/* lock_kit.h - what tests of locks share: sessions with the in-process store, acquires on threads of their own, mailboxes
 * that callbacks write to, and waiting for a thing until it is so. */
#ifndef ZKL_TESTS_LOCK_KIT_H
#define ZKL_TESTS_LOCK_KIT_H

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include <zklock/testing.h>

#include "check.h"
#include "handle_kit.h"
#include "memory.h"

#define PLACE "memory:kit"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOWLY 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SLOWLY 1
#endif
#endif
#ifndef SLOWLY
#define SLOWLY 0
#endif

int64_t now_ms(void);
bool look_again(int64_t end_ms); /* some milliseconds later; false when there is to be no other look */
/* True as soon as the condition is, false after twenty seconds. */
#define EVENTUALLY(condition)                              \
    __extension__({                                        \
        int64_t end_ = now_ms() + 20000;                   \
        bool so_;                                          \
        while (!(so_ = (condition)) && look_again(end_)) { \
        }                                                  \
        so_;                                               \
    })

/* A session at PLACE; options NULL: defaults. Ends the test when it cannot be opened. */
zkl_session *kit_open(const zkl_session_options *options);
/* A short session timeout, for leases that are to end within a test: 2000 ms, tick 100, pause 20. */
zkl_session_options kit_short(void);
/* The same, and a lease that lasts so long that a machine which stands still sees it, and its end within a test: 8000 ms. */
zkl_session_options kit_ends_soon(void);
/* Callbacks wait until they are dispatched. */
zkl_session_options kit_dispatched(void);
/* The defaults, but for these: SESSION_OPTIONS(.tick_ms = 100). What stands last counts. */
#pragma GCC diagnostic ignored "-Woverride-init"
#define SESSION_OPTIONS(...)                                           \
    (&(const zkl_session_options){.size = sizeof(zkl_session_options), \
                                  .session_timeout_ms = 10000,         \
                                  .tick_ms = 2000,                     \
                                  .leader_pause_ms = 500,              \
                                  .connect_timeout_ms = 10000,         \
                                  .log_level = ZKL_LOG_INFO,           \
                                  __VA_ARGS__})
/* The same of a lock: LOCK_OPTIONS(.recover = true). */
#define LOCK_OPTIONS(...) \
    (&(const zkl_lock_options){.size = sizeof(zkl_lock_options), .release_timeout_ms = 1000, __VA_ARGS__})
/* Locks, until kit_free or kit_tear_down. */
zkl_lock *kit_make(zkl_recipe recipe, zkl_session *session, const char *path, const zkl_lock_options *options);
zkl_lock *kit_lock(zkl_session *session, const char *path, const zkl_lock_options *options);
zkl_lock *kit_hold(zkl_session *session, const char *path, const zkl_lock_options *options); /* and acquired */
/* Nobody is in the way: it is granted, and given back. Macros, for the line of a failure. */
#define kit_acquire(lock) ASSERT_OK_FATAL(zkl_lock_acquire(lock, 20000, NULL, NULL))
/* Without waiting: its end goes to acquired_fn, with payload. */
#define kit_acquire_async(lock, acquired_fn, payload) \
    ASSERT_OK(zkl_lock_acquire_async(lock, ZKL_WAIT_FOREVER, acquired_fn, payload, NULL))
#define kit_await_state(lock, state) ASSERT_EVENTUALLY(zkl_lock_state(lock) == (state))
#define kit_await_session(session, state) ASSERT_EVENTUALLY(zkl_session_state(session) == (state))
/* Acquires and releases: was the grant unclean? */
bool kit_unclean(zkl_lock *lock);
/* False as soon as it is not held, true after so long. */
bool kit_held_for(const zkl_lock *lock, int64_t ms);
/* False as soon as it is not held; true as soon as its lease ends so much later than it did at the call. However slow the machine is. */
bool kit_renewed(const zkl_lock *lock, int64_t ms);
/* How many contenders stand at path. */
size_t kit_queue(zkl_session *session, const char *path);
#define kit_await_queue(session, path, count) ASSERT_EVENTUALLY(kit_queue(session, path) == (count))
/* How many members the group at path has. */
size_t kit_group(zkl_session *session, const char *path);
/* How many children of any kind stand at path. */
size_t kit_children(zkl_session *session, const char *path);
/* How many requests it has sent until now. */
#define kit_requests(session) kit_stats(session).requests
/* Whether the descriptor of a session that is dispatched says so within that time. */
bool kit_readable(zkl_session *session, int timeout_ms);
/* What the server does to its session. */
#define kit_suspend(session) ASSERT_OK(zkl__memory_suspend(zkl_session_id(session)))
#define kit_resume(session) ASSERT_OK(zkl__memory_resume(zkl_session_id(session)))
#define kit_expire(session) ASSERT_OK(zkl__memory_expire(zkl_session_id(session)))
/* Its connection goes behind so many requests: whole, half, lost, as zkl__memory_break takes them. */
#define kit_break(session, ...) ASSERT_OK(zkl__memory_break(zkl_session_id(session), __VA_ARGS__))
/* Its responses wait, until they do no more. */
#define kit_delay(session, on) ASSERT_OK(zkl_testing_delay(session, on, NULL))
/* The two sessions that most tests want, opened and closed together. */
extern zkl_session *one, *two;
void kit_set_up(const zkl_session_options *options); /* of both */
void kit_set_up_with(zkl_session_options options);
/* Frees the locks that nobody has freed, and closes both. */
void kit_tear_down(void);
/* A TEST in which both are open; options: NULL, or a function that gives theirs. */
#define TEST_WITH_SESSIONS(name) TEST_BETWEEN(kit_set_up(NULL), name, kit_tear_down())
#define TEST_WITH_SESSIONS_OF(options, name) TEST_BETWEEN(kit_set_up_with(options()), name, kit_tear_down())
/* As what the kit makes. Returns it. */
zkl_lock *kit_keep(zkl_lock *lock);
void kit_free(zkl_lock *lock);
/* Somebody else writes to the store; name and data may be NULL. What is created is persistent. */
enum zkl__rc kit_write(enum zkl__op_kind kind, const char *dir, const char *name, const char *data);
/* A child whose path is longer than that of any request: nobody can ask about it. */
void kit_create_longest(const char *dir);
#define kit_must_write(kind, ...) CU_ASSERT_EQUAL(kit_write(kind, __VA_ARGS__), ZKL__RC_OK)
/* Creates, with that access list. */
void kit_create(const char *dir, const char *name, const char *data, const zkl_acl *acl);
/* The child of path that this lock has is deleted by a stranger. */
void kit_remove_node(const zkl_lock *lock);
/* The first contender at path is deleted by an operator in session two. */
void kit_remove_first(const char *path);

/* How many entries a folder of /proc has. */
size_t kit_entries(const char *folder);
/* The child ended, with 0. */
void kit_await(pid_t child);
/* How many sessions have entered themselves in it. */
int kit_slots_taken(const zkl_stop *stop);
/* Listens at a free port of the loopback, which is written to servers. Returns the descriptor. */
int kit_listen(char *servers, size_t size);

/* A macro, for the line of a failure. */
#define kit_start_thread(thread, run, arg) CU_ASSERT_EQUAL_FATAL(pthread_create(thread, NULL, run, arg), 0)
/* An acquire on a thread of its own. */
struct acquire {
    pthread_t thread;
    zkl_lock *lock;
    int64_t timeout_ms;
    int code;
    zkl_grant grant;
    zkl_error err;
};
void acquire_start(struct acquire *acquire, zkl_lock *lock, int64_t timeout_ms);
int acquire_join(struct acquire *acquire); /* its code */

/* What callbacks leave for the test. */
struct letter {
    const void *from; /* lock or session */
    int code;         /* a code, or a state */
    zkl_grant grant;
    bool granted;
    pthread_t thread;
    char text[ZKL_ERROR_TEXT_MAX];
};
struct mailbox {
    pthread_mutex_t mutex;
    size_t count;
    struct letter letters[256];
};
#define MAILBOX_INIT                        \
    {                                       \
        .mutex = PTHREAD_MUTEX_INITIALIZER, \
    }
void mailbox_put(struct mailbox *box, struct letter letter);
void mailbox_clear(struct mailbox *box);
size_t mailbox_count(struct mailbox *box);
int mailbox_last(struct mailbox *box);                /* code of the last letter; -1000: there is none */
bool mailbox_wait(struct mailbox *box, size_t count); /* until there are as many; false if that is never so */
#define kit_await_letters(box, count) CU_ASSERT_TRUE(mailbox_wait(box, count))
int mailbox_code(struct mailbox *box,
                 size_t nth); /* of the letter of that number (from 1), for which it waits as long; or -1000 */
/* payload: a mailbox */
void on_acquired(zkl_lock *lock, int code, const zkl_grant *grant, const zkl_error *err, void *payload);
void on_lock_state(zkl_lock *lock, zkl_state state, void *payload);
void on_revoke(zkl_lock *lock, void *payload);
/* Options of a lock whose states, or the requests to give it up, go to a mailbox. */
#define STATES_TO(box) LOCK_OPTIONS(.state_fn = on_lock_state, .payload = box)
#define REVOKE_TO(box) LOCK_OPTIONS(.revoke_fn = on_revoke, .payload = box)
void ignore_assigned(zkl_partition *partition, const char *piece, int64_t token, void *payload);
void ignore_revoked(zkl_partition *partition, const char *piece, bool lost, void *payload);
/* A section. 1: the end of an election's run; and nothing is recorded. */
int run_nothing(const zkl_cancel *cancel, int64_t token, void *payload);
/* text: the leader's value, or the name of its znode where that may not be read; granted: somebody leads. */
void on_leader(zkl_election_observer *observer, const zkl_leader *leader, void *payload);
void on_session_state(zkl_session *session, zkl_connection_state state, void *payload);
void on_ended(int code, const zkl_error *err, void *payload); /* of any call that nobody waits for */

#endif
