/* SPDX-License-Identifier: MIT */
#include "log/objects.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/prng.h"

#define ROOM_MIN 64u

static size_t home_of(const struct hdi_log_objects *objects, const void *object)
{
    return (size_t)hdi_mix64((uintptr_t)object) & (objects->room - 1);
}

/* Where it is, or would be. Context: there is room. */
static size_t place_of(const struct hdi_log_objects *objects, const void *object)
{
    size_t i = home_of(objects, object);
    while (objects->places[i].at && objects->places[i].at != object) {
        i = (i + 1) & (objects->room - 1);
    }
    return i;
}

static bool grow(struct hdi_log_objects *objects)
{
    const struct hdi_log_objects old = *objects;
    const size_t room = old.room ? 2 * old.room : ROOM_MIN;
    struct hdi_log_object *places = calloc(room, sizeof(*places));
    if (!places) return false;
    objects->places = places;
    objects->room = room;
    for (size_t i = 0; i < old.room; i++) {
        if (old.places[i].at) places[place_of(objects, old.places[i].at)] = old.places[i];
    }
    free(old.places);
    return true;
}

uint64_t hdi_log_objects_number(struct hdi_log_objects *objects, const void *object)
{
    if (4 * (objects->used + 1) > 3 * objects->room && !grow(objects)) return 0; /* OBJECTS-2 */
    struct hdi_log_object *place = &objects->places[place_of(objects, object)];
    if (!place->at) {
        *place = (struct hdi_log_object){object, ++objects->last};
        objects->used++;
    }
    return place->number;
}

/* What stands behind it moves up, as far as that may be nearer to where its address points to
 * (OBJECTS-1). */
void hdi_log_objects_forget(struct hdi_log_objects *objects, const void *object)
{
    if (objects->room == 0) return;
    const size_t mask = objects->room - 1;
    size_t hole = place_of(objects, object);
    if (!objects->places[hole].at) return;
    for (size_t i = (hole + 1) & mask; objects->places[i].at; i = (i + 1) & mask) {
        const size_t home = home_of(objects, objects->places[i].at);
        if (((i - home) & mask) < ((i - hole) & mask)) continue;
        objects->places[hole] = objects->places[i];
        hole = i;
    }
    objects->places[hole].at = NULL;
    objects->used--;
}

void hdi_log_objects_fini(struct hdi_log_objects *objects)
{
    free(objects->places);
    *objects = (struct hdi_log_objects){0};
}
