/* contender_step.h - the contender's step function, for session_step.c, which feeds it. */
#ifndef ZKL_CORE_CONTENDER_STEP_H
#define ZKL_CORE_CONTENDER_STEP_H

#include "contender.h"
#include "session_step.h"

/* What an operation of a contender is for. At most one of each is under way. */
enum zkl__role {
    ZKL__ROLE_NONE,
    ZKL__ROLE_CREATE,  /* our node */
    ZKL__ROLE_LIST,    /* of the queue */
    ZKL__ROLE_WATCH,   /* get (or exists) of the blocker, with a watch */
    ZKL__ROLE_STAT,    /* get of our own node: its czxid, when the create's reply was lost */
    ZKL__ROLE_PROVE,   /* committed check of our node, for a lease to be granted on */
    ZKL__ROLE_BEAT,    /* the session's heartbeat, on our node */
    ZKL__ROLE_DELETE,  /* of our node, or of a double of it */
    ZKL__ROLE_BARRIER, /* committed check of the directory: what was sent before is in the next list, or nowhere */
    ZKL__ROLE_MAKE,    /* of the directory */
    ZKL__ROLES
};

enum zkl__contender_event_kind {
    ZKL__CE_START,     /* deadline, try_only */
    ZKL__CE_REPLY,     /* role, reply; code when it was never sent */
    ZKL__CE_WATCH,     /* the blocker changed or went */
    ZKL__CE_CONNECTED, /* again, or on a new session */
    ZKL__CE_EXPIRED,   /* the session is over */
    ZKL__CE_LAPSED,    /* the lease ended */
    ZKL__CE_TIME,      /* look at the time, and at the lease */
    ZKL__CE_CANCEL,    /* code */
    ZKL__CE_RELEASE
};

struct zkl__contender_event {
    enum zkl__contender_event_kind kind;
    int64_t now;
    bool connected; /* the session, now */
    bool leased;    /* the session's lease has enough left to grant on */
    int64_t session_id;
    int64_t deadline;
    bool try_only;
    int code;
    enum zkl__role role;
    const struct zkl__reply *reply;
};

/* What a contender wants of its session. Pointers live until its next step. */
struct zkl__contender_actions {
    struct zkl__contender_op {
        enum zkl__role role;
        struct zkl__op op;
    } ops[3];
    int op_count;
    enum zkl__watch_change {
        ZKL__WATCH_KEEP,
        ZKL__WATCH_ON,     /* hear of contender->watch.path, before the ops are sent */
        ZKL__WATCH_FORGET, /* hear no more; the server may keep its watch, it will be set again */
        ZKL__WATCH_OFF     /* hear no more, take it back from the server */
    } watch;
    bool told; /* outcome is set */
    struct zkl__outcome outcome;
};

struct zkl__contender {
    struct zkl__contender_config config; /* path and metadata are copies */
    const zkl_heap *heap;
    struct zkl__core *core; /* for uuids and traces only */
    unsigned number;        /* of the session's contenders: for traces */
    enum zkl__contender_state state;

    /* this attempt */
    char uuid[ZKL__UUID_LENGTH + 1];
    char prefix[ZKL__NAME_MAX]; /* "_c_<uuid>-<tag>" */
    char node[ZKL__NAME_MAX];   /* name of our node; "": none is known */
    char twin[ZKL__NAME_MAX];   /* double of it that is being deleted; "": none */
    int64_t czxid;              /* 0: not known */
    bool unsure;                /* a create of ours has an unknown fate */
    bool doubled;               /* it was sent again: there may be two nodes */
    bool barrier_passed;        /* the list under way stands behind a committed write */
    uint32_t under_way;         /* bits of roles */
    int in_flight;              /* operations not answered yet: its memory stays until none is */

    /* waiting */
    bool started, try_only, blind; /* blind: the blocker's ACL hides it from get */
    int64_t deadline;
    int64_t retry_at; /* 0: nothing is put off */
    int64_t patience; /* of the last putting-off */
    bool proved;      /* the check that a grant may need was sent */
    char *make_path;  /* the directory being made, cut to what is tried now */
    char **ignored;   /* names proved to be nobody's place */
    size_t ignored_count;
    struct zkl__watch watch; /* path: the blocker */
    char *watch_path;
    size_t watch_room;
    bool armed; /* the blocker's watch is set */

    /* held */
    int64_t hold_until;
    bool discard;   /* lost, and the node is to go without waiting for the owner */
    bool releasing; /* RELEASED is owed */

    /* the session's */
    struct zkl__contender *next, *prev;               /* all */
    struct zkl__contender *next_holder, *prev_holder; /* proving and held */
    bool holder, jeopardy_told, buried;
    size_t timer; /* place in the heap + 1; 0: none */
    int64_t wake;
};

void zkl__contender_step(struct zkl__contender *contender, const struct zkl__contender_event *event,
                         struct zkl__contender_actions *out);
/* When it wants ZKL__CE_TIME; INT64_MAX: not. */
int64_t zkl__contender_wake(const struct zkl__contender *contender);
void zkl__contender_free(struct zkl__contender *contender);
bool zkl__contender_waits(const struct zkl__contender *contender);
/* core.c's: a trace line "path#number: what". */
void zkl__core_trace(struct zkl__core *core, const struct zkl__contender *contender, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Breaks of the protocol that must not go on: continuing may mean two holders. */
#define ZKL__ENSURE(condition) \
    do {                       \
        if (!(condition)) {    \
            __builtin_trap();  \
        }                      \
    } while (0)

#endif
