/* SPDX-License-Identifier: MIT
 *
 * net_fault: what a test asks the network and its disks to do: links, cuts, resets, and chaos,
 * which does all of it by draws from the seed.
 */
#include <errno.h>
#include <stdlib.h>

#include "sim/disk.h"
#include "sim/net.h"
#include "sim/program.h"

/* ---- links ---- */

int hd_sim_link(hd_sim_host *from, hd_sim_host *to, const hd_sim_link_options *options)
{
    int err;
    struct hdi_net *net = hdi_net_self(&err);
    if (!net) return err;
    if (options && (options->size != sizeof(*options) || options->latency_ns < 0 ||
                    options->jitter_ns < 0 || options->resend_ns < 0)) {
        return -EINVAL;
    }
    hdi_mutex_lock(&net->lock);
    hdi_link_set(net, from, to, options);
    hdi_mutex_unlock(&net->lock);
    return 0;
}

int hd_sim_cut(hd_sim_host *from, hd_sim_host *to)
{
    int err;
    struct hdi_net *net = hdi_net_self(&err);
    if (!net) return err;
    hdi_mutex_lock(&net->lock);
    hdi_link_cut(net, from, to, true);
    hdi_mutex_unlock(&net->lock);
    return 0;
}

int hd_sim_partition(hd_sim_host *a, hd_sim_host *b)
{
    const int err = hd_sim_cut(a, b);
    return err ? err : hd_sim_cut(b, a);
}

int hd_sim_heal(hd_sim_host *a, hd_sim_host *b)
{
    int err;
    struct hdi_net *net = hdi_net_self(&err);
    if (!net) return err;
    hdi_mutex_lock(&net->lock);
    hdi_link_cut(net, a, b, false);
    hdi_link_cut(net, b, a, false);
    hdi_link_release(net);
    hdi_mutex_unlock(&net->lock);
    return 0;
}

int hd_sim_patience(int64_t connect_ns, int64_t send_ns)
{
    int err;
    struct hdi_net *net = hdi_net_self(&err);
    if (!net) return err;
    if (connect_ns < 0 || send_ns < 0) return -EINVAL;
    hdi_mutex_lock(&net->lock);
    if (connect_ns) net->connect_ns = connect_ns;
    if (send_ns) net->send_ns = send_ns;
    hdi_mutex_unlock(&net->lock);
    return 0;
}

int hd_sim_calls(uint32_t short_ppm, uint32_t spurious_ppm)
{
    int err;
    struct hdi_net *net = hdi_net_self(&err);
    if (!net) return err;
    hdi_mutex_lock(&net->lock);
    net->short_ppm = short_ppm;
    net->spurious_ppm = spurious_ppm;
    hdi_mutex_unlock(&net->lock);
    return 0;
}

/* ---- resets ---- */

static struct hdi_conn *conn_of(struct hdi_list *link)
{
    return (struct hdi_conn *)((char *)link - offsetof(struct hdi_conn, link));
}

static bool is_whole(const struct hdi_conn *conn)
{
    return conn->ends[0].state != HDI_END_GONE || conn->ends[1].state != HDI_END_GONE;
}

static bool is_between(const struct hdi_conn *conn, const struct hd_sim_host *a,
                       const struct hd_sim_host *b)
{
    const struct hd_sim_host *x = conn->ends[0].life->host;
    const struct hd_sim_host *y = conn->ends[1].life ? conn->ends[1].life->host : NULL;
    const bool so = (!a || a == x) && (!b || b == y), reverse = (!a || a == y) && (!b || b == x);
    return y && (so || reverse);
}

