/* lies.h - a liar: what a hostile server may make of a reply. It knows jute, ZooKeeper's encoding, and
 * which fields the reply to each request has, so that most lies are well-formed. A seed decides all. */
#ifndef ZKL_SECURITY_LIES_H
#define ZKL_SECURITY_LIES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "jute.h"

/* What a frame of the server's answers; requests by their numbers on the wire. */
enum frame_type {
    FRAME_CREATE = 1,
    FRAME_DELETE = 2,
    FRAME_EXISTS = 3,
    FRAME_GET = 4,
    FRAME_SET = 5,
    FRAME_CHILDREN = 8,
    FRAME_SYNC = 9,
    FRAME_CHILDREN2 = 12,
    FRAME_CHECK = 13,
    FRAME_MULTI = 14,
    FRAME_CREATE2 = 15,
    FRAME_CONTAINER = 19,
    FRAME_WELCOME = 1000, /* the reply to the request for a session */
    FRAME_EVENT,          /* a watch fired */
    FRAME_OTHER           /* a reply without a body: ping, credentials, ... */
};

enum lie {
    LIE_NONE,
    LIE_NUMBER,  /* in a stat, or a header's zxid */
    LIE_ERROR,   /* another error, or one instead of none */
    LIE_NAME,    /* of a znode: empty, too long, foreign, with another number, not UTF-8 */
    LIE_LIST,    /* children left out, repeated, made up, in another order; another count */
    LIE_DATA,    /* of a znode */
    LIE_XID,     /* the reply to another request */
    LIE_WELCOME, /* another session, another timeout */
    LIE_EVENT,   /* of a watch: another one, or one that never fired */
    LIE_MULTI,   /* the parts of a transaction's reply */
    LIE_DROP,
    LIE_REPEAT,
    LIE_REORDER,
    LIE_DELAY,
    LIE_CUT, /* the connection ends, in the middle of a frame */
    LIE_SHORT,
    LIES
};

enum fate { FATE_PASS, FATE_DROP, FATE_TWICE, FATE_BEHIND, FATE_DELAY, FATE_CUT };

struct liar {
    uint64_t seed;
    unsigned kinds;     /* bit i: tells lies of that kind */
    int one_in;         /* so many frames; 0: never */
    bool brutal;        /* also what the client library does not survive */
    bool decisive;      /* told one about who is in the queue, or about the session: two may hold */
    const char *excuse; /* told one that the client library does not survive: which */
    int told[LIES];
    FILE *log;
};

struct frame {
    enum frame_type type;
    char *bytes; /* without the length in front */
    size_t size;
    bool others_wait; /* requests behind this one have no reply yet */
    const char *path; /* of a request of this connection */
    uint64_t connection, number;
};

/* Which lies this seed tells, how often. */
void liar_begin(struct liar *liar, uint64_t seed, FILE *log);
/* out: the frame or frames to send, each with its length in front. */
enum fate liar_say(struct liar *liar, const struct frame *frame, struct jute_out *out);
/* For FATE_DELAY. */
int liar_delay_ms(const struct liar *liar, const struct frame *frame);
const char *lie_name(enum lie lie);

#endif
