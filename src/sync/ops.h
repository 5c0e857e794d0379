/* SPDX-License-Identifier: MIT
 *
 * ops: what each kind of case does (wait/wait.h), by the file that defines it.
 */
#ifndef HDI_SYNC_OPS_H
#define HDI_SYNC_OPS_H

#include "wait/wait.h"

extern const struct hdi_op hdi_op_recv;       /* chan.c */
extern const struct hdi_op hdi_op_send;       /* chan.c */
extern const struct hdi_op hdi_op_lock;       /* mutex.c */
extern const struct hdi_op hdi_op_read_lock;  /* rwlock.c */
extern const struct hdi_op hdi_op_write_lock; /* rwlock.c */
extern const struct hdi_op hdi_op_acquire;    /* semaphore.c */
extern const struct hdi_op hdi_op_notified;   /* notify.c */
extern const struct hdi_op hdi_op_oneshot;    /* oneshot.c */
extern const struct hdi_op hdi_op_changed;    /* watch.c */
extern const struct hdi_op hdi_op_broadcast;  /* broadcast.c */
extern const struct hdi_op hdi_op_all_done;   /* group.c */
extern const struct hdi_op hdi_op_token;      /* scope/token.c */
extern const struct hdi_op hdi_op_readable;   /* io/source.c */
extern const struct hdi_op hdi_op_writable;   /* io/source.c */

/* io/source.c: what is waited on where a case names a handle; never NULL: a stale handle has a
 * place, too, where it is told. */
struct hdi_waitable *hdi_io_waitable(uint64_t handle, bool out);

#endif
