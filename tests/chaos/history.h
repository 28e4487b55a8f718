/* history.h - what happened, one line per event, so that somebody else can judge it (judge.py).
 *
 * A line is eight words, separated by spaces, all of CLOCK_BOOTTIME in ns (one machine, one clock: the times of all processes compare):
 *
 *   time client session op path result token lease
 *
 * "-" and 0 stand for nothing. A line that begins with '#' is a remark. A client is "process" or "process.thread"; it has at most one
 * acquire pending and one grant at a time. One file per process; every line is one write, so a process that is killed loses nothing
 * but the line it was in (a last line without its end is not read).
 *
 *   op         who        meaning of the other words
 *   acquire    client     asks for path; lease: when the wait has to be over (0: no deadline yet); result: "2/3" asks for 2 of 3 that
 *                         are there at once, "1/1000" for a reader's part, which leaves no room for a writer ("1000/1000"); "-" is 1/1
 *   cancel     client     its pending acquire, which had no deadline, was told to end: the deadline is now
 *   done       client     the acquire's completion: result; with ZKL_OK the token, and until when the lease runs
 *   held       client     the holder looked: the lease runs until then
 *   lost       client     the holder looked: it is not held any more
 *   told       client     the callback said LOST
 *   downgrade  client     from now on the grant takes only as much as result says
 *   release    client     release is called now
 *   released   client     it has returned: result
 *   starved    client     before done or told: the thread that says so stood ready for that many ns (lease) of the wait, or since the
 *                         callback before this one, and got no processor
 *   late       process    a timed wait of nobody's interest came back that many ns (lease) too late: what the machine does to us
 *   free, freed            client: what it has or waits for is freed; that has returned: no completion comes any more
 *   close      client     its session is closed now, with what it has and waits for; lease: when that has to be over
 *   closed     client     it is: result; what was pending has ended by now
 *   remains    client     after closed, ZKL_OK: so many znodes (token) of its session stand at path
 *   recovers   whoever    all who use path use the option recover: after a crash the next one is told
 *   unclean    client     before done: its grant says that the last holder did not release
 *   asked      client     whoever holds path under that token was asked to give way: result; lease: by when it has heard so
 *   heard      client     the holder's callback was called for such a request
 *   removed    whoever    an operator takes away the place at path that has that token, or tries to: result
 *   commit     client     a guarded transaction under a grant (token), the how manyeth (lease), begins: result
 *   committed  whoever    the ledger of path has that transaction, at the place that result says
 *   joined     process    is a member of the group at path from now on, by the name of the process
 *   left       process    is none, from now on
 *   listed     process    was told who is a member: result, "p0-0+p1-3", sorted
 *   owner_by, list_by     whoever: nothing is broken any more. By then (lease, the same of all) path has an owner, or is listed by all
 *                         as it is
 *   stopped, continued, killed   process, by who did it
 *   breach     whoever    an assumption of the lease was broken: until then (lease) only fencing has to hold
 *   write      resource   a write with a token came: result accepted or refused
 *   queue      whoever    looked at path after all was over: token is how many znodes stand there
 *   fault      whoever    a word about what was done to the servers; not judged */
#ifndef ZKL_CHAOS_HISTORY_H
#define ZKL_CHAOS_HISTORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <inttypes.h>
#include <string.h>

/* clang-format off */
#define HISTORY_OPS(X) \
    X(acquire) X(cancel) X(done) X(held) X(lost) X(told) X(downgrade) X(release) X(released) X(starved) X(late) \
    X(free) X(freed) X(close) X(closed) X(remains) X(unclean) X(recovers) X(asked) X(heard) X(removed) X(commit) X(committed) X(joined) X(left) X(listed) \
    X(owner_by) X(list_by) X(stopped) X(continued) X(killed) X(breach) X(write) X(queue) X(fault)
/* clang-format on */

enum history_op {
#define HISTORY_ENUM(name) HISTORY_##name,
    HISTORY_OPS(HISTORY_ENUM)
#undef HISTORY_ENUM
        HISTORY_OP_COUNT
};

#define HISTORY_WORD 48

struct history_line {
    int64_t at; /* 0: now */
    const char *client;
    int64_t session;
    enum history_op op;
    const char *path, *result; /* NULL: "-" */
    int64_t token, lease;
};

/* Opens the file of a process; -1: it cannot be had, with words on stderr. */
int history_open(const char *dir, const char *process);
/* Any thread. A line that cannot be written ends the process: nothing could be judged. */
void history_write(int fd, const struct history_line *line);

#define PIECES 6 /* of the partition: more than there are contenders */

/* path: HISTORY_WORD bytes. Where the contenders for a piece have their znodes; -1: the members. */
void pieces_path(char *path, const char *root, int piece);

/* --- what the processes of an arena let each other see while they work ------------------------------------------------- */

#define PAGE_PATHS 8
#define PAGE_CONTENDERS 8
#define PAGE_BYTES 4096

/* What of a contender has to settle when it is calm. */
enum page_part { PAGE_MEMBER = 1, PAGE_PIECES = 2, PAGE_ALL = 3 };

struct page {
    /* The resource: */
    atomic_bool ready;
    atomic_long taken[PAGE_PATHS]; /* writes, of each path */
    atomic_int
        stayer[PAGE_PATHS]; /* number + 1 of the contender that wrote last, if it holds for long; 0: it does not */
    atomic_long session[PAGE_PATHS]; /* of whoever wrote last */
    /* The nemesis is at rest: members stay members from now on. */
    atomic_bool calm;
    /* The contenders, since then: */
    atomic_int settled[PAGE_CONTENDERS];
};

#endif
