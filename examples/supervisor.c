/* SPDX-License-Identifier: MIT
 *
 * supervisor: a feeder sends yarn, a weaver makes rows of it. The yarn breaks now and then, which
 * ends the feeder; the nursery starts it again after a short pause, and the weaver, which was
 * added after it, with it. Yarn that breaks every time is too much: the nursery gives up.
 *
 *   ./supervisor                  on all cores
 *   HEDDLE_SEED=42 ./supervisor   simulated: the same order every time, and no time is spent
 */
#include <errno.h>
#include <heddle.h>
#include <stdio.h>
#include <string.h>

enum { PIECES = 8 };

HD_CHAN_TYPE(yarn, int);

/* What outlives the children. */
struct loom {
    yarn *thread;
    int fed, rows, starts;
    int64_t broke_ns;
    bool brittle; /* the yarn breaks every time */
};

static bool breaks(const struct loom *loom)
{
    return loom->brittle || (loom->fed == 3 && loom->starts == 1) ||
           (loom->fed == 5 && loom->starts == 2);
}

static int feed(void *arg)
{
    struct loom *loom = arg;
    printf("feeder: start %d", ++loom->starts);
    if (loom->broke_ns) printf(", %d ms later", (int)((hd_now(NULL) - loom->broke_ns) / HD_MS_NS));
    printf("\n");
    while (loom->fed < PIECES) {
        if (breaks(loom)) {
            printf("feeder: the yarn broke after piece %d\n", loom->fed);
            loom->broke_ns = hd_now(NULL);
            return -EIO;
        }
        const int err = yarn_send(loom->thread, loom->fed + 1);
        if (err) return err;
        loom->fed++;
    }
    printf("feeder: done\n");
    return yarn_close(loom->thread); /* The weaver gets what is left, and then -EPIPE. */
}

static int weave(void *arg)
{
    struct loom *loom = arg;
    int piece, err;
    while ((err = yarn_recv(loom->thread, &piece)) == 0) {
        printf("weaver: row %d\n", ++loom->rows); /* A piece is never lost with a weaver. */
    }
    if (err == -ECANCELED) printf("weaver: asked to start anew, or to stop\n");
    return err == -EPIPE ? 0 : err;
}

/* Returns the result of the nursery. */
static int run_loom(struct loom *loom)
{
    const hd_supervision supervision = {
        .size = sizeof(supervision),
        .strategy = HD_REST_FOR_ONE,
        .intensity = 3,
        .period_ns = HD_SECOND_NS,
        .backoff_ns = 10 * HD_MS_NS,
        .jitter_percent = 50,
    };
    loom->thread = yarn_create(0); /* handed over, not kept */
    if (!loom->thread) return -ENOMEM;
    HD_NURSERY(n, .supervision = &supervision) {
        if (hd_supervise(n, "feeder", HD_TRANSIENT, feed, loom) ||
            hd_supervise(n, "weaver", HD_TRANSIENT, weave, loom)) {
            hd_nursery_cancel(n);
        }
    } /* waits until both have ended well, or the nursery gives up */
    yarn_destroy(loom->thread);
    return hd_nursery_result();
}

static int app(void *arg)
{
    (void)arg;
    struct loom good = {0}, bad = {.brittle = true};
    int result = run_loom(&good);
    printf("%d rows after %d starts: %s\n\n", good.rows, good.starts,
           result ? strerror(-result) : "well done");
    if (result || good.rows != PIECES || good.starts != 3) return 1;
    result = run_loom(&bad);
    printf("given up after %d starts: %s\n", bad.starts, strerror(-result));
    return result == -EIO && bad.starts == 4 ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc > 1) return printf("usage: %s (it takes no arguments)\n", argv[0]) < 0;
    return hd_run(app, NULL, NULL);
}
