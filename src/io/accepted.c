/* SPDX-License-Identifier: MIT */
#include "io/accepted.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROOM = 32 };

/* Returns false if memory is short. */
static bool make_room(struct hdi_source *source)
{
    const uint32_t first = source->accepted_first, count = hdi_accepted_count(source);
    if (count == 0) source->accepted_first = source->accepted_end = 0;
    if (source->accepted_end < source->accepted_room) return true;
    if (first > 0) { /* Those that were taken make room. */
        memmove(source->accepted, source->accepted + first, count * sizeof(*source->accepted));
        source->accepted_first = 0;
        source->accepted_end = count;
        return true;
    }
    const uint32_t room = source->accepted_room ? 2 * source->accepted_room : ROOM;
    int *grown = realloc(source->accepted, room * sizeof(*grown));
    if (!grown) return false;
    source->accepted = grown;
    source->accepted_room = room;
    return true;
}

bool hdi_accepted_put(struct hdi_source *source, int fd)
{
    if (!make_room(source)) return false;
    source->accepted[source->accepted_end++] = fd;
    return true;
}

int hdi_accepted_take(struct hdi_source *source)
{
    return source->accepted[source->accepted_first++];
}

void hdi_accepted_refuse(struct hdi_source *source)
{
    while (hdi_accepted_count(source) > 0) close(hdi_accepted_take(source));
    free(source->accepted);
    source->accepted = NULL;
    source->accepted_room = 0;
}
