/* public_calls.h - one row for each function of include/zklock, for test_public_calls.c: what it returns for a NULL, of a closed session,
 * in the child of a fork, and without memory. The test unit_public_calls_whole compares the names with the library's.
 *
 * A row: the function; how many of its arguments may not be NULL, which the call writes as P(1, ...), P(2, ...); what it returns without
 * memory; the call. Four kinds of row:
 *   CODE  ZKL_EINVAL for a NULL, ZKL_ECLOSED of a closed session, ZKL_EFORKED in a child
 *   IDLE  0 in all three
 *   PURE  knows no session: the same everywhere, after the number of arguments
 *   ODD   says itself what it returns for a NULL, of a closed session, in a child
 * ANY: not compared, since it depends on the object or the moment.
 * PAIR: a CODE for the function with these arguments and err, and one for its form of the name ..._async. BOTH: with a timeout, too.
 * NEW: what makes an object of a session at a path. FREE: what ends one. FAULT: of testing.h.
 * The flag of a section lives in it alone: test_section.c. */
#define PAIR(name, nulls, starved, ...)                \
    CODE(name, nulls, starved, name(__VA_ARGS__, err)) \
    CODE(name##_async, nulls + 1, starved, name##_async(__VA_ARGS__, P(nulls + 1, on_done), NULL, err))
#define BOTH(name, nulls, starved, ...) PAIR(name, nulls, starved, __VA_ARGS__, MS)
#define NEW(name, object, path, ...) \
    CODE(name, 3, ZKL_ENOMEM, name(P(1, &t->made.object), P(2, t->session), P(3, path), __VA_ARGS__, err))
#define FREE(name) PURE(name, 0, 0, (name(NULL), 0))
#define FAULT(name, ...) ODD(name, 1, ZKL_EINVAL, ZKL_EINVAL, ZKL_EFORKED, ANY, name(P(1, t->session), __VA_ARGS__))
#define PUBLIC_CALLS                                                                                                   \
    /* error.h, types.h, version.h */                                                                                  \
    PURE(zkl_strerror, 0, ANY, zkl_strerror(ZKL_EBUSY) != NULL)                                                        \
    PURE(zkl_error_name, 0, ANY, zkl_error_name(ZKL_EBUSY) != NULL)                                                    \
    PURE(zkl_error_class, 0, ZKL_CLASS_RETRY, zkl_error_class(ZKL_EBUSY))                                              \
    PURE(zkl_state_name, 0, ANY, zkl_state_name(ZKL_STATE_HELD) != NULL)                                               \
    PURE(zkl_version, 0, ANY, zkl_version() != NULL)                                                                   \
    ODD(zkl_path_check, 1, ZKL_EINVAL, ZKL_OK, ZKL_OK, ZKL_OK, zkl_path_check(P(1, "/path"), err))                     \
    /* stop.h */                                                                                                       \
    PURE(zkl_stop_raised, 1, 0, zkl_stop_raised(P(1, &t->stop)))                                                       \
    PURE(zkl_stop_raise, 0, 0, (zkl_stop_raise(&t->other_stop), 0))                                                    \
    /* session.h */                                                                                                    \
    ODD(zkl_session_open, 2, ZKL_EINVAL, ANY, ANY, ZKL_ENOMEM,                                                         \
        zkl_session_open(P(1, &t->made.session), P(2, PLACE), t->starved, err))                                        \
    ODD(zkl_session_open_async, 3, ZKL_EINVAL, ANY, ANY, ZKL_ENOMEM,                                                   \
        zkl_session_open_async(P(1, &t->made.session), P(2, PLACE), t->starved, P(3, on_done), NULL, err))             \
    ODD(zkl_session_close, 1, ZKL_OK, ANY, ZKL_EFORKED, ANY,                                                           \
        null || t->closes ? zkl_session_close(P(1, t->session), MS) : ANY)                                             \
    ODD(zkl_session_close_async, 2, ZKL_EINVAL, ZKL_ECLOSED, ZKL_EFORKED, ANY,                                         \
        null || t->closes ? zkl_session_close_async(P(1, t->session), MS, P(2, on_done), NULL, err) : ANY)             \
    ODD(zkl_session_fd, 1, -1, -1, -1, -1, zkl_session_fd(P(1, t->session)))                                           \
    ODD(zkl_session_dispatch, 1, ZKL_EINVAL, ZKL_EUNSUPPORTED, ZKL_EFORKED, ZKL_EUNSUPPORTED,                          \
        zkl_session_dispatch(P(1, t->session)))                                                                        \
    ODD(zkl_session_state, 1, ZKL_SESSION_CLOSED, ZKL_SESSION_CLOSED, ZKL_SESSION_CLOSED, ANY,                         \
        (int)zkl_session_state(P(1, t->session)))                                                                      \
    IDLE(zkl_session_id, 1, zkl_session_id(P(1, t->session)))                                                          \
    IDLE(zkl_session_timeout_ms, 1, zkl_session_timeout_ms(P(1, t->session)))                                          \
    IDLE(zkl_session_least_lease_ms, 1, zkl_session_least_lease_ms(P(1, t->session)))                                  \
    IDLE(zkl_session_low_lease_ms, 1, zkl_session_low_lease_ms(P(1, t->session)))                                      \
    /* stats.h */                                                                                                      \
    ODD(zkl_session_stats, 2, ZKL_EINVAL, ZKL_OK, ZKL_EFORKED, ZKL_OK,                                                 \
        zkl_session_stats(P(1, t->session), P(2, &t->stats)))                                                          \
    ODD(zkl_session_path_stats, 2, ZKL_EINVAL, ANY, ZKL_EFORKED, ANY,                                                  \
        zkl_session_path_stats(P(1, t->session), P(2, on_path), NULL))                                                 \
    ODD(zkl_stats_write_prometheus, 1, ZKL_EINVAL, ANY, ZKL_EFORKED, ANY,                                              \
        zkl_stats_write_prometheus(P(1, t->session), NULL, NULL, 0))                                                   \
    /* lock.h */                                                                                                       \
    NEW(zkl_lock_new, lock, "/n/lock", NULL)                                                                           \
    CODE(zkl_lock_acquire, 1, ZKL_ENOMEM, zkl_lock_acquire(P(1, t->lock), MS, NULL, err))                              \
    CODE(zkl_lock_acquire_async, 2, ZKL_ENOMEM,                                                                        \
         zkl_lock_acquire_async(P(1, t->lock), MS, P(2, on_acquire), NULL, err))                                       \
    CODE(zkl_lock_cancel, 1, ZKL_ENOTWAITING, zkl_lock_cancel(P(1, t->lock)))                                          \
    CODE(zkl_lock_set_stop, 1, ZKL_OK, zkl_lock_set_stop(P(1, t->lock), NULL, err))                                    \
    CODE(zkl_lock_release, 1, ZKL_ENOTHELD, zkl_lock_release(P(1, t->lock), err))                                      \
    CODE(zkl_lock_release_async, 2, ZKL_ENOMEM, zkl_lock_release_async(P(1, t->lock), P(2, on_done), NULL, err))       \
    FREE(zkl_lock_free)                                                                                                \
    ODD(zkl_lock_recipe, 1, ANY, ZKL_RECIPE_ELECTION, ZKL_RECIPE_ELECTION, ZKL_RECIPE_ELECTION,                        \
        (int)zkl_lock_recipe(P(1, t->election)))                                                                       \
    IDLE(zkl_lock_is_held, 1, zkl_lock_is_held(P(1, t->lock)))                                                         \
    IDLE(zkl_lock_state, 1, (int)zkl_lock_state(P(1, t->lock)))                                                        \
    IDLE(zkl_lock_remaining_ms, 1, zkl_lock_remaining_ms(P(1, t->lock)))                                               \
    IDLE(zkl_lock_token, 1, zkl_lock_token(P(1, t->lock)))                                                             \
    ODD(zkl_lock_path, 1, 0, 1, ANY, 1, zkl_lock_path(P(1, t->lock))[0] != 0)                                          \
    IDLE(zkl_lock_node, 1, (int64_t)zkl_lock_node(P(1, t->lock), t->text, sizeof t->text))                             \
    PURE(zkl_cancel_raised, 0, 0, 0)                                                                                   \
    PURE(zkl_cancel_remaining_ms, 0, 0, 0)                                                                             \
    PURE(zkl_cancel_fd, 0, 0, 0)                                                                                       \
    CODE(zkl_with_lock, 2, ZKL_ENOMEM, zkl_with_lock(P(1, t->lock), MS, 0, P(2, run_nothing), t, NULL, err))           \
    CODE(zkl_session_locks, 2, 0, zkl_session_locks(P(1, t->session), P(2, on_lock), NULL))                            \
    /* rwlock.h, multilock.h, semaphore.h */                                                                           \
    NEW(zkl_read_lock_new, lock, "/n/rw", NULL)                                                                        \
    NEW(zkl_write_lock_new, lock, "/n/rw", NULL)                                                                       \
    CODE(zkl_write_lock_downgrade, 1, ZKL_ENOTHELD, zkl_write_lock_downgrade(P(1, t->writer), err))                    \
    NEW(zkl_multilock_new, lock, t->paths, 2, NULL)                                                                    \
    ODD(zkl_multilock_path, 1, 0, 1, ANY, 1, zkl_multilock_path(P(1, t->multilock), 1) != NULL)                        \
    NEW(zkl_semaphore_new, lock, "/n/permits", 2, NULL)                                                                \
    CODE(zkl_semaphore_acquire, 1, ZKL_ENOMEM, zkl_semaphore_acquire(P(1, t->semaphore), 2, MS, NULL, err))            \
    CODE(zkl_semaphore_acquire_async, 2, ZKL_ENOMEM,                                                                   \
         zkl_semaphore_acquire_async(P(1, t->semaphore), 2, MS, P(2, on_acquire), NULL, err))                          \
    CODE(zkl_semaphore_release, 1, ZKL_ENOTHELD, zkl_semaphore_release(P(1, t->semaphore), 0, err))                    \
    IDLE(zkl_semaphore_tokens, 1, zkl_semaphore_tokens(P(1, t->semaphore), &t->number, 1))                             \
    BOTH(zkl_semaphore_resize, 2, ZKL_ENOMEM, P(1, t->session), P(2, "/n/permits"), 3)                                 \
    /* election.h */                                                                                                   \
    NEW(zkl_election_new, lock, "/n/leader", NULL)                                                                     \
    BOTH(zkl_election_publish, 2, ANY, P(1, t->election), P(2, "value"))                                               \
    CODE(zkl_election_run, 2, ZKL_ENOMEM, zkl_election_run(P(1, t->election), 0, P(2, run_nothing), t, NULL, err))     \
    CODE(zkl_election_stand, 2, ZKL_ENOMEM, zkl_election_stand(P(1, t->election), P(2, on_stand), NULL, err))          \
    CODE(zkl_election_leave, 1, ZKL_ENOTWAITING, zkl_election_leave(P(1, t->election), err))                           \
    CODE(zkl_election_observe, 4, ZKL_ENOMEM,                                                                          \
         zkl_election_observe(P(1, &t->made.observer), P(2, t->session), P(3, "/n/leader"), P(4, on_leader), &unread,  \
                              err))                                                                                    \
    FREE(zkl_election_observer_free)                                                                                   \
    /* zookeeper.h */                                                                                                  \
    PAIR(zkl_lock_commit, 2, ANY, P(1, t->lock), P(2, &t->op), 1, MS, NULL)                                            \
    PAIR(zkl_lock_read, 3, ANY, P(1, &t->made.data), P(2, t->lock), P(3, "/n"), true, MS)                              \
    FREE(zkl_data_free)                                                                                                \
    /* group.h */                                                                                                      \
    CODE(zkl_group_new, 4, ZKL_ENOMEM,                                                                                 \
         zkl_group_new(P(1, &t->made.group), P(2, t->session), P(3, "/n/group"), P(4, "id"), NULL, err))               \
    CODE(zkl_group_join, 1, ZKL_ETIMEOUT, zkl_group_join(P(1, t->group), MS, err))                                     \
    CODE(zkl_group_join_async, 2, ZKL_ENOMEM, zkl_group_join_async(P(1, t->group), MS, P(2, on_done), NULL, err))      \
    BOTH(zkl_group_update, 1, ANY, P(1, t->group), "data")                                                             \
    PAIR(zkl_group_leave, 1, ANY, P(1, t->group))                                                                      \
    FREE(zkl_group_free)                                                                                               \
    IDLE(zkl_group_state, 1, (int)zkl_group_state(P(1, t->group)))                                                     \
    BOTH(zkl_group_list, 3, ZKL_ENOMEM, P(1, &t->made.members), P(2, t->session), P(3, "/n/group"))                    \
    FREE(zkl_members_free)                                                                                             \
    CODE(zkl_group_observe, 4, ZKL_ENOMEM,                                                                             \
         zkl_group_observe(P(1, &t->made.watcher), P(2, t->session), P(3, "/n/group"), P(4, on_members), NULL, err))   \
    FREE(zkl_group_observer_free)                                                                                      \
    /* barrier.h */                                                                                                    \
    BOTH(zkl_barrier_set, 2, ZKL_ENOMEM, P(1, t->session), P(2, "/n/barrier"))                                         \
    BOTH(zkl_barrier_lift, 2, ZKL_ENOMEM, P(1, t->session), P(2, "/n/barrier"))                                        \
    BOTH(zkl_barrier_wait, 2, ZKL_ENOMEM, P(1, t->session), P(2, "/n/barrier"))                                        \
    NEW(zkl_double_barrier_new, barrier, "/n/double", 1)                                                               \
    BOTH(zkl_double_barrier_enter, 1, ZKL_ENOMEM, P(1, t->barrier))                                                    \
    BOTH(zkl_double_barrier_leave, 1, ANY, P(1, t->barrier))                                                           \
    FREE(zkl_double_barrier_free)                                                                                      \
    /* partition.h */                                                                                                  \
    CODE(zkl_partition_new, 4, ZKL_ENOMEM,                                                                             \
         zkl_partition_new(P(1, &t->made.partition), P(2, t->session), P(3, "/n/parts"), P(4, t->pieces), 1,           \
                           &t->parts, err))                                                                            \
    CODE(zkl_partition_start, 1, ZKL_OK, zkl_partition_start(P(1, t->partition), err))                                 \
    ODD(zkl_partition_stop, 1, ZKL_EINVAL, ZKL_OK, ZKL_EFORKED, ZKL_OK, zkl_partition_stop(P(1, t->partition), err))   \
    CODE(zkl_partition_stop_async, 2, ANY, zkl_partition_stop_async(P(1, t->partition), P(2, on_done), NULL, err))     \
    FREE(zkl_partition_free)                                                                                           \
    IDLE(zkl_partition_owned, 1, (int64_t)zkl_partition_owned(P(1, t->partition), NULL, 0))                            \
    IDLE(zkl_partition_owns, 2, zkl_partition_owns(P(1, t->partition), P(2, "piece")))                                 \
    IDLE(zkl_partition_remaining_ms, 2, zkl_partition_remaining_ms(P(1, t->partition), P(2, "piece")))                 \
    ODD(zkl_partition_done, 2, ZKL_EINVAL, ZKL_ENOTHELD, ZKL_EFORKED, ZKL_ENOTHELD,                                    \
        zkl_partition_done(P(1, t->partition), P(2, t->pieces[0]), err))                                               \
    CODE(zkl_partition_commit, 2, ZKL_ENOTHELD,                                                                        \
         zkl_partition_commit(P(1, t->partition), P(2, t->pieces[0]), &t->op, 1, MS, NULL, err))                       \
    CODE(zkl_partition_commit_async, 2, ZKL_ENOTHELD,                                                                  \
         zkl_partition_commit_async(P(1, t->partition), P(2, t->pieces[0]), &t->op, 1, MS, NULL, on_done, NULL, err))  \
    /* once.h */                                                                                                       \
    BOTH(zkl_once_prepare, 2, ZKL_ENOMEM, P(1, t->session), P(2, "/n/once"))                                           \
    PAIR(zkl_once_look, 2, ANY, P(1, t->lock), 1000, 0, MS, P(2, &t->slot))                                            \
    BOTH(zkl_once_record, 2, ANY, P(1, t->lock), P(2, &t->slot))                                                       \
    PAIR(zkl_once_last, 4, ZKL_ENOMEM, P(1, t->session), P(2, "/n/once"), 1000, MS, P(3, &t->number),                  \
         P(4, &t->number))                                                                                             \
    CODE(zkl_once_run, 2, ZKL_ENOMEM, zkl_once_run(P(1, t->lock), 1000, 0, MS, P(2, run_nothing), t, NULL, NULL, err)) \
    /* queue.h */                                                                                                      \
    BOTH(zkl_queue_list, 3, ZKL_ENOMEM, P(1, &t->made.queue), P(2, t->session), P(3, "/n/lock"))                       \
    FREE(zkl_queue_free)                                                                                               \
    BOTH(zkl_queue_remove, 3, ZKL_ENOMEM, P(1, t->session), P(2, "/n/lock"), P(3, NODE), 1)                            \
    BOTH(zkl_queue_revoke, 2, ZKL_ENOMEM, P(1, t->session), P(2, "/n/lock"), NULL)                                     \
    /* testing.h */                                                                                                    \
    FAULT(zkl_testing_heal, err)                                                                                       \
    FAULT(zkl_testing_delay, false, err)                                                                               \
    FAULT(zkl_testing_refuse, ZKL_EAUTH, 0, err)                                                                       \
    FAULT(zkl_testing_lose_reply, err)                                                                                 \
    FAULT(zkl_testing_cut, err)                                                                                        \
    FAULT(zkl_testing_expire, err)
