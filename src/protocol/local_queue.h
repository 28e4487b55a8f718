/* local_queue.h - the contenders of this session in one queue: they share lists, and hand over to
 * each other.
 *
 * Lists. One list serves all who asked for it before it was sent: what a contender sent before it
 * asked, its create above all, is before the list then, too. Who asks for a place and a list
 * together waits while a list of the queue is under way: those before it are of this session, and
 * it would not be first.
 *
 * Many. A list for each create would cost as much as there are contenders. From the ninth one on
 * some send a create alone: as many as an eighth of the others. Each of these follows the contender
 * that came before it, when their numbers are neighbours, and reads the next list that another one
 * sends. Without one it sends its own in its turn.
 *
 * Hand-over. When the list of a contender shows, as the one before it, the node of another one
 * here, then it follows that one: nothing is watched on the server. As soon as the delete of that
 * node is on its way, the follower looks again, behind it; or, if the other one held until its
 * release, is granted at once: everybody else still queues behind our two nodes. Conditions:
 * may_hand_over in local_queue.c. */
#ifndef ZKL_PROTOCOL_LOCAL_QUEUE_H
#define ZKL_PROTOCOL_LOCAL_QUEUE_H

#include "contender_step.h"

/* Names that idle queues remember, in all. */
#define ZKL__REMEMBERED_MOST 65536

struct zkl__local_queue {
    struct zkl__machine machine;   /* first. Its step sends the list that was asked for */
    struct zkl__local_queue *next; /* in its bucket */
    uint32_t hash;
    struct zkl__contender *first, *last;
    size_t count;    /* of these */
    size_t unlisted; /* creates without a list, since the last list was sent */
    uint64_t lists;  /* ever sent */
    unsigned lists_under_way;
    size_t wanted; /* contenders that asked for a list and wait for it to be sent */
    bool urgent;   /* one of them may be first */
    int64_t czxid; /* of the directory, as its last list says */
    /* Forged places and their czxids, INT64_MAX for those that live with no session: see
     * zkl__list_forged. They are remembered while nobody is here, so that later contenders of the
     * session do not look again. */
    struct zkl__name_set forged;
    struct zkl__linger_view linger;
    size_t lingerers;         /* lock objects whose locks may linger here */
    struct zkl__list members; /* memberships whose znode this path is */
    char path[];
};

struct zkl__local_queues {
    const zkl_heap *heap;
    struct zkl__local_queue **buckets;
    size_t bucket_count, count;
    size_t remembered; /* forged names of queues without a contender */
    uint64_t names_key;
};

bool zkl__local_queues_init(struct zkl__local_queues *queues, const zkl_heap *heap,
                            uint64_t names_key);
void zkl__local_queues_deinit(struct zkl__local_queues *queues);

/* The forged names that its queue remembers. */
static inline struct zkl__name_set *zkl__local_forged(const struct zkl__contender *c)
{
    return &c->local.queue->forged;
}

static inline const char *zkl__local_path(const struct zkl__contender *c)
{
    return c->local.queue->path;
}

/* From its making to its burial. False: no memory. Who did not join may leave. */
bool zkl__local_join(struct zkl__local_queues *queues, struct zkl__contender *c, const char *path);
void zkl__local_leave(struct zkl__local_queues *queues, struct zkl__contender *c);

/* A membership's path gets its queue, which keeps a list of them; NULL: no memory. */
struct zkl__local_queue *zkl__local_enroll(struct zkl__local_queues *queues, const char *path,
                                           struct zkl__link *member);
void zkl__local_resign(struct zkl__local_queues *queues, struct zkl__local_queue *q,
                       struct zkl__link *member);

/* c waits for the node of that name. True when it is one of ours, for which it need not ask the
 * server. */
bool zkl__local_follow(struct zkl__contender *c, const char *name);
/* Its create needs no list, for others of this session stand before it, and lists of theirs follow.
 */
bool zkl__local_spares_list(struct zkl__contender *c);
/* The znode before c's, as the numbers say, when it is one of ours; NULL: a list is to tell. */
const char *zkl__local_neighbour(struct zkl__contender *c);
/* c is granted instead of its follower, which deletes its znode: whoever follows that one follows c
 * now. */
void zkl__local_replace(struct zkl__contender *follower, struct zkl__contender *c);
/* It does not wait for another here any more, if it did. */
void zkl__local_unfollow(struct zkl__contender *c);
/* c acted on an event. */
void zkl__local_stepped(struct zkl__contender *c);
/* What the followers of c look at, before c reads its mail: they are told when it has changed. */
struct zkl__local_facts {
    char node[ZKL__NAME_MAX];
    bool leaving;
};
/* False: it has none. */
bool zkl__local_note_facts(const struct zkl__contender *c, struct zkl__local_facts *facts);
void zkl__local_tell_changes(struct zkl__contender *c, const struct zkl__local_facts *before);
/* c, which follows another, looks at that one. False: nothing new; else *news is what it comes to.
 */
bool zkl__local_look(struct zkl__core *core, struct zkl__contender *c,
                     enum zkl__contender_event_kind *news);
/* Whether the delete of its znode, sent now, hands over to a follower. */
bool zkl__local_hands_over(const struct zkl__contender *c);
/* One it was handed over from, at any remove, is still there, and the delete of that one's node is
 * not on its way. */
bool zkl__local_delete_waits(const struct zkl__contender *c);

/* Another contender of this session there is so. */
bool zkl__local_others(const struct zkl__contender *c,
                       bool (*is_so)(const struct zkl__contender *other));

/* A list of its queue came, for whomever. */
void zkl__local_note_list(struct zkl__local_queues *queues, struct zkl__contender *c,
                          const struct zkl__reply *reply);

/* c asks for a list: sent when nobody has mail, or when the one under way is answered. */
void zkl__local_ask_list(struct zkl__core *core, struct zkl__contender *c);
/* The list that was sent for c was answered; or could not be sent. */
void zkl__local_answer_list(struct zkl__core *core, struct zkl__contender *c,
                            const struct zkl__reply *reply);
void zkl__local_refuse_list(struct zkl__core *core, struct zkl__contender *c, int code);

#endif
