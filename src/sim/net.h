/* SPDX-License-Identifier: MIT
 *
 * net: the hosts of a simulated runtime, and the network between them.
 *
 *   calls of tasks          net_sys.c: the table; net_option.c; net_calls.c: moving bytes
 *     |
 *   sockets                 net_socket.c: places; net_tcp.c, net_udp.c, net_unix.c: what they do
 *     |
 *   packets and links       net_link.c: how long they take, cuts, hosts that are down
 *     |
 *   events and news         net.c: what happens at a virtual time, and who is to be told
 *
 * All state is under one lock, which is taken inside that of a handle's side (io/source.h), and
 * in which nothing calls out. Whoever makes a socket ready only notes it; the driver of the
 * simulation (sim/world.c) runs events that are due, and then tells the notes, without the lock.
 *
 *   NET-1  A packet is among the events, or held, or being fired.
 *   NET-2  Bytes of a connection arrive in the order they were sent: packets to one of its ends
 *          are given times that do not decrease, and one that comes before another that was held,
 *          and is under way again, waits for that. Only a reset waits for nothing.
 *   NET-3  sent <= limit: what is on its way to an end, or waits to be read there, fits into the
 *          widest window that it ever announced.
 *   NET-4  A life is dead for ever; a host that starts again begins another.
 *
 * Memory that is short ends the program: a simulation has nobody to tell it to.
 */
#ifndef HDI_SIM_NET_H
#define HDI_SIM_NET_H

#include <netinet/in.h>
#include <sys/time.h>
#include <sys/un.h>

#include <heddle/sim.h>

#include "base/list.h"
#include "base/prng.h"
#include "io/source.h"
#include "sim/events.h"
#include "os/mutex.h"
#include "os/sys.h"
#include "sched/runtime.h"
#include "sim/schedule.h"

#define HDI_HOSTS_MAX     1024 /* below what sim/disk.h has room for */
#define HDI_HOST_ADDRS    4
#define HDI_NET_WINDOW    (64u << 10)
#define HDI_NET_SEGMENT   (16u << 10) /* bytes in one packet of a stream */
#define HDI_NET_DGRAM_MAX 65507

struct hdi_net;
struct hdi_sock;

/* ---- hosts ---- */

/* An address and a port; IPv4 as ::ffff:a.b.c.d. */
struct hdi_place {
    uint8_t ip[16];
    uint16_t port; /* 0: none */
};

/* One run of a host, from its start to its crash. */
struct hdi_life {
    struct hd_sim_host *host;
    struct hdi_life *older;
    bool dead; /* NET-4 */
};

struct hd_sim_host {
    struct hdi_net *net;
    unsigned index;
    char name[HD_SIM_HOST_NAME_MAX + 1];
    struct hdi_place addrs[HDI_HOST_ADDRS];
    unsigned addr_count;
    struct hdi_life *life; /* the newest */
    hd_fn *boot;
    void *arg;
    const hd_site *site;
    struct hdi_disk *disk;
    uint32_t port_next;              /* ephemeral */
    bool cut[HDI_HOSTS_MAX];         /* what it sends to the host of that index is lost */
    int64_t busy_ns[HDI_HOSTS_MAX];  /* until then the link to that host has bytes to send */
};

static inline bool hdi_host_up(const struct hd_sim_host *host)
{
    return !host->life->dead;
}

/* ---- events ---- */

struct hdi_net_event {
    struct hdi_heap_node node; /* first */
    bool queued;
    /* Its time has come; it is in no queue. Or, `fire` false, the network ends: free it. */
    void (*run)(struct hdi_net *net, struct hdi_net_event *event, bool fire);
};

/* ---- links ---- */

struct hdi_link_rule {
    struct hd_sim_host *from, *to; /* NULL: any */
    hd_sim_link_options options;
    struct hdi_link_rule *next;    /* an older one, that counts less */
};

struct hdi_packet {
    struct hdi_net_event event; /* first */
    struct hdi_list link;   /* in net->held, of those that cannot arrive */
    struct hd_sim_host *from, *to;
    struct hdi_life *by;    /* who sends it again if it is lost */
    bool resent;
    bool early;             /* NET-2: it is there, and held until those before it are */
    bool urgent;            /* a reset */
    bool droppable;         /* nobody sends it again: it is lost where others are held */
    void (*arrive)(struct hdi_net *net, struct hdi_packet *packet); /* which frees it */
    struct hdi_conn *conn;  /* stream: held by it */
    unsigned end;           /* stream: which one it goes to */
    uint64_t acked, limit;  /* of an acknowledgement */
    int fd;                 /* datagram: its sender, */
    uint64_t serial;        /* if this is still its serial number; */
    uint64_t number;        /* how many it had sent before; stream: how many went to that end */
    struct hdi_place source, target; /* datagram */
    size_t bytes;
    char data[];
};

