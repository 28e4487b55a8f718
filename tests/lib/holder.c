#include "holder.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "self.h"
#include "wait.h"

#define FLAG "--hold"

void holder_main(int argc, char **argv, zkl_lock *(*make_lock)(const char *servers))
{
    if (argc != 3 || strcmp(argv[1], FLAG) != 0) {
        return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    zkl_lock *lock = make_lock(argv[2]);
    if (zkl_lock_acquire(lock, SOON, NULL, NULL) == ZKL_OK && write(1, "!", 1) == 1) {
        pause();
    }
    exit(1);
}

pid_t holder_start(const char *servers)
{
    int told[2];
    char byte;
    CU_ASSERT_EQUAL_FATAL(pipe(told), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(told[1], 1);
        execl(self_path(), "holder", FLAG, servers, (char *)NULL);
        _exit(127);
    }
    close(told[1]);
    CU_ASSERT_EQUAL(read(told[0], &byte, 1), 1);
    close(told[0]);
    return pid;
}

void holder_kill(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}
