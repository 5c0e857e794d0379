/* SPDX-License-Identifier: MIT
 *
 * disk_data: the bytes of simulated files, and what a crash leaves of them.
 *
 * A file has two images: `bytes`, which reads see, and `kept`, which is durable. A write goes into
 * the first, and its number into each sector that it touches. A sync copies those sectors into the
 * second. A crash does so for sectors whose write it keeps, and forgets the others.
 *
 * The fate of a write is a function of its number and the seed: lost, kept, or torn, that is kept
 * in some of its sectors. If a sector is written again before it is durable, the fate of the
 * earlier write is carried out first, as if that had been written back in between.
 *
 * The size is kept by the same rule, apart from the bytes: a file may come back with its new size
 * and zeroes in it. That of a torn write is anything in between, in steps of a sector.
 *
 *   DATA-1  Bytes beyond the size are 0; of `kept` only once a crash has made it what there is.
 *   DATA-2  writes[i] is not 0 only for sectors in [dirty_from, dirty_to).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/disk_tree.h"

#define FILE_BYTES_MAX (INT64_C(1) << 30)

enum fate { LOST, KEPT, TORN };

static enum fate fate_of(const struct hdi_disk *disk, uint64_t write)
{
    if (hdi_disk_chance(disk, HDI_DRAW_LOST, write, disk->options.lost_ppm)) return LOST;
    return hdi_disk_chance(disk, HDI_DRAW_TORN, write, disk->options.torn_ppm) ? TORN : KEPT;
}

static bool keeps_sector(const struct hdi_disk *disk, uint64_t write, int64_t sector)
{
    const enum fate fate = fate_of(disk, write);
    if (fate != TORN) return fate == KEPT;
    const uint64_t n = hdi_mix64(write) + (uint64_t)sector;
    return hdi_disk_draw(disk, HDI_DRAW_SECTOR, n) & 1;
}

static int64_t round_up(int64_t bytes)
{
    return (bytes + HDI_SECTOR - 1) / HDI_SECTOR * HDI_SECTOR;
}

static int64_t less(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void *grow(void *memory, size_t from, size_t to)
{
    char *grown = realloc(memory, to);
    if (grown) memset(grown + from, 0, to - from);
    return grown;
}

/* Each array by itself, so that a failure leaves all at least as large as `room` says. */
static int make_room(struct hdi_inode *inode, int64_t bytes)
{
    if (bytes <= inode->room) return 0;
    const int64_t twice = 2 * inode->room, room = round_up(bytes > twice ? bytes : twice);
    const size_t from = (size_t)inode->room, to = (size_t)room, tag = sizeof(*inode->writes);
    void *grown;
    if (!(grown = grow(inode->bytes, from, to))) return -ENOMEM;
    inode->bytes = grown;
    if (!(grown = grow(inode->kept, from, to))) return -ENOMEM;
    inode->kept = grown;
    if (!(grown = grow(inode->writes, from / HDI_SECTOR * tag, to / HDI_SECTOR * tag)))
        return -ENOMEM;
    inode->writes = grown;
    inode->room = room;
    return 0;
}

static void keep_sector(struct hdi_inode *inode, int64_t sector)
{
    const int64_t at = sector * HDI_SECTOR;
    memcpy(inode->kept + at, inode->bytes + at, HDI_SECTOR);
}

static void keep_size(struct hdi_inode *inode, int64_t bytes)
{
    if (bytes < inode->kept_size)
        memset(inode->kept + bytes, 0, (size_t)(inode->kept_size - bytes)); /* DATA-1 */
    inode->kept_size = bytes;
}

/* Carry out the fate of the write that left the sector, or the size, as it is. */
static void settle_sector(const struct hdi_disk *disk, struct hdi_inode *inode, int64_t sector)
{
    const uint64_t write = inode->writes[sector];
    if (write && keeps_sector(disk, write, sector)) keep_sector(inode, sector);
    inode->writes[sector] = 0;
}

static void settle_size(const struct hdi_disk *disk, struct hdi_inode *inode)
{
    if (!inode->resized) return;
    const enum fate fate = fate_of(disk, inode->resized);
    const int64_t more = inode->size - inode->kept_size;
    if (fate == TORN && more > 0) {
        const uint64_t draw = hdi_disk_draw(disk, HDI_DRAW_SECTOR, hdi_mix64(inode->resized) - 1);
        const int64_t sectors = (int64_t)(draw % (uint64_t)(more / HDI_SECTOR + 1));
        const int64_t bytes = round_up(inode->kept_size) + sectors * HDI_SECTOR;
        keep_size(inode, less(bytes, inode->size));
    } else if (fate != LOST) {
        keep_size(inode, inode->size);
    }
    inode->resized = 0;
}

static void set_size(struct hdi_disk *disk, struct hdi_inode *inode, int64_t bytes, uint64_t write)
{
    settle_size(disk, inode);
    disk->used += (uint64_t)(bytes - inode->size); /* Modulo 2^64: it may become less. */
    inode->size = bytes;
    inode->resized = write;
}

/* A write changes these bytes. */
static void touch(const struct hdi_disk *disk, struct hdi_inode *inode, int64_t from, int64_t to,
                  uint64_t write)
{
    const int64_t first = from / HDI_SECTOR, last = (to - 1) / HDI_SECTOR;
    for (int64_t sector = first; sector <= last; sector++) {
        settle_sector(disk, inode, sector);
        inode->writes[sector] = write;
    }
    if (inode->dirty_from == inode->dirty_to) inode->dirty_from = first;
    if (first < inode->dirty_from) inode->dirty_from = first;
    if (last >= inode->dirty_to) inode->dirty_to = last + 1; /* DATA-2 */
}

