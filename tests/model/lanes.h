/* SPDX-License-Identifier: MIT
 *
 * lanes: test cases in processes of their own, one on each CPU, their output in order.
 */
#ifndef LANES_H
#define LANES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One case: prints its result and returns whether it passed. *interleavings is 0 before. */
typedef bool lanes_case(int index, uint64_t *interleavings);

struct lanes_totals {
    int failed;
    uint64_t interleavings;
};

/* Run the cases 0 to count - 1. A case whose process ends otherwise than by returning ends
 * this one too, with status 2. */
struct lanes_totals lanes_run(int count, lanes_case *body);

/* fork(), where the child does not outlive its parent. Exits with status 2 on failure. */
int lanes_fork(void);

/* Memory that children share; zeroed. */
void *lanes_share(size_t bytes);

#endif
