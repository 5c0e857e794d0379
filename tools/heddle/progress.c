/* SPDX-License-Identifier: MIT */
#include "progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { INTERVAL_MS = 200 };

static bool visible; /* the line is on the terminal */

void progress_clear(void)
{
    if (visible) fputs("\r\033[K", stderr);
    visible = false;
}

static int columns(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1 : 79;
}

static int show(void *arg)
{
    struct progress *progress = arg;
    char text[PROGRESS_TEXT_MAX];
    while (hd_sleep_ms(INTERVAL_MS) == 0) {
        progress->fn(progress->arg, text);
        progress_clear();
        fprintf(stderr, "%.*s", columns(), text);
        visible = true;
    }
    progress_clear();
    return 0;
}

void progress_begin(struct progress *progress, progress_fn *fn, void *arg)
{
    *progress = (struct progress){.fn = fn, .arg = arg};
    if (!isatty(STDERR_FILENO) || hd_nursery_open(&progress->nursery, NULL) != 0) return;
    progress->shown = true;
    if (hd_go(&progress->nursery, show, progress) != 0) progress_end(progress);
}

void progress_end(struct progress *progress)
{
    if (!progress->shown) return;
    progress->shown = false;
    hd_nursery_cancel(&progress->nursery);
    hd_nursery_leave(&progress->nursery);
}
