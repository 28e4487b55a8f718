/* window.h - how many operations of a session may be under way, so that its heartbeats are never
 * far behind them.
 *
 * What a session sends is carried out in its order, by the client library and by the server. So
 * whoever asks for 20,000 locks at once would send its own heartbeats behind 40,000 requests. The
 * latency of the answers says how long that line is: the window grows while they come within an
 * eighth of a heartbeat, and halves when they do not (additive increase, multiplicative decrease).
 */
#ifndef ZKL_PROTOCOL_WINDOW_H
#define ZKL_PROTOCOL_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct zkl__window {
    size_t size, most; /* most 0: no limit */
    size_t under_way;
    size_t credit; /* answers in time since it last grew */
    bool slowed;   /* it has been too large once: from then on it grows by one for a whole window of
                      answers */
    int64_t slowed_at;
};

void zkl__window_init(struct zkl__window *window, size_t most);
bool zkl__window_has_room(const struct zkl__window *window);
void zkl__window_sent(struct zkl__window *window);
/* answered: by the server; else nothing is learned. heartbeat: their interval. */
void zkl__window_ended(struct zkl__window *window, bool answered, int64_t sent, int64_t now,
                       int64_t heartbeat);

#endif
