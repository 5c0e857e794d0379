/* SPDX-License-Identifier: MIT
 *
 * format: what the writer and the reader of event logs agree on; docs/log-format.md says the same
 * byte by byte.
 *
 *   header  block  block ...  footer
 *
 * All numbers are little-endian, or varints: seven bits a byte, the lowest first, bit 7 set in all
 * but the last byte.
 *
 * FORMAT-1: the first 12 bytes, the header's length behind them and the checksum at its end are the
 *           same in all versions.
 * FORMAT-2: a block can be read without any other: what its records refer to is inside it or in
 *           its mark.
 * FORMAT-3: a record has one encoding. No varint has a byte too many, and what is 0 or as before is
 *           left out.
 * FORMAT-4: the chain does not cover the program part of the header, so that runs of differently
 *           compiled programs can be compared.
 */
#ifndef HDI_LOG_FORMAT_H
#define HDI_LOG_FORMAT_H

#include <heddle/log.h>

#include "log/sha256.h"

#define HDI_LOG_VERSION 1

#define HDI_LOG_START_BYTES   16u /* magic, version, bytes of the header */
#define HDI_LOG_HEADER_MAX    8192u
#define HDI_LOG_STRING_MAX    1024u /* of each text in the header */
#define HDI_LOG_PAYLOAD_MAX   65536u
#define HDI_LOG_TEXT_MAX      255u
#define HDI_LOG_TABLE_MAX     1024u /* texts, and sites, that a block numbers */
#define HDI_LOG_NOTE_MAX      200u
#define HDI_LOG_VARINT_MAX    10u

/* Flags of a record: which fields follow, in this order. */
#define HDI_LOG_HAS_TIME 0x01u /* nanoseconds since the event before */
#define HDI_LOG_HAS_TASK 0x02u /* another than before: the difference, zigzag */
#define HDI_LOG_HAS_A    0x04u
#define HDI_LOG_HAS_B    0x08u
#define HDI_LOG_HAS_TEXT 0x10u
#define HDI_LOG_HAS_SITE 0x20u
#define HDI_LOG_HAS_ALL  0x3fu

/* The longest: both texts written out. */
#define HDI_LOG_RECORD_MAX (2 + 9 * HDI_LOG_VARINT_MAX + 2 * HDI_LOG_TEXT_MAX)

/* What a header says. */
struct hdi_log_head {
    uint8_t identity[32];
    const char *program;
    const char *library;
    uint64_t seed;
    const char *sampler;
    const char *options;
};

/* Write it, its checksum included. Texts are cut at HDI_LOG_STRING_MAX. Returns its bytes, at most
 * HDI_LOG_HEADER_MAX; *origin is where the chain begins. */
size_t hdi_log_head_put(uint8_t bytes[HDI_LOG_HEADER_MAX], const struct hdi_log_head *head,
                        uint8_t origin[HDI_SHA256_BYTES]);

/* How long a header is that begins like this; 0: it is none. */
size_t hdi_log_head_length(const uint8_t start[HDI_LOG_START_BYTES]);

/* Read a whole one. The texts are made of its bytes, which change for that, and live as long.
 * Returns: 0, -EBADMSG, -ENOTSUP. */
int hdi_log_head_get(uint8_t *bytes, size_t count, struct hdi_log_head *head,
                     uint8_t origin[HDI_SHA256_BYTES]);

/* ---- marks: how blocks begin, and the footer ---- */

#define HDI_LOG_BLOCK 0x4b4c4248u /* "HBLK" */
#define HDI_LOG_END   0x444e4548u /* "HEND" */

#define HDI_LOG_MARK_BYTES 72u

struct hdi_log_mark {
    uint32_t magic;
    uint32_t payload; /* bytes that follow */
    uint32_t events;  /* records in them */
    uint32_t crc;     /* of everything else, and of the payload */
    uint64_t sequence; /* of the first record; in the footer, of the one that would be next */
    uint64_t steps;    /* before it */
    int64_t time_ns;   /* of the event before it */
    uint8_t hash[HDI_SHA256_BYTES]; /* of the block before, or where the chain begins */
};

/* Write a mark before its payload, in one piece of memory, filling in the checksum. */
void hdi_log_mark_put(uint8_t *block, const struct hdi_log_mark *mark);
void hdi_log_mark_get(struct hdi_log_mark *mark, const uint8_t bytes[HDI_LOG_MARK_BYTES]);

/* What the checksum of a block should be. */
uint32_t hdi_log_block_crc(const uint8_t *block, size_t payload);

/* What the next mark holds. */
void hdi_log_block_hash(const uint8_t *block, size_t payload, uint8_t hash[HDI_SHA256_BYTES]);

/* ---- varints ---- */

static inline uint8_t *hdi_varint_put(uint8_t *at, uint64_t value)
{
    while (value >= 0x80) {
        *at++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *at++ = (uint8_t)value;
    return at;
}

/* Returns what follows it; NULL if it is cut, is over 64 bits, or has a byte too many
 * (FORMAT-3). */
static inline const uint8_t *hdi_varint_get(const uint8_t *at, const uint8_t *end, uint64_t *value)
{
    uint64_t sum = 0;
    for (unsigned shift = 0; shift < 64 && at < end; shift += 7) {
        const uint8_t byte = *at++;
        if (shift == 63 && byte > 1) return NULL;
        sum |= (uint64_t)(byte & 0x7f) << shift;
        if (byte & 0x80) continue;
        if (byte == 0 && shift > 0) return NULL;
        *value = sum;
        return at;
    }
    return NULL;
}

/* Small differences either way become small numbers. */
static inline uint64_t hdi_zigzag(uint64_t difference)
{
    return difference << 1 ^ (uint64_t)((int64_t)difference >> 63);
}

static inline uint64_t hdi_unzigzag(uint64_t value)
{
    return value >> 1 ^ (0 - (value & 1));
}

#endif
