/* SPDX-License-Identifier: MIT
 *
 * tls_private: what the files of heddle-tls share.
 *
 * OpenSSL keeps its errors in a queue of the thread, and a fiber may go on with another thread
 * after any wait. So the queue is cleared right before a call of OpenSSL whose failure is told,
 * read right after it, and nothing that may wait stands in between.
 */
#ifndef HDT_PRIVATE_H
#define HDT_PRIVATE_H

#include <stdatomic.h>

#include <openssl/ssl.h>

#include <heddle/tls.h>

#define HDT_ALPN_MAX 255 /* bytes of all protocols offered, each with its length before it */

struct hd_tls_config {
    atomic_uint users; /* the creator, and each connection */
    SSL_CTX *context;
    bool unverified, verify_client, has_certificate;
    unsigned alpn_bytes;
    unsigned char alpn[HDT_ALPN_MAX]; /* as in the protocol: length, name, length, name ... */
};

static inline struct hd_tls_config *hdt_config_share(struct hd_tls_config *config)
{
    atomic_fetch_add_explicit(&config->users, 1, memory_order_relaxed); /* The caller has it. */
    return config;
}

/* Put the oldest error of the queue into words, and clear the queue. Returns: -errno if it came
 * from the system, -ENOMEM, otherwise `other`. Context: right after the call that failed. */
int hdt_error_take(char text[HD_TLS_TEXT_MAX], int other);

#endif
