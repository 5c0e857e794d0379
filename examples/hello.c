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
    hd_task *tasks[3];
    int polls = 5, sum = 0;
    int err = hd_spawn(&tasks[0], greet, "warp");
    if (!err) err = hd_spawn(&tasks[1], greet, "weft");
    if (!err) err = hd_spawn_poll(&tasks[2], count_down, &polls, sizeof(polls));
    for (int i = 0, result; i < 3 && !err; i++) {
        err = hd_join(tasks[i], &result);
        if (!err) sum += result;
    }
    printf("joined: %d\n", sum);
    return err ? err : sum != 9;
}

int main(void)
{
    return hd_run(app, NULL, NULL);
}
