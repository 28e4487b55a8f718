#include "history.h"

#include <errno.h>

#include "wait.h"

static const char *const op_names[] = {
#define HISTORY_NAME(name) #name,
    HISTORY_OPS(HISTORY_NAME)
#undef HISTORY_NAME
};

int history_open(const char *dir, const char *process)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s.history", dir, process);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0) {
        perror(path);
    }
    return fd;
}

void history_write(int fd, const struct history_line *line)
{
    char text[256];
    int length = snprintf(text, sizeof text, "%" PRId64 " %s %" PRIx64 " %s %s %s %" PRId64 " %" PRId64 "\n",
                          line->at ? line->at : boot_ns(), line->client, (uint64_t)line->session, op_names[line->op],
                          line->path ? line->path : "-", line->result ? line->result : "-", line->token, line->lease);
    if (length >= (int)sizeof text || write(fd, text, (size_t)length) != length) {
        fprintf(stderr, "history: %s\n", strerror(errno));
        abort();
    }
}

void pieces_path(char *path, const char *root, int piece)
{
    if (piece < 0) {
        snprintf(path, HISTORY_WORD, "%.30s/p/members", root);
    } else {
        snprintf(path, HISTORY_WORD, "%.24s/p/pieces/q%d", root, piece);
    }
}
