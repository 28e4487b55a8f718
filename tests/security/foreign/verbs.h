/* verbs.h - the verbs of the command that read a queue, where others have made znodes of every name. */
#ifndef ZKL_TESTS_FOREIGN_VERBS_H
#define ZKL_TESTS_FOREIGN_VERBS_H

/* How many did not end, or ended by a signal, a sanitizer or as a usage error. Each that did is printed. */
int verbs(const char *servers, const char *zklock);

#endif
