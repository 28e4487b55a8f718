/* place_notice.c - what the user hears of a place: each loss, and the latest state. */
#include "place_inside.h"

void zkl__place_note(struct zkl__place *place, zkl_state state)
{
    if (!place->config.listens || place->freed) {
        return;
    }
    if (state == ZKL_STATE_LOST) {
        place->losses++;
        place->latest = place->told = ZKL_STATE_IDLE;
    } else {
        place->latest = state;
    }
    zkl__callbacks_post(zkl__session_callbacks(place->session), &place->notice);
}

void zkl__place_note_revoked(struct zkl__place *place)
{
    if (!place->freed) {
        place->revoked = true;
        zkl__callbacks_post(zkl__session_callbacks(place->session), &place->notice);
    }
}

/* The next state to be told; ZKL_STATE_IDLE: none is. */
static zkl_state next_note(struct zkl__place *place)
{
    zkl_state state = place->latest;
    if (place->freed) {
        return ZKL_STATE_IDLE;
    }
    if (place->losses > 0) {
        place->losses--;
        return ZKL_STATE_LOST;
    }
    place->latest = ZKL_STATE_IDLE;
    if (state == ZKL_STATE_IDLE || state == place->told) { /* there and back again, before anybody heard of it */
        return ZKL_STATE_IDLE;
    }
    place->told = state;
    return state;
}

void zkl__place_run_notes(void *owner)
{
    struct zkl__place *place = owner;
    zkl_session *session = place->session;
    if (zkl__session_enter_even_closed(session, NULL) != ZKL_OK) {
        return;
    }
    place->refs++;
    for (zkl_state state; (state = next_note(place)) != ZKL_STATE_IDLE;) {
        zkl__session_leave(session);
        place->ops->tell(place, state);
        if (zkl__session_enter_even_closed(session, NULL) != ZKL_OK) {
            return;
        }
    }
    if (place->revoked && !place->freed) {
        place->revoked = false;
        zkl__session_leave(session);
        place->ops->revoked(place);
        if (zkl__session_enter_even_closed(session, NULL) != ZKL_OK) {
            return;
        }
    }
    zkl__place_unref(place);
    zkl__session_leave(session);
}

void zkl__place_tell_end(struct zkl__place *place)
{
    for (struct zkl__listener *listener = place->listeners; listener; listener = listener->next) {
        listener->ended(listener->owner);
    }
}

void zkl__place_listen(struct zkl__place *place, struct zkl__listener *listener)
{
    listener->next = place->listeners;
    place->listeners = listener;
}

void zkl__place_unlisten(struct zkl__place *place, struct zkl__listener *listener)
{
    struct zkl__listener **at = &place->listeners;
    while (*at != listener) {
        at = &(*at)->next;
    }
    *at = listener->next;
}
