/* SPDX-License-Identifier: MIT
 *
 * The options of a run, in the header of its log.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "log/record.h"

/* Those that change what happens in sim. Resolved, every one has a value, so that a replay does not
 * depend on what the defaults are by then. */
#define FIELD(name) {#name, offsetof(hd_options, name), sizeof(((hd_options *)0)->name)}
static const struct field {
    const char *name;
    size_t offset, bytes;
} fields[] = {
    FIELD(workers),     FIELD(policy),              FIELD(sim_order),
    FIELD(lifo_cap),    FIELD(inject_interval_min), FIELD(inject_interval_max),
    FIELD(poll_budget), FIELD(inject_latency_ns),   FIELD(ewma_percent),
    FIELD(quantum_ops), FIELD(steal_scan_max),      FIELD(profile),
    FIELD(sim_tick_ns), FIELD(sim_events_max),      FIELD(sim_long_wait_ns),
};
#define FIELD_COUNT (sizeof(fields) / sizeof(fields[0]))

static uint64_t field_get(const hd_options *options, const struct field *field)
{
    const char *at = (const char *)options + field->offset;
    uint32_t small;
    uint64_t large;
    HDI_ASSERT(field->bytes == sizeof(small) || field->bytes == sizeof(large));
    if (field->bytes == sizeof(small)) return memcpy(&small, at, sizeof(small)), small;
    return memcpy(&large, at, sizeof(large)), large;
}

static void field_set(hd_options *options, const struct field *field, uint64_t value)
{
    const uint32_t small = (uint32_t)value;
    char *at = (char *)options + field->offset;
    memcpy(at, field->bytes == sizeof(small) ? (const void *)&small : (const void *)&value,
           field->bytes);
}

int hdi_log_options_put(const struct hdi_schedule *schedule, char *text, size_t size)
{
    int length = snprintf(text, size,
                          "clock=%d judges=%d ignore_results=%d allow_stale=%d steps_max=%" PRIu32,
                          schedule->clock, schedule->judges, schedule->ignores_results,
                          schedule->allows_stale, schedule->steps_max);
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        const size_t used = (size_t)length < size ? (size_t)length : size;
        length += snprintf(text + used, size - used, " %s=%" PRIu64, fields[i].name,
                           field_get(&schedule->runtime->options, &fields[i]));
    }
    return length;
}

/* The next "key=value". Returns what follows it; NULL: there is none; *length 0: it is not one. */
static const char *next_pair(const char *at, const char **key, size_t *length, uint64_t *value)
{
    at += strspn(at, " ");
    if (!*at) return NULL;
    *key = at;
    *length = strcspn(at, "= ");
    const char *digits = at + *length + (at[*length] == '=');
    char *end;
    const int saved = errno;
    errno = 0;
    *value = strtoull(digits, &end, 10);
    if (errno || *digits < '0' || *digits > '9' || (*end && *end != ' ')) *length = 0;
    errno = saved;
    return end;
}

int hdi_log_options_get(const char *text, hd_options *options)
{
    const char *key;
    size_t length;
    uint64_t value;
    while ((text = next_pair(text, &key, &length, &value))) {
        if (length == 0) return -EBADMSG;
        /* What is not known here is of another version, or the schedule's. */
        for (size_t i = 0; i < FIELD_COUNT; i++) {
            const bool it = strlen(fields[i].name) == length &&
                            memcmp(fields[i].name, key, length) == 0;
            if (!it) continue;
            if (fields[i].bytes == sizeof(uint32_t) && value > UINT32_MAX) return -EBADMSG;
            field_set(options, &fields[i], value);
        }
    }
    return 0;
}

bool hdi_log_options_number(const char *text, const char *key, uint64_t *value)
{
    const char *found;
    size_t length;
    uint64_t number;
    while ((text = next_pair(text, &found, &length, &number)) && length > 0) {
        if (strlen(key) != length || memcmp(found, key, length) != 0) continue;
        *value = number;
        return true;
    }
    return false;
}
