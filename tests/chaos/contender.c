/* contender SERVERS TICK_MS TIMEOUT_MS DIR NAME SEED ROOT WORD... (process.h): one process of many that contend, through the public API, until it
 * gets SIGTERM. Several threads are clients of one session, so that several stand in one queue and hand over to each other; others
 * are guests, a member of a group, an owner of pieces (contender.h). What they do and see goes to DIR/NAME.history (history.h); holders
 * write to the resource (DIR/resource), now and then without looking whether they still hold. Descriptor 3 is a page of numbers (history.h). */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "contender.h"
#include "dice.h"
#include "wait.h"

#define CLIENTS 6
#define ARGUMENTS 8 /* before the words */

/* What the machine alone does to a wait, in this process, all the time: that is not the library's. */
static void *run_control(void *unused)
{
    (void)unused;
    char name[HISTORY_WORD];
    snprintf(name, sizeof name, "%.30s.control", process.name);
    while (!atomic_load(&process.enough)) {
        int64_t due = boot_ns() + 10 * MS;
        poll(NULL, 0, 10);
        int64_t now = boot_ns();
        if (now - due > LATE) {
            history_write(process.record,
                          &(struct history_line){.at = now, .client = name, .op = HISTORY_late, .lease = now - due});
        }
    }
    return NULL;
}

static void *wait_for_the_end(void *signals)
{
    int signal;
    sigwait(signals, &signal);
    atomic_store(&process.enough, true);
    return NULL;
}

static void find_resource(const char *dir)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%.90s/resource", dir);
    process.resource = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (connect(process.resource, (struct sockaddr *)&address, sizeof address) != 0) {
        process_give_up("resource", NULL);
    }
    process.page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0);
    if (process.page == MAP_FAILED) {
        process_give_up("page", NULL);
    }
}

static void take_arguments(char **argv, int argc)
{
    process.servers = argv[1];
    process.tick_ms = atoll(argv[2]);
    process.timeout_ms = atoll(argv[3]);
    process.name = argv[5];
    process.number = atoi(process.name + 1);
    process.root = argv[7];
    process.words = argv + ARGUMENTS;
    process.word_count = argc - ARGUMENTS;
    process.record = history_open(argv[4], process.name);
    find_resource(argv[4]);
}

/* Until there is enough of it. */
static void run_all(uint64_t seed)
{
    static struct client clients[CLIENTS];
    static void *(*const others[])(void *) = {run_control, guest_run, member_run, pieces_run};
    enum { OTHERS = sizeof others / sizeof *others };
    pthread_t threads[OTHERS];
    uint64_t seeds[OTHERS];
    for (int i = 0; i < CLIENTS; i++) {
        client_init(&clients[i], i, seed);
        pthread_create(&clients[i].thread, NULL, client_run, &clients[i]);
    }
    for (int i = 0; i < OTHERS; i++) {
        seeds[i] = dice_at(seed, 2, (uint64_t)i);
        pthread_create(&threads[i], NULL, others[i], &seeds[i]);
    }
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(clients[i].thread, NULL);
    }
    for (int i = 0; i < OTHERS; i++) {
        pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < CLIENTS; i++) {
        client_deinit(&clients[i]);
    }
}

int main(int argc, char **argv)
{
    pthread_t waiter;
    sigset_t signals;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc <= ARGUMENTS || argc - ARGUMENTS > CLIENT_OBJECTS) {
        fprintf(stderr, "usage: contender SERVERS TICK_MS TIMEOUT_MS DIR NAME SEED ROOT WORD...\n");
        return 2;
    }
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    pthread_create(&waiter, NULL, wait_for_the_end, &signals);
    take_arguments(argv, argc);
    process.session = process_open_session(10000);
    if (!process.session) {
        return 0;
    }
    run_all(strtoull(argv[6], NULL, 0));
    pthread_join(waiter, NULL);
    int code = zkl_session_close(process.session, 10000);
    return code == ZKL_OK || code == ZKL_ETIMEOUT ? 0 : 1;
}
