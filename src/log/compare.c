/* SPDX-License-Identifier: MIT
 *
 * Where two logs part. The hash in front of a block covers all before it, so blocks are equal up to
 * some place and differ from there on: that place is found by halving. Then events are compared one
 * by one, to the end of that block if both logs have their blocks in the same places, and to where
 * they differ if one was flushed at other times.
 */
#include <errno.h>
#include <string.h>

#include "log/reader.h"

static const uint8_t *hash_before(const hd_log *log, uint64_t block)
{
    return block < log->info.blocks ? log->index[block].hash : log->info.hash;
}

static bool is_equal_up_to(const hd_log *a, const hd_log *b, uint64_t block)
{
    return memcmp(hash_before(a, block), hash_before(b, block), HDI_SHA256_BYTES) == 0;
}

/* The first blocks of both that may differ. Context: the headers are equal. */
static uint64_t common_blocks(const hd_log *a, const hd_log *b)
{
    uint64_t equal = 0; /* up to here they are */
    uint64_t unknown = a->info.blocks < b->info.blocks ? a->info.blocks : b->info.blocks;
    while (equal < unknown) {
        const uint64_t middle = equal + (unknown - equal + 1) / 2;
        if (is_equal_up_to(a, b, middle))
            equal = middle;
        else
            unknown = middle - 1;
    }
    return equal;
}

/* How many events are before a block. */
static uint64_t events_before(const hd_log *log, uint64_t block)
{
    return block < log->info.blocks ? log->index[block].sequence - 1 : log->info.events;
}

int hd_log_compare(hd_log *a, hd_log *b, uint64_t *sequence)
{
    if (a == b) return 0;
    if (memcmp(a->origin, b->origin, sizeof(a->origin)) != 0) return 2;
    const uint64_t events = a->info.events < b->info.events ? a->info.events : b->info.events;
    uint64_t same = events_before(a, common_blocks(a, b));
    int err = same < events ? hd_log_seek(a, same + 1) : 0;
    if (!err && same < events) err = hd_log_seek(b, same + 1);
    for (hd_log_event ours, theirs; !err && same < events; same++) {
        const int got = hd_log_next(a, &ours), other = hd_log_next(b, &theirs);
        if (got < 0 || other < 0) {
            err = got < 0 ? got : other;
        } else if (!hdi_log_same(&ours, &theirs)) {
            break;
        }
    }
    if (err) return err;
    if (same == a->info.events && same == b->info.events) return 0;
    *sequence = same + 1;
    return 1;
}
