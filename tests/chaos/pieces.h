/* pieces.h - a thread that takes part in a partition, now and then not, and says which pieces it owns. */
#ifndef ZKL_CHAOS_PIECES_H
#define ZKL_CHAOS_PIECES_H

#define PIECES 6 /* of the partition: more than there are contenders */

/* path: 48 bytes. Where the contenders for a piece have their znodes; -1: the members. */
void pieces_path(char *path, const char *root, int piece);

/* seed: a uint64_t. Until the process has enough. */
void *pieces_run(void *seed);

#endif
