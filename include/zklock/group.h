/* zklock/group.h - group membership: members with an id and data, for as long as their sessions
 * live.
 *
 * A zkl_group is one membership: the ephemeral znode path/id, whose data is the member's. It is
 * Curator's GroupMember, so members of both libraries see each other. Threads, callbacks and
 * timeouts are as in zklock/lock.h.
 *
 * Guarantees. Once joined, it is a member until it leaves: when its session ends, or somebody
 * removes its znode, it joins again by itself. Two members never have the same id: one that finds
 * its id taken waits until the other has left, also when that other is its own znode of an earlier
 * session, which the servers have not ended yet. Caveat. A group is no lock: a member that is
 * listed may have ended already, and one that is cut off is listed until the servers end its
 * session. */
#ifndef ZKLOCK_GROUP_H
#define ZKLOCK_GROUP_H

#include <zklock/session.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zkl_group zkl_group;

/* ZKL_STATE_HELD: it is a member. ZKL_STATE_WAITING: it no longer is, and tries to join again. Runs
 * as callbacks do (zklock/session.h); of quick changes only the latest is reported. */
typedef void (*zkl_group_state_fn)(zkl_group *group, zkl_state state, void *payload);

typedef struct zkl_group_options {
    size_t size;              /* sizeof(zkl_group_options): set by the _INIT */
    const char *data;         /* of the member; UTF-8, ZKL_DATA_MAX bytes. NULL: "host:pid" */
    int64_t leave_timeout_ms; /* how long a leave waits for the server's response; 0: not at all.
                                 1000 */
    const zkl_acl *acl;       /* of our znode and of directories made for it; NULL: the session's */
    zkl_group_state_fn state_fn;
    void *payload;
} zkl_group_options;

#define ZKL_GROUP_OPTIONS_INIT                                  \
    {                                                           \
        sizeof(zkl_group_options), NULL, 1000, NULL, NULL, NULL \
    }

/* Makes a membership of the group at path (an absolute znode path under the session's chroot), with
 * an id that nobody else in the group has: one component of a path. Talks to no server. Copies what
 * it is given (options NULL: defaults). The caller frees it, before or after the session is closed.
 * Errors: ZKL_EINVAL (the text names what is wrong), ZKL_ECLOSED, ZKL_EFORKED, ZKL_ENOMEM,
 * ZKL_ELIMIT (no thread for callbacks). */
ZKL_API int zkl_group_new(zkl_group **out, zkl_session *session, const char *path, const char *id,
                          const zkl_group_options *options, zkl_error *err);

/* Joins, and waits until it is a member: timeout_ms at most. On any result but ZKL_OK it does not
 * go on trying, and no znode of it stays. It creates its znode and reads no list, so it does not
 * notice contenders at path: zkl_group_list does. Errors: ZKL_ETIMEOUT (no server, or another
 * member has the id), ZKL_EDEADLK (joined already), ZKL_ECONFLICT (another zkl_group of this
 * session has path and id, or a znode of that name is no member), ZKL_EAUTH, ZKL_ENOENT (the chroot
 * does not exist), ZKL_ECANCELED (it left meanwhile), ZKL_EINVAL, ZKL_ECLOSED, ZKL_EFORKED,
 * ZKL_ENOMEM. */
ZKL_API int zkl_group_join(zkl_group *group, int64_t timeout_ms, zkl_error *err);
/* The same without waiting (zkl_done_fn in zklock/types.h). zkl_group_leave and zkl_group_free end
 * it early, with ZKL_ECANCELED. Errors, of the call or in done: as above, ZKL_ELIMIT. */
ZKL_API int zkl_group_join_async(zkl_group *group, int64_t timeout_ms, zkl_done_fn done,
                                 void *payload, zkl_error *err);

/* Leaves; waits for the server's response for leave_timeout_ms at most, and then goes on in the
 * background until the znode is deleted or the session has ended. ZKL_ENOTHELD: has not joined. */
ZKL_API int zkl_group_leave(zkl_group *group, zkl_error *err);
/* The same without waiting: done is called with ZKL_OK when the server has responded, after
 * leave_timeout_ms, or when zkl_group_free or zkl_session_close ends the wait. No stop token ends
 * it. Errors of the call: ZKL_ENOTHELD (has not joined), ZKL_EINVAL, ZKL_ELIMIT, ZKL_ECLOSED,
 * ZKL_EFORKED, ZKL_ENOMEM: then it is still a member. */
