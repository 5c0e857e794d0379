/* SPDX-License-Identifier: MIT
 *
 * progress: one line on stderr that is written again and again, if somebody watches.
 */
#ifndef PROGRESS_H
#define PROGRESS_H

#include <heddle.h>

/* Writes the line, at most PROGRESS_TEXT_MAX bytes. */
enum { PROGRESS_TEXT_MAX = 160 };
typedef void progress_fn(void *arg, char text[static PROGRESS_TEXT_MAX]);

struct progress {
    progress_fn *fn;
    void *arg;
    hd_nursery nursery;
    bool shown;
};

/* Show it until progress_end(); nothing if stderr is no terminal. Context: fiber. */
void progress_begin(struct progress *progress, progress_fn *fn, void *arg);
void progress_end(struct progress *progress);

/* Take the line away, so that another can be written; it comes back by itself. */
void progress_clear(void);

#endif
