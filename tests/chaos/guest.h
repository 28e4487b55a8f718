/* guest.h - a thread with sessions of its own, one after the other: each asks for a few things, and is closed in the middle of it. */
#ifndef ZKL_CHAOS_GUEST_H
#define ZKL_CHAOS_GUEST_H

/* seed: a uint64_t. Until the process has enough. */
void *guest_run(void *seed);

#endif
