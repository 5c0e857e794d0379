/* SPDX-License-Identifier: MIT */
#include "log/format.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "log/crc32c.h"

_Static_assert(HDI_LOG_START_BYTES + 32 + 8 + 4 * (2 + HDI_LOG_STRING_MAX) + 4 <=
                   HDI_LOG_HEADER_MAX,
               "the longest header fits");
_Static_assert(HDI_LOG_PAYLOAD_MAX >= 2 * HDI_LOG_RECORD_MAX, "a block holds a record");

/* ---- numbers ---- */

static uint8_t *put(uint8_t *at, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) *at++ = (uint8_t)(value >> 8 * i);
    return at;
}

static uint64_t get(const uint8_t *at, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++) value |= (uint64_t)at[i] << 8 * i;
    return value;
}

/* ---- the header ---- */

static const uint8_t magic[] = {0x89, 'H', 'D', 'L', 'O', 'G', '\r', '\n'};

/* Where its parts are. */
#define AT_VERSION sizeof(magic)
#define AT_LENGTH  (AT_VERSION + 4)
#define CRC_BYTES  4u

static uint8_t *put_string(uint8_t *at, const char *text)
{
    const size_t bytes = strnlen(text, HDI_LOG_STRING_MAX);
    at = hdi_varint_put(at, bytes);
    memcpy(at, text, bytes);
    return at + bytes;
}

/* The text moves one byte down, over its length, so that there is room for its end. */
static uint8_t *get_string(uint8_t *at, uint8_t *end, const char **text)
{
    uint64_t bytes;
    const uint8_t *from = at ? hdi_varint_get(at, end, &bytes) : NULL;
    if (!from || bytes > HDI_LOG_STRING_MAX || bytes > (uint64_t)(end - from)) return NULL;
    if (memchr(from, 0, bytes)) return NULL;
    memmove(at, from, bytes);
    uint8_t *next = (uint8_t *)from + bytes;
    at[bytes] = 0;
    *text = (const char *)at;
    return next;
}

static void hash_bytes(const uint8_t *bytes, size_t count, uint8_t hash[HDI_SHA256_BYTES])
{
    struct hdi_sha256 sha;
    hdi_sha256_init(&sha);
    hdi_sha256_add(&sha, bytes, count);
    hdi_sha256_end(&sha, hash);
}

size_t hdi_log_head_put(uint8_t bytes[HDI_LOG_HEADER_MAX], const struct hdi_log_head *head,
                        uint8_t origin[HDI_SHA256_BYTES])
{
    memcpy(bytes, magic, sizeof(magic));
    uint8_t *at = bytes + HDI_LOG_START_BYTES;
    memcpy(at, head->identity, sizeof(head->identity));
    at = put_string(at + sizeof(head->identity), head->program);
    at = put_string(at, head->library);
    const uint8_t *run = at;
    at = put(at, head->seed, 8);
    at = put_string(at, head->sampler);
    at = put_string(at, head->options);
    hash_bytes(run, (size_t)(at - run), origin); /* FORMAT-4 */
    const size_t length = (size_t)(at - bytes);
    put(bytes + AT_VERSION, HDI_LOG_VERSION, 4);
    put(bytes + AT_LENGTH, length + CRC_BYTES, 4);
    put(at, hdi_crc32c(0, bytes, length), CRC_BYTES);
    return length + CRC_BYTES;
}

size_t hdi_log_head_length(const uint8_t start[HDI_LOG_START_BYTES])
{
    if (memcmp(start, magic, sizeof(magic)) != 0) return 0;
    const uint64_t length = get(start + AT_LENGTH, 4);
    if (length < HDI_LOG_START_BYTES + CRC_BYTES || length > HDI_LOG_HEADER_MAX) return 0;
    return (size_t)length;
}

int hdi_log_head_get(uint8_t *bytes, size_t count, struct hdi_log_head *head,
                     uint8_t origin[HDI_SHA256_BYTES])
{
    HDI_ASSERT(count == hdi_log_head_length(bytes));
    uint8_t *end = bytes + count - CRC_BYTES;
    if (get(end, CRC_BYTES) != hdi_crc32c(0, bytes, count - CRC_BYTES)) return -EBADMSG;
    if (get(bytes + AT_VERSION, 4) > HDI_LOG_VERSION) return -ENOTSUP;
    uint8_t *at = bytes + HDI_LOG_START_BYTES;
    if (get(bytes + AT_VERSION, 4) == 0 || end - at < 32) return -EBADMSG;
    memcpy(head->identity, at, sizeof(head->identity));
    at = get_string(at + sizeof(head->identity), end, &head->program);
    at = get_string(at, end, &head->library);
    if (!at || end - at < 8) return -EBADMSG;
    hash_bytes(at, (size_t)(end - at), origin); /* FORMAT-4 */
    head->seed = get(at, 8);
    at = get_string(at + 8, end, &head->sampler);
    at = get_string(at, end, &head->options);
    return at == end ? 0 : -EBADMSG;
}

/* ---- marks ---- */

#define AT_CRC  12u
#define AT_HASH 40u

uint32_t hdi_log_block_crc(const uint8_t *block, size_t payload)
{
    const size_t rest = AT_CRC + CRC_BYTES;
    return hdi_crc32c(hdi_crc32c(0, block, AT_CRC), block + rest,
                      HDI_LOG_MARK_BYTES - rest + payload);
}

void hdi_log_block_hash(const uint8_t *block, size_t payload, uint8_t hash[HDI_SHA256_BYTES])
{
    hash_bytes(block, HDI_LOG_MARK_BYTES + payload, hash);
}

void hdi_log_mark_put(uint8_t *block, const struct hdi_log_mark *mark)
{
    put(block, mark->magic, 4);
    put(block + 4, mark->payload, 4);
    put(block + 8, mark->events, 4);
    put(block + 16, mark->sequence, 8);
    put(block + 24, mark->steps, 8);
    put(block + 32, (uint64_t)mark->time_ns, 8);
    memcpy(block + AT_HASH, mark->hash, sizeof(mark->hash));
    put(block + AT_CRC, hdi_log_block_crc(block, mark->payload), CRC_BYTES);
}

void hdi_log_mark_get(struct hdi_log_mark *mark, const uint8_t bytes[HDI_LOG_MARK_BYTES])
{
    mark->magic = (uint32_t)get(bytes, 4);
    mark->payload = (uint32_t)get(bytes + 4, 4);
    mark->events = (uint32_t)get(bytes + 8, 4);
    mark->crc = (uint32_t)get(bytes + AT_CRC, CRC_BYTES);
    mark->sequence = get(bytes + 16, 8);
    mark->steps = get(bytes + 24, 8);
    mark->time_ns = (int64_t)get(bytes + 32, 8);
    memcpy(mark->hash, bytes + AT_HASH, sizeof(mark->hash));
}
