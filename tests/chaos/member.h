/* member.h - a thread that is a member of a group, now and then not, and sees who else is. */
#ifndef ZKL_CHAOS_MEMBER_H
#define ZKL_CHAOS_MEMBER_H

/* seed: a uint64_t. Until the process has enough. */
void *member_run(void *seed);

#endif