ZKL_API int zkl_group_leave_async(zkl_group *group, zkl_done_fn done, void *payload,
                                  zkl_error *err);

/* Gives this member other data, now and for later joins. Waits timeout_ms at most until the server
 * has it; goes on after that, and after a refusal of the servers, which ends all updates that are
 * under way. Errors: ZKL_ENOTHELD (has not joined), ZKL_EINVAL (data), ZKL_ETIMEOUT, ZKL_EAUTH,
 * ZKL_ELIMIT (a quota), ZKL_ECANCELED, ZKL_ECLOSED, ZKL_EFORKED, ZKL_ENOMEM. */
ZKL_API int zkl_group_update(zkl_group *group, const char *data, int64_t timeout_ms,
                             zkl_error *err);
/* The same without waiting. zkl_group_leave and zkl_group_free end it early, with ZKL_ECANCELED.
 * Errors, of the call or in done: as above, ZKL_ELIMIT. */
ZKL_API int zkl_group_update_async(zkl_group *group, const char *data, int64_t timeout_ms,
                                   zkl_done_fn done, void *payload, zkl_error *err);

/* Leaves, in the background, waits for a callback of this group that is running (not when called
 * from it), and frees. No callback of it starts afterwards. NULL is fine. */
ZKL_API void zkl_group_free(zkl_group *group);

/* ZKL_STATE_IDLE, _WAITING (joins, or joins again) or _HELD: a member, by the servers' last
 * response. */
ZKL_API zkl_state zkl_group_state(const zkl_group *group);

/* --- the members ----------------------------------------------------------------------------- */

typedef struct zkl_member {
    const char *id;
    const char *data; /* NUL-terminated for convenience; may be cut at ZKL_DATA_MAX */
    size_t data_size;
    int64_t token; /* czxid: another one when the member has joined again */
    int64_t session_id;
    bool readable; /* false: its access list hides the data; and token and session_id, 0 then, from
                      ZooKeeper 3.8.4 and 3.9.2 on */
    int64_t reserved[2]; /* zero */
} zkl_member;

/* Sorted by id. */
typedef struct zkl_members {
    size_t count;
    const zkl_member *members;
} zkl_members;

/* Lists the members. A path that does not exist is an empty group; a znode that no session owns is
 * no member. Free with zkl_members_free. Waits timeout_ms at most. Errors: ZKL_EINVAL,
 * ZKL_ETIMEOUT, ZKL_EAUTH, ZKL_ECONFLICT (a contender for a lock stands there), ZKL_ECLOSED,
 * ZKL_EFORKED, ZKL_ENOMEM. */
ZKL_API int zkl_group_list(zkl_members **out, zkl_session *session, const char *path,
                           int64_t timeout_ms, zkl_error *err);
/* The same without waiting. out is written before done is called with ZKL_OK, and is NULL else.
 * Errors, of the call or in done: as above, ZKL_ECANCELED (a stop token is raised), ZKL_ELIMIT. */
ZKL_API int zkl_group_list_async(zkl_members **out, zkl_session *session, const char *path,
                                 int64_t timeout_ms, zkl_done_fn done, void *payload,
                                 zkl_error *err);
/* NULL is fine. */
ZKL_API void zkl_members_free(zkl_members *members);

typedef struct zkl_group_observer zkl_group_observer;

/* ids, sorted, live until it returns. Runs as callbacks do. The first call reports the members at
 * the start, later calls every change of who they are, not of their data; of quick changes only the
 * latest is reported. A member that came back under its id between two looks is no change. At a
 * lock's path the session's log has a warning (ZKL_LOG_WARN). */
typedef void (*zkl_group_changed_fn)(zkl_group_observer *observer, const char *const *ids,
                                     size_t count, void *payload);

/* Observes the members until freed, also over lost connections and sessions: then the last report
 * stands until a server responds again. The caller frees it, before or after the session is closed.
 * Errors: ZKL_EINVAL, ZKL_ECLOSED, ZKL_EFORKED, ZKL_ENOMEM, ZKL_ELIMIT. */
ZKL_API int zkl_group_observe(zkl_group_observer **out, zkl_session *session, const char *path,
                              zkl_group_changed_fn changed, void *payload, zkl_error *err);
/* Ends it; waits for a running call of changed (not when called from it). None starts afterwards.
 * NULL is fine. */
ZKL_API void zkl_group_observer_free(zkl_group_observer *observer);

#ifdef __cplusplus
}
#endif
#endif
