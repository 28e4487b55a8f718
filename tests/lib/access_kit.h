/* access_kit.h - contenders with different credentials in one open queue, of every kind: on real servers and on memory:. Anybody may list
 * the queue; of a znode in it only its owner may know more than the name. */
#ifndef ZKL_TESTS_ACCESS_KIT_H
#define ZKL_TESTS_ACCESS_KIT_H

#include "handle_kit.h"

struct access_kind {
    const char *name;
    const char *path;                   /* open to all: access_begin makes it */
    const char *queue;                  /* where who waits stands */
    const struct handle_recipe *recipe; /* NULL: writers and readers in turn, each waits for the one before it */
};
enum { ACCESS_KINDS = 6 };
extern const struct access_kind access_kinds[ACCESS_KINDS];
zkl_lock *access_make(const struct access_kind *kind, zkl_session *session, const char *path, const zkl_acl *acl);

/* Nobody may read a znode that has it. (With credentials and without a list, only its owner may.) */
extern const zkl_acl access_hidden;

/* Three sessions that contend, of two credentials, and one without that looks on. */
struct access {
    zkl_session *sessions[3], *eye;
};
/* What cannot be had fails the test for good. auth false: no credentials. */
void access_begin(struct access *access, const char *servers, bool auth, int64_t tick_ms);
void access_end(struct access *access);

/* One holds, the others queue one behind the other, each is released in its turn. How long the slower of the two took from the
 * release before it to its grant, ns. */
int64_t access_hand_over(struct access *access, const struct access_kind *kind, const zkl_acl *acl);
/* One holds, another one waits behind it and has all its replies. How many requests it then sends in a second, beyond the
 * holder's heartbeats: 0, unless it repeats what was refused. */
uint64_t access_requests(struct access *access, const struct access_kind *kind, const zkl_acl *acl);
/* Sent by the session until now. */
uint64_t access_sent(zkl_session *session);
/* Returns when it has sent another one. */
void access_await_request(zkl_session *session);

#endif
