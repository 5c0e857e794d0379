/* SPDX-License-Identifier: MIT
 *
 * sync: mutex, reader-writer lock, semaphore, condition, barrier, once, wait group and
 * notification.
 *
 * Fibers, stackless tasks and plain threads, of any number of runtimes, may use one object
 * together. All live in the caller's memory. Zeroed they are ready: a mutex is free, a
 * semaphore has no permits, a group has nothing to wait for; a static one needs nothing else.
 *
 * Every wait here
 *   - has a plain form; an _until form with a deadline; and a _try form, which is the _until
 *     form with HD_NOW: it never waits, may be called from anywhere, and returns -EAGAIN;
 *   - returns -ECANCELED in a task with a cancel in effect, even where it would not have had
 *     to wait. Clean up under hd_shield(), or by the _try form;
 *   - takes nothing unless it returns 0. What was done beats a cancel or a deadline that
 *     comes at the same time;
 *   - is for fibers and threads: in a stackless task it returns -EINVAL. Such a task waits in
 *     hd_select_poll() with HD_LOCK(), HD_READ_LOCK(), HD_WRITE_LOCK(), HD_ACQUIRE(),
 *     HD_NOTIFIED() or HD_ALL_DONE().
 *
 * The end of an object. Before its memory is used for anything else, call its fini function:
 * it waits for callers that are on their way out, e.g. for the unlock that let the last user
 * in, which may still be at work. An object that is held or waited for may not end, which is
 * checked. A group needs no fini once hd_group_wait() has returned 0.
 */
#ifndef HEDDLE_SYNC_H
#define HEDDLE_SYNC_H

#include <heddle/base.h>
#include <heddle/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- mutex ---- */

/* Whoever comes first gets it, whether it waited or not, since that is several times faster
 * than taking turns; but a waiter that has waited 1 ms, or was woken 8 times in vain, is
 * next, and of 256 locks that come before one that was woken, one yields first. It belongs
 * to the task or thread that locked it: nobody else may unlock it. */
typedef struct hd_mutex {
    uint64_t private_[4];
} hd_mutex;

HD_API void hd_mutex_init(hd_mutex *mutex);
HD_API void hd_mutex_fini(hd_mutex *mutex);

/* Context: fiber or thread; _try: any.  Switches: yes; _try: no.  Allocates: no.
 * Cancel: it is not locked.
 * Returns: 0, -EDEADLK (the caller has it, or sim with nothing left to run), -ECANCELED,
 * -ETIMEDOUT, -EAGAIN, -EINVAL. */
HD_API HD_MUST_USE int hd_mutex_lock(hd_mutex *mutex);
HD_API HD_MUST_USE int hd_mutex_lock_until(hd_mutex *mutex, int64_t deadline);
HD_API HD_MUST_USE int hd_mutex_lock_try(hd_mutex *mutex);

/* Unlocking a mutex that the caller does not hold ends the process with a message.
 * Context: who locked it.  Switches: no.  Allocates: no. */
HD_API void hd_mutex_unlock(hd_mutex *mutex);

/* Whether the caller holds it.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API bool hd_mutex_held(const hd_mutex *mutex);

/* ---- reader-writer lock ---- */

/* Many readers or one writer, in phases: a reader that finds a writer waiting waits too, and
 * when a writer leaves, all readers that wait by then come before the next one. So a reader
 * waits for one writer at most, and a writer, behind w others, for w writers and w + 1 groups
 * of readers.
 *
 * Therefore never take a read lock twice: between the two a writer may have come, and each
 * would wait for the other for ever. Readers are counted, not known. */
typedef struct hd_rwlock {
    uint64_t private_[6];
} hd_rwlock;

HD_API void hd_rwlock_init(hd_rwlock *rwlock);
HD_API void hd_rwlock_fini(hd_rwlock *rwlock);

