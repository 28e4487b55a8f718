#include "lease.h"

#include "base.h"

#define DRIFT 1000 /* clocks drift by less than one in this many */
#define PERIOD_LEAST INT64_C(1000000)

static int64_t covered(int64_t root, int64_t timeout)
{
    return root + timeout - timeout / DRIFT;
}

void zkl__lease_begin(struct zkl__lease *lease, int64_t timeout, int64_t gap, int64_t began)
{
    *lease = (struct zkl__lease){.timeout = timeout,
                                 .gap = gap,
                                 .root = began,
                                 .touched = began,
                                 .until = covered(began, timeout),
                                 .hops = ZKL__HOPS_ONE};
}

static const struct zkl__lease_link *link_at(const struct zkl__lease_ring *ring, unsigned index)
{
    return &ring->links[index % ZKL__LEASE_LINKS];
}

/* The newest link that was answered by `by`, -1 for none. Links are in the order of their answers
 * and of their roots. */
static int64_t newest_root(const struct zkl__lease_ring *ring, int64_t by)
{
    for (unsigned i = ring->count; i > 0 && ring->count - i < ZKL__LEASE_LINKS; i--) {
        if (link_at(ring, i - 1)->answered <= by) {
            return link_at(ring, i - 1)->root;
        }
    }
    return -1;
}

/* Any subset of the links is as sound as all of them: links whose roots are close to the last one's
 * are left out, so that the ring reaches back over the gap at any rate of operations. */
static void push(struct zkl__lease_ring *ring, int64_t root, int64_t answered, int64_t least_step)
{
    if (ring->count > 0 && root < link_at(ring, ring->count - 1)->root + least_step) {
        return;
    }
    ring->links[ring->count % ZKL__LEASE_LINKS] = (struct zkl__lease_link){root, answered};
    ring->count++;
}

static int64_t ring_step(int64_t gap)
{
    return gap / (ZKL__LEASE_LINKS / 4);
}

/* The rings whose links await the last one: b with one hop, d with two. */
static unsigned last_ring(enum zkl__hops hops)
{
    return 2 * (unsigned)hops - 1;
}

/* The link in this ring must be sent a gap after the answer of the one before it: b and d. */
static bool waits_for_a_ping(unsigned ring)
{
    return ring % 2 == 1;
}

/* A chain shows that the leader touched the session, by now, and not before the root. Once the
 * leader has taken the session to expire it, touches save it no more (SessionTrackerImpl.run), and
 * it can have taken it only if no touch was noted for a session timeout. So this touch counts at
 * once only if the one before it was not too old by now. */
static void touch(struct zkl__lease *lease, int64_t root, int64_t now)
{
    if (now >= covered(lease->touched, lease->timeout)) {
        lease->doubt = now + lease->timeout + lease->timeout / DRIFT;
    }
    lease->touched = root > lease->touched ? root : lease->touched;
}

/* What an answer shows that is no committed write. A leader that has been replaced answers syncs
 * (Leader.processSync) and revalidates sessions (Leader.revalidateSession) for a while, and its
 * successor has given the session a timeout when it began. While that is less than half a timeout
 * before this request was sent, the successor began no earlier than that: a touch by it counts from
 * then. The time of sending is the earlier one, so it is on the safe side of the response's. */
static int64_t unconfirmed(const struct zkl__lease *lease, int64_t root, int64_t sent)
{
    int64_t sure = sent - lease->timeout / 2;
    return root < sure ? root : sure;
}

bool zkl__lease_doubted(const struct zkl__lease *lease, int64_t now)
{
    return lease->doubt > 0 || now >= covered(lease->touched, lease->timeout);
}

void zkl__lease_reconnect(struct zkl__lease *lease, int64_t timeout, int64_t now)
{
    int64_t known = newest_root(&lease->rings[0], now);
    touch(lease, unconfirmed(lease, known, known), now);
    if (covered(lease->root, timeout) < lease->until) {
        lease->until =
            covered(lease->root, timeout); /* what was proved was proved for the longer one */
    }
    if (timeout < lease->timeout) {
        /* Not ever longer again: a touch through an earlier server may arrive late, and shorten
         * (ExpiryQueue.update). */
        lease->timeout = timeout;
    }
    for (unsigned i = 0; i < ZKL__LEASE_RINGS; i++) {
        lease->rings[i].count = 0;
    }
    if (known >= 0) {
        push(&lease->rings[1], known, now, 1);
        push(&lease->rings[3], known, now, 1);
    }
}