ssize_t hdi_data_read(const struct hdi_inode *inode, const struct iovec *parts, int count,
                      int64_t offset)
{
    const int64_t from = offset;
    for (int i = 0; i < count && offset < inode->size; i++) {
        const size_t left = (size_t)(inode->size - offset);
        const size_t n = parts[i].iov_len < left ? parts[i].iov_len : left;
        if (n > 0) memcpy(parts[i].iov_base, inode->bytes + offset, n);
        offset += (int64_t)n;
    }
    return offset - from;
}

static int64_t bytes_of(const struct iovec *parts, int count)
{
    int64_t bytes = 0;
    for (int i = 0; i < count; i++) {
        if (parts[i].iov_len > (size_t)(INT32_MAX - bytes)) return INT32_MAX; /* a short one */
        bytes += (int64_t)parts[i].iov_len;
    }
    return bytes;
}

/* How far a file may grow: -ENOSPC if not at all, where it wants to. */
static int64_t limit_end(const struct hdi_disk *disk, const struct hdi_inode *inode, int64_t offset,
                         int64_t end)
{
    if (end > FILE_BYTES_MAX) end = FILE_BYTES_MAX;
    if (offset >= end) return -EFBIG;
    const uint64_t capacity = disk->options.capacity;
    if (capacity == 0 || end <= inode->size) return end;
    const uint64_t left = capacity > disk->used ? capacity - disk->used : 0;
    if ((uint64_t)(end - inode->size) > left) end = inode->size + (int64_t)left;
    return offset < end ? end : -ENOSPC;
}

static void put(struct hdi_inode *inode, const struct iovec *parts, int64_t offset, int64_t end)
{
    for (int i = 0; offset < end; i++) {
        const size_t left = (size_t)(end - offset);
        const size_t n = parts[i].iov_len < left ? parts[i].iov_len : left;
        if (n > 0) memcpy(inode->bytes + offset, parts[i].iov_base, n);
        offset += (int64_t)n;
    }
}

ssize_t hdi_data_write(struct hdi_disk *disk, struct hdi_inode *inode, const struct iovec *parts,
                       int count, int64_t offset)
{
    const int64_t bytes = bytes_of(parts, count);
    if (bytes == 0) return 0;
    if (offset > FILE_BYTES_MAX) return -EFBIG;
    const int64_t end = limit_end(disk, inode, offset, offset + bytes);
    if (end < 0) return end;
    const int err = make_room(inode, end);
    if (err) return err;
    const uint64_t write = disk->write_next++;
    touch(disk, inode, offset, end, write);
    put(inode, parts, offset, end);
    if (end > inode->size) set_size(disk, inode, end, write);
    return end - offset;
}

int hdi_data_resize(struct hdi_disk *disk, struct hdi_inode *inode, int64_t bytes)
{
    if (bytes < 0) return -EINVAL;
    if (bytes > FILE_BYTES_MAX) return -EFBIG;
    if (bytes == inode->size) return 0;
    if (bytes > inode->size) {
        const int64_t end = limit_end(disk, inode, inode->size, bytes);
        if (end < bytes) return end < 0 ? (int)end : -ENOSPC;
        const int err = make_room(inode, bytes);
        if (err) return err;
    } else { /* A write of zeroes: a crash that forgets it may bring back what was there. */
        touch(disk, inode, bytes, inode->size, disk->write_next);
        memset(inode->bytes + bytes, 0, (size_t)(inode->size - bytes)); /* DATA-1 */
    }
    set_size(disk, inode, bytes, disk->write_next++);
    return 0;
}

void hdi_data_sync(struct hdi_inode *inode, bool failed)
{
    for (int64_t i = inode->dirty_from; i < inode->dirty_to; i++) {
        if (inode->writes[i] && !failed) keep_sector(inode, i);
        inode->writes[i] = 0;
    }
    inode->dirty_from = inode->dirty_to = 0;
    if (inode->resized && !failed) keep_size(inode, inode->size);
    inode->resized = 0;
}

/* Whether what was written last has not reached the disk: how much of a write does is drawn. */
static bool has_lost(const struct hdi_inode *inode)
{
    return inode->kept_size != inode->size ||
           memcmp(inode->kept, inode->bytes, (size_t)inode->size) != 0;
}

void hdi_data_crash(struct hdi_disk *disk, struct hdi_inode *inode)
{
    for (int64_t i = inode->dirty_from; i < inode->dirty_to; i++) settle_sector(disk, inode, i);
    inode->dirty_from = inode->dirty_to = 0;
    settle_size(disk, inode);
    if (inode->room == 0) return;
    if (has_lost(inode) && !hdi_schedule_fault(disk->runtime, "write lost or torn")) {
        memcpy(inode->kept, inode->bytes, (size_t)inode->room);
        inode->kept_size = inode->size;
        return;
    }
    const size_t bytes = (size_t)inode->kept_size;
    memset(inode->kept + bytes, 0, (size_t)inode->room - bytes); /* DATA-1 */
    memcpy(inode->bytes, inode->kept, (size_t)inode->room);
    inode->size = inode->kept_size;
}

void hdi_data_free(struct hdi_inode *inode)
{
    free(inode->bytes);
    free(inode->kept);
    free(inode->writes);
}
