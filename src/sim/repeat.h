/* SPDX-License-Identifier: MIT
 *
 * repeat: the line that makes a program take a schedule again, for people to paste into a shell.
 */
#ifndef HDI_SIM_REPEAT_H
#define HDI_SIM_REPEAT_H

#include <stdio.h>

#include "sim/schedule.h"

/* What this simulated runtime does, without the end of the line. */
void hdi_repeat_print(FILE *out, const struct hd_runtime *runtime);

/* What hd_explore() found, with these options. */
void hdi_repeat_print_found(FILE *out, const hd_explore_options *options,
                            const hd_explore_result *result);

#endif
