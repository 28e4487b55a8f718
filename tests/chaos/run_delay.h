/* run_delay.h - how long a thread stood ready to run and got no processor, as the kernel's scheduler counts it. A thread beside it
 * cannot tell: each has a place of its own on a run queue. */
#ifndef ZKL_CHAOS_RUN_DELAY_H
#define ZKL_CHAOS_RUN_DELAY_H

#include <stdint.h>

/* A descriptor for the calling thread's count; -1: this kernel does not tell. */
int run_delay_open(void);
/* ns since the thread began; 0 for -1. Any thread. */
int64_t run_delay_ns(int fd);

#endif
