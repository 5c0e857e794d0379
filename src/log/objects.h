/* SPDX-License-Identifier: MIT
 *
 * objects: a number for each object that events name, in the order in which they are first seen.
 *
 * Where an object lies is looked up, and decides nothing else: the same run gives the same numbers
 * wherever its memory is. An object that is gone has to be forgotten: whether another comes to lie
 * in its place is the allocator's and the compiler's choice.
 *
 * Owner  the log, or the replay.
 */
#ifndef HDI_LOG_OBJECTS_H
#define HDI_LOG_OBJECTS_H

#include <stddef.h>
#include <stdint.h>

struct hdi_log_object {
    const void *at;  /* NULL: free */
    uint64_t number;
};

/* OBJECTS-1: from where an address points to up to its place, no place is free.
 * OBJECTS-2: at least a quarter of the places is free. */
struct hdi_log_objects {
    struct hdi_log_object *places;
    size_t room; /* a power of 2, or 0 */
    size_t used;
    uint64_t last; /* the number given last */
};

/* Its number. Returns 0 if memory is short. */
uint64_t hdi_log_objects_number(struct hdi_log_objects *objects, const void *object);

/* It is gone. */
void hdi_log_objects_forget(struct hdi_log_objects *objects, const void *object);

void hdi_log_objects_fini(struct hdi_log_objects *objects);

#endif
