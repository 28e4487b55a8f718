/* process.h - which process this is, as cheaply as a load: a call of a lock that lingers takes less
 * time than a system call. */
#ifndef ZKL_PROCESS_H
#define ZKL_PROCESS_H

#include <stdint.h>

/* Not 0; another one in every child of fork. For a session that is made. */
uint64_t zkl__process(void);
/* The same, or 0 in a child where nobody has asked. */
uint64_t zkl__process_known(void);

#endif