/* Context: fiber or thread; _try: any.  Switches: yes; _try: no.  Allocates: no.
 * Cancel: it is not locked.
 * Returns: 0, -EDEADLK (the caller has it for writing, or sim with nothing left to run),
 * -ECANCELED, -ETIMEDOUT, -EAGAIN, -EINVAL, -EOVERFLOW (2^32 readers). */
HD_API HD_MUST_USE int hd_rwlock_read_lock(hd_rwlock *rwlock);
HD_API HD_MUST_USE int hd_rwlock_read_lock_until(hd_rwlock *rwlock, int64_t deadline);
HD_API HD_MUST_USE int hd_rwlock_read_lock_try(hd_rwlock *rwlock);
HD_API HD_MUST_USE int hd_rwlock_write_lock(hd_rwlock *rwlock);
HD_API HD_MUST_USE int hd_rwlock_write_lock_until(hd_rwlock *rwlock, int64_t deadline);
HD_API HD_MUST_USE int hd_rwlock_write_lock_try(hd_rwlock *rwlock);

/* Unlocking what is not locked that way ends the process with a message.
 * Context: any for reading; who locked it for writing.  Switches: no.  Allocates: no. */
HD_API void hd_rwlock_read_unlock(hd_rwlock *rwlock);
HD_API void hd_rwlock_write_unlock(hd_rwlock *rwlock);

/* ---- semaphore ---- */

/* Permits that are handed out in the order they were asked for: a request for many is not
 * overtaken by a later one for few. */
typedef struct hd_sem {
    uint64_t private_[4];
} hd_sem;

#define HD_SEM_MAX         0x7fffffff /* permits */
#define HD_SEM_INIT(permits) {{0, (uint64_t)(permits) << 2, 0, 0}}

/* Returns: 0, -EOVERFLOW over HD_SEM_MAX. */
HD_API int hd_sem_init(hd_sem *sem, uint32_t permits);
HD_API void hd_sem_fini(hd_sem *sem);

/* Take so many permits at once.
 * Context: fiber or thread; _try: any.  Switches: yes; _try: no.  Allocates: no.
 * Cancel: none was taken.
 * Returns: 0, -EPIPE if closed, -ECANCELED, -ETIMEDOUT, -EAGAIN, -EDEADLK (sim: nothing left
 * to run), -EINVAL, also for more than HD_SEM_MAX. */
HD_API HD_MUST_USE int hd_sem_acquire(hd_sem *sem, uint32_t permits);
HD_API HD_MUST_USE int hd_sem_acquire_until(hd_sem *sem, uint32_t permits, int64_t deadline);
HD_API HD_MUST_USE int hd_sem_acquire_try(hd_sem *sem, uint32_t permits);

/* Give permits back, or new ones.
 * Context: any.  Switches: no.  Allocates: no.
 * Returns: 0, -EOVERFLOW over HD_SEM_MAX in all, with nothing given. */
HD_API int hd_sem_release(hd_sem *sem, uint32_t permits);

/* Permits that are there now.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API uint32_t hd_sem_permits(const hd_sem *sem);

/* From now on nothing can be acquired; who waits gets -EPIPE. Permits can still be given
 * back. Closing twice does nothing.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API void hd_sem_close(hd_sem *sem);

/* ---- condition ---- */

typedef struct hd_cond {
    uint64_t private_[4];
} hd_cond;

HD_API void hd_cond_init(hd_cond *cond);
HD_API void hd_cond_fini(hd_cond *cond);

/* Unlock the mutex, wait for a signal, and lock the mutex again. It may return 0 without a
 * signal: call it in a loop around what is waited for. Whatever it returns, the caller has
 * the mutex again, with one exception: -EDEADLK in sim, if nobody is left to unlock it.
 * With HD_NOW it returns -EAGAIN, and the mutex was not unlocked. Not holding the mutex ends
 * the process with a message.
 * Context: fiber or thread.  Switches: yes.  Allocates: no.
 * Cancel: it returns once the mutex is locked again; no signal was used up.
 * Returns: 0, -ECANCELED, -ETIMEDOUT, -EAGAIN, -EDEADLK, -EINVAL. */