bool zkl__lease_response(struct zkl__lease *lease, enum zkl__proof proof, int64_t sent,
                         int64_t answered)
{
    bool grew = false;
    int64_t root = newest_root(&lease->rings[last_ring(lease->hops)], sent);
    if (root >= 0 && proof != ZKL__PROOF_RESPONSE) {
        bool confirmed = proof == ZKL__PROOF_COMMIT;
        touch(lease, confirmed ? root : unconfirmed(lease, root, sent), answered);
    }
    if (root >= 0 && proof == ZKL__PROOF_COMMIT && sent >= lease->doubt) {
        lease->doubt = 0;
        lease->root = root > lease->root ? root : lease->root;
        if (covered(root, lease->timeout) > lease->until) {
            lease->until = covered(root, lease->timeout);
            grew = true;
        }
    }
    for (unsigned ring = ZKL__LEASE_RINGS - 1; ring > 0 && proof != ZKL__PROOF_RESPONSE; ring--) {
        root =
            newest_root(&lease->rings[ring - 1], waits_for_a_ping(ring) ? sent - lease->gap : sent);
        if (root >= 0) {
            push(&lease->rings[ring], root, answered, 1);
        }
    }
    push(&lease->rings[0], sent, answered, ring_step(lease->gap) + 1);
    return grew;
}

/* The timeout is the server's word: one of nothing, or less, must not make a loop without a pause.
 */
static int64_t period(int64_t timeout, int64_t parts)
{
    return timeout / parts > PERIOD_LEAST ? timeout / parts : PERIOD_LEAST;
}

int64_t zkl__lease_heartbeat(int64_t timeout)
{
    return period(timeout, 12);
}

/* A sixth of the timeout between two syncs leaves half of it behind each response, so that a change
 * of the leader, or a reconnect that takes a third of it, leaves no doubt. With two hops an
 * idle session's chain has five links, and with a long gap it spans more than three intervals: it
 * is renewed as a holder's, or it would come too late. */
int64_t zkl__lease_keepalive(const struct zkl__lease *lease)
{
    int64_t sixth = period(lease->timeout, 6);
    return lease->hops == ZKL__HOPS_ONE && lease->gap < 2 * sixth
               ? sixth
               : zkl__lease_heartbeat(lease->timeout);
}

int64_t zkl__lease_least(int64_t timeout, int64_t gap, enum zkl__hops hops)
{
    int64_t beats = 2 * (int64_t)hops + 1;
    return timeout - timeout / DRIFT - (int64_t)hops * gap - beats * zkl__lease_heartbeat(timeout) -
           ring_step(gap);
}

int64_t zkl__lease_low(const struct zkl__lease *lease, int64_t now)
{
    int64_t beat = zkl__lease_heartbeat(lease->timeout), at = now;
    const struct zkl__lease_link *link = NULL;
    unsigned ring = last_ring(lease->hops) + 1;
    for (; ring > 0; ring--) {
        const struct zkl__lease_ring *last = &lease->rings[ring - 1];
        for (unsigned i = last->count; i > 0 && last->count - i < ZKL__LEASE_LINKS &&
                                       link_at(last, i - 1)->root > lease->root;
             i--) {
            link = link_at(last, i - 1); /* the oldest one that would make the lease grow */
        }
        if (link) {
            break;
        }
    }
    int64_t answered = link ? link->answered : now;
    for (; ring <= last_ring(lease->hops) + 1; ring++) {
        int64_t earliest = waits_for_a_ping(ring) ? answered + lease->gap : answered;
        at = earliest > at ? earliest : at;
        at += beat;
        answered = at;
    }
    return lease->until - at - ring_step(lease->gap);
}

/* === the tickTime of the servers ============================================================== */

#define MS INT64_C(1000000)

int zkl__lease_check(const zkl_session_options *options, int64_t timeout, enum zkl__hops hops,
                     zkl_error *err)
{
    int64_t gap = options->tick_ms * MS / 2 + options->leader_pause_ms * MS;
    int64_t enough = timeout;
    while (zkl__lease_least(enough, gap, hops) < enough / 10) {
        enough += 100 * MS;
    }
    if (enough == timeout) {
        return ZKL_OK;
    }
    return zkl__fail_at(
        err, ZKL_EINVAL, NULL,
        "the session timeout of %lld ms (negotiated) leaves no lease with tick_ms "
        "%lld and leader_pause_ms "
        "%lld%s; %lld ms would do%s",
        (long long)(timeout / MS), (long long)options->tick_ms, (long long)options->leader_pause_ms,
        hops == ZKL__HOPS_TWO ? " where an observer may follow a follower" : "",
        (long long)((enough + MS - 1) / MS),
        hops == ZKL__HOPS_TWO ? ", or observer_masters -1 (--observer-masters none) "
                                "if no server has an observerMasterPort"
                              : "");
}

int64_t zkl__tick_of_timeout(int64_t asked_ms, int64_t negotiated_ms)
{
    return negotiated_ms > asked_ms   ? negotiated_ms / 2
           : negotiated_ms < asked_ms ? negotiated_ms / 20
                                      : 0;
}
