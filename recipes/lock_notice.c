/* lock_notice.c - what the user hears of a lock: each loss, and the latest state. */
#include "lock_internal.h"

void zkl__lock_note(zkl_lock *lock, zkl_state state)
{
    if (!lock->options.state_fn || lock->freed) {
        return;
    }
    if (state == ZKL_STATE_LOST) {
        lock->losses++;
        lock->latest = lock->told = ZKL_STATE_IDLE;
    } else {
        lock->latest = state;
    }
    zkl__callbacks_post(zkl__session_callbacks(lock->session), &lock->notice);
}

void zkl__lock_note_revoked(zkl_lock *lock)
{
    if (!lock->freed) {
        lock->revoked = true;
        zkl__callbacks_post(zkl__session_callbacks(lock->session), &lock->notice);
    }
}

/* The next state to be told; ZKL_STATE_IDLE: none is. */
static zkl_state next_note(zkl_lock *lock)
{
    zkl_state state = lock->latest;
    if (lock->freed) {
        return ZKL_STATE_IDLE;
    }
    if (lock->losses > 0) {
        lock->losses--;
        return ZKL_STATE_LOST;
    }
    lock->latest = ZKL_STATE_IDLE;
    if (state == ZKL_STATE_IDLE ||
        state == lock->told) { /* there and back again, before anybody heard of it */
        return ZKL_STATE_IDLE;
    }
    lock->told = state;
    return state;
}

void zkl__lock_run_notes(void *owner)
{
    zkl_lock *lock = owner;
    zkl_session *session = lock->session;
    if (zkl__session_enter_even_closed(session, NULL) != ZKL_OK) {
        return;
    }
    lock->refs++;
    bool moved = lock->moved && !lock->freed && lock->acquisition && !lock->acquisition->settled;
    lock->moved = false;
    if (moved) {
        size_t ahead = lock->ahead;
        zkl__session_leave(session);
        lock->options.position_fn(lock, ahead, lock->options.payload);
        if (zkl__session_enter_even_closed(session, NULL) != ZKL_OK) {
            return;
        }
    }
    for (zkl_state state; (state = next_note(lock)) != ZKL_STATE_IDLE;) {
        zkl__session_leave(session);
        lock->options.state_fn(lock, state, lock->options.payload);
        if (zkl__session_enter_even_closed(session, NULL) != ZKL_OK) {
            return;
        }
    }
    if (lock->revoked && !lock->freed) {
        lock->revoked = false;
        zkl__session_leave(session);
        lock->options.revoke_fn(lock, lock->options.payload);
        if (zkl__session_enter_even_closed(session, NULL) != ZKL_OK) {
            return;
        }
    }
    zkl__lock_unref(lock);
    zkl__session_leave(session);
}

void zkl__lock_tell_end(zkl_lock *lock)
{
    for (struct zkl__listener *listener = lock->listeners; listener; listener = listener->next) {
        listener->ended(listener->owner);
    }
}

void zkl__lock_listen(zkl_lock *lock, struct zkl__listener *listener)
{
    listener->next = lock->listeners;
    lock->listeners = listener;
}

void zkl__lock_unlisten(zkl_lock *lock, struct zkl__listener *listener)
{
    struct zkl__listener **at = &lock->listeners;
    while (*at != listener) {
        at = &(*at)->next;
    }
    *at = listener->next;
}
