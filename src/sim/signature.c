/* SPDX-License-Identifier: MIT */
#include "sim/signature.h"

#include <stdlib.h>

#define ROOM_FIRST 64

void hdi_signature_fini(struct hdi_signature *signature)
{
    free(signature->objects);
}

static void move(struct hdi_signature *to, const struct hdi_signature_object *from)
{
    struct hdi_signature_object *object = hdi_signature_find(to, from->object);
    object->chain = from->chain;
    object->looks = from->looks;
}

/* Make room. Returns false if memory is short. */
static bool grow(struct hdi_signature *signature)
{
    struct hdi_signature larger = *signature;
    larger.room = signature->room ? 2 * signature->room : ROOM_FIRST;
    larger.used = 0;
    if (larger.round == 0) larger.round = 1; /* A new table is of round 0. */
    larger.objects = calloc(larger.room, sizeof(*larger.objects));
    if (!larger.objects) return false;
    for (uint32_t i = 0; i < signature->room; i++) {
        if (signature->objects[i].round == signature->round) move(&larger, &signature->objects[i]);
    }
    free(signature->objects);
    *signature = larger;
    return true;
}

struct hdi_signature_object *hdi_signature_find_far(struct hdi_signature *signature,
                                                    const void *object)
{
    if (2 * signature->used >= signature->room && !grow(signature)) return NULL;
    const uint32_t mask = signature->room - 1;
    for (uint32_t at = hdi_signature_place(object);; at++) {
        struct hdi_signature_object *found = &signature->objects[at & mask];
        if (found->round == signature->round) {
            if (found->object == object) return found;
            continue;
        }
        *found = (struct hdi_signature_object){.object = object, .round = signature->round};
        signature->used++;
        return found;
    }
}
