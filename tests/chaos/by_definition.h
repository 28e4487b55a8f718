/* by_definition.h - some of what the judge finds, said as it is read, in any number of passes: the judge is compared with it on small histories. */
#ifndef ZKL_CHAOS_BY_DEFINITION_H
#define ZKL_CHAOS_BY_DEFINITION_H

#include "verdict.h"

#define ROOM(path) ((path) == 0 ? 1 : 3) /* how much there is at the paths of these histories */
#define LATE_SLACK 3                     /* verdict_options.slack_ns */

/* found: VERDICT_COUNT of them. Only DOUBLE_HOLD, TOKEN_ORDER, STALE_ACCEPTED, LATE_END and NEVER_ENDED are looked for. */
void by_definition(const struct history *h, bool *found);

#endif
