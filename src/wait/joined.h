/* SPDX-License-Identifier: MIT
 *
 * joined: the end of a task as a case: HD_JOIN.
 */
#ifndef HDI_WAIT_JOINED_H
#define HDI_WAIT_JOINED_H

#include "wait/wait.h"

extern const struct hdi_op hdi_op_join;

#endif
