/* farewell.h - the end of a contender, until no znode of ours is left. One transaction deletes the
 * znode, announces the release, and writes the release mark. A
 * search finds znodes that a create made whose response was lost. */
#ifndef ZKL_PROTOCOL_FAREWELL_H
#define ZKL_PROTOCOL_FAREWELL_H

#include <stdbool.h>

struct zkl__contender;

/* No znode of ours is left, as far as the responses of this session say, and none can be created
 * any more. */
bool zkl__farewell_done(const struct zkl__contender *c);
void zkl__farewell_advance(struct zkl__contender *c);
void zkl__farewell_on_reply(struct zkl__contender *c);
void zkl__farewell_on_list(struct zkl__contender *c);
void zkl__farewell_on_stat(struct zkl__contender *c);
void zkl__farewell_on_barrier(struct zkl__contender *c);

#endif
