/* stop.c - which process this is, and stop tokens: what a signal handler may ask and do. */
#include "thread.h"

#include <errno.h>
#include <string.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* === which process this is ==================================================================== */

/* A page that the kernel clears in every child of fork (madvise(2), MADV_WIPEONFORK,
 * Linux 4.14), whichever function has made it. pthread_atfork does not see _Fork and clone. Where
 * there is no such page (valgrind, an old kernel), getpid. */

static uint64_t *page; /* NULL: there is none */
static uint64_t latest;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_page(void)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *made = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) {
        return;
    }
    if (madvise(made, size, MADV_WIPEONFORK) != 0) {
        munmap(made, size);
        return;
    }
    page = made;
}

uint64_t zkl__process_known(void)
{
    return page ? __atomic_load_n(page, __ATOMIC_RELAXED) : (uint64_t)getpid();
}

uint64_t zkl__process(void)
{
    pthread_once(&once, make_page);
    uint64_t known = zkl__process_known();
    if (known == 0) {
        uint64_t fresh = __atomic_add_fetch(&latest, 1, __ATOMIC_RELAXED);
        bool first = __atomic_compare_exchange_n(page, &known, fresh, false, __ATOMIC_RELAXED,
                                                 __ATOMIC_RELAXED);
        known = first ? fresh : known;
    }
    return known;
}

/* === stop tokens ============================================================================== */

/* Values of zkl_stop.raised. 0: it is not raised. */
#define RAISED 1
#define RAISING 2 /* raised; zkl_stop_raise is at the slots, so no descriptor in them is closed */

/* zkl_stop.process: twice the process whose sessions are in the slots. 0: no session was in them.
 */
#define CLEARING 1u /* is added while a thread of that process clears the slots */

/* --- what a signal handler may do ------------------------------------------------------------ */

static bool set_raised(zkl_stop *stop, uint32_t from, uint32_t to)
{
    return __atomic_compare_exchange_n(&stop->raised, &from, to, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST);
}

/* In a child of fork the parent's descriptors may be other files by now: it writes only to those of
 * this process. A slot that is taken meanwhile is no slot it has to see: its session looks at the
 * flag after taking it. */
void zkl_stop_raise(zkl_stop *stop)
{
    int before = errno;
    if (!stop || !set_raised(stop, 0, RAISED)) {
        return;
    }
    uint32_t process = __atomic_load_n(&stop->process, __ATOMIC_SEQ_CST);
    if (process != 0 && process == (uint32_t)zkl__process_known() << 1) {
        __atomic_store_n(&stop->raised, RAISING, __ATOMIC_SEQ_CST);
        for (int i = 0; i < ZKL_STOP_SESSIONS_MAX; i++) {
            int descriptor = __atomic_load_n(&stop->sessions[i].descriptor, __ATOMIC_SEQ_CST);
            if (descriptor > 0) {
                /* as eventfd_write, and no cancellation point: else nobody takes RAISING away */
                syscall(SYS_write, descriptor - 1, &(uint64_t){1}, sizeof(uint64_t));
            }
        }
        __atomic_store_n(&stop->raised, RAISED, __ATOMIC_SEQ_CST);
    }
    errno = before;
}

bool zkl_stop_raised(const zkl_stop *stop)
{
    return stop && __atomic_load_n(&stop->raised, __ATOMIC_SEQ_CST);
}

/* --- a session in a token -------------------------------------------------------------------- */

/* Before a session of this process takes a slot. In a child of fork the slots have the parent's
 * sessions, and a thread that was raising the token does not exist. Other sessions of the child may
 * be here at the same time: one of them clears the slots. */
static void clear_slots_of_parent(zkl_stop *stop, uint32_t own)
{
    uint32_t process = __atomic_load_n(&stop->process, __ATOMIC_SEQ_CST);
    while (process != own) {
        if (process == (own | CLEARING)) {
            sched_yield();
            process = __atomic_load_n(&stop->process, __ATOMIC_SEQ_CST);
        } else if (__atomic_compare_exchange_n(&stop->process, &process, own | CLEARING, false,
                                               __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
            memset(stop->sessions, 0, sizeof stop->sessions);
            set_raised(stop, RAISING, RAISED);
            __atomic_store_n(&stop->process, own, __ATOMIC_SEQ_CST);
            process = own;
        }
    }
}

/* The slot of the session, which is taken if it has none; -1: all are others'. The descriptor is
 * kept as one more than it is, so that a zeroed token has no session. */
static int find_slot(zkl_stop *stop, int descriptor)
{
    for (int i = 0; i < ZKL_STOP_SESSIONS_MAX; i++) {
        if (__atomic_load_n(&stop->sessions[i].descriptor, __ATOMIC_SEQ_CST) == descriptor + 1) {
            return i;
        }
    }
    for (int i = 0; i < ZKL_STOP_SESSIONS_MAX; i++) {
        int32_t nobody = 0;
        if (__atomic_compare_exchange_n(&stop->sessions[i].descriptor, &nobody, descriptor + 1,
                                        false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
            return i;
        }
    }
    return -1;
}

int zkl__stop_take(zkl_stop *stop, uint64_t process, int descriptor)
{
    clear_slots_of_parent(stop, (uint32_t)process << 1);
    int slot = find_slot(stop, descriptor);
    if (slot >= 0) {
        stop->sessions[slot].waits++;
    }
    return slot;
}

void zkl__stop_give_back(zkl_stop *stop, int slot)
{
    if (--stop->sessions[slot].waits == 0) {
        __atomic_store_n(&stop->sessions[slot].descriptor, 0, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(&stop->raised, __ATOMIC_SEQ_CST) == RAISING) {
            sched_yield(); /* afterwards nobody writes to the descriptor by way of this token */
        }
    }
}