/* ---- connections ---- */

/* Bytes in a ring that grows. */
struct hdi_bytes {
    char *data;
    size_t first, count, room;
};

/* Descriptors that were sent with some bytes, open until somebody receives them. */
struct hdi_passed {
    struct hdi_list link;
    uint64_t at, end; /* where in the stream these bytes are */
    unsigned count;
    int fds[];
};

enum hdi_end_state {
    HDI_END_OPEN,   /* somebody has a descriptor of it, or may accept it */
    HDI_END_CLOSED, /* by close(): what was sent still arrives */
    HDI_END_GONE,   /* reset, forgotten, or its host crashed */
};

struct hdi_end {
    struct hdi_sock *sock; /* NULL unless OPEN */
    struct hdi_life *life;
    enum hdi_end_state state;
    struct hdi_bytes in;      /* arrived, to be read */
    struct hdi_list passed;   /* Unix: struct hdi_passed, in the order of their bytes */
    uint64_t received, consumed, announced; /* bytes that arrived, were read; the limit it told */
    size_t window;
    bool fin_in;              /* the other side will send no more */
    uint64_t sent, acked, limit; /* NET-3; a FIN counts as a byte in `acked` */
    uint64_t packets;         /* to this end, also again: numbers draws */
    uint64_t numbered, arrived; /* NET-2: packets to this end; those before `arrived` are there */
    unsigned early;           /* that are held as such */
    bool fin_out;
    int64_t last_ns;          /* NET-2: when the last packet to this end arrives */
    struct hdi_net_event *timer;  /* gives up; NULL: nothing is missing */
};

struct hdi_conn {
    struct hdi_end ends[2];   /* 0 connected, 1 was connected to; of a pipe 0 writes, 1 reads */
    uint64_t serial;
    unsigned refs;            /* sockets, packets, timers */
    bool local;               /* no link: Unix sockets, pipes */
    struct hdi_list link;     /* in net->conns, unless local */
    struct hdi_place places[2];
};

/* ---- sockets ---- */

enum hdi_sock_kind { HDI_SOCK_TCP, HDI_SOCK_UDP, HDI_SOCK_UNIX, HDI_SOCK_PIPE };

enum hdi_sock_state {
    HDI_SOCK_FRESH,
    HDI_SOCK_LISTENING,
    HDI_SOCK_CONNECTING,
    HDI_SOCK_CONNECTED, /* datagram: it has a peer */
    HDI_SOCK_BROKEN,    /* it was; or a connect failed */
};

/* A descriptor of a socket, which has several if it was passed on. */
struct hdi_fd {
    struct hdi_sock *sock;
    int number;
    struct hdi_list link;      /* in sock->fds */
    struct hdi_source *source; /* NULL: nobody watches */
    hd_io handle;
    unsigned news;             /* HDI_READY_*, to be told */
    struct hdi_list news_link; /* in net->news */
};

#define HDI_SOCK_KEPT 19 /* options that are numbers without a meaning here */

/* What setsockopt() changes. */
struct hdi_sock_options {
    bool v6_only, reuse_port;
    int send_buffer;        /* 0: as at first */
    size_t receive_buffer;  /* and the window */
    struct linger linger;
    struct timeval times[2]; /* SO_RCVTIMEO, SO_SNDTIMEO; of no use to who never blocks */
    int kept[HDI_SOCK_KEPT];
};

struct hdi_sock {
    enum hdi_sock_kind kind;
    enum hdi_sock_state state;
    int family;
    struct hdi_list fds;    /* empty: not accepted yet */
    uint64_t serial, calls; /* number draws */
    struct hdi_life *life;
    struct hdi_list link;   /* in net->bound */
    struct hdi_sock_options options;
    bool bound;
    bool read_shut;
    bool want_out;          /* a write found no room: tell when there is */
    int error;              /* SO_ERROR, positive */
    struct hdi_place local, peer;
    struct hdi_unix_name *name; /* Unix: what it is bound to */
    char peer_name[sizeof(((struct sockaddr_un *)0)->sun_path)];
    size_t peer_name_bytes;

