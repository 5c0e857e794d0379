/* SPDX-License-Identifier: MIT
 *
 * Logs that are cut or damaged anywhere, and files that are none.
 */
#include "log/reader.h"

#include <sys/stat.h>

#include "log/crc32c.h"
#include "logs.h"

TEST_MAIN

#define EVENTS    14
#define PER_BLOCK 4

/* A small log of four blocks, and where its parts are. */
struct small {
    struct logs_file file;
    uint8_t bytes[4096];
    size_t count, header;
    size_t ends[8]; /* of the blocks */
    unsigned blocks;
};

static void make_small(struct small *small)
{
    small->file = logs_made(&logs_head, EVENTS, PER_BLOCK);
    small->count = logs_get(&small->file, small->bytes, sizeof(small->bytes));
    small->header = hdi_log_head_length(small->bytes);
    small->blocks = 0;
    for (size_t at = small->header; at + HDI_LOG_MARK_BYTES < small->count;) {
        struct hdi_log_mark mark;
        hdi_log_mark_get(&mark, small->bytes + at);
        at += HDI_LOG_MARK_BYTES + mark.payload;
        small->ends[small->blocks++] = at;
    }
    EXPECT_EQ(small->blocks, 4);
}

/* What can be read if all from here on is bad. */
static uint64_t events_before(const struct small *small, size_t offset, size_t *good)
{
    unsigned blocks = 0;
    while (blocks < small->blocks && small->ends[blocks] <= offset) blocks++;
    *good = blocks > 0 ? small->ends[blocks - 1] : small->header;
    return blocks == small->blocks ? EVENTS : blocks * PER_BLOCK;
}

/* It opens, up to the last good block before that place, and says that something is wrong. */
static void expect_damaged(const struct small *small, size_t offset)
{
    hd_log *log = logs_open(&small->file);
    const hd_log_info *info = hd_log_about(log);
    size_t good;
    const uint64_t events = events_before(small, offset, &good);
    EXPECT(!info->complete);
    EXPECT(info->damage && strlen(info->damage) > 10);
    EXPECT_EQ(info->events, events);
    EXPECT_EQ(info->good_bytes, good);
    logs_expect(log, events);
    hd_log_close(log);
}

static void expect_no_log(const struct small *small)
{
    hd_log *log = NULL;
    EXPECT_EQ(hd_log_open(&log, small->file.path), -EBADMSG);
    EXPECT(!log);
}

TEST(a_log_that_is_cut_opens_up_to_its_last_good_block)
{
    static struct small small;
    make_small(&small);
    for (size_t count = 0; count < small.count; count++) {
        logs_put(&small.file, small.bytes, count);
        if (count < small.header)
            expect_no_log(&small);
        else
            expect_damaged(&small, count);
    }
}

TEST(a_flipped_bit_is_noticed)
{
    static struct small small;
    make_small(&small);
    for (size_t bit = 0; bit < 8 * small.count; bit++) {
        uint8_t *byte = &small.bytes[bit / 8];
        *byte ^= (uint8_t)(1u << bit % 8);
        logs_put(&small.file, small.bytes, small.count);
        if (bit / 8 < small.header)
            expect_no_log(&small);
        else
            expect_damaged(&small, bit / 8);
        *byte ^= (uint8_t)(1u << bit % 8);
    }
}

/* Blocks that are good themselves, but in the wrong place. */
TEST(blocks_that_are_missing_or_exchanged_are_noticed)
{
    static struct small small;
    static uint8_t other[4096];
    make_small(&small);
    const size_t second = small.ends[1] - small.ends[0];
    memcpy(other, small.bytes, small.ends[0]);
    memcpy(other + small.ends[0], small.bytes + small.ends[1], small.count - small.ends[1]);
    logs_put(&small.file, other, small.count - second);
    expect_damaged(&small, small.ends[0]);
    memcpy(other + small.ends[0], small.bytes + small.header, small.ends[0] - small.header);
    logs_put(&small.file, other, small.count - second);
    expect_damaged(&small, small.ends[0]);
}

/* Blocks of another run, in the right place. */
TEST(blocks_of_another_log_are_noticed)
{
    static struct small small;
    static uint8_t other[4096];
    struct hdi_log_head head = logs_head;
    make_small(&small);
    head.seed++;
    const struct logs_file file = logs_made(&head, EVENTS, PER_BLOCK);
    EXPECT_EQ(logs_get(&file, other, sizeof(other)), small.count);
    for (unsigned i = 0; i < small.blocks; i++) {
        const size_t from = i > 0 ? small.ends[i - 1] : small.header;
        memcpy(other, small.bytes, from);
        logs_put(&small.file, other, small.count);
        expect_damaged(&small, from);
    }
}

