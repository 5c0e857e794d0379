/* SPDX-License-Identifier: MIT
 *
 * certs: certificates for the tests of TLS, in a folder that a program makes before its tests, each
 * of which is a process of its own, and removes after them.
 */
#ifndef TEST_CERTS_H
#define TEST_CERTS_H

#include <time.h>

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "rt.h"

#include <heddle/tls.h>

enum { CERTS_DAY = 24 * 3600 };

static struct certs {
    int maker; /* the process that removes them */
    char folder[64];
    char ca[96];      /* whom the tests trust */
    char server[96];  /* of localhost, *.wild.test and 127.0.0.1, with its key */
    char expired[96]; /* of localhost too, until yesterday */
    char client[96];
    char stranger[96]; /* of localhost, by a CA that nobody trusts */
    char key[96];      /* a key that fits none of them */
} certs;

/* One certificate to be made; `by` NULL: it signs itself, and others. */
struct certs_one {
    X509 *x509;
    EVP_PKEY *key;
};

static inline void certs_extend(X509 *x509, X509 *issuer, int what, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, x509, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, what, value);
    EXPECT(extension != NULL);
    EXPECT_EQ(X509_add_ext(x509, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

static inline struct certs_one certs_make(const char *name, const char *names,
                                          const struct certs_one *by, int first_day, int last_day)
{
    static long serial;
    struct certs_one one = {X509_new(), EVP_EC_gen("P-256")};
    EXPECT(one.x509 && one.key);
    X509_set_version(one.x509, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(one.x509), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(one.x509), first_day * CERTS_DAY);
    X509_gmtime_adj(X509_getm_notAfter(one.x509), last_day * CERTS_DAY);
    X509_set_pubkey(one.x509, one.key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(one.x509), "CN", MBSTRING_ASC,
                               (const unsigned char *)name, -1, -1, 0);
    const struct certs_one *signer = by ? by : &one;
    X509_set_issuer_name(one.x509, X509_get_subject_name(signer->x509));
    certs_extend(one.x509, signer->x509, NID_basic_constraints,
                 by ? "critical,CA:FALSE" : "critical,CA:TRUE");
    if (names) certs_extend(one.x509, signer->x509, NID_subject_alt_name, names);
    EXPECT(X509_sign(one.x509, signer->key, EVP_sha256()) > 0);
    return one;
}

/* The certificate, if any, and then the key, in a file. */
static inline void certs_write(char path[96], const char *name, const struct certs_one *one,
                               bool only_key)
{
    snprintf(path, 96, "%s/%s.pem", certs.folder, name);
    FILE *file = fopen(path, "w");
    EXPECT(file != NULL);
    if (!only_key) EXPECT_EQ(PEM_write_X509(file, one->x509), 1);
    EXPECT_EQ(PEM_write_PrivateKey(file, one->key, NULL, NULL, 0, NULL, NULL), 1);
    EXPECT_EQ(fclose(file), 0);
}

static inline void certs_free(struct certs_one *one)
{
    X509_free(one->x509);
    EVP_PKEY_free(one->key);
}

__attribute__((constructor)) static void certs_create(void)
{
    static const char *names = "DNS:localhost,DNS:*.wild.test,IP:127.0.0.1";
    certs.maker = getpid();
    snprintf(certs.folder, sizeof(certs.folder), "/tmp/heddle-tls-XXXXXX");
    EXPECT(mkdtemp(certs.folder) != NULL);
    struct certs_one ca = certs_make("Test CA", NULL, NULL, -2, 2);
    struct certs_one foreign = certs_make("Foreign CA", NULL, NULL, -2, 2);
    struct certs_one server = certs_make("localhost", names, &ca, -2, 2);
    struct certs_one expired = certs_make("localhost", names, &ca, -2, -1);
    struct certs_one client = certs_make("client", NULL, &ca, -2, 2);
    struct certs_one stranger = certs_make("localhost", names, &foreign, -2, 2);
    certs_write(certs.ca, "ca", &ca, false);
    certs_write(certs.server, "server", &server, false);
    certs_write(certs.expired, "expired", &expired, false);
    certs_write(certs.client, "client", &client, false);
    certs_write(certs.stranger, "stranger", &stranger, false);
    certs_write(certs.key, "key", &foreign, true);
    certs_free(&ca);
    certs_free(&foreign);
    certs_free(&server);
    certs_free(&expired);
    certs_free(&client);
    certs_free(&stranger);
}

__attribute__((destructor)) static void certs_destroy(void)
{
    const char *paths[] = {certs.ca,     certs.server,   certs.expired,
                           certs.client, certs.stranger, certs.key};
    if (getpid() != certs.maker) return;
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) EXPECT_EQ(unlink(paths[i]), 0);
    EXPECT_EQ(rmdir(certs.folder), 0);
}

#endif
