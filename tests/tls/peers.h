/* SPDX-License-Identifier: MIT
 *
 * peers: a client and a server on the two ends of a pair of sockets, each in a fiber of its own.
 */
#ifndef TEST_PEERS_H
#define TEST_PEERS_H

#include "certs.h"

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
    struct certs certs;
    struct peer client, server;
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
    hd_io ends[4];
    EXPECT_EQ(hd_unix_pair(ends), 0);
    if (p->between) {
        EXPECT_EQ(hd_unix_pair(ends + 2), 0);
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

/* Both do `run`; the server is that of the certificates, and the client trusts their CA. */
static inline void peers_init(struct peers *p, int (*client)(struct peer *peer),
                              int (*server)(struct peer *peer))
{
    *p = (struct peers){.name = "localhost"};
    certs_create(&p->certs);
    p->client = (struct peer){.options = HD_TLS_OPTIONS_INIT, .run = client, .peers = p};
    p->server = (struct peer){.options = HD_TLS_OPTIONS_INIT, .run = server, .peers = p};
    p->client.options.ca_file = p->certs.ca;
    p->server.options.cert_file = p->certs.server;
}

static inline void peers_run(struct peers *p, const hd_options *options)
{
    rt_run(peers_main, p, options);
    certs_destroy(&p->certs);
}

/* The same, and what either side has to return. */
static inline void peers_expect(struct peers *p, const hd_options *options, int client, int server)
{
    peers_run(p, options);
    EXPECT_EQ(p->client.result, client);
    EXPECT_EQ(p->server.result, server);
}

/* The same of a pair that is as it is made. */
static inline void peers_meet(const hd_options *options, int (*client)(struct peer *peer),
                              int (*server)(struct peer *peer), int client_result,
                              int server_result)
{
    struct peers p;
    peers_init(&p, client, server);
    peers_expect(&p, options, client_result, server_result);
}

static inline void expect_text(const char *text, const char *part)
{
    if (!strstr(text, part)) {
        test_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", text, part);
    }
}

#endif