HD_API HD_MUST_USE int hd_cond_wait(hd_cond *cond, hd_mutex *mutex);
HD_API HD_MUST_USE int hd_cond_wait_until(hd_cond *cond, hd_mutex *mutex, int64_t deadline);

/* Wake the one that waits longest, or all. With or without the mutex.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API void hd_cond_signal(hd_cond *cond);
HD_API void hd_cond_broadcast(hd_cond *cond);

/* ---- barrier ---- */

/* A place where so many parties meet: all wait until the last has come, again and again. */
typedef struct hd_barrier {
    uint64_t private_[4];
} hd_barrier;

#define HD_BARRIER_INIT(parties) {{0, (uint64_t)(parties), 0, 0}}
#define HD_BARRIER_SERIAL        1

/* Returns: 0, -EINVAL for no parties. */
HD_API int hd_barrier_init(hd_barrier *barrier, uint32_t parties);
HD_API void hd_barrier_fini(hd_barrier *barrier);

/* Wait for the others. One that leaves by cancel or deadline has not come: the others wait
 * on until somebody comes in its place.
 * Context: fiber or thread; _try: any.  Switches: yes; _try: no.  Allocates: no.
 * Cancel: the caller is not counted.
 * Returns: HD_BARRIER_SERIAL for one of the parties and 0 for the others; -ECANCELED,
 * -ETIMEDOUT, -EAGAIN (not the last), -EDEADLK (sim: nothing left to run), -EINVAL. */
HD_API HD_MUST_USE int hd_barrier_wait(hd_barrier *barrier);
HD_API HD_MUST_USE int hd_barrier_wait_until(hd_barrier *barrier, int64_t deadline);
HD_API HD_MUST_USE int hd_barrier_wait_try(hd_barrier *barrier);

/* ---- once ---- */

typedef struct hd_once {
    uint64_t private_[4];
} hd_once;

HD_API void hd_once_init(hd_once *once);
HD_API void hd_once_fini(hd_once *once);

/* Have fn(arg) called exactly once with success: by the first caller, while the others wait.
 * If it returns anything but 0, that caller gets it, and the next one, or one of those that
 * wait, calls it again.
 * Context: fiber or thread; _try: any.  Switches: yes; _try: no, but fn is called if nobody
 * has.  Allocates: no.
 * Cancel: fn was not called by this caller.
 * Returns: 0: it was called with success; what fn returned; -EDEADLK (called by fn itself, or
 * sim with nothing left to run), -ECANCELED, -ETIMEDOUT, -EAGAIN, -EINVAL. */
HD_API HD_MUST_USE int hd_once_call(hd_once *once, hd_fn *fn, void *arg);
HD_API HD_MUST_USE int hd_once_call_until(hd_once *once, hd_fn *fn, void *arg, int64_t deadline);
HD_API HD_MUST_USE int hd_once_call_try(hd_once *once, hd_fn *fn, void *arg);

/* Whether that has happened.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API bool hd_once_done(const hd_once *once);

/* ---- wait group ---- */

/* A count of what is not done yet. Add before what will be done is spawned. */
typedef struct hd_group {
    uint64_t private_[4];
} hd_group;

#define HD_GROUP_MAX 0x7fffffff

HD_API void hd_group_init(hd_group *group);
HD_API void hd_group_fini(hd_group *group);

/* Context: any.  Switches: no.  Allocates: no.
 * Returns: 0, -EOVERFLOW over HD_GROUP_MAX, with nothing added. */
HD_API int hd_group_add(hd_group *group, uint32_t count);

/* One is done. One too many ends the process with a message.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API void hd_group_done(hd_group *group);

/* Wait until the count is 0.
 * Context: fiber or thread; _try: any.  Switches: yes; _try: no.  Allocates: no.
 * Returns: 0, -ECANCELED, -ETIMEDOUT, -EAGAIN, -EDEADLK (sim: nothing left to run),
 * -EINVAL. */
