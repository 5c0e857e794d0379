/* SPDX-License-Identifier: MIT
 *
 * hello: fibers, a stackless task, and the same program in two worlds.
 *
 *   ./hello                  on all cores
 *   HEDDLE_SEED=42 ./hello   simulated: the same order every time
 */
#include <heddle.h>
#include <stdio.h>

static int greet(void *arg)
{
    for (int i = 0; i < 3; i++) {
        printf("%s %d\n", (const char *)arg, i);
        hd_yield();
    }
    return 3;
}

static hd_poll count_down(void *state, int *result)
{
    int *left = state;
    if ((*left)-- > 0) {
        hd_waker_wake(hd_waker_self());
        return HD_PENDING;
    }
    *result = 3;
    return HD_READY;
}

static int app(void *arg)
{
    (void)arg;
    hd_task *warp, *weft, *countdown;
    int polls = 5, sum = 0, result;
    if (hd_spawn(&warp, greet, "warp")) return 1;
    if (hd_spawn(&weft, greet, "weft")) return 1;
    if (hd_spawn_poll(&countdown, count_down, &polls, sizeof(polls))) return 1;
    if (hd_join(warp, &result) == 0) sum += result;
    if (hd_join(weft, &result) == 0) sum += result;
    if (hd_join(countdown, &result) == 0) sum += result;
    printf("joined: %d\n", sum);
    return sum != 9;
}

int main(int argc, char **argv)
{
    if (argc > 1) return printf("usage: %s (it takes no arguments)\n", argv[0]) < 0;
    return hd_run(app, NULL, NULL);
}