int hd_sim_reset(hd_sim_host *a, hd_sim_host *b)
{
    int err;
    struct hdi_net *net = hdi_net_self(&err);
    if (!net) return err;
    int count = 0;
    hdi_mutex_lock(&net->lock);
    for (struct hdi_list *link = net->conns.next, *next; link != &net->conns; link = next) {
        struct hdi_conn *conn = conn_of(link);
        conn->refs++; /* A reset takes packets away, and with them perhaps the last reference. */
        if (is_whole(conn) && is_between(conn, a, b)) {
            hdi_conn_reset(net, conn);
            count++;
        }
        next = link->next;
        hdi_conn_drop(net, conn);
    }
    hdi_mutex_unlock(&net->lock);
    return count;
}

/* The connection behind a handle, with the network locked; NULL: it is not, and *err says why. */
static struct hdi_sock *lock_conn(hd_io io, struct hdi_net **net, int *err)
{
    *net = hdi_net_self(err);
    if (!*net) return NULL;
    const int fd = hd_io_fd(io);
    *err = fd < 0 ? fd : 0;
    if (fd < 0) return NULL;
    hdi_mutex_lock(&(*net)->lock);
    struct hdi_sock *sock = hdi_sock_at(*net, fd, err);
    if (sock && sock->conn && sock->state == HDI_SOCK_CONNECTED) return sock;
    if (sock) *err = -ENOTCONN;
    hdi_mutex_unlock(&(*net)->lock);
    return NULL;
}

int hd_sim_reset_conn(hd_io conn)
{
    int err;
    struct hdi_net *net;
    const struct hdi_sock *sock = lock_conn(conn, &net, &err);
    if (!sock) return err;
    hdi_conn_reset(net, sock->conn);
    hdi_mutex_unlock(&net->lock);
    return 0;
}

int hd_sim_forget_conn(hd_io conn)
{
    int err;
    struct hdi_net *net;
    struct hdi_sock *sock = lock_conn(conn, &net, &err);
    if (!sock) return err;
    hdi_conn_forget(net, sock, ECONNRESET);
    hdi_mutex_unlock(&net->lock);
    return 0;
}

int hd_sim_window(hd_io conn, size_t bytes)
{
    int err;
    struct hdi_net *net;
    struct hdi_sock *sock = lock_conn(conn, &net, &err);
    if (!sock) return err;
    hdi_conn_window(net, sock, bytes);
    hdi_mutex_unlock(&net->lock);
    return 0;
}

/* ---- disks ---- */

/* Context: not the network's lock, which disks may take. */
static void set_disks(struct hdi_net *net, hd_sim_host *host, const hd_sim_disk_options *options)
{
    for (unsigned i = 0; i < net->host_count; i++) {
        if (!host || host == net->hosts[i]) hdi_disk_set(net->hosts[i]->disk, options);
    }
    if (!host) net->disk = options ? *options : (hd_sim_disk_options){0};
}

int hd_sim_disk(hd_sim_host *host, const hd_sim_disk_options *options)
{
    int err;
    struct hdi_net *net = hdi_net_self(&err);
    if (!net) return err;
    if (options && (options->size != sizeof(*options) || options->latency_ns < 0)) return -EINVAL;
    set_disks(net, host, options);
    return 0;
}

/* ---- chaos ---- */

static bool strikes(struct hdi_net *net, const char *what)
{
    return hdi_schedule_fault(net->runtime, what);
}

static uint64_t draw(struct hdi_net *net)
{
    return hdi_net_draw(net, HDI_PURPOSE_CHAOS, 0, net->chaos_draws++);
}

static uint32_t below(struct hdi_net *net, uint64_t n)
{
    return (uint32_t)(draw(net) % n);
}

static struct hd_sim_host *any_host(struct hdi_net *net)
{
    return net->hosts[below(net, net->host_count)];
}

/* From 10 us to 100 ms, as likely in each power of ten. */
static int64_t some_time(struct hdi_net *net)
{
    int64_t ns = 10000;
    for (unsigned i = below(net, 4); i > 0; i--) ns *= 10;
    return ns * (1 + below(net, 9));
}

