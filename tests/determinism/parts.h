/* SPDX-License-Identifier: MIT
 *
 * parts: what the program whose digests are compared is made of.
 */
#ifndef DETERMINISM_PARTS_H
#define DETERMINISM_PARTS_H

#include <stdint.h>

/* What the program itself saw, in order: a second digest, of effects. */
struct trail {
    uint64_t hash;
};

void record(struct trail *trail, uint64_t what);

void must(int err, const char *file, int line);
#define MUST(call) must((call), __FILE__, __LINE__)

/* Fibers, whose argument is a struct trail. */
int channels_fiber(void *arg);  /* channels, select, timers */
int nurseries_fiber(void *arg); /* nurseries, deadlines, locks */
int network_fiber(void *arg);   /* a server that crashes and comes back, over bad links */
int disk_fiber(void *arg);      /* a file that is torn by a crash */
int jobs_fiber(void *arg);      /* fork-join */

/* The explorer's portfolio from this seed: which schedule fails, how, after how many. */
void explore(struct trail *trail, uint64_t seed);

#endif
