/* SPDX-License-Identifier: MIT
 *
 * select: wait for the first of several things. Exactly one case happens; the others have
 * no effect.
 *
 *   hd_case cases[] = {
 *       HD_RECV(jobs, &job),
 *       HD_SEND(results, &result),
 *       HD_AT(hd_after_ms(50)),
 *   };
 *   switch (hd_select(cases, 3)) {
 *   case 0: ... cases[0].result is 0, or -EPIPE if the channel is closed and empty ...
 *   case 1: ...
 *   case 2: ... 50 ms passed ...
 *   default: ... -ECANCELED ...
 *   }
 *
 * If several cases can happen at once, one of them is drawn, so that none starves: by the
 * seed in sim, at random in live. HD_SELECT_FIRST takes the first in the array instead.
 *
 * A fiber or a thread waits in hd_select(). A stackless task calls hd_select_poll() from
 * its poll function; it is the one way for a stackless task to wait on anything here, also
 * on a single case.
 */
#ifndef HEDDLE_SELECT_H
#define HEDDLE_SELECT_H

#include <heddle/base.h>
#include <heddle/task.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HD_SELECT_MAX 16000 /* cases in one select */

typedef enum hd_case_kind {
    HD_CASE_NEVER,        /* a case left out */
    HD_CASE_RECV,         /* channel, item */
    HD_CASE_SEND,         /* channel, item */
    HD_CASE_AT,           /* deadline */
    HD_CASE_JOIN,         /* task; int *result, or NULL */
    HD_CASE_LOCK,         /* mutex */
    HD_CASE_READ_LOCK,    /* rwlock */
    HD_CASE_WRITE_LOCK,   /* rwlock */
    HD_CASE_ACQUIRE,      /* semaphore, permits */
    HD_CASE_NOTIFIED,     /* notify */
    HD_CASE_ONESHOT,      /* oneshot, item */
    HD_CASE_CHANGED,      /* watch receiver, item */
    HD_CASE_BROADCAST,    /* broadcast receiver, item */
    HD_CASE_ALL_DONE,     /* wait group */
    HD_CASE_TOKEN,        /* token */
    HD_CASE_READABLE,     /* number: the handle (io.h) */
    HD_CASE_WRITABLE,     /* the same */
} hd_case_kind;

/* One thing to wait for. Make it by the macros below. */
typedef struct hd_case {
    hd_case_kind kind;
    int result;            /* read-only, of the case that happened: 0 or -errno */
    void *object;          /* what is waited on */
    void *item;            /* where to, or what is sent, which is not changed */
    int64_t number;        /* a deadline, or how many */
    uint64_t private_[10]; /* private; any content at first */
} hd_case;

#define HD_CASE_(kind, object, item, number) {(kind), 0, (object), (item), (number), {0}}
#define HD_NEVER                    HD_CASE_(HD_CASE_NEVER, NULL, NULL, 0)
#define HD_RECV(chan, item)         HD_CASE_(HD_CASE_RECV, (chan), (item), 0)
#define HD_SEND(chan, item)         HD_CASE_(HD_CASE_SEND, (chan), (void *)(item), 0)
#define HD_AT(deadline)             HD_CASE_(HD_CASE_AT, NULL, NULL, (deadline))
#define HD_JOIN(handle, result)     HD_CASE_(HD_CASE_JOIN, (handle), (result), 0)
#define HD_LOCK(mutex)              HD_CASE_(HD_CASE_LOCK, (mutex), NULL, 0)
#define HD_READ_LOCK(rwlock)        HD_CASE_(HD_CASE_READ_LOCK, (rwlock), NULL, 0)
#define HD_WRITE_LOCK(rwlock)       HD_CASE_(HD_CASE_WRITE_LOCK, (rwlock), NULL, 0)
#define HD_ACQUIRE(sem, permits)    HD_CASE_(HD_CASE_ACQUIRE, (sem), NULL, (permits))
#define HD_NOTIFIED(notify)         HD_CASE_(HD_CASE_NOTIFIED, (notify), NULL, 0)
#define HD_ONESHOT(oneshot, item)   HD_CASE_(HD_CASE_ONESHOT, (oneshot), (item), 0)
#define HD_CHANGED(receiver, item)  HD_CASE_(HD_CASE_CHANGED, (receiver), (item), 0)
#define HD_BROADCAST(receiver, item) HD_CASE_(HD_CASE_BROADCAST, (receiver), (item), 0)
#define HD_ALL_DONE(group)          HD_CASE_(HD_CASE_ALL_DONE, (group), NULL, 0)
#define HD_TOKEN(token)             HD_CASE_(HD_CASE_TOKEN, (token), NULL, 0)

#define HD_SELECT_FIRST 1u /* of several that can happen, the first in the array */

/* Wait until one case happens. A case that fails (closed channel) happens too: its
 * `result` says how. A joined handle is ended only if its case happened.
 * Context: fiber or thread.  Switches: yes.  Allocates: no.
 * Cancel: no case happened.
 * Returns: the index of the case, from 0; -ECANCELED, -EDEADLK (sim: none can happen any
 * more), -EINVAL (from a stackless task, no case at all, or over HD_SELECT_MAX). */
HD_API HD_MUST_USE int hd_select(hd_case *cases, size_t count);

/* The same with flags and a deadline; HD_NOW makes it a look: the default case of other
 * languages.
 * Returns: as hd_select(), -EAGAIN with HD_NOW, -ETIMEDOUT. With HD_NOW from any context. */
HD_API HD_MUST_USE int hd_select_until(hd_case *cases, size_t count, unsigned flags,
                                       int64_t deadline);

/* A stackless task's wait; zeroed, it waits for nothing. It lives in the task's state,
 * as do the cases and their items, from the first hd_select_poll() until that returns
 * something else than -EAGAIN, or hd_wait_end(). A wait left in the state of a task that
 * ends or is dropped ends by itself. */
typedef struct hd_wait {
    uint64_t private_[16];
} hd_wait;

/* hd_select_until() from a poll function. On -EAGAIN return HD_PENDING: the task is woken
 * when a case may have happened, and calls again with the same arguments. With HD_NOW it
 * only looks.
 * Context: stackless task.  Switches: no.  Allocates: no.
 * Returns: the index of the case; -EAGAIN: not yet; -ECANCELED, -ETIMEDOUT, -EINVAL. */
HD_API HD_MUST_USE int hd_select_poll(hd_wait *wait, hd_case *cases, size_t count,
                                      unsigned flags, int64_t deadline);

/* Give the wait up. Does nothing to one that has ended.
 * Context: the stackless task that waits.  Switches: no.  Allocates: no.
 * Returns: -ECANCELED: no case happened, or there was no wait; otherwise the index of the
 * case that happened just before. */
HD_API int hd_wait_end(hd_wait *wait, hd_case *cases);

#ifdef __cplusplus
}
#endif
#endif
