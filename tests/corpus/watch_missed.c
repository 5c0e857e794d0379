/* SPDX-License-Identifier: MIT
 *
 * watch_missed: a reader gets the value, sees that it is not the one it wants, and subscribes to
 * its changes. The change came in between, counts as seen, and is the last.
 *
 * Subscribe first, then look.
 */
#include "corpus.h"

static struct {
    struct corpus_case how;
    hd_watch *watch;
} s;

static int reader(void *arg)
{
    (void)arg;
    hd_watch_receiver changes;
    int value;
    if (s.how.fixed) hd_watch_subscribe(s.watch, &changes);
    hd_race_point();
    hd_watch_get(s.watch, &value);
    hd_race_point();
    if (!s.how.fixed) hd_watch_subscribe(s.watch, &changes);
    while (value != 1) hd_assert(hd_watch_changed(&changes, &value) == 0);
    return 0;
}

static int writer(void *arg)
{
    (void)arg;
    const int value = 1;
    hd_assert(hd_watch_set(s.watch, &value) == 0);
    return 0;
}

static int watch_missed(void *arg)
{
    CORPUS_BEGIN(s, arg);
    const int value = 0;
    s.watch = hd_watch_create(sizeof(int), &value);
    hd_assert(s.watch != NULL);
    TOGETHER(reader, writer);
    hd_watch_destroy(s.watch);
    return 0;
}
CORPUS(watch_missed, watch_missed, STUCK, 1, "a change between the look and the subscription")