static void bad_links(struct hdi_net *net)
{
    hd_sim_link_options options = HD_SIM_LINK_OPTIONS_INIT;
    options.latency_ns = some_time(net);
    options.jitter_ns = some_time(net);
    options.loss_ppm = below(net, 100000);
    options.duplicate_ppm = below(net, 100000);
    options.reorder_ppm = below(net, 300000);
    if (below(net, 3) == 0) options.bandwidth = 10000u << below(net, 12);
    if (!strikes(net, "bad links")) return;
    hdi_mutex_lock(&net->lock);
    hdi_link_set(net, NULL, NULL, &options);
    hdi_mutex_unlock(&net->lock);
}

static void bad_disks(struct hdi_net *net)
{
    hd_sim_disk_options options = HD_SIM_DISK_OPTIONS_INIT;
    options.latency_ns = some_time(net);
    options.read_ppm = below(net, 20000);
    options.write_ppm = below(net, 20000);
    options.sync_ppm = below(net, 20000);
    if (strikes(net, "bad disks")) set_disks(net, NULL, &options);
}

static void cut_some(struct hdi_net *net)
{
    struct hd_sim_host *a = any_host(net), *b = below(net, 2) ? NULL : any_host(net);
    const bool one_way = below(net, 2);
    if (a == b || !strikes(net, "network cut")) return;
    hdi_mutex_lock(&net->lock);
    hdi_link_cut(net, a, b, true);
    if (!one_way) hdi_link_cut(net, b, a, true);
    hdi_mutex_unlock(&net->lock);
}

static void heal_all(struct hdi_net *net)
{
    hdi_mutex_lock(&net->lock);
    hdi_link_cut(net, NULL, NULL, false);
    hdi_link_release(net);
    hdi_mutex_unlock(&net->lock);
}

static void reset_one(struct hdi_net *net)
{
    hdi_mutex_lock(&net->lock);
    unsigned count = 0;
    for (struct hdi_list *link = net->conns.next; link != &net->conns; link = link->next) count++;
    if (count > 0) {
        struct hdi_list *link = net->conns.next;
        for (unsigned i = below(net, count); i > 0; i--) link = link->next;
        if (strikes(net, "connection reset")) hdi_conn_reset(net, conn_of(link));
    }
    hdi_mutex_unlock(&net->lock);
}

static void crash_some(struct hdi_net *net)
{
    struct hd_sim_host *host = any_host(net);
    if (host->boot && strikes(net, "host crashed")) (void)hdi_host_crash(host); /* Or it is down. */
}

static void restart_some(struct hdi_net *net, bool all)
{
    for (unsigned i = 0; i < net->host_count; i++) {
        struct hd_sim_host *host = net->hosts[i];
        if (!host->boot || hdi_host_up(host) || !(all || below(net, 2))) continue;
        (void)hdi_host_restart(host); /* Or the runtime ends. */
    }
}

/* Something happens, of the kinds that were drawn. */
static void strike(struct hdi_net *net)
{
    const unsigned kinds = net->chaos_kinds;
    if (kinds & HD_SIM_CHAOS_CRASHES) restart_some(net, false);
    if ((kinds & HD_SIM_CHAOS_PARTITIONS) && below(net, 2)) heal_all(net);
    switch (below(net, 4)) {
    case 0:
        if (kinds & HD_SIM_CHAOS_PARTITIONS) cut_some(net);
        break;
    case 1:
        if (kinds & HD_SIM_CHAOS_RESETS) reset_one(net);
        break;
    case 2:
        if (kinds & HD_SIM_CHAOS_CRASHES) crash_some(net);
        break;
    default:
        if (kinds & HD_SIM_CHAOS_LINKS) bad_links(net);
        break;
    }
}

static void end_chaos(struct hdi_net *net)
{
    set_disks(net, NULL, NULL);
    hdi_mutex_lock(&net->lock);
    hdi_link_set(net, NULL, NULL, NULL);
    hdi_names_heal(net);
    hdi_programs_heal(net);
    hdi_mutex_unlock(&net->lock);
    heal_all(net);
    restart_some(net, true);
}

