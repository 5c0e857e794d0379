/* SPDX-License-Identifier: MIT
 *
 * par: what loops, reductions and sorts (heddle/parallel.h, heddle/sort.h) have in common.
 */
#ifndef HDI_PAR_PAR_H
#define HDI_PAR_PAR_H

#include <heddle/parallel.h>

/* The options, or defaults; NULL if they are of another size. */
const hd_parallel_options *hdi_par_options(const hd_parallel_options *options);

/* How many workers may take part. Context: with options of the right size. */
unsigned hdi_par_workers(const hd_parallel_options *options);

/* Before more is begun: give way if asked to. Returns: 0, or why nothing more is to be begun. */
int hdi_par_look(void);

#endif
