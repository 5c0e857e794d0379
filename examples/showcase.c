/* SPDX-License-Identifier: MIT
 *
 * showcase: one program, first on all cores, then simulated.
 *
 * Seven fibers weave a cloth: each adds its letter, does some work, and gives way. The
 * cloth is the order in which they ran. On all cores it is whatever happened; in a
 * simulation it is a function of the seed.
 */
#include <heddle.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { FIBERS = 7, PASSES = 8, CLOTH = FIBERS * PASSES };

struct loom {
    char cloth[CLOTH + 1];
    atomic_uint woven;
    uint64_t digest;
    unsigned workers;
};

struct thread {
    struct loom *loom;
    char letter;
};

static int weave(void *arg)
{
    const struct thread *thread = arg;
    for (int pass = 0; pass < PASSES; pass++) {
        thread->loom->cloth[atomic_fetch_add(&thread->loom->woven, 1)] = thread->letter;
        for (volatile int work = 0; work < 100000; work++) continue;
        hd_yield();
    }
    return 0;
}

static int app(void *arg)
{
    struct loom *loom = arg;
    struct thread threads[FIBERS];
    hd_task *tasks[FIBERS];
    int spawned = 0, err = 0;
    for (; spawned < FIBERS && !err; spawned += !err) {
        threads[spawned] = (struct thread){loom, (char)('a' + spawned)};
        err = hd_spawn(&tasks[spawned], weave, &threads[spawned]);
    }
    for (int i = 0; i < spawned; i++) {
        if (hd_join(tasks[i], NULL) != 0) hd_detach(tasks[i]);
    }
    if (err) return err;
    hd_stats stats;
    hd_runtime_stats(hd_runtime_self(), &stats);
    loom->workers = stats.workers;
    loom->digest = hd_runtime_digest(hd_runtime_self());
    return 0;
}

static struct loom run(hd_world world, uint64_t seed)
{
    struct loom loom = {.digest = 0};
    hd_options options = HD_OPTIONS_INIT;
    options.world = world;
    options.seed = seed;
    const int err = hd_run(app, &loom, &options);
    if (err) fprintf(stderr, "showcase: %s\n", strerror(-err));
    char label[32];
    if (world == HD_WORLD_LIVE) {
        snprintf(label, sizeof(label), "live, %u workers", loom.workers);
    } else {
        snprintf(label, sizeof(label), "sim, seed %" PRIu64, seed);
    }
    printf("  %-16s  %s  %016" PRIx64 "\n", label, loom.cloth, loom.digest);
    return loom;
}

int main(int argc, char **argv)
{
    if (argc > 1) return printf("usage: %s (it takes no arguments)\n", argv[0]) < 0;
    printf("Heddle %s: seven fibers weave; each letter is one run of one fiber.\n\n", hd_version());
    printf("  %-16s  %-*s  %s\n", "world", CLOTH, "who ran when", "digest");
    run(HD_WORLD_LIVE, 0);
    const struct loom first = run(HD_WORLD_SIM, 42);
    const struct loom again = run(HD_WORLD_SIM, 42);
    const struct loom other = run(HD_WORLD_SIM, 7);
    const bool same = first.digest == again.digest && strcmp(first.cloth, again.cloth) == 0;
    const bool differs = first.digest != other.digest;
    printf("\nSeed 42 twice: %s. Seed 7: %s.\n", same ? "the same run" : "DIFFERENT RUNS",
           differs ? "another run" : "THE SAME RUN");
    printf("Any program does this: HEDDLE_SEED=42 build/release/examples/hello\n");
    return same && differs ? 0 : 1;
}
