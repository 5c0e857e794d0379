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

bool hdi_signature_grow(struct hdi_signature *signature)
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
