/* SPDX-License-Identifier: MIT */
#include "log/table.h"

#include <string.h>

void hdi_log_table_clear(struct hdi_log_table *table)
{
    memset(table->slots, 0, sizeof(table->slots));
    table->count = 0;
}

/* FNV-1a: texts are short, and of the program itself. */
static unsigned first_slot(const void *text, size_t bytes, int line)
{
    const uint8_t *at = text;
    uint32_t hash = 2166136261u ^ (uint32_t)line;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ at[i]) * 16777619u;
    return (hash ^ hash >> 16) % HDI_LOG_TABLE_SLOTS;
}

unsigned hdi_log_table_find(const struct hdi_log_table *table, const uint8_t *block,
                            const char *text, size_t bytes, int line)
{
    unsigned slot = first_slot(text, bytes, line);
    for (; table->slots[slot]; slot = (slot + 1) % HDI_LOG_TABLE_SLOTS) {
        const unsigned number = table->slots[slot];
        const struct hdi_log_entry *entry = &table->entries[number - 1];
        if (entry->bytes == bytes && entry->line == line &&
            memcmp(block + entry->offset, text, bytes) == 0) {
            return number;
        }
    }
    return 0;
}

void hdi_log_table_add(struct hdi_log_table *table, const uint8_t *block,
                       const struct hdi_log_entry *entry)
{
    if (table->count == HDI_LOG_TABLE_MAX) return;
    unsigned slot = first_slot(block + entry->offset, entry->bytes, entry->line);
    while (table->slots[slot]) slot = (slot + 1) % HDI_LOG_TABLE_SLOTS; /* TABLE-1 */
    table->entries[table->count++] = *entry;
    table->slots[slot] = (uint16_t)table->count;
}