/* A block whose hash and checksum are good, and which counts its events wrongly. */
TEST(a_wrong_sequence_is_noticed)
{
    static struct small small;
    make_small(&small);
    struct hdi_log_mark mark;
    hdi_log_mark_get(&mark, small.bytes + small.ends[0]);
    mark.sequence++;
    hdi_log_mark_put(small.bytes + small.ends[0], &mark);
    logs_put(&small.file, small.bytes, small.count);
    expect_damaged(&small, small.ends[0]);
}

TEST(what_follows_the_end_is_noticed)
{
    static struct small small;
    make_small(&small);
    logs_put(&small.file, small.bytes, small.count + 3);
    hd_log *log = logs_open(&small.file);
    const hd_log_info *info = hd_log_about(log);
    EXPECT(info->complete && info->damage);
    EXPECT(strcmp(info->damage, "3 bytes follow the footer") == 0);
    EXPECT_EQ(info->good_bytes + 3, info->file_bytes);
    logs_expect(log, EVENTS);
    hd_log_close(log);
}

TEST(what_is_no_log_is_refused)
{
    hd_log *log = NULL;
    EXPECT_EQ(hd_log_open(&log, "/nowhere/at/all"), -ENOENT);
    EXPECT_EQ(hd_log_open(&log, "/tmp"), -EISDIR);
    EXPECT_EQ(hd_log_open(&log, "/dev/null"), -EBADMSG);
    EXPECT_EQ(hd_log_open(&log, "/proc/self/cmdline"), -EBADMSG);
    char path[64];
    snprintf(path, sizeof(path), "/tmp/heddle-fifo-%d", (int)getpid());
    EXPECT_EQ(mkfifo(path, 0600), 0);
    EXPECT_EQ(hd_log_open(&log, path), -EBADMSG); /* and does not wait for a writer */
    EXPECT_EQ(unlink(path), 0);
    EXPECT(!log);
    hd_log_close(NULL);
}

/* A header that a later version has written: it need not be like ours. */
TEST(a_later_version_is_refused)
{
    struct small small;
    make_small(&small);
    small.bytes[8]++;
    small.bytes[12] = 20;
    small.bytes[13] = small.bytes[14] = small.bytes[15] = 0;
    uint32_t crc = hdi_crc32c(0, small.bytes, 16);
    for (int i = 0; i < 4; i++) small.bytes[16 + i] = (uint8_t)(crc >> 8 * i);
    logs_put(&small.file, small.bytes, small.count);
    hd_log *log = NULL;
    EXPECT_EQ(hd_log_open(&log, small.file.path), -ENOTSUP);
    EXPECT(!log);
}

/* ---- seeking ---- */

TEST(seeking)
{
    const struct logs_file file = logs_made(&logs_head, 1000, 7);
    hd_log *log = logs_open(&file);
    hd_log_event event;
    struct hdi_prng prng;
    hdi_prng_init(&prng, 3);
    for (int i = 0; i < 3000; i++) {
        uint64_t at = 1 + hdi_prng_below(&prng, 1000);
        EXPECT_EQ(hd_log_seek(log, at), 0);
        for (uint64_t n = hdi_prng_below(&prng, 20); n > 0 && at <= 1000; n--, at++) {
            const struct hdi_log_record expected = logs_event(at);
            EXPECT_EQ(hd_log_next(log, &event), 1);
            EXPECT_EQ(event.sequence, at);
            EXPECT(logs_is(&event, &expected));
        }
    }
    EXPECT_EQ(hd_log_seek(log, 0), -ERANGE);
    EXPECT_EQ(hd_log_seek(log, 1001), -ERANGE);
    EXPECT_EQ(hd_log_seek(log, 1), 0);
    logs_expect(log, 1000);
    hd_log_close(log);
}

TEST(names_of_files_stay_while_a_log_is_open)
{
    const struct logs_file file = logs_made(&logs_head, 1000, 7);
    hd_log *log = logs_open(&file);
    hd_log_event event;
    const char *names[1000] = {NULL};
    size_t count = 0;
    while (hd_log_next(log, &event) == 1) {
        if (event.file) names[count++] = event.file;
    }
    EXPECT_EQ(hd_log_seek(log, 1), 0);
    for (size_t i = 0; hd_log_next(log, &event) == 1;) {
        if (event.file) EXPECT(names[i++] == event.file);
    }
    hd_log_close(log);
}

/* ---- blocks that make no sense ---- */

#define GOOD "\x27\x10\x00\x02hi" /* a note: hi */

