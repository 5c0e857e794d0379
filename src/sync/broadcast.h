/* SPDX-License-Identifier: MIT
 *
 * broadcast: a ring of the last values, and receivers that each go through it.
 *
 *   CAST-1  Value n lies in slot n mod capacity until value n + capacity comes.
 *   CAST-2  A receiver stands in line only if it has seen all. It is woken without the
 *           value, which it then takes from the ring as if it had never waited: nothing is
 *           copied for a thousand receivers under one lock.
 */
#ifndef HDI_SYNC_BROADCAST_H
#define HDI_SYNC_BROADCAST_H

#include <heddle/pubsub.h>

#include "sync/ops.h"

/* Constant, or under the lock. */
struct hd_broadcast {
    struct hdi_waitable base;
    uint8_t copy;             /* constant: enum hdi_copy */
    bool closed;
    uint32_t item_bytes;      /* constant */
    uint32_t mask;            /* constant: slots - 1, a power of two less one */
    uint64_t capacity;        /* constant: values kept, at most the slots */
    uint64_t sent;            /* values so far */
    int subscribed;           /* receivers */
    unsigned char *ring;      /* constant */
    struct hdi_list waiting;  /* CAST-2 */
    struct hdi_cap *counted;  /* as in struct hd_chan */
};

/* Its owner's. */
struct hdi_broadcast_receiver {
    struct hd_broadcast *broadcast; /* first: struct hdi_op, `through`; NULL: unsubscribed */
    uint64_t next;                  /* the value to receive next */
    uint64_t lost;                  /* by the last overflow */
};
_Static_assert(sizeof(struct hdi_broadcast_receiver) <= sizeof(hd_broadcast_receiver),
               "hd_broadcast_receiver holds it");

#endif
