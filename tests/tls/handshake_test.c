/* SPDX-License-Identifier: MIT
 *
 * TLS: who is accepted and who is not, and what the two sides agree on.
 */
#include <sys/socket.h>

#include "peers.h"

TEST_MAIN

static int shake(struct peer *peer)
{
    return hd_tls_handshake(peer->tls);
}

/* Until the other side has said whether it accepts us: in TLS 1.3 that comes after the client's
 * handshake. */
static int read_a_byte(struct peer *peer)
{
    char byte;
    return (int)hd_tls_read(peer->tls, &byte, 1);
}

static int shake_and_leave(struct peer *peer)
{
    const int err = hd_tls_handshake(peer->tls);
    return err ? err : hd_tls_shutdown(peer->tls);
}

/* ---- who the server is ---- */

static void verify(const hd_options *options, struct peers *p, int expected, const char *words)
{
    peers_expect(p, options, expected, expected ? -EPROTO : 0);
    if (words) expect_text(p->client.error, words);
    if (!expected) EXPECT_EQ(p->client.error[0], 0);
}

TEST_PEERS(the_right_server, options, kind)
{
    struct peers p;
    peers_init(&p, kind, read_a_byte, shake_and_leave);
    verify(options, &p, 0, NULL);
}

TEST_IO(an_address_as_a_name, options)
{
    struct peers p;
    peers_init(&p, NETS_TCP, read_a_byte, shake_and_leave);
    p.name = "127.0.0.1";
    verify(options, &p, 0, NULL);
}

TEST_IO(a_wildcard, options)
{
    struct peers p;
    peers_init(&p, NETS_TCP, read_a_byte, shake_and_leave);
    p.name = "any.wild.test";
    verify(options, &p, 0, NULL);
}

TEST_PEERS(another_name, options, kind)
{
    struct peers p;
    peers_init(&p, kind, read_a_byte, shake);
    p.name = "localhost.example";
    verify(options, &p, -EKEYREJECTED, "ostname mismatch");
}

TEST_IO(another_address, options)
{
    struct peers p;
    peers_init(&p, NETS_TCP, read_a_byte, shake);
    p.name = "127.0.0.2";
    verify(options, &p, -EKEYREJECTED, "IP address mismatch");
}

TEST_IO(an_expired_certificate, options)
{
    struct peers p;
    peers_init(&p, NETS_TCP, read_a_byte, shake);
    p.server.options.cert_file = certs.expired;
    verify(options, &p, -EKEYREJECTED, "expired");
}

TEST_IO(an_unknown_authority, options)
{
    struct peers p;
    peers_init(&p, NETS_TCP, read_a_byte, shake);
    p.server.options.cert_file = certs.stranger;
    verify(options, &p, -EKEYREJECTED, "unable to get local issuer certificate");
}

TEST_IO(the_system_does_not_trust_us, options)
{
    struct peers p;
    peers_init(&p, NETS_TCP, read_a_byte, shake);
    p.client.options.ca_file = NULL;
    verify(options, &p, -EKEYREJECTED, "certificate verify failed");
}

TEST_IO(anyone_if_told_so, options)
{
    struct peers p;
    peers_init(&p, NETS_TCP, read_a_byte, shake_and_leave);
    p.server.options.cert_file = certs.stranger;
    p.client.options.unverified = true;
    p.name = NULL;
    verify(options, &p, 0, NULL);
}

/* ---- who the client is ---- */

static void verify_client(const hd_options *options, struct peers *p, int expected)
{
    p->server.options.verify_client = true;
    peers_expect(p, options, expected ? -EPROTO : 0, expected);
}

TEST_PEERS(a_client_with_a_certificate, options, kind)
{
    struct peers p;
    peers_init(&p, kind, read_a_byte, shake_and_leave);
    p.client.options.cert_file = certs.client;
    verify_client(options, &p, 0);
}

TEST_PEERS(a_client_without_one, options, kind)
{
    struct peers p;
    peers_init(&p, kind, read_a_byte, shake);
    verify_client(options, &p, -EKEYREJECTED);
    expect_text(p.server.error, "peer did not return a certificate");
}

TEST_IO(a_client_that_is_not_trusted, options)
{
    struct peers p;
    peers_init(&p, NETS_TCP, read_a_byte, shake);
    p.client.options.cert_file = certs.stranger;
    verify_client(options, &p, -EKEYREJECTED);
}

/* ---- what is agreed on ---- */

