/* SPDX-License-Identifier: MIT
 *
 * oneshot: a value that is sent once, in the memory of the two it is between.
 *
 *   ONE-1  Once the value is there, or one side has closed, only the receiver locks; and
 *          the other side, if it had not heard, once more.
 *   ONE-2  A receiver that was woken waits until the sender has given back the lock: then
 *          the memory is the receiver's alone, and may go with its stack.
 */
#ifndef HDI_SYNC_ONESHOT_H
#define HDI_SYNC_ONESHOT_H

#include <heddle/pubsub.h>

#include "sync/ops.h"

struct hdi_oneshot {
    struct hdi_waitable base;
    uint8_t copy;            /* constant: enum hdi_copy */
    bool sent;               /* lock, as all that follows; the value was put in */
    bool received;           /* and taken out */
    bool closed;
    uint32_t item_bytes;     /* constant */
    void *storage;           /* constant: where the value lies */
    struct hdi_node *waiting; /* the receiver; NULL if it does not wait */
    uint64_t value[2];
};
_Static_assert(sizeof(struct hdi_oneshot) <= sizeof(hd_oneshot), "hd_oneshot holds it");

#endif
