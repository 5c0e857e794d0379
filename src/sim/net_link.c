/* SPDX-License-Identifier: MIT
 *
 * net_link: how packets get from host to host: when, and whether.
 *
 * A packet is given the time of its arrival when it is sent. Whether it can arrive is looked at
 * then: if the way is cut, or the host is down, a datagram is lost, and a packet of a stream is
 * held until that is over, as if it were sent again and again. So a cut that lasts costs no
 * events, and the simulation can still tell that nothing will ever happen. What was under way when
 * it ended comes before what was held, and is then held itself until that is there.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/net.h"

#define LATENCY_NS      (200 * 1000)
#define LOOP_LATENCY_NS (10 * 1000)
#define RESEND_NS       (200 * HD_MS_NS)
#define RESENDS_MAX     8 /* losses in a row; TCP would give up at some point too */

/* ---- rules ---- */

static bool fits(const struct hdi_link_rule *rule, const struct hd_sim_host *from,
                 const struct hd_sim_host *to)
{
    return (!rule->from || rule->from == from) && (!rule->to || rule->to == to);
}

hd_sim_link_options hdi_link_of(struct hdi_net *net, const struct hd_sim_host *from,
                                const struct hd_sim_host *to)
{
    const struct hdi_link_rule *rule = net->rules;
    while (rule && !fits(rule, from, to)) rule = rule->next;
    hd_sim_link_options options = HD_SIM_LINK_OPTIONS_INIT;
    if (rule) options = rule->options;
    if (options.latency_ns == 0) options.latency_ns = from == to ? LOOP_LATENCY_NS : LATENCY_NS;
    if (options.resend_ns == 0) options.resend_ns = RESEND_NS;
    return options;
}

/* Whether all that `rule` is about is also what (from, to) is about. */
static bool overridden(const struct hdi_link_rule *rule, const struct hd_sim_host *from,
                       const struct hd_sim_host *to)
{
    return (!from || rule->from == from) && (!to || rule->to == to);
}

void hdi_link_set(struct hdi_net *net, struct hd_sim_host *from, struct hd_sim_host *to,
                  const hd_sim_link_options *options)
{
    for (struct hdi_link_rule **at = &net->rules; *at;) {
        struct hdi_link_rule *rule = *at;
        if (!overridden(rule, from, to)) {
            at = &rule->next;
            continue;
        }
        *at = rule->next;
        free(rule);
    }
    struct hdi_link_rule *rule = hdi_net_alloc(sizeof(*rule));
    rule->from = from;
    rule->to = to;
    if (options) rule->options = *options;
    rule->next = net->rules;
    net->rules = rule;
}

void hdi_link_cut(struct hdi_net *net, struct hd_sim_host *from, struct hd_sim_host *to, bool cut)
{
    for (unsigned i = 0; i < net->host_count; i++) {
        struct hd_sim_host *a = net->hosts[i];
        if (from && from != a) continue;
        for (unsigned j = 0; j < net->host_count; j++) {
            const bool itself = i == j && !(from && to); /* only if it is named twice */
            if ((to && to != net->hosts[j]) || (cut && itself)) continue;
            a->cut[j] = cut;
        }
    }
}

/* ---- packets ---- */

void hdi_packet_free(struct hdi_net *net, struct hdi_packet *packet)
{
    if (packet->conn) hdi_conn_drop(net, packet->conn);
    free(packet);
}

static struct hdi_end *end_of(const struct hdi_packet *packet)
{
    return &packet->conn->ends[packet->end];
}

static struct hdi_packet *packet_of(struct hdi_list *link)
{
    return (struct hdi_packet *)((char *)link - offsetof(struct hdi_packet, link));
}

static bool is_cut_off(const struct hdi_packet *packet)
{
    return packet->from->cut[packet->to->index] || !hdi_host_up(packet->to);
}

/* Its way is cut, or its host down. */
static void hold(struct hdi_net *net, struct hdi_packet *packet)
{
    if (packet->droppable || packet->by->dead) {
        hdi_packet_free(net, packet);
        return;
    }
    hdi_list_push_back(&net->held, &packet->link);
    if (packet->conn) hdi_conn_held(net, packet);
}

/* It is held no more. */
static void unhold(struct hdi_packet *packet)
{
    hdi_list_remove(&packet->link);
    if (packet->early) end_of(packet)->early--;
    packet->early = false;
}