HD_API HD_MUST_USE int hd_group_wait(hd_group *group);
HD_API HD_MUST_USE int hd_group_wait_until(hd_group *group, int64_t deadline);
HD_API HD_MUST_USE int hd_group_wait_try(hd_group *group);

/* ---- notification ---- */

/* "Look again": a wake-up that is remembered once. */
typedef struct hd_notify {
    uint64_t private_[4];
} hd_notify;

HD_API void hd_notify_init(hd_notify *notify);
HD_API void hd_notify_fini(hd_notify *notify);

/* Wake the one that waits longest. If nobody waits, the next one will not have to; several
 * such are remembered as one.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API void hd_notify_one(hd_notify *notify);

/* Wake all that wait now; nothing is remembered.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API void hd_notify_all(hd_notify *notify);

/* Context: fiber or thread; _try: any.  Switches: yes; _try: no.  Allocates: no.
 * Cancel: a notification that came is still there.
 * Returns: 0, -ECANCELED, -ETIMEDOUT, -EAGAIN, -EDEADLK (sim: nothing left to run),
 * -EINVAL. */
HD_API HD_MUST_USE int hd_notify_wait(hd_notify *notify);
HD_API HD_MUST_USE int hd_notify_wait_until(hd_notify *notify, int64_t deadline);
HD_API HD_MUST_USE int hd_notify_wait_try(hd_notify *notify);

/* ---- what must not be held while waiting ---- */

/* A pthread mutex belongs to a thread. A fiber that waits or yields while it holds one may
 * go on elsewhere and unlock it there, and meanwhile another fiber on the same thread may
 * want it: then the thread waits for itself. So: lock, a few lines that do not wait, unlock.
 *
 * These two count what the running fiber holds of that kind, and hd_hold_begin() also
 * remembers where. A fiber that waits or yields meanwhile ends the process with a message
 * that tells its name, its id, where it was spawned, and where it took the last lock; or
 * calls what hd_hold_report() was given. Put them beside any lock that belongs to a thread:
 * C11's mtx_t, std::mutex, a library's own. At most 65535 nest.
 *
 *   HD_PTHREAD_LOCK(&m);   which is   pthread_mutex_lock(&m); hd_hold_begin(HD_SITE);
 *   ...
 *   HD_PTHREAD_UNLOCK(&m); which is   hd_hold_end(); pthread_mutex_unlock(&m);
 *
 * The cost is a few instructions each; outside a fiber they do nothing.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API void hd_hold_begin(const hd_site *site);
HD_API void hd_hold_end(void);

/* Both together for a pthread mutex; <pthread.h> is the caller's to include.
 * Returns: 0, or what the pthread call returned, negative. */
#define HD_PTHREAD_LOCK(mutex)   hd_hold_locked_(pthread_mutex_lock(mutex), HD_SITE)
#define HD_PTHREAD_UNLOCK(mutex) (hd_hold_end(), -pthread_mutex_unlock(mutex))

static inline int hd_hold_locked_(int err, const hd_site *site)
{
    if (!err) hd_hold_begin(site);
    return -err;
}

/* What a report says. Its strings live as long as the call. */
typedef struct hd_hold {
    uint64_t id;           /* of the fiber */
    const char *name;      /* "" if it has none */
    const hd_site *site;   /* where it was spawned */
    const hd_site *locked; /* where it took the last lock */
    unsigned count;        /* how many it holds */
} hd_hold;

/* Have this called instead of ending the process, on the fiber that is about to wait, which
 * then does. It must not wait itself. NULL: end the process again. For all runtimes.
 * Context: any.  Switches: no.  Allocates: no. */
typedef void hd_hold_fn(const hd_hold *hold);
HD_API void hd_hold_report(hd_hold_fn *report);

#ifdef __cplusplus
}
#endif
#endif