static int compare_client(struct peer *peer)
{
    hd_tls_certificate certificate;
    char byte;
    EXPECT(hd_tls_alpn(peer->tls) == NULL);
    EXPECT(hd_tls_version(peer->tls) == NULL);
    EXPECT_EQ(hd_tls_peer_certificate(peer->tls, &certificate), -ENOENT);
    EXPECT_EQ(hd_tls_shutdown(peer->tls), -ENOTCONN);
    EXPECT_EQ(hd_tls_handshake(peer->tls), 0);
    EXPECT_EQ(hd_tls_handshake(peer->tls), 0); /* It is done. */
    EXPECT(strcmp(hd_tls_alpn(peer->tls), "http/1.1") == 0);
    EXPECT(strcmp(hd_tls_version(peer->tls), "TLSv1.3") == 0);
    EXPECT(strcmp(hd_tls_server_name(peer->tls), "localhost") == 0);
    EXPECT_EQ(hd_tls_peer_certificate(peer->tls, &certificate), 0);
    EXPECT(strcmp(certificate.subject, "CN=localhost") == 0);
    EXPECT(strcmp(certificate.issuer, "CN=Test CA") == 0);
    const int64_t now = time(NULL);
    EXPECT(certificate.not_before < now && now < certificate.not_after);
    EXPECT_EQ(certificate.not_after - certificate.not_before, 4 * CERTS_DAY);
    unsigned char sum = 0;
    for (size_t i = 0; i < 32; i++) sum |= certificate.sha256[i];
    EXPECT(sum != 0);
    return (int)hd_tls_read(peer->tls, &byte, 1);
}

static int compare_server(struct peer *peer)
{
    hd_tls_certificate certificate;
    EXPECT(hd_tls_server_name(peer->tls) == NULL);
    EXPECT_EQ(hd_tls_handshake(peer->tls), 0);
    EXPECT(strcmp(hd_tls_alpn(peer->tls), "http/1.1") == 0);
    EXPECT(strcmp(hd_tls_version(peer->tls), "TLSv1.3") == 0);
    EXPECT(strcmp(hd_tls_server_name(peer->tls), "localhost") == 0);
    EXPECT_EQ(hd_tls_peer_certificate(peer->tls, &certificate), -ENOENT);
    EXPECT(strcmp(hd_tls_error(peer->tls), "") == 0);
    return hd_tls_shutdown(peer->tls);
}

TEST_PEERS(what_both_agree_on, options, kind)
{
    struct peers p;
    peers_init(&p, kind, compare_client, compare_server);
    p.client.options.alpn = "spdy/3,h3,h2,http/1.1";
    p.server.options.alpn = "http/1.1,h2"; /* The server's order counts. */
    p.client.options.version_min = HD_TLS_1_3;
    peers_expect(&p, options, 0, 0);
}

TEST_IO(no_common_protocol, options)
{
    struct peers p;
    peers_init(&p, NETS_TCP, read_a_byte, shake);
    p.client.options.alpn = "h2";
    p.server.options.alpn = "http/1.1";
    peers_expect(&p, options, -EPROTO, -EPROTO);
    expect_text(p.client.error, "no application protocol");
    expect_text(p.server.error, "no application protocol");
}

static int expect_no_alpn(struct peer *peer)
{
    EXPECT_EQ(hd_tls_handshake(peer->tls), 0);
    EXPECT(hd_tls_alpn(peer->tls) == NULL);
    return read_a_byte(peer);
}

TEST_IO(a_server_without_protocols, options)
{
    struct peers p;
    peers_init(&p, NETS_TCP, expect_no_alpn, shake_and_leave);
    p.client.options.alpn = "h2";
    peers_expect(&p, options, 0, 0);
}

/* ---- no TLS at all ---- */

static int talk_plainly(struct peer *peer)
{
    char answer[100];
    /* The server may be gone after the first bytes. */
    const int err = hd_write_all(peer->conn, "GET / HTTP/1.0\r\n\r\n", 18, NULL);
    EXPECT(err == 0 || err == -ECONNRESET || err == -EPIPE);
    while (hd_read(peer->conn, answer, sizeof(answer)) > 0) continue; /* an alert */
    return 0;
}

TEST_PEERS(a_client_that_speaks_http, options, kind)
{
    struct peers p;
    peers_init(&p, kind, talk_plainly, shake);
    peers_expect(&p, options, 0, -EPROTO);
    expect_text(p.server.error, "http request");
}

static int leave_at_once(struct peer *peer)
{
    (void)peer;
    return 0;
}

