#include "window.h"

#define FIRST 256
#define LEAST 32 /* a server that is slow by itself, or far away, gets no faster by less */
#define PART 8   /* of a heartbeat: what the answers may take */

void zkl__window_init(struct zkl__window *window, size_t most)
{
    *window = (struct zkl__window){.size = most && most < FIRST ? most : FIRST, .most = most};
}

bool zkl__window_has_room(const struct zkl__window *window)
{
    return window->under_way < window->size;
}

void zkl__window_sent(struct zkl__window *window)
{
    window->under_way++;
}

static void grow(struct zkl__window *window)
{
    window->credit++;
    if ((!window->slowed || window->credit >= window->size) &&
        (window->most == 0 || window->size < window->most)) {
        window->size++;
        window->credit = 0;
    }
}

/* Once for all that was under way together. */
static void shrink(struct zkl__window *window, int64_t sent, int64_t now)
{
    if (sent >= window->slowed_at && window->size > LEAST) {
        window->size = window->size / 2 > LEAST ? window->size / 2 : LEAST;
        window->slowed = true;
        window->slowed_at = now;
        window->credit = 0;
    }
}

void zkl__window_ended(struct zkl__window *window, bool answered, int64_t sent, int64_t now,
                       int64_t heartbeat)
{
    bool used = 2 * window->under_way > window->size; /* else its size is not what is measured */
    window->under_way--;
    if (answered && used && now - sent > heartbeat / PART) {
        shrink(window, sent, now);
    } else if (answered && used) {
        grow(window);
    }
}
