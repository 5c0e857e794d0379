/* SPDX-License-Identifier: MIT
 *
 * checkpoint: what code compiled with -fsanitize-coverage=trace-pc calls in every block. Linked
 * into the program, so that its loops give way to other tasks without a call of their own.
 */
#include <heddle/budget.h>

void __sanitizer_cov_trace_pc(void);

void __sanitizer_cov_trace_pc(void)
{
    hd_checkpoint_block();
}
