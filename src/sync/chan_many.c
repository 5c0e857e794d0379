/* SPDX-License-Identifier: MIT
 *
 * chan_many: several items by one call, and blocks.
 *
 * A task with a budget pays for every item. What it has credit for it pays for in advance, a batch
 * at a time, and takes back what was not moved.
 */
#include <errno.h>

#include "sync/chan.h"

/* At most so many while the lock is held. */
enum { BATCH = HDI_MODEL ? 2 : 64 };

static void *nth(const struct hd_chan *chan, const void *items, size_t i)
{
    return (unsigned char *)items + i * chan->item_bytes;
}

/* How many of `most` items are moved at once: what the task, if it is METERED, has paid for. At
 * least one, or *err says why not. */
static size_t pay(const struct hd_chan *chan, struct hd_task *task, size_t most, bool now, int *err)
{
    size_t paid = most < BATCH ? most : BATCH;
    if (!task) return paid;
    *err = hdi_attend(task, HDI_COST_CHANNEL, now, chan);
    if (*err) return 0;
    const size_t credit = task->credit.channel > 0 ? (size_t)(task->credit.channel / HDI_FARE) : 0;
    if (paid > 1 + credit) paid = 1 + credit;
    task->credit.channel -= (int32_t)(paid - 1) * HDI_FARE;
    return paid;
}

/* So many of those were moved. The first was not paid for in advance, and stays paid. */
static void settle(struct hd_task *task, size_t paid, size_t moved)
{
    const size_t used = moved > 0 ? moved : 1;
    if (task) task->credit.channel += (int32_t)(paid - used) * HDI_FARE;
}

/* Send some, waiting if there is room for none. Returns how many, all paid for; 0 with *err. */
static size_t send_some(hd_chan *chan, const void *items, size_t count, int64_t deadline, int *err)
{
    struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
    hdi_lock_take(&chan->base.lock);
    const size_t sent = hdi_chan_send_batch(chan, items, count, &wakeups);
    if (sent == 0) {
        *err = hdi_chan_send_holding(chan, items, deadline);
        return *err ? 0 : 1;
    }
    hdi_lock_give(&chan->base.lock);
    hdi_wakeups_go(&wakeups); /* Wake before waiting. */
    return sent;
}

ptrdiff_t hd_chan_send_many_until(hd_chan *chan, const void *items, size_t count,
                                  int64_t deadline)
{
    struct hd_task *task = hdi_task_metered();
    int err = task && count > 0 ? 0 : hdi_wait_enter(deadline, chan);
    if (task && task->kind != HDI_TASK_FIBER && deadline != HD_NOW) return -EINVAL;
    size_t sent = 0;
    while (sent < count && !err) {
        const size_t paid = pay(chan, task, count - sent, deadline == HD_NOW, &err);
        if (paid == 0) break;
        const size_t some = send_some(chan, nth(chan, items, sent), paid, deadline, &err);
        settle(task, paid, some);
        sent += some;
    }
    return sent > 0 ? (ptrdiff_t)sent : err;
}

ptrdiff_t hd_chan_send_many(hd_chan *chan, const void *items, size_t count)
{
    return hd_chan_send_many_until(chan, items, count, HD_FOREVER);
}

/* Receive what can be had at once, in batches, as far as the task can pay. */
static size_t recv_available(hd_chan *chan, void *items, size_t count, struct hd_task *task)
{
    size_t got = 0, paid, batch;
    int err = 0;
    do {
        struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
        paid = pay(chan, task, count - got, true, &err);
        if (paid == 0) break;
        hdi_lock_take(&chan->base.lock);
        batch = hdi_chan_recv_batch(chan, nth(chan, items, got), paid, &wakeups);
        hdi_lock_give(&chan->base.lock);
        hdi_wakeups_go(&wakeups);
        settle(task, paid, batch);
        got += batch;
    } while (batch == paid && got < count);
    return got;
}

ptrdiff_t hd_chan_recv_many_until(hd_chan *chan, void *items, size_t count, int64_t deadline)
{
    struct hd_task *task = hdi_task_metered();
    if (!task || count == 0) {
        const int err = hdi_wait_enter(deadline, chan);
        if (err || count == 0) return err;
        const size_t got = recv_available(chan, items, count, NULL);
        if (got > 0) return (ptrdiff_t)got;
    }
    const int err = hd_chan_recv_until(chan, items, deadline);
    if (err) return err;
    if (count == 1) return 1;
    return 1 + (ptrdiff_t)recv_available(chan, nth(chan, items, 1), count - 1, task);
}

ptrdiff_t hd_chan_recv_many(hd_chan *chan, void *items, size_t count)
{
    return hd_chan_recv_many_until(chan, items, count, HD_FOREVER);
}

/* ---- blocks ---- */

int hd_chan_give_until(hd_chan *chan, void *block, int64_t deadline)
{
    if (chan->item_bytes != sizeof(block)) return -EINVAL;
    void *const blocks[2] = {block, NULL}; /* As large as the largest item copied inline. */
    return hd_chan_send_until(chan, blocks, deadline);
}

int hd_chan_give(hd_chan *chan, void *block)
{
    return hd_chan_give_until(chan, block, HD_FOREVER);
}

int hd_chan_give_try(hd_chan *chan, void *block)
{
    return hd_chan_give_until(chan, block, HD_NOW);
}

int hd_chan_take_until(hd_chan *chan, void **block, int64_t deadline)
{
    return chan->item_bytes == sizeof(*block) ? hd_chan_recv_until(chan, block, deadline) : -EINVAL;
}

int hd_chan_take(hd_chan *chan, void **block)
{
    return hd_chan_take_until(chan, block, HD_FOREVER);
}

int hd_chan_take_try(hd_chan *chan, void **block)
{
    return hd_chan_take_until(chan, block, HD_NOW);
}
