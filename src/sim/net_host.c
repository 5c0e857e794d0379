/* SPDX-License-Identifier: MIT
 *
 * net_host: hosts: which task is on which, and what a crash does to them.
 *
 * A task carries its life as a local value, which its children inherit; one without is on
 * "localhost". A crash marks the life as dead and cancels the tasks that carry it; tasks of a dead
 * life have no children any more, so a single walk finds all of them.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <heddle/local.h>

#include "base/check.h"
#include "sim/disk.h"
#include "sim/net.h"
#include "sim/program.h"
#include "task/local.h"

/* ---- the life of a task ---- */

static int inherit_life(void *parents, void **value)
{
    const struct hdi_life *life = parents;
    if (life->dead) return -ENOMEM;
    return hd_local_share(parents, value);
}

static const hd_local life_key = HD_LOCAL(NULL, inherit_life);

struct hdi_life *hdi_life_self(struct hdi_net *net)
{
    struct hdi_life *life = hdi_process_gone();
    if (!life) life = hd_local_get(&life_key);
    return life ? life : net->hosts[0]->life;
}

int hdi_life_enter(struct hdi_life *life)
{
    return hd_local_set(&life_key, life);
}

/* A task that is to begin on a host. */
struct hdi_launch {
    struct hdi_net *net;
    struct hdi_life *life;
    hd_fn *fn;
    void *arg;
    struct hdi_launch *next, **link; /* in net->launches: freed there if it never begins */
};

static struct hdi_launch *prepare(struct hdi_life *life, hd_fn *fn, void *arg)
{
    struct hdi_net *net = life->host->net;
    struct hdi_launch *launch = hdi_net_alloc(sizeof(*launch));
    *launch = (struct hdi_launch){.net = net, .life = life, .fn = fn, .arg = arg};
    hdi_mutex_lock(&net->lock);
    launch->next = net->launches;
    launch->link = &net->launches;
    if (launch->next) launch->next->link = &launch->next;
    net->launches = launch;
    hdi_mutex_unlock(&net->lock);
    return launch;
}

static void discard(struct hdi_launch *launch)
{
    struct hdi_net *net = launch->net;
    hdi_mutex_lock(&net->lock);
    *launch->link = launch->next;
    if (launch->next) launch->next->link = launch->link;
    hdi_mutex_unlock(&net->lock);
    free(launch);
}

static int run_launch(void *arg)
{
    const struct hdi_launch launch = *(struct hdi_launch *)arg;
    discard(arg);
    if (launch.life->dead) return -EHOSTDOWN;
    const int err = hdi_life_enter(launch.life);
    return err ? err : launch.fn(launch.arg);
}

static int spawn_on(struct hdi_life *life, hd_task **handle, hd_fn *fn, void *arg,
                    const hd_site *site)
{
    hd_spawn_options options = HD_SPAWN_OPTIONS_INIT;
    options.runtime = life->host->net->runtime;
    options.name = life->host->name;
    struct hdi_launch *launch = prepare(life, fn, arg);
    hdi_process_aside(true); /* A host does not end with the process that has to do with it. */
    const int err = hd_spawn_at(handle, run_launch, launch, &options, site);
    hdi_process_aside(false);
    if (err) discard(launch);
    return err;
}

/* ---- addresses ---- */

bool hdi_host_has(const struct hd_sim_host *host, const uint8_t ip[16])
{
    if (hdi_ip_loopback(ip)) return true;
    for (unsigned i = 0; i < host->addr_count; i++) {
        if (memcmp(host->addrs[i].ip, ip, 16) == 0) return true;
    }
    return false;
}

struct hd_sim_host *hdi_host_at(struct hd_sim_host *self, const uint8_t ip[16])
{
    const struct hdi_net *net = self->net;
    if (hdi_host_has(self, ip)) return self;
    for (unsigned i = 0; i < net->host_count; i++) {
        if (hdi_host_has(net->hosts[i], ip)) return net->hosts[i];
    }
    return NULL;
}

/* ---- making ---- */

static void begin_life(struct hd_sim_host *host)
{
    struct hdi_life *life = hdi_net_alloc(sizeof(*life));
    life->host = host;
    life->older = host->life;
    host->life = life;
}

static struct hd_sim_host *find(struct hdi_net *net, const char *name)
{
    for (unsigned i = 0; i < net->host_count; i++) {
        if (strcmp(net->hosts[i]->name, name) == 0) return net->hosts[i];
    }
    return NULL;
}

static bool address_taken(struct hdi_net *net, const struct hd_sim_host *host)
{
    for (unsigned i = 0; i < host->addr_count; i++) {
        if (hdi_ip_loopback(host->addrs[i].ip) || hdi_ip_any(host->addrs[i].ip)) return true;
        for (unsigned j = 0; j < net->host_count; j++) {
            if (hdi_host_has(net->hosts[j], host->addrs[i].ip)) return true;
        }
    }
    return false;
}

static int set_addresses(struct hd_sim_host *host, const char *addresses)
{
    char own[64];
    if (!addresses) {
        const unsigned number = host->index + 1;
        snprintf(own, sizeof(own), "10.0.%u.%u,fd00::%x", number >> 8, number & 255, number);
        addresses = own;
    }
    const int count = hdi_places_parse(addresses, host->addrs, HDI_HOST_ADDRS);
    if (count < 0) return count;
    host->addr_count = (unsigned)count;
    return 0;
}

