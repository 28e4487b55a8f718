/* holder.h - a process that holds a lock until it is killed: a program of tests runs itself once more. */
#ifndef ZKL_TESTS_HOLDER_H
#define ZKL_TESTS_HOLDER_H

#include <sys/types.h>

#include <zklock/zklock.h>

/* First in main. In a process that holder_start made, it acquires what make_lock makes, and never returns. make_lock opens the session. */
void holder_main(int argc, char **argv, zkl_lock *(*make_lock)(const char *servers));

/* The process; it holds when this returns. */
pid_t holder_start(const char *servers);
void holder_kill(pid_t pid);

#endif