/* Whether one before it is still under way, or will never come. */
static bool is_early(const struct hdi_packet *packet)
{
    return packet->conn && !packet->urgent && packet->number > end_of(packet)->arrived;
}

static void hold_early(struct hdi_net *net, struct hdi_packet *packet)
{
    packet->early = true;
    end_of(packet)->early++;
    hdi_list_push_back(&net->held, &packet->link);
}

/* One that waited for those that have arrived by now; NULL: there is none. */
static struct hdi_packet *take_early(struct hdi_net *net, const struct hdi_conn *conn,
                                     unsigned end)
{
    if (conn->ends[end].early == 0) return NULL;
    for (struct hdi_list *link = net->held.next; link != &net->held; link = link->next) {
        struct hdi_packet *packet = packet_of(link);
        if (packet->conn != conn || packet->end != end || !packet->early) continue;
        if (is_early(packet)) continue;
        unhold(packet);
        return packet;
    }
    return NULL;
}

static void deliver(struct hdi_net *net, struct hdi_packet *packet)
{
    struct hdi_conn *conn = packet->conn;
    if (!conn) {
        packet->arrive(net, packet);
        return;
    }
    const unsigned end = packet->end;
    conn->refs++; /* The packet may have the last one. */
    do {
        uint64_t *arrived = &conn->ends[end].arrived;
        if (packet->number >= *arrived) *arrived = packet->number + 1;
        packet->arrive(net, packet);
    } while ((packet = take_early(net, conn, end)));
    hdi_conn_drop(net, conn);
}

static void run_packet(struct hdi_net *net, struct hdi_net_event *event, bool fire)
{
    struct hdi_packet *packet = (struct hdi_packet *)event;
    if (!fire || (packet->resent && packet->by->dead)) {
        hdi_packet_free(net, packet);
    } else if (is_cut_off(packet)) {
        hold(net, packet);
    } else if (is_early(packet)) {
        hold_early(net, packet);
    } else {
        deliver(net, packet);
    }
}

struct hdi_packet *hdi_packet_new(size_t bytes)
{
    struct hdi_packet *packet = hdi_net_alloc(sizeof(*packet) + bytes);
    packet->event.run = run_packet;
    packet->bytes = bytes;
    hdi_list_init(&packet->link);
    return packet;
}

/* ---- times ---- */

/* When the link has taken the bytes, after those before. */
static int64_t departure(struct hdi_net *net, const struct hdi_packet *packet, uint64_t bandwidth)
{
    enum { HEADER_BYTES = 40 };
    const int64_t now_ns = hdi_net_now(net);
    if (bandwidth == 0) return now_ns;
    int64_t *busy_ns = &packet->from->busy_ns[packet->to->index];
    const int64_t start_ns = *busy_ns > now_ns ? *busy_ns : now_ns;
    const uint64_t bytes = packet->bytes + HEADER_BYTES;
    *busy_ns = start_ns + (int64_t)(bytes * (uint64_t)HD_SECOND_NS / bandwidth);
    return *busy_ns;
}

static int64_t up_to(uint64_t draw, int64_t most_ns)
{
    return most_ns > 0 ? (int64_t)(draw % (uint64_t)(most_ns + 1)) : 0;
}

/* Sent again and again until it is not lost. */
static int64_t resending(struct hdi_net *net, struct hdi_packet *packet, uint64_t key, uint64_t n,
                         const hd_sim_link_options *options)
{
    int64_t delay_ns = 0;
    for (unsigned i = 0; i < RESENDS_MAX; i++) {
        const uint64_t draw = hdi_net_draw(net, HDI_PURPOSE_NET_LINK, key, n + 1 + i);
        if (!hdi_net_strikes(net, draw, options->loss_ppm, "packet lost, sent again")) break;
        packet->resent = true;
        delay_ns += options->resend_ns << i;
    }
    return delay_ns;
}

void hdi_link_send(struct hdi_net *net, struct hdi_packet *packet)
{
    enum { DRAWS = 16 }; /* for each packet */
    struct hdi_end *end = end_of(packet);
    const hd_sim_link_options options = hdi_link_of(net, packet->from, packet->to);
    const uint64_t key = packet->conn->serial << 1 | packet->end, n = DRAWS * end->packets++;
    packet->conn->refs++;
    const uint64_t draw = hdi_net_draw(net, HDI_PURPOSE_NET_LINK, key, n);
    int64_t at_ns = departure(net, packet, options.bandwidth) + options.latency_ns;
    at_ns += up_to(draw, options.jitter_ns);
    at_ns += resending(net, packet, key, n, &options);
    if (at_ns < end->last_ns) at_ns = end->last_ns; /* NET-2 */
    end->last_ns = at_ns;
    hdi_net_event_add(net, &packet->event, at_ns);
    const uint64_t fate = hdi_net_draw(net, HDI_PURPOSE_NET_LINK, key, n + DRAWS - 1);
    if (hdi_net_strikes(net, fate, options.reset_ppm, "connection reset")) {
        hdi_conn_reset(net, packet->conn);
    }
}

