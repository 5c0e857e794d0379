/* SPDX-License-Identifier: MIT
 *
 * TLS: a client that asks for new keys again and again, and reads none of the answers, cannot make
 * the server's memory grow.
 */
#include "peers.h"

#include <openssl/ssl.h>

TEST_MAIN

enum {
    ASKED_BYTES_MAX = 4 << 20, /* far more than the stream and the server hold */
    PATIENCE_MS = 200,
};

/* A client by OpenSSL alone, which can do what ours does not. */
struct raw {
    hd_io conn;
    SSL_CTX *context;
    SSL *ssl;
    BIO *received, *unsent;
};

static void raw_init(struct raw *raw, hd_io conn)
{
    raw->conn = conn;
    raw->context = SSL_CTX_new(TLS_client_method());
    raw->ssl = SSL_new(raw->context);
    raw->received = BIO_new(BIO_s_mem());
    raw->unsent = BIO_new(BIO_s_mem());
    EXPECT(raw->ssl && raw->received && raw->unsent);
    SSL_set_bio(raw->ssl, raw->received, raw->unsent);
    SSL_set_connect_state(raw->ssl);
}

static void raw_fini(struct raw *raw)
{
    SSL_free(raw->ssl);
    SSL_CTX_free(raw->context);
}

/* Send what there is. Returns: how many bytes; -ETIMEDOUT: nobody takes them. */
static ssize_t raw_send(struct raw *raw)
{
    char piece[2048];
    ssize_t sent = 0;
    for (int n; (n = BIO_read(raw->unsent, piece, sizeof(piece))) > 0; sent += n) {
        const int err = hd_write_all_until(raw->conn, piece, (size_t)n, NULL,
                                           hd_after_ms(PATIENCE_MS));
        if (err) return err;
    }
    return sent;
}

static void raw_handshake(struct raw *raw)
{
    char piece[2048];
    while (SSL_do_handshake(raw->ssl) != 1) {
        EXPECT(raw_send(raw) >= 0);
        const ssize_t n = hd_read(raw->conn, piece, sizeof(piece));
        EXPECT(n > 0);
        EXPECT_EQ(BIO_write(raw->received, piece, (int)n), n);
    }
    EXPECT(raw_send(raw) >= 0);
}

static int ask_for_keys(struct peer *peer)
{
    struct raw raw;
    ssize_t asked = 0, n = 0;
    raw_init(&raw, peer->conn);
    raw_handshake(&raw);
    while (n >= 0 && asked < ASKED_BYTES_MAX) {
        EXPECT_EQ(SSL_key_update(raw.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
        EXPECT_EQ(SSL_do_handshake(raw.ssl), 1);
        n = raw_send(&raw);
        asked += n;
    }
    raw_fini(&raw);
    return (int)n;
}

static int read_on(struct peer *peer)
{
    char byte;
    return (int)hd_tls_read(peer->tls, &byte, 1);
}

TEST_IO(requests_for_new_keys, options)
{
    struct peers p;
    peers_init(&p, NETS_UNIX, ask_for_keys, read_on);
    peers_run(&p, options);
    EXPECT_EQ(p.client.result, -ETIMEDOUT); /* The server does not read on. */
    EXPECT(p.server.result < 0);            /* The client has gone. */
}
