/* replacement.h - a downgrade: a znode of a weaker kind replaces ours and keeps its number. */
#ifndef ZKL_PROTOCOL_REPLACEMENT_H
#define ZKL_PROTOCOL_REPLACEMENT_H

#include "name.h"

struct zkl__contender;
struct zkl__contender_actions;
struct zkl__contender_event;

struct zkl__replacement {
    char name[ZKL__NAME_MAX]; /* of the znode that replaces ours; "": no downgrade */
    enum zkl__replacing {
        ZKL__REPLACING,
        ZKL__REPLACED_PERHAPS /* a response was lost: the replacement may be done */
    } state;
};

static inline bool zkl__replacing(const struct zkl__replacement *replacement)
{
    return replacement->name[0] != '\0';
}

void zkl__replacement_on_downgrade(struct zkl__contender *c, const struct zkl__contender_event *ev,
                                   struct zkl__contender_actions *out);
void zkl__replacement_ask(struct zkl__contender *c, struct zkl__contender_actions *out);
void zkl__replacement_on_reply(struct zkl__contender *c, const struct zkl__contender_event *ev,
                               struct zkl__contender_actions *out);
/* The session ended. */
static inline void zkl__replacement_ended(struct zkl__replacement *replacement)
{
    replacement->name[0] = '\0';
}
/* The downgrade is given up. */
void zkl__replacement_forget(struct zkl__contender *c);

#endif
