#include "pieces.h"

#include <stdio.h>

#include "history.h"

void pieces_path(char *path, const char *root, int piece)
{
    if (piece < 0) {
        snprintf(path, HISTORY_WORD, "%.30s/p/members", root);
    } else {
        snprintf(path, HISTORY_WORD, "%.24s/p/pieces/q%d", root, piece);
    }
}