/* The next strike, or the end. */
static int64_t next_ns(struct hdi_net *net)
{
    const int64_t left_ns = net->chaos_end_ns - hdi_net_now(net);
    const int64_t pause_ns = 1 + (int64_t)(draw(net) % (uint64_t)(net->chaos_ns / 8 + 1));
    return hdi_net_now(net) + (pause_ns < left_ns ? pause_ns : left_ns);
}

static void run_chaos(struct hdi_net *net, struct hdi_net_event *event, bool fire)
{
    if (!fire) {
        free(event);
        return;
    }
    hdi_mutex_unlock(&net->lock); /* Hosts are crashed without it. */
    const bool over = hdi_net_now(net) >= net->chaos_end_ns;
    if (over) {
        end_chaos(net);
    } else {
        strike(net);
    }
    hdi_mutex_lock(&net->lock);
    if (over) {
        net->chaos = false;
        free(event);
    } else {
        hdi_net_event_add(net, event, next_ns(net));
    }
}

static int bad_names(struct hdi_net *net)
{
    const uint32_t ppm = below(net, 300000);
    const int64_t delay_ns = some_time(net);
    return strikes(net, "bad names") ? hd_sim_name_fault(NULL, -EAGAIN, ppm, delay_ns) : 0;
}

/* By draws of their own: the others are as they were before there were programs. */
static int bad_programs(struct hdi_net *net)
{
    const uint64_t first = net->chaos_draws, key = 1;
    const uint64_t whether = hdi_net_draw(net, HDI_PURPOSE_CHAOS, key, first);
    if (whether % 4 == 0 || !strikes(net, "bad programs")) return 0;
    const uint32_t ppm = (uint32_t)(hdi_net_draw(net, HDI_PURPOSE_CHAOS, key, first + 1) % 300000);
    const uint64_t ms = hdi_net_draw(net, HDI_PURPOSE_CHAOS, key, first + 2) % 100;
    return hd_sim_program_fault(NULL, -EAGAIN, ppm, (int64_t)ms * HD_MS_NS);
}

static int begin_chaos(struct hdi_net *net, unsigned kinds)
{
    for (unsigned kind = 1; kind < HD_SIM_CHAOS_PROGRAMS; kind <<= 1) {
        if (below(net, 4) == 0) kinds &= ~kind; /* Not all of them every time. */
    }
    net->chaos_kinds = kinds;
    if (kinds & HD_SIM_CHAOS_LINKS) bad_links(net);
    if (kinds & HD_SIM_CHAOS_DISKS) bad_disks(net);
    const int err = kinds & HD_SIM_CHAOS_NAMES ? bad_names(net) : 0;
    return !err && (kinds & HD_SIM_CHAOS_PROGRAMS) ? bad_programs(net) : err;
}

int hd_sim_chaos(unsigned kinds, int64_t duration_ns)
{
    int err;
    struct hdi_net *net = hdi_net_self(&err);
    if (!net) return err;
    if ((kinds & ~HD_SIM_CHAOS_ALL) || kinds == 0 || duration_ns <= 0) return -EINVAL;
    if (duration_ns > INT64_MAX / 2) return -EINVAL;
    hdi_mutex_lock(&net->lock);
    const bool other = net->chaos;
    net->chaos = true;
    hdi_mutex_unlock(&net->lock);
    if (other) return -EINVAL;
    net->chaos_ns = duration_ns;
    net->chaos_end_ns = hdi_net_now(net) + duration_ns;
    err = begin_chaos(net, kinds);
    struct hdi_net_event *event = hdi_net_alloc(sizeof(*event));
    event->run = run_chaos;
    hdi_mutex_lock(&net->lock);
    hdi_net_event_add(net, event, next_ns(net));
    hdi_mutex_unlock(&net->lock);
    return err;
}
