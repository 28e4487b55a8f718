/* setuid_sleeper.c - what sudo is to whoever started it: a program of root's that becomes root for good. Writes its pid to FIRST, and ends when
 * SECOND is there. With a third argument it does so as a chain of processes, each in a session of its own, that fork and exit. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void say_pid(const char *file)
{
    char text[16];
    int length = snprintf(text, sizeof text, "%d\n", (int)getpid());
    int fd = open(file, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (fd < 0 || write(fd, text, (size_t)length) != length) {
        _exit(EXIT_FAILURE);
    }
    close(fd);
}

int main(int argc, char **argv)
{
    if (argc < 3 || (geteuid() == 0 && setresuid(0, 0, 0) != 0)) {
        return EXIT_FAILURE;
    }
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGCHLD, SIG_IGN);
    say_pid(argv[1]);
    while (access(argv[2], F_OK) != 0) {
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        if (argc > 3) {
            pid_t pid = fork();
            if (pid > 0) {
                _exit(0);
            }
            setsid();
        }
    }
    return 7;
}
