/* SPDX-License-Identifier: MIT
 *
 * select: the public face of wait/wait.h for several cases.
 */
#include <errno.h>

#include <heddle/select.h>

#include "sync/ops.h"
#include "wait/joined.h"

/* NULL for those the engine knows itself. */
static const struct hdi_op *op_of(hd_case_kind kind)
{
    switch (kind) {
    case HD_CASE_NEVER:
    case HD_CASE_AT: return NULL;
    case HD_CASE_RECV: return &hdi_op_recv;
    case HD_CASE_SEND: return &hdi_op_send;
    case HD_CASE_JOIN: return &hdi_op_join;
    case HD_CASE_LOCK: return &hdi_op_lock;
    case HD_CASE_READ_LOCK: return &hdi_op_read_lock;
    case HD_CASE_WRITE_LOCK: return &hdi_op_write_lock;
    case HD_CASE_ACQUIRE: return &hdi_op_acquire;
    case HD_CASE_NOTIFIED: return &hdi_op_notified;
    case HD_CASE_ONESHOT: return &hdi_op_oneshot;
    case HD_CASE_CHANGED: return &hdi_op_changed;
    case HD_CASE_BROADCAST: return &hdi_op_broadcast;
    case HD_CASE_ALL_DONE: return &hdi_op_all_done;
    case HD_CASE_TOKEN: return &hdi_op_token;
    case HD_CASE_READABLE: return &hdi_op_readable;
    case HD_CASE_WRITABLE: return &hdi_op_writable;
    }
    return NULL;
}

/* Returns false for a case that makes no sense. */
static bool prepare(hd_case *cases, size_t count)
{
    if (count == 0 || count > HD_SELECT_MAX) return false;
    for (size_t i = 0; i < count; i++) {
        hd_case *c = &cases[i];
        const struct hdi_op *op = op_of(c->kind);
        if (op && (c->kind == HD_CASE_READABLE || c->kind == HD_CASE_WRITABLE)) {
            c->object = hdi_io_waitable((uint64_t)c->number, c->kind == HD_CASE_WRITABLE);
        }
        if (op ? !c->object : c->kind != HD_CASE_AT && c->kind != HD_CASE_NEVER) return false;
        hdi_case_node(c)->op = op;
        hdi_case_node(c)->queued = false;
    }
    return true;
}

int hd_select_until(hd_case *cases, size_t count, unsigned flags, int64_t deadline)
{
    if (!prepare(cases, count) || (flags & ~HD_SELECT_FIRST)) return -EINVAL;
    return hdi_wait_any(cases, count, flags, deadline);
}

int hd_select(hd_case *cases, size_t count)
{
    return hd_select_until(cases, count, 0, HD_FOREVER);
}

int hd_select_poll(hd_wait *wait, hd_case *cases, size_t count, unsigned flags, int64_t deadline)
{
    const struct hd_task *self = hdi_task_self();
    struct hdi_waiter *waiter = (struct hdi_waiter *)wait;
    if (!self || self->kind != HDI_TASK_POLL) return -EINVAL;
    if (waiter->kind == HDI_WAITER_NONE && !prepare(cases, count)) return -EINVAL;
    if (flags & ~HD_SELECT_FIRST) return -EINVAL;
    return hdi_wait_poll(waiter, cases, count, flags, deadline);
}

int hd_wait_end(hd_wait *wait, hd_case *cases)
{
    struct hdi_waiter *waiter = (struct hdi_waiter *)wait;
    if (waiter->kind == HDI_WAITER_NONE) return -ECANCELED;
    if (waiter->cases != cases) return -EINVAL;
    return hdi_wait_give_up(waiter);
}
