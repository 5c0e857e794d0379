/* SPDX-License-Identifier: MIT
 *
 * tls: encrypted connections, by OpenSSL. A library of its own, heddle-tls, which heddle.h does not
 * include.
 *
 *   hd_tls_config *config;
 *   hd_tls *tls;
 *   err = hd_tls_config_create(&config, NULL, NULL);           the system's roots, TLS 1.2 or newer
 *   err = hd_tcp_connect(&conn, "example.org:443", NULL);
 *   err = hd_tls_client(&tls, conn, config, "example.org");
 *   err = hd_tls_write_all(tls, request, bytes, NULL);         shakes hands first
 *   while ((n = hd_tls_read(tls, buffer, sizeof(buffer))) > 0) ...
 *   err = hd_tls_shutdown(tls);
 *   hd_tls_destroy(tls);
 *   hd_close(conn);
 *
 * Works over any stream, in live and in sim. OpenSSL's keys and nonces are true random numbers, and
 * it asks the machine's clock whether a certificate is valid: a sim run with TLS is not D3.
 *
 * One task may read while another writes. Several that read, or that write, take turns. A call that
 * was cancelled or timed out can be made again, and goes on where it was.
 *
 * All that wait: Context: fiber or thread; with HD_NOW any, if no other task uses the connection.
 * Beside what they list they return what hd_read() and hd_write() do, and
 *   -EPROTO        the other side is no TLS, broke its rules, or refused us
 *   -EKEYREJECTED  its certificate is not valid, not trusted, or of another name
 *   -ECONNABORTED  the connection ended without the other side's goodbye: data may be missing
 *   -ENOMEM
 * The first two end the connection: all calls return them from then on. hd_tls_error() says more.
 *
 * OpenSSL 3.0 was seen to take 9 KiB of a fiber's stack.
 */
#ifndef HEDDLE_TLS_H
#define HEDDLE_TLS_H

#include <heddle/base.h>
#include <heddle/io.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what is trusted, and who we are ---- */

typedef struct hd_tls_config hd_tls_config;

#define HD_TLS_TEXT_MAX 256 /* bytes of a text from here, with its 0 */

#define HD_TLS_1_2 0x0303
#define HD_TLS_1_3 0x0304

/* Every field left 0 takes its default. Files are PEM. */
typedef struct hd_tls_options {
    size_t size;
    const char *ca_file;   /* whom we trust; default: the system's roots */
    const char *cert_file; /* our certificate, and those between it and the root; for servers */
    const char *key_file;  /* its key; default: in cert_file */
    const char *alpn;      /* protocols, best first: "h2,http/1.1"; default: none */
    int version_min;       /* HD_TLS_1_2 (default) or HD_TLS_1_3 */
    bool unverified;       /* client: any certificate will do. Anyone may then be in between. */
    bool verify_client;    /* server: the client needs a certificate that we trust */
} hd_tls_options;

#define HD_TLS_OPTIONS_INIT {sizeof(hd_tls_options), NULL, NULL, NULL, NULL, 0, false, false}

/* Read the files, for any number of clients and servers. `why` (may be NULL) is where a text goes
 * that says what is wrong.
 * Context: any; it blocks the thread while it reads.  Switches: no.  Allocates: yes.
 * Returns: 0; -ENOENT, -EACCES, ... of a file; -EINVAL: what a file holds cannot be used, or an
 * option is wrong; -ENOMEM. */
HD_API HD_MUST_USE int hd_tls_config_create(hd_tls_config **config, const hd_tls_options *options,
                                            char why[HD_TLS_TEXT_MAX]);

/* Connections may still use it: it goes with the last of them.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API void hd_tls_config_destroy(hd_tls_config *config);

/* ---- connections ---- */

typedef struct hd_tls hd_tls;

/* Make a TLS connection of a stream, which stays the caller's: it is closed after
 * hd_tls_destroy(). Nothing is sent yet.
 *
 * The client says which server it wants (SNI), and accepts a certificate of that name only. It may
 * be an IP address. NULL: -EINVAL, unless the configuration is `unverified`.
 * Context: any.  Switches: no.  Allocates: yes.  Returns: 0, -EINVAL, -ENOMEM. */
HD_API HD_MUST_USE int hd_tls_client(hd_tls **tls, hd_io conn, hd_tls_config *config,
                                     const char *server_name);
HD_API HD_MUST_USE int hd_tls_server(hd_tls **tls, hd_io conn, hd_tls_config *config);

/* Nobody may use it any more. Sends nothing.
 * Context: any.  Switches: no.  Allocates: no. */
