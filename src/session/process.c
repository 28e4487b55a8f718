/* process.c - a page that the kernel clears in every child of fork (madvise(2), MADV_WIPEONFORK,
 * Linux 4.14), whichever function has made it. pthread_atfork does not see _Fork and clone. Where
 * there is no such page (valgrind, an old kernel), getpid. */
#include "process.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

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

uint64_t zkl__process_known(void)
{
    return page ? __atomic_load_n(page, __ATOMIC_RELAXED) : (uint64_t)getpid();
}
