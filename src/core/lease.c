#include "lease.h"

#define DRIFT 1000 /* clocks drift by less than one in this many */
#define PERIOD_LEAST INT64_C(1000000)

static int64_t covered(int64_t root, int64_t timeout)
{
    return root + timeout - timeout / DRIFT;
}

void zkl__lease_begin(struct zkl__lease *lease, int64_t timeout, int64_t gap, int64_t began)
{
    *lease = (struct zkl__lease){.timeout = timeout, .gap = gap, .root = began, .until = covered(began, timeout)};
}

void zkl__lease_reconnect(struct zkl__lease *lease, int64_t timeout)
{
    if (covered(lease->root, timeout) < lease->until) {
        lease->until = covered(lease->root, timeout); /* what was proved was proved for the longer one */
    }
    if (timeout < lease->timeout) {
        /* Not ever longer again: a touch through an earlier server may arrive late, and shorten (ExpiryQueue.update). */
        lease->timeout = timeout;
    }
    lease->a_count = lease->b_count = 0;
}

void zkl__lease_end(struct zkl__lease *lease)
{
    lease->until = 0;
    lease->a_count = lease->b_count = 0;
}

/* The newest link that was answered by `by`, -1 for none. Links are in the order of their answers and of their roots. */
static int64_t newest_root(const struct zkl__lease_link *links, unsigned count, int64_t by)
{
    unsigned oldest = count > ZKL__LEASE_LINKS ? count - ZKL__LEASE_LINKS : 0;
    for (unsigned i = count; i > oldest; i--) {
        const struct zkl__lease_link *link = &links[(i - 1) % ZKL__LEASE_LINKS];
        if (link->answered <= by) {
            return link->root;
        }
    }
    return -1;
}

/* Any subset of the links is as sound as all of them: links whose roots are close to the last one's are left out, so that the ring
 * reaches back over the gap at any rate of operations. */
static void push(struct zkl__lease_link *links, unsigned *count, int64_t root, int64_t answered, int64_t least_step)
{
    if (*count > 0 && root < links[(*count - 1) % ZKL__LEASE_LINKS].root + least_step) {
        return;
    }
    links[*count % ZKL__LEASE_LINKS] = (struct zkl__lease_link){root, answered};
    (*count)++;
}

bool zkl__lease_answer(struct zkl__lease *lease, enum zkl__proof proof, int64_t sent, int64_t answered)
{
    bool grew = false;
    if (proof == ZKL__PROOF_COMMIT) {
        int64_t root = newest_root(lease->b, lease->b_count, sent);
        lease->root = root > lease->root ? root : lease->root;
        if (root >= 0 && covered(root, lease->timeout) > lease->until) {
            lease->until = covered(root, lease->timeout);
            grew = true;
        }
    }
    if (proof != ZKL__PROOF_ANSWER) {
        int64_t root = newest_root(lease->a, lease->a_count, sent - lease->gap);
        if (root >= 0) {
            push(lease->b, &lease->b_count, root, answered, 1);
        }
    }
    push(lease->a, &lease->a_count, sent, answered, lease->gap / (ZKL__LEASE_LINKS / 4) + 1);
    return grew;
}

/* The timeout is the server's word: one of nothing, or less, must not make a loop without a pause. */
static int64_t period(int64_t timeout, int64_t parts)
{
    return timeout / parts > PERIOD_LEAST ? timeout / parts : PERIOD_LEAST;
}

int64_t zkl__lease_heartbeat(int64_t timeout)
{
    return period(timeout, 12);
}

int64_t zkl__lease_keepalive(int64_t timeout)
{
    return period(timeout, 4);
}

int64_t zkl__lease_least(int64_t timeout, int64_t gap)
{
    return timeout - timeout / DRIFT - gap - 3 * zkl__lease_heartbeat(timeout) - gap / (ZKL__LEASE_LINKS / 4);
}