    struct hdi_conn *conn;  /* stream, connected or connecting */
    unsigned end;

    struct hdi_list queue;  /* listener: connections by queue_link; datagrams: packets by link */
    struct hdi_list queue_link;
    unsigned queued, backlog;
    size_t queued_bytes;
};

/* A path, or an abstract name, of a host. */
struct hdi_unix_name {
    struct hdi_list link;
    struct hd_sim_host *host;
    struct hdi_sock *sock; /* NULL: closed; a path stays */
    size_t bytes;
    char name[sizeof(((struct sockaddr_un *)0)->sun_path)];
};

struct hdi_dns_name;
struct hdi_launch;
struct hdi_program;

struct hdi_net {
    struct hd_runtime *runtime;
    struct hdi_mutex lock; /* for all of these */
    struct hd_sim_host *hosts[HDI_HOSTS_MAX];
    unsigned host_count;
    hd_sim_disk_options disk; /* of hosts added later */
    struct hdi_launch *launches;

    struct hdi_events events;
    bool starved;          /* somebody who wants to send waits for room among the events */
    struct hdi_list held;  /* packets, oldest first */
    struct hdi_list news;  /* descriptors */
    struct hdi_list lost;  /* struct hdi_passed, to be closed without the lock (net_sys.c) */
    struct hdi_list bound; /* sockets with a port */
    struct hdi_list conns;
    struct hdi_list unix_names;

    struct hdi_fd **fds; /* by number - HDI_SIM_FD */
    unsigned fd_room, fd_free; /* the lowest that may be free */
    uint64_t serial;

    struct hdi_link_rule *rules;
    int64_t connect_ns, send_ns;
    uint32_t short_ppm, spurious_ppm;
    struct hdi_dns_name *names;
    uint64_t resolved;
    struct hdi_program *programs;
    struct hdi_list processes; /* struct hdi_proc, oldest first */
    struct hdi_list dying;     /* of these, those for the driver to look at */
    uint32_t process_count;    /* that were started */
    uint64_t chaos_draws;
    bool chaos;           /* is under way, */
    unsigned chaos_kinds; /* of these kinds, perhaps of none */
    int64_t chaos_ns, chaos_end_ns;
};

/* ---- net.c ---- */

/* The network of a simulated runtime, made when it is needed first. */
struct hdi_net *hdi_net_of(struct hd_runtime *runtime);

/* For the public calls: NULL in live, or without a runtime; *err says why. */
struct hdi_net *hdi_net_self(int *err);

/* Zeroed memory. */
void *hdi_net_alloc(size_t bytes);

int64_t hdi_net_now(const struct hdi_net *net);
uint64_t hdi_net_draw(const struct hdi_net *net, enum hdi_purpose purpose, uint64_t key,
                      uint64_t n);

/* Whether the draw makes this go wrong. */
static inline bool hdi_net_strikes(struct hdi_net *net, uint64_t draw, uint32_t ppm,
                                   const char *what)
{
    return draw % HD_SIM_ALWAYS < ppm && hdi_schedule_fault(net->runtime, what);
}

/* Have an event run at this time; and not. */
void hdi_net_event_add(struct hdi_net *net, struct hdi_net_event *event, int64_t at_ns);
void hdi_net_event_remove(struct hdi_net *net, struct hdi_net_event *event);

/* The socket, or one descriptor, became ready: note it. */
void hdi_fd_tell(struct hdi_net *net, struct hdi_fd *fd, unsigned ready);
void hdi_sock_tell(struct hdi_net *net, struct hdi_sock *sock, unsigned ready);

/* For the driver (sim/world.c): run what is due, and tell the news. Context: as a worker. */
void hdi_net_run(struct hdi_net *net);

/* When there is something to run; INT64_MAX: never. */
int64_t hdi_net_next(struct hdi_net *net);

/* How many events are to come. */
size_t hdi_net_count(struct hdi_net *net);
void hdi_net_end(struct hdi_net *net);

/* ---- net_host.c ---- */

void hdi_hosts_begin(struct hdi_net *net);
void hdi_hosts_end(struct hdi_net *net);

/* The life the caller is of; a dead one, too, if its process is. */
struct hdi_life *hdi_life_self(struct hdi_net *net);