static int fail_twice(struct peer *peer)
{
    char byte;
    const int err = hd_tls_handshake(peer->tls);
    EXPECT_EQ(hd_tls_read(peer->tls, &byte, 1), err); /* and from now on */
    EXPECT_EQ(hd_tls_write(peer->tls, "x", 1), err);
    EXPECT_EQ(hd_tls_shutdown(peer->tls), -ENOTCONN);
    return err;
}

TEST_PEERS(a_client_that_leaves_at_once, options, kind)
{
    struct peers p;
    peers_init(&p, kind, leave_at_once, fail_twice);
    peers_expect(&p, options, 0, -ECONNABORTED);
    expect_text(p.server.error, "without a goodbye");
}

static int say_goodbye_at_once(struct peer *peer)
{
    static const unsigned char close_notify[] = {21, 3, 3, 0, 2, 1, 0};
    char answer[100];
    EXPECT_EQ(hd_write_all(peer->conn, close_notify, sizeof(close_notify), NULL), 0);
    EXPECT_EQ(hd_shutdown(peer->conn, SHUT_WR), 0);
    while (hd_read(peer->conn, answer, sizeof(answer)) > 0) continue;
    return 0;
}

TEST_PEERS(a_server_whose_hello_is_a_goodbye, options, kind)
{
    struct peers p;
    peers_init(&p, kind, fail_twice, say_goodbye_at_once);
    peers_expect(&p, options, -ECONNABORTED, 0);
    expect_text(p.client.error, "goodbye before");
}

TEST_IO(a_failure_is_kept, options)
{
    peers_meet(options, NETS_TCP, talk_plainly, fail_twice, 0, -EPROTO);
}

/* ---- configurations ---- */

#define EXPECT_REFUSED(err, words, ...)                                                  \
    do {                                                                                 \
        hd_tls_options o = HD_TLS_OPTIONS_INIT;                                          \
        hd_tls_config *config = NULL;                                                    \
        char why[HD_TLS_TEXT_MAX] = "";                                                  \
        __VA_ARGS__;                                                                     \
        EXPECT_EQ(hd_tls_config_create(&config, &o, why), err);                          \
        EXPECT(config == NULL);                                                          \
        expect_text(why, words);                                                         \
        EXPECT_EQ(hd_tls_config_create(&config, &o, NULL), err);                         \
    } while (0)

TEST(options_that_make_no_sense)
{
    char path[96];
    snprintf(path, sizeof(path), "%s/none.pem", certs.folder);
    EXPECT_REFUSED(-EINVAL, "size", o.size--);
    EXPECT_REFUSED(-EINVAL, "alpn", o.alpn = "");
    EXPECT_REFUSED(-EINVAL, "alpn", o.alpn = "h2,,http/1.1");
    EXPECT_REFUSED(-EINVAL, "alpn", o.alpn = "h2,");
    EXPECT_REFUSED(-EINVAL, "version_min", o.version_min = 0x0302);
    EXPECT_REFUSED(-ENOENT, path, o.ca_file = path);
    EXPECT_REFUSED(-ENOENT, "No such file", o.cert_file = path);
    EXPECT_REFUSED(-ENOENT, path, o.cert_file = certs.server; o.key_file = path);
    EXPECT_REFUSED(-EINVAL, certs.key, o.ca_file = certs.key);
    EXPECT_REFUSED(-EINVAL, certs.key, o.cert_file = certs.key);
    EXPECT_REFUSED(-EINVAL, "key values mismatch", o.cert_file = certs.server;
                   o.key_file = certs.key);
    EXPECT_REFUSED(-EINVAL, "key_file without cert_file", o.key_file = certs.key);
}

TEST(names_that_cannot_be)
{
    hd_tls_config *config = peers_config(NULL);
    const hd_io none = {0};
    hd_tls *tls = NULL;
    char name[HD_TLS_TEXT_MAX + 1];
    memset(name, 'x', HD_TLS_TEXT_MAX);
    name[HD_TLS_TEXT_MAX] = 0;
    EXPECT_EQ(hd_tls_client(&tls, none, config, NULL), -EINVAL);
    EXPECT_EQ(hd_tls_client(&tls, none, config, ""), -EINVAL);
    EXPECT_EQ(hd_tls_client(&tls, none, config, name), -EINVAL);
    EXPECT_EQ(hd_tls_server(&tls, none, config), -EINVAL); /* It has no certificate. */
    EXPECT(tls == NULL);
    hd_tls_config_destroy(config);
}