void hdi_link_send_dgram(struct hdi_net *net, struct hdi_packet *packet, uint64_t key, uint64_t n)
{
    enum { LOST, JITTER, DOUBLED, LATE, HOW_LATE, DRAWS };
    const hd_sim_link_options options = hdi_link_of(net, packet->from, packet->to);
    uint64_t draws[DRAWS];
    for (unsigned i = 0; i < DRAWS; i++) {
        draws[i] = hdi_net_draw(net, HDI_PURPOSE_NET_LINK, key, n * DRAWS + i);
    }
    packet->droppable = true;
    int64_t at_ns = departure(net, packet, options.bandwidth) + options.latency_ns;
    if (hdi_events_room(&net->events) < 2) { /* a full queue */
        hdi_packet_free(net, packet);
        return;
    }
    if (hdi_net_strikes(net, draws[DOUBLED], options.duplicate_ppm, "datagram doubled")) {
        struct hdi_packet *twin = hdi_packet_new(packet->bytes);
        memcpy(twin, packet, sizeof(*packet) + packet->bytes);
        hdi_list_init(&twin->link);
        const int64_t late_ns = up_to(draws[HOW_LATE], 2 * options.latency_ns);
        hdi_net_event_add(net, &twin->event, at_ns + late_ns);
    }
    if (hdi_net_strikes(net, draws[LOST], options.loss_ppm, "datagram lost")) {
        hdi_packet_free(net, packet);
        return;
    }
    at_ns += up_to(draws[JITTER], options.jitter_ns);
    if (hdi_net_strikes(net, draws[LATE], options.reorder_ppm, "datagram late")) {
        at_ns += 1 + up_to(draws[HOW_LATE], 10 * (options.latency_ns + options.jitter_ns));
    }
    hdi_net_event_add(net, &packet->event, at_ns);
}

/* ---- held packets ---- */

void hdi_link_release(struct hdi_net *net)
{
    struct hdi_list all;
    hdi_list_init(&all);
    for (struct hdi_list *link; (link = hdi_list_pop_front(&net->held));) {
        hdi_list_push_back(&all, link);
    }
    for (struct hdi_list *link; (link = hdi_list_pop_front(&all));) {
        struct hdi_packet *packet = packet_of(link);
        if (packet->early || is_cut_off(packet)) {
            hdi_list_push_back(&net->held, &packet->link);
            continue;
        }
        struct hdi_conn *conn = packet->conn; /* Only packets of streams are held. */
        hdi_link_send(net, packet);
        hdi_conn_drop(net, conn); /* It had one reference, and has another. */
    }
}

static bool is_life(const struct hdi_packet *packet, const void *life, unsigned end)
{
    (void)end;
    return packet->by == life;
}

static bool is_from(const struct hdi_packet *packet, const void *conn, unsigned end)
{
    return packet->conn == conn && packet->end != end;
}

static void forget(struct hdi_net *net,
                   bool (*is)(const struct hdi_packet *packet, const void *what, unsigned end),
                   const void *what, unsigned end)
{
    for (struct hdi_list *link = net->held.next, *next; link != &net->held; link = next) {
        next = link->next;
        struct hdi_packet *packet = packet_of(link);
        if (!is(packet, what, end)) continue;
        unhold(packet);
        hdi_packet_free(net, packet);
    }
}

void hdi_link_forget(struct hdi_net *net, const struct hdi_conn *conn, unsigned from_end)
{
    forget(net, is_from, conn, from_end);
}

void hdi_link_forget_life(struct hdi_net *net, const struct hdi_life *life)
{
    forget(net, is_life, life, 0);
}

void hdi_links_end(struct hdi_net *net)
{
    for (struct hdi_list *link; (link = hdi_list_pop_front(&net->held));) {
        hdi_packet_free(net, packet_of(link));
    }
    for (struct hdi_link_rule *rule; (rule = net->rules);) {
        net->rules = rule->next;
        free(rule);
    }
}
