/* newfile.h - files that others read meanwhile: what stands there is the old content or the new
 * one, never a part.
 *
 * The new content is written beside it and renamed. A name that is a symbolic link is refused:
 * whoever may write in the directory would choose what is overwritten. What is there and is no
 * regular file (a pipe, a terminal) is written to as it is. */
#ifndef CLI_NEWFILE_H
#define CLI_NEWFILE_H

#include <stdbool.h>

/* Can file be written? Nothing is changed. False with errno. */
bool newfile_check(const char *file);
/* Writes text to file, readable to all. False with errno, and then nothing is left behind. */
bool newfile_write(const char *file, const char *text);
/* What to say about errno after one of these: the reason and what to do. Until the next call. */
const char *newfile_reason(void);

#endif