HD_API void hd_tls_destroy(hd_tls *tls);

/* Agree on keys, and see who the other side is. Reading and writing do so by themselves.
 * Switches: yes.  Allocates: yes.  Cancel: goes on with the next call.  Returns: 0. */
HD_API HD_MUST_USE int hd_tls_handshake(hd_tls *tls);
HD_API HD_MUST_USE int hd_tls_handshake_until(hd_tls *tls, int64_t deadline);

/* Read what there is, at least one byte, waiting for it.
 * Switches: yes, if there is nothing.  Allocates: yes.  Cancel: nothing was read.
 * Returns: how many bytes; 0: the other side said goodbye. */
HD_API HD_MUST_USE ssize_t hd_tls_read(hd_tls *tls, void *buffer, size_t bytes);
HD_API HD_MUST_USE ssize_t hd_tls_read_until(hd_tls *tls, void *buffer, size_t bytes,
                                             int64_t deadline);

/* Write at least one byte, at most 16 KiB. What was taken is encrypted and sent; if a cancel or the
 * deadline comes in between, the rest of it waits in memory, and the next call of any kind sends
 * it on.
 * Switches: yes, if there is no room.  Allocates: yes.  Cancel: nothing was taken.
 * Returns: how many bytes were taken; -EPIPE after hd_tls_shutdown(). */
HD_API HD_MUST_USE ssize_t hd_tls_write(hd_tls *tls, const void *buffer, size_t bytes);
HD_API HD_MUST_USE ssize_t hd_tls_write_until(hd_tls *tls, const void *buffer, size_t bytes,
                                              int64_t deadline);

/* Write all of it. *done (may be NULL) is how many bytes were taken, also on failure.
 * Switches: yes.  Allocates: yes.  Returns: 0. */
HD_API HD_MUST_USE int hd_tls_write_all(hd_tls *tls, const void *buffer, size_t bytes,
                                        size_t *done);
HD_API HD_MUST_USE int hd_tls_write_all_until(hd_tls *tls, const void *buffer, size_t bytes,
                                              size_t *done, int64_t deadline);

/* Say goodbye (close_notify): the other side knows that it has everything. Reading goes on until it
 * says goodbye too. Calling it twice does nothing more.
 * Switches: yes, if there is no room.  Allocates: yes.  Cancel: goes on with the next call.
 * Returns: 0; -ENOTCONN if there was no handshake. */
HD_API HD_MUST_USE int hd_tls_shutdown(hd_tls *tls);
HD_API HD_MUST_USE int hd_tls_shutdown_until(hd_tls *tls, int64_t deadline);

/* For hd_reader_init_fn() and hd_writer_init_fn(), with the connection as `from` or `to`. */
HD_API HD_MUST_USE ssize_t hd_tls_read_fn(void *tls, void *buffer, size_t bytes, int64_t deadline);
HD_API HD_MUST_USE ssize_t hd_tls_write_fn(void *tls, const void *buffer, size_t bytes,
                                           int64_t deadline);

/* ---- what was agreed on; all: Context: any.  Switches: no. ---- */

/* The protocol that both sides speak (ALPN); NULL: none was agreed on, or no handshake yet. Good as
 * long as the connection. Allocates: no. */
HD_API const char *hd_tls_alpn(hd_tls *tls);

/* "TLSv1.3" or "TLSv1.2"; NULL before the handshake. Allocates: no. */
HD_API const char *hd_tls_version(hd_tls *tls);

/* Server: the name that the client asked for; NULL: none. Client: the name it asks for. Good as
 * long as the connection. Allocates: no. */
HD_API const char *hd_tls_server_name(hd_tls *tls);

/* Why the connection failed, in words; "" if it has not. Good as long as the connection.
 * Allocates: no. */
HD_API const char *hd_tls_error(hd_tls *tls);

typedef struct hd_tls_certificate {
    char subject[HD_TLS_TEXT_MAX]; /* as RFC 2253 writes it: "CN=example.org,O=..."; cut to fit */
    char issuer[HD_TLS_TEXT_MAX];
    int64_t not_before; /* in seconds since 1970 */
    int64_t not_after;
    unsigned char sha256[32]; /* of the whole certificate */
} hd_tls_certificate;

/* The other side's certificate. Allocates: yes.
 * Returns: 0; -ENOENT: it has shown none, or no handshake yet; -ENOMEM. */
HD_API HD_MUST_USE int hd_tls_peer_certificate(hd_tls *tls, hd_tls_certificate *certificate);

#ifdef __cplusplus
}
#endif
#endif