/* Context: the lock, or nobody else knows the network. */
static int add_host(struct hdi_net *net, struct hd_sim_host *host, const char *name,
                    const char *addresses)
{
    if (net->host_count == HDI_HOSTS_MAX) return -ENOMEM;
    if (find(net, name)) return -EEXIST;
    host->net = net;
    host->index = net->host_count;
    snprintf(host->name, sizeof(host->name), "%s", name);
    const int err = set_addresses(host, addresses);
    if (err) return err;
    if (address_taken(net, host)) return -EEXIST;
    host->disk = hdi_disk_create(net->runtime, host->index);
    HD_CHECK_MSG(host->disk != NULL, "the simulated network is out of memory");
    hdi_disk_set(host->disk, net->disk.size ? &net->disk : NULL);
    begin_life(host);
    net->hosts[net->host_count++] = host;
    return 0;
}

void hdi_hosts_begin(struct hdi_net *net)
{
    const int err = add_host(net, hdi_net_alloc(sizeof(struct hd_sim_host)), "localhost", NULL);
    HD_CHECK(err == 0);
}

void hdi_hosts_end(struct hdi_net *net)
{
    for (struct hdi_launch *launch; (launch = net->launches);) {
        net->launches = launch->next;
        free(launch);
    }
    for (unsigned i = 0; i < net->host_count; i++) {
        struct hd_sim_host *host = net->hosts[i];
        for (struct hdi_life *life; (life = host->life);) {
            host->life = life->older;
            free(life);
        }
        hdi_disk_destroy(host->disk);
        free(host);
    }
}

int hd_sim_host_add_at(hd_sim_host **out, const char *name, const char *addresses, hd_fn *boot,
                       void *arg, const hd_site *site)
{
    int err;
    struct hdi_net *net = hdi_net_self(&err);
    if (!net) return err;
    if (!name || !*name || strlen(name) > HD_SIM_HOST_NAME_MAX) return -EINVAL;
    struct hd_sim_host *host = hdi_net_alloc(sizeof(*host));
    host->boot = boot;
    host->arg = arg;
    host->site = site;
    hdi_mutex_lock(&net->lock);
    err = add_host(net, host, name, addresses);
    hdi_mutex_unlock(&net->lock);
    if (err) {
        free(host);
        return err;
    }
    if (boot) err = spawn_on(host->life, NULL, boot, arg, site);
    if (!err && out) *out = host;
    return err;
}

/* ---- asking ---- */

hd_sim_host *hd_sim_host_self(void)
{
    int err;
    struct hdi_net *net = hdi_net_self(&err);
    return net ? hdi_life_self(net)->host : NULL;
}

hd_sim_host *hd_sim_host_find(const char *name)
{
    int err;
    struct hdi_net *net = hdi_net_self(&err);
    if (!net) return NULL;
    hdi_mutex_lock(&net->lock);
    struct hd_sim_host *host = find(net, name);
    hdi_mutex_unlock(&net->lock);
    return host;
}

const char *hd_sim_host_name(const hd_sim_host *host)
{
    return host->name;
}

bool hd_sim_host_up(const hd_sim_host *host)
{
    return hdi_host_up(host);
}

int hd_sim_spawn_at(hd_sim_host *host, hd_task **handle, hd_fn *fn, void *arg, const hd_site *site)
{
    if (!hdi_host_up(host)) return -EHOSTDOWN;
    return spawn_on(host->life, handle, fn, arg, site);
}

struct hdi_disk *hdi_host_disk(struct hd_runtime *runtime)
{
    struct hdi_net *net = hdi_net_of(runtime);
    const struct hdi_life *life = hdi_life_self(net);
    return life->dead ? NULL : life->host->disk;
}

struct hdi_disk *hdi_host_disk_at(struct hd_runtime *runtime, uint32_t host)
{
    const struct hdi_net *net = hdi_net_of(runtime);
    return host < net->host_count ? net->hosts[host]->disk : NULL;
}

/* ---- crashing ---- */

/* Sockets of a dead life do nothing more; what others sent to them is not answered. */
static void end_sockets(struct hdi_net *net, const struct hdi_life *life)
{
    for (unsigned i = 0; i < net->fd_room; i++) {
        struct hdi_sock *sock = net->fds[i] ? net->fds[i]->sock : NULL;
        if (!sock || sock->life != life) continue;
        hdi_conn_forget(net, sock, EHOSTDOWN);
        hdi_sock_tell(net, sock, HDI_READY_IN | HDI_READY_OUT | HDI_READY_HUNG);
    }
    hdi_link_forget_life(net, life);
}

static void cancel_one(struct hd_task *task, void *life)
{
    if (hdi_local_of(task, &life_key) == life) hdi_task_cancel(task);
}

int hdi_host_crash(struct hd_sim_host *host)
{
    struct hdi_net *net = host->net;
    if (host->index == 0) return -EINVAL;
    if (!hdi_host_up(host)) return -EALREADY;
    hdi_mutex_lock(&net->lock);
    struct hdi_life *life = host->life;
    life->dead = true;
    end_sockets(net, life);
    hdi_processes_crash(net, life);
    hdi_mutex_unlock(&net->lock);
    hdi_disk_crash(host->disk);
    hdi_runtime_for_each_task(net->runtime, cancel_one, life);
    return 0;
}

int hdi_host_restart(struct hd_sim_host *host)
{
    struct hdi_net *net = host->net;
    if (hdi_host_up(host)) return -EALREADY;
    hdi_mutex_lock(&net->lock);
    begin_life(host);
    hdi_link_release(net);
    hdi_mutex_unlock(&net->lock);
    return host->boot ? spawn_on(host->life, NULL, host->boot, host->arg, host->site) : 0;
}

int hd_sim_crash(hd_sim_host *host)
{
    return hdi_host_crash(host);
}

int hd_sim_restart(hd_sim_host *host)
{
    return hdi_host_restart(host);
}
