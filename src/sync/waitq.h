/* SPDX-License-Identifier: MIT
 *
 * waitq: what the locks share: queues that need no initialisation, and who holds what.
 *
 *   WAITQ-1  A queue changes under its object's lock. Zeroed it is empty.
 */
#ifndef HDI_SYNC_WAITQ_H
#define HDI_SYNC_WAITQ_H

#include <string.h>

#include "wait/wait.h"

static inline bool hdi_waitq_empty(const struct hdi_list *queue)
{
    return !queue->next || hdi_list_empty(queue);
}

static inline void hdi_waitq_push(struct hdi_list *queue, struct hdi_node *node)
{
    if (!queue->next) hdi_list_init(queue);
    hdi_node_enqueue(queue, node);
}

static inline void hdi_waitq_push_front(struct hdi_list *queue, struct hdi_node *node)
{
    if (!queue->next) hdi_list_init(queue);
    node->queued = true;
    hdi_list_push_front(queue, &node->link);
}

/* The longest waiting, left where it is; NULL if there is none. */
static inline struct hdi_node *hdi_waitq_first(const struct hdi_list *queue)
{
    return hdi_waitq_empty(queue) ? NULL : hdi_node_of(queue->next);
}

/* The same, taken out. */
static inline struct hdi_node *hdi_waitq_pop(struct hdi_list *queue)
{
    return queue->next ? hdi_node_pop(queue) : NULL;
}

/* Complete a node that was taken out, with this result. Returns false if its owner left. */
static inline bool hdi_waitq_complete(struct hdi_node *node, int result,
                                      struct hdi_wakeups *wakeups)
{
    hdi_node_case(node)->result = result;
    return hdi_node_complete(node, wakeups);
}

/* Complete all. */
static inline void hdi_waitq_complete_all(struct hdi_list *queue, int result,
                                          struct hdi_wakeups *wakeups)
{
    for (struct hdi_node *node; (node = hdi_waitq_pop(queue));) {
        (void)hdi_waitq_complete(node, result, wakeups);
    }
}

/* ---- who holds a lock: a number with the three lowest bits clear, never 0 ---- */

#define HDI_HOLDER_FLAGS UINT64_C(7)

static inline uint64_t hdi_holder_of(const struct hd_task *task)
{
    return task ? (uint64_t)(uintptr_t)task : (uint64_t)hdi_thread_id();
}

static inline uint64_t hdi_holder_self(void)
{
    return hdi_holder_of(hdi_task_self());
}

/* The owner of a node that is about to be queued. */
static inline uint64_t hdi_holder_of_node(const struct hdi_node *node)
{
    return hdi_holder_of(node->waiter->task);
}

/* hdi_wait_enter() by one who knows the running task. */
static inline int hdi_waitq_enter(struct hd_task *task, int64_t deadline, const void *object)
{
    return hdi_wait_enter_self(task, deadline, HDI_COST_CALL, object);
}

/* A case on the stack of one who waits for one thing. */
static inline void hdi_waitq_case(hd_case *c, void *object, int64_t number)
{
    c->object = object;
    c->item = NULL;
    c->number = number;
    c->result = 0;
}

#endif
