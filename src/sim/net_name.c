/* SPDX-License-Identifier: MIT
 *
 * net_name: names and their addresses: those that were given, then those of hosts.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sim/net.h"

enum { ADDRS_MAX = 16 };

struct hdi_dns_name {
    struct hdi_dns_name *next;
    bool given;    /* addresses were, or that there are none */
    unsigned count;
    struct hdi_place addrs[ADDRS_MAX];
    bool faulty;   /* the next three were given */
    int err;
    uint32_t ppm;
    int64_t delay_ns;
    char name[];   /* "": any */
};

/* ---- texts ---- */

static int parse_one(const char *text, size_t bytes, struct hdi_place *place)
{
    char one[INET6_ADDRSTRLEN];
    if (bytes >= sizeof(one)) return -EINVAL;
    memcpy(one, text, bytes);
    one[bytes] = 0;
    *place = (struct hdi_place){.ip = {[10] = 0xff, [11] = 0xff}};
    if (inet_pton(AF_INET, one, place->ip + 12) == 1) return 0;
    return inet_pton(AF_INET6, one, place->ip) == 1 ? 0 : -EINVAL;
}

int hdi_places_parse(const char *text, struct hdi_place *places, unsigned max)
{
    unsigned count = 0;
    for (;; text++) {
        const size_t bytes = strcspn(text, ",");
        if (count == max || parse_one(text, bytes, &places[count]) != 0) return -EINVAL;
        count++;
        text += bytes;
        if (!*text) return (int)count;
    }
}

/* ---- giving ---- */

static struct hdi_dns_name *find(struct hdi_net *net, const char *name)
{
    struct hdi_dns_name *at = net->names;
    while (at && strcasecmp(at->name, name) != 0) at = at->next;
    return at;
}

static struct hdi_dns_name *need(struct hdi_net *net, const char *name)
{
    struct hdi_dns_name *at = find(net, name);
    if (at) return at;
    const size_t bytes = strlen(name) + 1;
    at = hdi_net_alloc(sizeof(*at) + bytes);
    memcpy(at->name, name, bytes);
    at->next = net->names;
    net->names = at;
    return at;
}

int hd_sim_name(const char *name, const char *addresses)
{
    int err;
    struct hdi_net *net = hdi_net_self(&err);
    if (!net) return err;
    struct hdi_place addrs[ADDRS_MAX];
    const int count = addresses ? hdi_places_parse(addresses, addrs, ADDRS_MAX) : 0;
    if (count < 0 || !name || !*name) return -EINVAL;
    hdi_mutex_lock(&net->lock);
    struct hdi_dns_name *at = need(net, name);
    at->given = true;
    at->count = (unsigned)count;
    memcpy(at->addrs, addrs, (size_t)count * sizeof(addrs[0]));
    hdi_mutex_unlock(&net->lock);
    return 0;
}

int hd_sim_name_fault(const char *name, int err, uint32_t ppm, int64_t delay_ns)
{
    int why;
    struct hdi_net *net = hdi_net_self(&why);
    if (!net) return why;
    if ((err != -EAGAIN && err != -ENOENT) || delay_ns < 0) return -EINVAL;
    hdi_mutex_lock(&net->lock);
    struct hdi_dns_name *at = need(net, name ? name : "");
    at->faulty = true;
    at->err = err;
    at->ppm = ppm;
    at->delay_ns = delay_ns;
    hdi_mutex_unlock(&net->lock);
    return 0;
}

void hdi_names_heal(struct hdi_net *net)
{
    for (struct hdi_dns_name *at = net->names; at; at = at->next) at->faulty = false;
}

void hdi_names_end(struct hdi_net *net)
{
    for (struct hdi_dns_name *at; (at = net->names);) {
        net->names = at->next;
        free(at);
    }
}

/* ---- asking ---- */

static const struct hdi_dns_name *fault_of(struct hdi_net *net, const char *name)
{
    const struct hdi_dns_name *at = find(net, name);
    if (!at || !at->faulty) at = find(net, "");
    return at && at->faulty ? at : NULL;
}

static int answer(const struct hdi_place *places, unsigned count, struct sockaddr_storage *addrs,
                  size_t max)
{
    unsigned i = 0;
    for (; i < count && i < max; i++) {
        socklen_t bytes = sizeof(addrs[i]);
        const int family = hdi_ip_v4(places[i].ip) ? AF_INET : AF_INET6;
        addrs[i] = (struct sockaddr_storage){0};
        hdi_place_write(&places[i], family, (struct sockaddr *)&addrs[i], &bytes);
    }
    return i > 0 ? (int)i : -ENOENT;
}

static int resolve(struct hdi_net *net, const char *name, struct sockaddr_storage *addrs,
                   size_t max)
{
    static const struct hdi_place own[] = {
        {.ip = {[15] = 1}},
        {.ip = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}},
    };
    const struct hdi_dns_name *at = find(net, name);
    if (at && at->given) return answer(at->addrs, at->count, addrs, max);
    if (strcasecmp(name, "localhost") == 0) return answer(own, 2, addrs, max);
    for (unsigned i = 0; i < net->host_count; i++) {
        const struct hd_sim_host *host = net->hosts[i];
        if (strcasecmp(host->name, name) != 0) continue;
        return answer(host->addrs, host->addr_count, addrs, max);
    }
    return -ENOENT;
}

int hdi_net_resolve(struct hd_runtime *runtime, const char *name, struct sockaddr_storage *addrs,
                    size_t max)
{
    struct hdi_net *net = hdi_net_of(runtime);
    hdi_mutex_lock(&net->lock);
    const struct hdi_dns_name *fault = fault_of(net, name);
    const uint64_t draw = hdi_net_draw(net, HDI_PURPOSE_NET_NAME, 0, net->resolved++);
    int result;
    if (hdi_life_self(net)->dead) {
        result = -EAGAIN;
    } else if (fault && hdi_net_strikes(net, draw, fault->ppm, "name not resolved")) {
        result = fault->err;
    } else {
        result = resolve(net, name, addrs, max);
    }
    hdi_mutex_unlock(&net->lock);
    return result;
}

int64_t hdi_net_resolve_delay(struct hd_runtime *runtime, const char *name)
{
    struct hdi_net *net = hdi_net_of(runtime);
    hdi_mutex_lock(&net->lock);
    const struct hdi_dns_name *fault = fault_of(net, name);
    const uint64_t draw = hdi_net_draw(net, HDI_PURPOSE_NET_NAME, 1, net->resolved++);
    const int64_t delay_ns = fault ? fault->delay_ns : (int64_t)(draw % (uint64_t)HD_MS_NS);
    hdi_mutex_unlock(&net->lock);
    return delay_ns;
}
