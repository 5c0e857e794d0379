/* SPDX-License-Identifier: MIT
 *
 * watch: the latest value, in a block of its own that stays while somebody has it borrowed.
 *
 *   WATCH-1  The latest block counts one borrower: the watch. A block without borrowers is
 *            the spare, or gone.
 *   WATCH-2  A receiver stands in line only if it has seen the latest. It is woken without
 *            the value, and then looks for itself.
 */
#ifndef HDI_SYNC_WATCH_H
#define HDI_SYNC_WATCH_H

#include <heddle/pubsub.h>

#include "sync/ops.h"

struct hdi_watch_block {
    uint64_t borrowers; /* lock */
    alignas(16) unsigned char value[];
};

/* Constant, or under the lock. */
struct hd_watch {
    struct hdi_waitable base;
    uint8_t copy;        /* constant: enum hdi_copy */
    bool closed;
    uint32_t item_bytes; /* constant */
    uint64_t version;    /* of the latest value */
    struct hdi_watch_block *latest, *spare; /* spare: NULL if borrowed */
    struct hdi_list waiting;                /* WATCH-2 */
    struct hdi_cap *counted;                /* as in struct hd_chan */
};

/* Its owner's. */
struct hdi_watch_receiver {
    struct hd_watch *watch; /* first: struct hdi_op, `through` */
    uint64_t seen;          /* the version */
};
_Static_assert(sizeof(struct hdi_watch_receiver) <= sizeof(hd_watch_receiver),
               "hd_watch_receiver holds it");

#endif
