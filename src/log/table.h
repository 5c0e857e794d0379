/* SPDX-License-Identifier: MIT
 *
 * table: what the records of a block refer to by a number: texts, or sites, which are a text and a
 * line. Numbers are given in order of appearance, from 1; when all are given, nothing more is
 * numbered in this block. The bytes stay where they were written, in the block.
 *
 * Owner  the writer.
 */
#ifndef HDI_LOG_TABLE_H
#define HDI_LOG_TABLE_H

#include "log/format.h"

#define HDI_LOG_TABLE_SLOTS (2 * HDI_LOG_TABLE_MAX) /* a power of 2 */

struct hdi_log_entry {
    uint32_t offset; /* of its bytes in the block */
    uint16_t bytes;
    int32_t line; /* 0 for texts */
};

/* TABLE-1: a slot is the number of an entry, or 0; an entry's slot is the first free one from where
 *          its hash points to. */
struct hdi_log_table {
    uint16_t slots[HDI_LOG_TABLE_SLOTS];
    struct hdi_log_entry entries[HDI_LOG_TABLE_MAX];
    unsigned count;
};

void hdi_log_table_clear(struct hdi_log_table *table);

/* Its number; 0: it has none. */
unsigned hdi_log_table_find(const struct hdi_log_table *table, const uint8_t *block,
                            const char *text, size_t bytes, int line);

/* It stands in the block from now on: number it, if there is a number left. Context: it has
 * none. */
void hdi_log_table_add(struct hdi_log_table *table, const uint8_t *block,
                       const struct hdi_log_entry *entry);

#endif