static const struct {
    const char *bytes;
    size_t count;
    uint32_t events; /* that its mark says */
} senseless[] = {
#define BYTES(text) text, sizeof(text) - 1
    {BYTES(GOOD "\x00\x00"), 2},                     /* kind 0 */
    {BYTES(GOOD "\x21\x40"), 2},                     /* a flag that there is not */
    {BYTES(GOOD "\x21\x04"), 2},                     /* cut */
    {BYTES(GOOD "\x21\x04\x00"), 2},                 /* 0, written out */
    {BYTES(GOOD "\x21\x01\x00"), 2},
    {BYTES(GOOD "\x21\x04\x81\x00"), 2},             /* a byte too many */
    {BYTES(GOOD "\x21\x04\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), 2}, /* over 64 bits */
    {BYTES(GOOD "\x27\x10\x02"), 2},                 /* the second text of one */
    {BYTES(GOOD "\x27\x10\x00\x05hell"), 2},         /* longer than the block */
    {BYTES(GOOD "\x27\x10\x00\x80\x02"), 2},         /* longer than may be */
    {BYTES(GOOD "\x27\x10\x00\x03h\0i"), 2},         /* a text with an end inside */
    {BYTES(GOOD "\x27\x10\x00\x00"), 2},             /* no text, written out */
    {BYTES(GOOD "\x21\x20\x01"), 2},                 /* the first site of none */
    {BYTES(GOOD "\x21\x20\x00\x01"), 2},             /* no line */
    {BYTES(GOOD "\x21\x20\x00\x01\x80\x80\x80\x80\x08"), 2}, /* line 2^31 */
    {BYTES(GOOD "\x25\x00" "\x25\x00"), 2},          /* more than it says */
    {BYTES(GOOD), 2},                                /* fewer */
#undef BYTES
};

static struct logs_file made_of(const void *payload, size_t count, uint32_t events)
{
    static uint8_t bytes[HDI_LOG_HEADER_MAX + 1024];
    struct hdi_log_mark mark = {
        .magic = HDI_LOG_BLOCK, .payload = (uint32_t)count, .events = events, .sequence = 1};
    const size_t header = hdi_log_head_put(bytes, &logs_head, mark.hash);
    memcpy(bytes + header + HDI_LOG_MARK_BYTES, payload, count);
    hdi_log_mark_put(bytes + header, &mark);
    struct hdi_log_mark next = {
        .magic = HDI_LOG_BLOCK, .payload = 2, .events = 1, .sequence = events + 1};
    const size_t block = HDI_LOG_MARK_BYTES + count;
    hdi_log_block_hash(bytes + header, count, next.hash);
    bytes[header + block + HDI_LOG_MARK_BYTES] = HD_LOG_TIME;
    bytes[header + block + HDI_LOG_MARK_BYTES + 1] = 0;
    hdi_log_mark_put(bytes + header + block, &next);
    const struct logs_file file = logs_file();
    logs_put(&file, bytes, header + block + HDI_LOG_MARK_BYTES + 2);
    return file;
}

TEST(blocks_that_make_no_sense_are_refused)
{
    for (size_t i = 0; i < sizeof(senseless) / sizeof(senseless[0]); i++) {
        const struct logs_file file =
            made_of(senseless[i].bytes, senseless[i].count, senseless[i].events);
        hd_log *log = logs_open(&file);
        hd_log_event event;
        EXPECT_EQ(hd_log_about(log)->blocks, 2);
        EXPECT_EQ(hd_log_next(log, &event), 1);
        EXPECT(event.kind == HD_LOG_NOTE && strcmp(event.text, "hi") == 0);
        int got;
        do got = hd_log_next(log, &event);
        while (got == 1);
        if (got != -EBADMSG) test_fail(__FILE__, __LINE__, "case %zu: %d", i, got);
        EXPECT_EQ(hd_log_next(log, &event), -EBADMSG);
        EXPECT_EQ(hd_log_seek(log, 3), 0); /* The block after it can be read. */
        EXPECT_EQ(hd_log_next(log, &event), 1);
        EXPECT_EQ(event.kind, HD_LOG_TIME);
        EXPECT_EQ(hd_log_next(log, &event), 0);
        hd_log_close(log);
        close(file.fd);
    }
}

TEST(kinds_have_names)
{
    EXPECT(strcmp(hd_log_kind_name(HD_LOG_CHOICE), "choice") == 0);
    EXPECT(strcmp(hd_log_kind_name(HD_LOG_VERDICT), "verdict") == 0);
    EXPECT(!hd_log_kind_name((hd_log_kind)63));
    EXPECT(!hd_log_kind_name((hd_log_kind)0));
}