/* The running task is of this life from now on. Returns: 0, -ENOMEM. */
int hdi_life_enter(struct hdi_life *life);

/* The host with that address, as seen from one; NULL: none has it. */
struct hd_sim_host *hdi_host_at(struct hd_sim_host *self, const uint8_t ip[16]);
bool hdi_host_has(const struct hd_sim_host *host, const uint8_t ip[16]);

/* Without the lock. */
int hdi_host_crash(struct hd_sim_host *host);
int hdi_host_restart(struct hd_sim_host *host);

/* ---- net_name.c ---- */

int hdi_net_resolve(struct hd_runtime *runtime, const char *name, struct sockaddr_storage *addrs,
                    size_t max);
int64_t hdi_net_resolve_delay(struct hd_runtime *runtime, const char *name);
void hdi_names_heal(struct hdi_net *net);
void hdi_names_end(struct hdi_net *net);

/* Read addresses apart by commas. Returns: how many, -EINVAL. */
int hdi_places_parse(const char *text, struct hdi_place *places, unsigned max);

/* ---- net_link.c ---- */

/* A packet to be filled, with room for so many bytes. */
struct hdi_packet *hdi_packet_new(size_t bytes);

void hdi_packet_free(struct hdi_net *net, struct hdi_packet *packet);

/* Send a packet of a stream; a datagram, which may be lost. Theirs from then on. */
void hdi_link_send(struct hdi_net *net, struct hdi_packet *packet);
void hdi_link_send_dgram(struct hdi_net *net, struct hdi_packet *packet, uint64_t key, uint64_t n);

/* With its defaults. */
hd_sim_link_options hdi_link_of(struct hdi_net *net, const struct hd_sim_host *from,
                                const struct hd_sim_host *to);

/* Packets that were held may arrive now. */
void hdi_link_release(struct hdi_net *net);

/* Those are not sent again any more: of an end, or of a life. */
void hdi_link_forget(struct hdi_net *net, const struct hdi_conn *conn, unsigned from_end);
void hdi_link_forget_life(struct hdi_net *net, const struct hdi_life *life);

void hdi_link_set(struct hdi_net *net, struct hd_sim_host *from, struct hd_sim_host *to,
                  const hd_sim_link_options *options);
void hdi_link_cut(struct hdi_net *net, struct hd_sim_host *from, struct hd_sim_host *to, bool cut);
void hdi_links_end(struct hdi_net *net);

/* ---- net_tcp.c ---- */

int hdi_tcp_connect(struct hdi_net *net, struct hdi_sock *sock, const struct hdi_place *target);

/* Connect two without a link. */
void hdi_conn_local(struct hdi_net *net, struct hdi_sock *a, struct hdi_sock *b);

/* Bytes that a write would take now; what it takes; and what a read took. */
size_t hdi_conn_room(const struct hdi_sock *sock);
/* There is room among the events again: tell those who wait to send. */
void hdi_conns_room_again(struct hdi_net *net);
void hdi_conn_send(struct hdi_net *net, struct hdi_sock *sock, const struct iovec *parts,
                   size_t bytes);
void hdi_conn_consumed(struct hdi_net *net, struct hdi_sock *sock, size_t bytes);
void hdi_conn_window(struct hdi_net *net, struct hdi_sock *sock, size_t window);

void hdi_conn_shut(struct hdi_net *net, struct hdi_sock *sock); /* no more will be sent */
void hdi_conn_close(struct hdi_net *net, struct hdi_sock *sock);
void hdi_conn_reset(struct hdi_net *net, struct hdi_conn *conn);
void hdi_conn_forget(struct hdi_net *net, struct hdi_sock *sock, int error);

/* A packet could not arrive, and is held. */
void hdi_conn_held(struct hdi_net *net, struct hdi_packet *packet);
void hdi_conn_drop(struct hdi_net *net, struct hdi_conn *conn); /* one reference */

/* ---- net_udp.c ---- */

ssize_t hdi_udp_send(struct hdi_net *net, struct hdi_sock *sock, const struct hdi_place *target,
                     const struct iovec *parts, size_t count);

/* The next datagram, of which there is one. */
ssize_t hdi_udp_recv(struct hdi_net *net, struct hdi_sock *sock, struct msghdr *message,
                     int flags);
void hdi_udp_close(struct hdi_net *net, struct hdi_sock *sock);

/* ---- net_unix.c ---- */

int hdi_unix_bind(struct hdi_net *net, struct hdi_sock *sock, const struct sockaddr_un *addr,
                  socklen_t bytes);
