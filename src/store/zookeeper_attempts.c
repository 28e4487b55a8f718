/* zookeeper_attempts.c - how a session comes to its first connection: one attempt after the other,
 * each with a handle of its own.
 *
 * The library gives a server two thirds of the session timeout to respond, and a server that
 * accepts the connection and says nothing (stopped, or behind a firewall that drops packets) uses
 * up all of it. One stamp before zookeeper_init would count that time against the first lease. So
 * an attempt ends after a limit of ours: the address that it hung at is left out for the rest of
 * the round, and the next attempt has a new handle and a new stamp. When every address has been
 * left out, a new round begins with twice the limit, up to what the library would wait. Addresses
 * that refuse are passed over by the library itself.
 *
 * A handle that is given up may still get a session: zookeeper_close ends it, and nothing was made
 * in it. Once there is a session to keep, its handle stays: only the library can move it to another
 * server. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "zookeeper_store.h"

#define MS INT64_C(1000000)
#define LIMIT_LEAST (200 * MS)
#define LIMIT_FIRST_MOST (1000 * MS)
#define PARTING_MOST 8 /* handles that are being closed: a blocked SSL_connect may hold one up */
#define ADDRESS_TEXT 128

/* --- which addresses ------------------------------------------------------------------------- */

/* Whether list, separated by commas, has an entry of this text. */
static bool has_entry(const char *list, const char *entry, size_t length)
{
    while (*list) {
        size_t each = strcspn(list, ",");
        if (each == length && memcmp(list, entry, length) == 0) {
            return true;
        }
        list += each + (list[each] == ',');
    }
    return false;
}

static size_t append_entry(char *list, size_t used, const char *entry, size_t length)
{
    if (used > 0) {
        list[used++] = ',';
    }
    memcpy(list + used, entry, length);
    list[used + length] = '\0';
    return used + length;
}

/* The addresses that are not left out, each once; an odd number of them (ZOOKEEPER-2466). out: room
 * for all and one more. */
static void remaining(char *out, const char *all, const char *left_out)
{
    size_t used = 0, count = 0, first = 0;
    *out = '\0';
    for (const char *at = all; *at;) {
        size_t length = strcspn(at, ",");
        if (!has_entry(left_out, at, length) && !has_entry(out, at, length)) {
            used = append_entry(out, used, at, length);
            first = count == 0 ? length : first;
            count++;
        }
        at += length + (at[length] == ',');
    }
    if (count > 0 && count % 2 == 0) {
        append_entry(out, used, out, first);
    }
}

/* The address that the attempt is at now, as the list has it: the library puts brackets around
 * those of IPv6, into one buffer for all handles of the process (ZOOKEEPER-4810), so what it says
 * may be none. */
static void current_address(char out[ADDRESS_TEXT], struct zkl__store *store)
{
    char text[ADDRESS_TEXT];
    snprintf(text, sizeof text, "%s", zoo_get_current_server(store->zh));
    char *end = strchr(text, ']');
    if (text[0] == '[' && end) {
        memmove(end, end + 1, strlen(end));
        memmove(text, text + 1, strlen(text));
    }
    size_t length = strlen(text);
    if (!has_entry(store->given, text, length)) {
        length = strcspn(store->given, ",");
        memcpy(text, store->given, length < sizeof text ? length : sizeof text - 1);
        length = length < sizeof text ? length : sizeof text - 1;
    }
    memcpy(out, text, length);
    out[length] = '\0';
}

/* The list for the next attempt, which the caller owns; NULL: no memory. */
static char *next_list(struct zkl__store *store)
{
    char address[ADDRESS_TEXT];
    size_t room = 2 * strlen(store->addresses) + ADDRESS_TEXT + 2;
    char *left_out = zkl__zalloc(&store->heap, room), *list = zkl__zalloc(&store->heap, room);
    if (!left_out || !list) {
        zkl__free(&store->heap, left_out);
        zkl__free(&store->heap, list);
        return NULL;
    }
    current_address(address, store);
    size_t used = (size_t)snprintf(left_out, room, "%s", store->left_out ? store->left_out : "");
    if (used + strlen(address) + 2 < room) {
        append_entry(left_out, used, address, strlen(address));
    }
    remaining(list, store->addresses, left_out);
    if (!*list) {
        *left_out = '\0';
        remaining(list, store->addresses, left_out);
        int64_t most = store->timeout_ms * MS * 2 / 3;
        store->limit_ns = 2 * store->limit_ns < most ? 2 * store->limit_ns : most;
    }
    zkl__free(&store->heap, store->left_out);
    store->left_out = left_out;
    return list;
}

/* --- handles that are given up --------------------------------------------------------------- */

void zkl__zk_release(struct zkl__store *store)
{
    pthread_mutex_lock(&store->mutex);
    store->orphaned = store->parting > 0;
    bool orphaned = store->orphaned;
    pthread_mutex_unlock(&store->mutex);
    if (!orphaned) {
        zkl__zk_free(store);
    }
}

/* --- the next attempt ------------------------------------------------------------------------ */

void zkl__zk_attempt_begins(struct zkl__store *store)
{
    if (store->limit_ns == 0) {
        int64_t limit = store->timeout_ms * MS / 8;
        limit = limit > LIMIT_LEAST ? limit : LIMIT_LEAST;
        store->limit_ns = limit < LIMIT_FIRST_MOST ? limit : LIMIT_FIRST_MOST;
    }
    store->attempt_ns = store->began_ns + store->limit_ns;
}

/* A handle that hung is replaced by the one for list. False: it is kept, for want of memory,
 * descriptors or threads. */
static bool replace_handle(struct zkl__store *store, char *list)
{
    struct zk_parting *parting = zkl__zalloc(&store->heap, sizeof *parting);
    zhandle_t *old = store->zh;
    char *given = store->given;
    if (!parting) {
        return false;
    }
    store->given = list;
    if (zkl__zk_start(store) != ZKL_OK) {
        store->given = given;
        zkl__free(&store->heap, parting);
        return false;
    }
    *parting = (struct zk_parting){store, old};
    zkl__free(&store->heap, given);
    zkl__zk_part_from(parting);
    return true;
}

int64_t zkl__zk_attempt_next(struct zkl__store *store, int64_t now)
{
    if (store->ever || !store->zh) {
        return INT64_MAX;
    }
    /* Every address refuses: the library rests before it tries them again, and a new attempt has a
     * newer stamp. */
    int64_t rests = store->began_ns + store->limit_ns / 4;
    bool refused = now >= rests && zoo_state(store->zh) == ZOO_NOTCONNECTED_STATE;
    if (now < store->attempt_ns && !refused) {
        return now < rests ? rests : store->attempt_ns;
    }
    char *list = store->inside || store->parting >= PARTING_MOST ? NULL : next_list(store);
    if (!list || !replace_handle(store, list)) {
        zkl__free(&store->heap, list);
        store->attempt_ns = now + store->limit_ns;
    }
    return store->attempt_ns;
}
