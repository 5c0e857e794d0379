/* SPDX-License-Identifier: MIT
 *
 * peers: a client and a server on the two ends of a pair of sockets, each in a fiber of its own.
 *
 *   TEST_PEERS(name, options, kind) { ... }   runs as TEST_IO does, and with either kind of socket:
 *                                             a driver has a way of its own for TCP, by which bytes
 *                                             are received ahead, and sent later
 */
#ifndef TEST_PEERS_H
#define TEST_PEERS_H

#include "certs.h"
#include "nets.h"

struct peers;

/* One side: its options, what it does, and what became of it. */
struct peer {
    hd_tls_options options;
    int (*run)(struct peer *peer);
    struct peers *peers;
    hd_io conn;
    hd_tls *tls;
    int result;           /* what `run` returned */
    char error[HD_TLS_TEXT_MAX];
};

struct peers {
    struct peer client, server;
    enum nets_kind kind;
    const char *name;     /* which server the client asks for */
    bool keep_open;       /* `run` closes the connections itself */
    void (*between)(hd_io ends[4]); /* the sockets are 0-1 and 2-3; NULL: they are one pair */
    atomic_int flag;      /* whatever the test needs */
    unsigned long moved;
};

static inline hd_tls_config *peers_config(const hd_tls_options *options)
{
    hd_tls_config *config = NULL;
    char why[HD_TLS_TEXT_MAX];
    const int err = hd_tls_config_create(&config, options, why);
    if (err) test_fail(__FILE__, __LINE__, "hd_tls_config_create: %d: %s", err, why);
    return config;
}

static inline int peers_run_one(struct peer *peer, bool client)
{
    hd_tls_config *config = peers_config(&peer->options);
    if (client) {
        EXPECT_EQ(hd_tls_client(&peer->tls, peer->conn, config, peer->peers->name), 0);
    } else {
        EXPECT_EQ(hd_tls_server(&peer->tls, peer->conn, config), 0);
    }
    hd_tls_config_destroy(config); /* It lives on with the connection. */
    peer->result = peer->run(peer);
    snprintf(peer->error, sizeof(peer->error), "%s", hd_tls_error(peer->tls));
    hd_tls_destroy(peer->tls);
    if (!peer->peers->keep_open) EXPECT_EQ(hd_close(peer->conn), 0);
    return 0;
}

static inline int peers_client(void *arg) { return peers_run_one(arg, true); }
static inline int peers_server(void *arg) { return peers_run_one(arg, false); }

static inline int peers_main(void *arg)
{
    struct peers *p = arg;
    hd_io ends[4] = {{0}};
    nets_pair(p->kind, ends);
    if (p->between) {
        nets_pair(p->kind, ends + 2);
        p->between(ends);
    }
    p->client.conn = ends[0];
    p->server.conn = ends[p->between ? 3 : 1];
    hd_task *client = rt_spawn(NULL, peers_client, &p->client);
    hd_task *server = rt_spawn(NULL, peers_server, &p->server);
    EXPECT_EQ(rt_join(client), 0);
    EXPECT_EQ(rt_join(server), 0);
    return 0;
}

/* Both do `run`; the server is that of the certificates, and both trust their CA: to read the
 * system's roots takes longer than most tests. */
static inline void peers_init(struct peers *p, enum nets_kind kind,
                              int (*client)(struct peer *peer), int (*server)(struct peer *peer))
{
    *p = (struct peers){.name = "localhost", .kind = kind};
    p->client = (struct peer){.options = HD_TLS_OPTIONS_INIT, .run = client, .peers = p};
    p->server = (struct peer){.options = HD_TLS_OPTIONS_INIT, .run = server, .peers = p};
    p->client.options.ca_file = certs.ca;
    p->server.options.ca_file = certs.ca;
    p->server.options.cert_file = certs.server;
}

static inline void peers_run(struct peers *p, const hd_options *options)
{
    rt_run(peers_main, p, options);
}

/* The same, and what either side has to return. */
static inline void peers_expect(struct peers *p, const hd_options *options, int client, int server)
{
    peers_run(p, options);
    EXPECT_EQ(p->client.result, client);
    EXPECT_EQ(p->server.result, server);
}

/* The same of a pair that is as it is made. */
static inline void peers_meet(const hd_options *options, enum nets_kind kind,
                              int (*client)(struct peer *peer), int (*server)(struct peer *peer),
                              int client_result, int server_result)
{
    struct peers p;
    peers_init(&p, kind, client, server);
    peers_expect(&p, options, client_result, server_result);
}

#define TEST_PEERS(name, options, kind)                                                  \
    static void name##_by_kind(const hd_options *options, enum nets_kind kind);          \
    TEST_IO(name, options) { name##_by_kind(options, NETS_UNIX); }                       \
    TEST_IO(name##_by_tcp, options) { name##_by_kind(options, NETS_TCP); }               \
    static void name##_by_kind(const hd_options *options, enum nets_kind kind)

static inline void expect_text(const char *text, const char *part)
{
    if (!strstr(text, part)) {
        test_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", text, part);
    }
}

#endif