int hdi_unix_connect(struct hdi_net *net, struct hdi_sock *sock, const struct sockaddr_un *addr,
                     socklen_t bytes);
void hdi_unix_close(struct hdi_sock *sock);

/* The descriptors belong to the bytes that were just sent. */
void hdi_unix_pass(struct hdi_sock *sock, struct hdi_passed *passed, size_t bytes);

/* A read of so many bytes ends where the first that have descriptors do; take those of what has
 * been read, the caller's from then on; NULL: there are none. */
size_t hdi_unix_until_passed(const struct hdi_end *end, size_t bytes);
struct hdi_passed *hdi_unix_take_passed(struct hdi_end *end);

/* Nobody will receive them: of an end that is closed. */
void hdi_unix_lose_passed(struct hdi_net *net, struct hdi_end *end);

/* Returns false if there is no socket of that path. */
bool hdi_unix_unlink(struct hd_runtime *runtime, const char *path);
void hdi_unix_end(struct hdi_net *net);

/* ---- net_socket.c ---- */

struct hdi_sock *hdi_sock_new(struct hdi_net *net, enum hdi_sock_kind kind, int family,
                              struct hdi_life *life);

/* Another descriptor of it; close one, and with the last the socket. */
int hdi_sock_number(struct hdi_net *net, struct hdi_sock *sock);
void hdi_fd_close(struct hdi_net *net, struct hdi_fd *fd);

/* A descriptor by its number; NULL: there is none. */
struct hdi_fd *hdi_fd_at(struct hdi_net *net, int number);

/* The socket of a descriptor; NULL: *err says why, -EBADF or -EHOSTDOWN. */
struct hdi_sock *hdi_sock_at(struct hdi_net *net, int fd, int *err);

/* Where it talks to that place from. Returns: 0, -ENETUNREACH. */
int hdi_sock_source(const struct hdi_sock *sock, const struct hdi_place *target,
                    struct hdi_place *source);

/* Give an unbound socket a place; one to talk to that place from. Returns: 0, -EADDRINUSE,
 * -ENETUNREACH, -EADDRNOTAVAIL, -EINVAL. */
int hdi_sock_bind(struct hdi_net *net, struct hdi_sock *sock, const struct hdi_place *place);
int hdi_sock_autobind(struct hdi_net *net, struct hdi_sock *sock, const struct hdi_place *target);

/* The listener, or datagram socket, that what comes from there to here is for; NULL. */
struct hdi_sock *hdi_sock_find(struct hdi_net *net, struct hd_sim_host *host,
                               enum hdi_sock_kind kind, const struct hdi_place *to,
                               const struct hdi_place *from, uint64_t draw);

/* Put a socket that was connected to into a listener's queue, which has room; take the oldest out;
 * NULL. */
struct hdi_sock *hdi_sock_dequeue(struct hdi_sock *listener);
void hdi_sock_enqueue(struct hdi_net *net, struct hdi_sock *listener, struct hdi_sock *sock);

/* HDI_READY_*, as of now. */
unsigned hdi_sock_ready(const struct hdi_sock *sock);

int hdi_place_read(struct hdi_place *place, const struct sockaddr *addr, socklen_t bytes,
                   int family);
void hdi_place_write(const struct hdi_place *place, int family, struct sockaddr *addr,
                     socklen_t *bytes);
bool hdi_ip_any(const uint8_t ip[16]);
bool hdi_ip_loopback(const uint8_t ip[16]);
bool hdi_ip_v4(const uint8_t ip[16]);

/* ---- net_option.c ---- */

void hdi_sock_options_init(struct hdi_sock_options *options);

/* As those of a connection that this listener takes in. */
void hdi_sock_options_inherit(struct hdi_sock *sock, const struct hdi_sock *listener);

static inline bool hdi_sock_resets(const struct hdi_sock *sock)
{
    return sock->options.linger.l_onoff && sock->options.linger.l_linger == 0;
}

/* ---- net_calls.c ---- */

void hdi_bytes_put(struct hdi_bytes *bytes, const void *data, size_t count);
size_t hdi_parts_bytes(const struct iovec *parts, size_t count);
void hdi_parts_fill(const struct iovec *parts, size_t count, const void *data, size_t bytes);
void hdi_parts_copy(void *data, const struct iovec *parts, size_t skip, size_t bytes);

#endif
