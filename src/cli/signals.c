
#include "cli.h"

int signals_pipe[2];
volatile sig_atomic_t signals_end_at_once = true;
volatile sig_atomic_t signals_interrupted;

bool signals_is_end(int number)
{
    return number == SIGTERM || number == SIGINT || number == SIGHUP || number == SIGQUIT;
}

static volatile sig_atomic_t
    in_background; /* of a shell's script, which has what is typed ignored */

/* A handler and not a signalfd: whichever thread of the library a signal meets, it comes out here.
 */
static void on_signal(int number, siginfo_t *info, void *context)
{
    (void)context;
    int saved = errno;
    bool typed = info->si_code == SI_KERNEL;
    if (in_background && (number == SIGINT || number == SIGQUIT) && typed) {
        return; /* for the foreground */
    }
    signals_interrupted |= number == SIGINT && typed;
    unsigned char byte = (unsigned char)number;
    if (signals_end_at_once && signals_is_end(number)) {
        signals_end_as_typed(EXIT_SIGNAL + number);
        _exit(EXIT_SIGNAL + number);
    }
    if (write(signals_pipe[1], &byte, 1) < 0) {
        /* Full: thousands wait already. */
    }
    errno = saved;
}

static struct sigaction handled(void)
{
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_RESTART | SA_SIGINFO};
    sigfillset(&action.sa_mask);
    return action;
}

int signals_catch(void)
{
    static const int numbers[] = {SIGTERM, SIGINT,  SIGHUP,  SIGQUIT,
                                  SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH};
    struct sigaction ours = handled();
    if (pipe2(signals_pipe, O_CLOEXEC | O_NONBLOCK) != 0) {
        cli_error("cannot catch signals: %s; raise the limit (ulimit -n)", strerror(errno));
        return EXIT_FAILED;
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction inherited;
        sigaction(numbers[i], NULL, &inherited);
        bool typed = numbers[i] == SIGINT || numbers[i] == SIGQUIT;
        in_background |= typed && inherited.sa_handler == SIG_IGN;
        if (typed || inherited.sa_handler != SIG_IGN) { /* nohup means it */
            sigaction(numbers[i], &ours, NULL);
        }
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* the write fails with EFBIG */
    signal(SIGTTOU, SIG_IGN); /* or we would be stopped for a change of the terminal */
    return CLI_GO_ON;
}

void signals_end_as_typed(int code)
{
    sigset_t interrupt;
    if (code == EXIT_SIGNAL + SIGINT && signals_interrupted) {
        sigemptyset(&interrupt);
        sigaddset(&interrupt, SIGINT);
        signal(SIGINT, SIG_DFL);
        raise(SIGINT);
        pthread_sigmask(SIG_UNBLOCK, &interrupt, NULL); /* a handler has it blocked */
    }
}

void signals_catch_stop(bool caught)
{
    struct sigaction inherited, wanted = {.sa_handler = SIG_DFL};
    if (caught) {
        wanted = handled();
    }
    sigaction(SIGTSTP, NULL, &inherited);
    if (inherited.sa_handler != SIG_IGN) {
        sigaction(SIGTSTP, &wanted, NULL);
    }
}

int signals_next(void)
{
    unsigned char byte;
    return read(signals_pipe[0], &byte, 1) == 1 ? byte : 0;
}
