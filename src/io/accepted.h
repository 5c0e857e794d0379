/* SPDX-License-Identifier: MIT
 *
 * accepted: connections that the kernel has accepted ahead for a listener, first in, first out.
 *
 * Owner  the listener's in.lock.
 */
#ifndef HDI_IO_ACCEPTED_H
#define HDI_IO_ACCEPTED_H

#include "io/source.h"

static inline uint32_t hdi_accepted_count(const struct hdi_source *source)
{
    return source->accepted_end - source->accepted_first;
}

/* Returns false if memory is short: it is still the caller's. */
bool hdi_accepted_put(struct hdi_source *source, int fd);

/* The first. Context: there is one. */
int hdi_accepted_take(struct hdi_source *source);

/* Nobody will take them: who made them learns it. */
void hdi_accepted_refuse(struct hdi_source *source);

#endif
