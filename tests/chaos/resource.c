/* resource DIR PATH... : the thing that the locks protect. Writes come as datagrams "client path token session stays|passes" to DIR/resource,
 * also those that were under way for long; one whose token is below the highest that was taken for its path is refused. Token 0: somebody is
 * there beside others; nothing is fenced. DIR/resource.history tells of all others; descriptor 3 is a page of numbers (history.h). */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "history.h"

static int path_number(char **paths, int count, const char *path)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(paths[i], path) == 0) {
            return i;
        }
    }
    fprintf(stderr, "resource: %s?\n", path);
    exit(1);
}

static int listen_at(const char *dir)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%.90s/resource", dir);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        perror("resource");
        exit(1);
    }
    return fd;
}

int main(int argc, char **argv)
{
    char text[128], client[HISTORY_WORD], path[HISTORY_WORD], way[HISTORY_WORD];
    int64_t highest[PAGE_PATHS] = {0}, token;
    uint64_t session;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc < 3 || argc - 2 > PAGE_PATHS) {
        fprintf(stderr, "usage: resource DIR PATH...\n");
        return 2;
    }
    struct page *page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0);
    int record = history_open(argv[1], "resource"), fd = listen_at(argv[1]);
    if (record < 0 || page == MAP_FAILED) {
        return 1;
    }
    page->ready = true;
    for (;;) {
        ssize_t length = recv(fd, text, sizeof text - 1, 0);
        text[length > 0 ? length : 0] = '\0';
        if (sscanf(text, "%47s %47s %" SCNd64 " %" SCNx64 " %47s", client, path, &token, &session, way) != 5) {
            fprintf(stderr, "resource: %s\n", length < 0 ? strerror(errno) : text);
            return 1;
        }
        int i = path_number(argv + 2, argc - 2, path);
        bool fresh = token >= highest[i] || token == 0;
        highest[i] = token > highest[i] ? token : highest[i];
        if (token > 0) {
            history_write(record, &(struct history_line){.client = client,
                                                         .op = HISTORY_write,
                                                         .path = path,
                                                         .result = fresh ? "accepted" : "refused",
                                                         .token = token,
                                                         .lease = highest[i]});
        }
        page->taken[i] += fresh ? 1 : 0;
        page->session[i] = (long)session;
        page->stayer[i] = strcmp(way, "stays") == 0 && client[0] == 'p' ? atoi(client + 1) + 1 : 0;
    }
}
