/* duration.h - "250ms", "5s", "2m", "1h"; a bare number is seconds. */
#ifndef CLI_DURATION_H
#define CLI_DURATION_H

#include <stdbool.h>
#include <stdint.h>

/* False when text is none, or longer than a hundred years. A fraction is allowed ("1.5s"). */
bool duration_parse(const char *text, int64_t *ms);

#endif
