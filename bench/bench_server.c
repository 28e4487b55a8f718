/* bench_server [-n SERVERS] [-d DIR]: a throw-away ZooKeeper for as long as stdin is open; prints
 * its addresses. Data in memory, or with -d in DIR with an fsync for each commit, as an ensemble in
 * earnest has it. tickTime 2000, and the compilers that java takes by itself. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "ensemble.h"

int main(int argc, char **argv)
{
    /* Later lines of zoo.cfg, and later arguments of java, win. */
    struct ensemble_options options = {
        .servers = 1, .tick_ms = 2000, .java = "-XX:TieredStopAtLevel=4"};
    char extra[512], byte;
    int option;
    while ((option = getopt(argc, argv, "n:d:")) != -1) {
        if (option == 'n') {
            options.servers = atoi(optarg);
        } else if (option == 'd') {
            snprintf(extra, sizeof extra, "dataDir=%s\nforceSync=yes\n", optarg);
            options.extra = extra;
        } else {
            return 2;
        }
    }
    if (!ensemble_available()) {
        fprintf(stderr, "bench_server: no java, or no zookeeper.jar: scripts/deps installs them\n");
        return 77;
    }
    /* Directories that are used no more go when it ends: their removal, once a minute, would count
     * among the writes. */
    setenv("JAVA_TOOL_OPTIONS", "-Dznode.container.checkIntervalMs=86400000", 1);
    struct ensemble *e = ensemble_start(&options);
    if (!e) {
        return 1;
    }
    printf("%s\n", ensemble_servers(e));
    fflush(stdout);
    while (read(0, &byte, 1) > 0) {
    }
    ensemble_stop(e);
    return 0;
}
