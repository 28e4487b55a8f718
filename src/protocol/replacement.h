/* replacement.h - a downgrade: a znode of a weaker kind replaces ours and keeps its number. */
#ifndef ZKL_PROTOCOL_REPLACEMENT_H
#define ZKL_PROTOCOL_REPLACEMENT_H

#include <stdbool.h>
#include <stdint.h>

struct zkl__contender;

/* The name of the znode that replaces ours has our uuid, our number, and the tag of config.rule,
 * which is the weaker rule already. */
struct zkl__replacement {
    enum zkl__replacing {
        ZKL__REPLACING_NOT,
        ZKL__REPLACING,
        ZKL__REPLACED_PERHAPS /* a response was lost: the replacement may be done */
    } state;
    int32_t sequence; /* our number: our znode may be deleted before the response is here */
};

static inline bool zkl__replacing(const struct zkl__replacement *replacement)
{
    return replacement->state != ZKL__REPLACING_NOT;
}

void zkl__replacement_on_downgrade(struct zkl__contender *c);
void zkl__replacement_ask(struct zkl__contender *c);
void zkl__replacement_on_reply(struct zkl__contender *c);
/* The session ended. */
static inline void zkl__replacement_ended(struct zkl__replacement *replacement)
{
    replacement->state = ZKL__REPLACING_NOT;
}
/* The downgrade is given up. */
void zkl__replacement_forget(struct zkl__contender *c);

#endif
