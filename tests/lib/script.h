/* script.h - the session step with a hand-made world: the test owns time, memory, the store and the other contenders.
 *
 * The world is a tree of the in-process store and our one session with it, to which nobody but the test delivers. What the core
 * submits waits in a line until the test answers it, in order, as store.h promises; a test may answer an operation truthfully
 * (script_answer), refuse it (script_answer_with), let it be done and its reply be lost (script_suspend with done > 0), or refuse to
 * take it at all (refuse_*). After every step the script checks what must always hold: the core asks for no time that has passed, and
 * no completion comes twice. */
#ifndef ZKL_TESTS_SCRIPT_H
#define ZKL_TESTS_SCRIPT_H

#include "check.h"
#include "core_internal.h"
#include "memory_store.h"
#include "core_facts.h"
#include "test_heap.h"

#define MS INT64_C(1000000)
#define SCRIPT_OPS 512
#define SCRIPT_PATH 400
#define SCRIPT_STRANGER 77 /* session id of everybody else's nodes */
#define SCRIPT_BLOCKER "/q/_c_11111111-1111-4111-8111-111111111111-lock-0000000000"

/* Submitted, and not done. */
struct script_op {
    uint64_t id;
    struct zkl__op *op; /* a copy */
};

/* Whoever listens to a contender, and what it heard. */
struct script_owner {
    union {
        struct zkl__machine *machine; /* NULL after the last word */
        struct zkl__contender *contender;
        struct zkl__multi *joint;
    };
    int granted, failed, jeopardy, safe, lost, released, revoked, downgraded, not_downgraded;
    bool unclean;
    int code, zk_code; /* of FAILED or RELEASED */
    int64_t token, serial;
    const char *why;
};

struct script {
    struct test_heap heap;
    struct zkl__core *core;
    int64_t now;
    int64_t timeout;
    int64_t connecting; /* so long does the next connect take */
    int warnings;       /* that the port was told, the last one: */
    char warned[SCRIPT_PATH + 512];
    zkl_connection_state state; /* as the port was told */

    struct script_op ops[SCRIPT_OPS];
    int op_count;
    int submits;

    /* submits of this kind are refused: so many, behind so many that are taken */
    enum zkl__op_kind refuse_kind; /* ZKL__OP_NONE: of any kind */
    int refuse_code, refuse_skip, refuse_count;

    struct zkl__memory_space space; /* a node's `own`: its delete is not permitted */
    struct zkl__store store;        /* ours: what it has to deliver waits in its queue */
    char line[4096];                /* for script_ops */
};

/* There is one world at a time, and these contend in it. */
extern struct script script;
extern struct script_owner me, you, third;

/* A core with a heap of its own, not connected; the world has the directory /q. */
void script_init(void);
/* Frees the core and checks that no byte is left. */
void script_deinit(void);
/* Init; connected, with nothing under way. */
void script_begin(void);
/* Begin, with a stranger's znode in /q: SCRIPT_BLOCKER. */
void script_begin_blocked(void);
/* Begin; the session's lease runs out, and then the contender waits for nothing but a new one: it is "proving". */
void script_begin_proving(struct script_owner *owner);
/* A TEST in a world that has begun, until it is finished. */
#define TEST_IN_SCRIPT(name) TEST_BETWEEN(script_begin(), name, script_finish())
/* The session is closed, and everything that can be answered is: nothing of ours may be left then, and deinit. */
void script_finish(void);
/* Finish; the contender has failed with this code. */
void script_finish_failed(const struct script_owner *owner, int code);
/* Init; not connected, and the core finds out about observers as it is told. */
void script_init_masters(enum zkl__observer_masters masters);
/* As init, but the heap fails as test_heap_fail says; false when there was no core for it. */
bool script_init_failing(long nth, bool on);

/* --- the session --------------------------------------------------------------------------------------------------- */

void script_connect(void); /* a new session after an end, else the old one again */
/* The connection goes: the first `done` of what is under way is carried out, its answers are lost. */
void script_suspend(int done);
void script_reconnect(int done); /* suspended and connected again */
void script_expire(void);        /* and no more */
void script_end(int code);       /* ZKL_ELOST, ZKL_EAUTH */
void script_close(void);
void script_step(struct zkl__event event);
/* Lets time go by, with a step whenever the core asked for one. Nothing is answered. */
void script_wait(int64_t duration);
void script_run(int64_t duration); /* the same, and everything is answered at once */

/* --- contenders ---------------------------------------------------------------------------------------------------- */

extern const struct zkl__rule script_writer, script_reader;

/* What is left out, of a NULL everything: in /q, with the mutex rule. */
#define CONTENDER_CONFIG(...) (&(const struct zkl__contender_config){__VA_ARGS__})
bool script_contend(struct script_owner *owner, const struct zkl__contender_config *config);
/* The same in two queues at once. */
bool script_contend_jointly(struct script_owner *owner, const char *const *paths, size_t count);
/* Makes one and starts it: no deadline, waits. */
void script_enter(struct script_owner *owner, const struct zkl__contender_config *config);
void script_acquire(struct script_owner *owner); /* in /q, a mutex */
void script_start(struct script_owner *owner, int64_t deadline, bool try_only);
void script_cancel(struct script_owner *owner);
void script_release(struct script_owner *owner);
/* Connects, acquires, answers everything: held. */
void script_hold(struct script_owner *owner);
const char *script_state(const struct script_owner *owner); /* "told" after the last word */

/* --- the store ----------------------------------------------------------------------------------------------------- */

/* "create list": what was submitted and not answered, oldest first; "multi(check,set)". It holds until the next call. */
const char *script_ops(void);
/* These are under way, and no other; the contender is in this state. */
#define OPS(text) script_expect(__FILE__, __LINE__, script_ops(), text)
#define STATE(owner, text) script_expect(__FILE__, __LINE__, script_state(owner), text)
void script_expect(const char *file, int line, const char *is, const char *should);
/* How many operations of this kind are under way. */
int script_count(enum zkl__op_kind kind);
/* The oldest operation is done and its answer delivered; what it was. */
enum zkl__op_kind script_answer(void);
void script_answer_some(int count);
/* The same, refused by the server with rc. */
void script_answer_with(enum zkl__rc rc);
/* Until the oldest is of this kind. */
void script_answer_until(enum zkl__op_kind kind);
void script_answer_all(void); /* until nothing is under way */
/* All is answered, and that one is granted by then. */
void script_answer_granted(const struct script_owner *owner);
/* The oldest is done, and its answer says that it made a node of this name; NULL: of none. */
void script_answer_named(const char *name);
/* Done, but not delivered yet; and the delivery of the oldest. */
void script_do(void);
void script_deliver(void);

/* --- other people -------------------------------------------------------------------------------------------------- */

struct zkl__memory_node *script_find(const char *path);
/* Nobody may do that with it (ZKL_PERM_READ, ...), or nothing is forbidden (0). */
void script_forbid(struct zkl__memory_node *node, int perm);
/* The next child of /q that gets a number gets this one. */
void script_number_from(int32_t number);
/* How many watches of ours are set. */
int script_watches(void);
/* A node of somebody else's. owner 0: persistent. */
struct zkl__memory_node *script_put(const char *path, int64_t owner);
/* Gone, whoever it belonged to; its watch is told. */
void script_remove(const char *path);
void script_remove_node(const struct script_owner *owner); /* that this one has in /q */
void script_write(const char *path, const char *data);
/* Nodes of our present session. */
int script_ours(void);
/* Path of the only (or the last made) node of ours, "" when there is none. */
const char *script_our_path(void);

#endif
