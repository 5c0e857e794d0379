/* SPDX-License-Identifier: MIT
 *
 * net: the network of a runtime: its life, events, and news. The protocol is in net.h.
 */
#include "sim/net.h"

#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "sim/program.h"

void *hdi_net_alloc(size_t bytes)
{
    void *memory = calloc(1, bytes);
    HD_CHECK_MSG(memory != NULL, "the simulated network is out of memory");
    return memory;
}

/* ---- life ---- */

static struct hdi_net *create(struct hd_runtime *runtime)
{
    struct hdi_net *net = hdi_net_alloc(sizeof(*net));
    net->runtime = runtime;
    hdi_events_init(&net->events, runtime->options.sim_events_max);
    hdi_list_init(&net->held);
    hdi_list_init(&net->news);
    hdi_list_init(&net->lost);
    hdi_list_init(&net->bound);
    hdi_list_init(&net->conns);
    hdi_list_init(&net->unix_names);
    hdi_list_init(&net->processes);
    hdi_list_init(&net->dying);
    net->connect_ns = 20 * HD_SECOND_NS;
    net->send_ns = 60 * HD_SECOND_NS;
    net->short_ppm = 200000;
    net->spurious_ppm = 20000;
    hdi_hosts_begin(net);
    return net;
}

struct hdi_net *hdi_net_of(struct hd_runtime *runtime)
{
    struct hdi_net *net = hdi_load_acquire(&runtime->sim.net); /* N */
    if (hdi_likely(net != NULL)) return net;
    hdi_mutex_lock(&runtime->sim.net_lock);
    net = hdi_load_acquire(&runtime->sim.net); /* N */
    if (!net) {
        net = create(runtime);
        hdi_store_release(&runtime->sim.net, net); /* N: for other threads. */
    }
    hdi_mutex_unlock(&runtime->sim.net_lock);
    return net;
}

struct hdi_net *hdi_net_self(int *err)
{
    struct hd_runtime *runtime = hdi_io_runtime();
    *err = runtime ? -ENOTSUP : -EINVAL;
    if (!runtime || runtime->world->kind != HD_WORLD_SIM) return NULL;
    *err = 0;
    return hdi_net_of(runtime);
}

void hdi_net_end(struct hdi_net *net)
{
    for (unsigned i = 0; i < net->fd_room; i++) {
        if (net->fds[i]) hdi_fd_close(net, net->fds[i]); /* also those that were passed */
    }
    for (struct hdi_list *link; (link = hdi_list_pop_front(&net->lost));) {
        free(hdi_container_of(link, struct hdi_passed, link));
    }
    for (struct hdi_heap_node *node; (node = hdi_events_take(&net->events, INT64_MAX));) {
        struct hdi_net_event *event = (struct hdi_net_event *)node;
        event->queued = false;
        event->run(net, event, false);
    }
    hdi_programs_end(net);
    hdi_links_end(net);
    HD_CHECK_MSG(hdi_list_empty(&net->conns), "a simulated connection is left");
    hdi_unix_end(net);
    hdi_names_end(net);
    hdi_hosts_end(net);
    hdi_events_fini(&net->events);
    free(net->fds);
    free(net);
}

/* ---- time and draws ---- */

int64_t hdi_net_now(const struct hdi_net *net)
{
    return net->runtime->world->now(net->runtime);
}

uint64_t hdi_net_draw(const struct hdi_net *net, enum hdi_purpose purpose, uint64_t key,
                      uint64_t n)
{
    return hdi_stream_draw(net->runtime->options.seed, purpose, key, n);
}

/* ---- events ---- */

void hdi_net_event_add(struct hdi_net *net, struct hdi_net_event *event, int64_t at_ns)
{
    HDI_ASSERT(!event->queued);
    hdi_events_add(&net->events, &event->node, at_ns);
    event->queued = true;
    /* Another thread, that drives, may sleep until a later one. */
    net->runtime->world->notify(&net->runtime->main);
}

void hdi_net_event_remove(struct hdi_net *net, struct hdi_net_event *event)
{
    if (event->queued) hdi_events_remove(&net->events, &event->node);
    event->queued = false;
}

static struct hdi_net_event *take_due(struct hdi_net *net, int64_t now_ns)
{
    struct hdi_net_event *event = (struct hdi_net_event *)hdi_events_take(&net->events, now_ns);
    if (event) event->queued = false;
    return event;
}

/* ---- news ---- */

void hdi_fd_tell(struct hdi_net *net, struct hdi_fd *fd, unsigned ready)
{
    if (!fd->source || !ready) return;
    if (!fd->news) hdi_list_push_back(&net->news, &fd->news_link);
    fd->news |= ready;
    net->runtime->world->notify(&net->runtime->main);
}

void hdi_sock_tell(struct hdi_net *net, struct hdi_sock *sock, unsigned ready)
{
    for (struct hdi_list *link = sock->fds.next; link != &sock->fds; link = link->next) {
        hdi_fd_tell(net, hdi_container_of(link, struct hdi_fd, link), ready);
    }
}

/* Context: the lock, which is given back in between. */
static void tell_all(struct hdi_net *net)
{
    for (struct hdi_list *link; (link = hdi_list_pop_front(&net->news));) {
        struct hdi_fd *fd = hdi_container_of(link, struct hdi_fd, news_link);
        struct hdi_source *source = fd->source;
        const hd_io handle = fd->handle;
        const unsigned ready = fd->news;
        fd->news = 0;
        hdi_mutex_unlock(&net->lock);
        struct hdi_wakeups wakeups = HDI_WAKEUPS_INIT;
        hdi_source_ready(source, handle, ready, &wakeups);
        hdi_wakeups_go(&wakeups);
        hdi_mutex_lock(&net->lock);
    }
}

/* Whether somebody waits for room among the events, and there is some. */
static bool can_feed(const struct hdi_net *net)
{
    return net->starved && hdi_events_room(&net->events) > 0;
}

void hdi_net_run(struct hdi_net *net)
{
    const int64_t now_ns = hdi_net_now(net);
    hdi_mutex_lock(&net->lock);
    for (struct hdi_net_event *event; (event = take_due(net, now_ns));) {
        event->run(net, event, true);
    }
    if (can_feed(net)) {
        net->starved = false;
        hdi_conns_room_again(net);
    }
    hdi_processes_look(net);
    tell_all(net);
    hdi_mutex_unlock(&net->lock);
}

size_t hdi_net_count(struct hdi_net *net)
{
    hdi_mutex_lock(&net->lock);
    const size_t count = hdi_events_count(&net->events);
    hdi_mutex_unlock(&net->lock);
    return count;
}

int64_t hdi_net_next(struct hdi_net *net)
{
    hdi_mutex_lock(&net->lock);
    int64_t next_ns = hdi_events_next(&net->events);
    const bool noted = !hdi_list_empty(&net->news) || !hdi_list_empty(&net->dying);
    if (noted || can_feed(net)) next_ns = INT64_MIN;
    hdi_mutex_unlock(&net->lock);
    return next_ns;
}
