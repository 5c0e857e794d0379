/* SPDX-License-Identifier: MIT
 *
 * mandelbrot: draws the Mandelbrot set on all cores, while a fiber shows how far it is.
 *
 *   ./mandelbrot                           as text
 *   ./mandelbrot --output mandelbrot.ppm   as a picture
 *   HEDDLE_SEED=42 ./mandelbrot            simulated: the same picture
 *
 * A large tile is halved: one half is forked, the other drawn. Some take a thousand times as long
 * as others, and nobody knows which; whoever has nothing to do takes the largest that is left.
 */
#include <errno.h>
#include <getopt.h>
#include <heddle.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TILE_PIXELS = 64, SIDE_MAX = 10000, ITERATIONS_MAX = 1000000, WORKERS_MAX = 256 };

struct picture {
    unsigned width, height, iterations;
    double cell;        /* how high a pixel is, if its width is 1 */
    uint32_t *steps;    /* for each pixel: when it escaped; `iterations`: it did not */
    atomic_size_t done; /* pixels */

    /* how it went */
    int64_t ns;
    unsigned workers;
    uint64_t jobs_taken;
};

struct tile {
    struct picture *picture;
    unsigned left, top, right, bottom;
};

/* ---- drawing ---- */

static uint32_t escape(double x, double y, uint32_t iterations)
{
    double a = 0, b = 0;
    uint32_t step = 0;
    for (; step < iterations && a * a + b * b <= 4; step++) {
        const double next = a * a - b * b + x;
        b = 2 * a * b + y;
        a = next;
    }
    return step;
}

static void draw_tile(const struct tile *tile)
{
    struct picture *p = tile->picture;
    const double by_width = 2.6 / p->width, by_height = 2.3 / (p->height * p->cell);
    const double unit = by_width > by_height ? by_width : by_height;
    for (unsigned row = tile->top; row < tile->bottom; row++) {
        for (unsigned column = tile->left; column < tile->right; column++) {
            const double x = -0.72 + (column + 0.5 - p->width / 2.0) * unit;
            const double y = (row + 0.5 - p->height / 2.0) * unit * p->cell;
            p->steps[(size_t)row * p->width + column] = escape(x, y, p->iterations);
        }
    }
    atomic_fetch_add(&p->done, (size_t)(tile->right - tile->left) * (tile->bottom - tile->top));
}

HD_JOB_VOID(draw, struct tile, tile)
{
    const unsigned across = tile.right - tile.left, down = tile.bottom - tile.top;
    if ((size_t)across * down <= TILE_PIXELS) {
        draw_tile(&tile);
        hd_checkpoint(1); /* The fiber that shows the progress wants its turn. */
        return;
    }
    struct tile one = tile, other = tile;
    if (across > down) {
        one.right = other.left = tile.left + across / 2;
    } else {
        one.bottom = other.top = tile.top + down / 2;
    }
    HD_FORK(forked, draw, one);
    HD_CALL(draw, other);
    HD_SYNC(forked);
}

static int show_progress(void *arg)
{
    enum { BAR = 40 };
    struct picture *p = arg;
    const size_t pixels = (size_t)p->width * p->height;
    char bar[BAR + 1] = "";
    do {
        const size_t done = atomic_load(&p->done);
        memset(bar, '#', done * BAR / pixels);
        fprintf(stderr, "\r[%-*s] %3zu %%", BAR, bar, done * 100 / pixels);
    } while (hd_sleep_ms(100) == 0);
    fputs("\r\033[K", stderr); /* It was cancelled: wipe the line. */
    return 0;
}

static int app(void *arg)
{
    struct picture *p = arg;
    hd_stats stats;
    hd_runtime_stats(hd_runtime_self(), &stats);
    p->workers = stats.workers;
    const int64_t start = hd_now(NULL);
    HD_NURSERY(n) {
        if (isatty(STDERR_FILENO)) hd_go(n, show_progress, p);
        HD_RUN_JOB(NULL, draw, ((struct tile){p, 0, 0, p->width, p->height}));
        hd_nursery_cancel(n);
    }
    p->ns = hd_now(NULL) - start;
    hd_runtime_stats(hd_runtime_self(), &stats);
    p->jobs_taken = stats.jobs_taken;
    return 0;
}

/* ---- showing ---- */

static void print_text(const struct picture *p)
{
    static const char shades[] = "  .:-+*%#"; /* by the length of the number in bits */
    for (unsigned row = 0; row < p->height; row++) {
        for (unsigned column = 0; column < p->width; column++) {
            uint32_t step = p->steps[(size_t)row * p->width + column];
            unsigned bits = 0;
            const bool inside = step == p->iterations;
            for (; step > 0 && bits < sizeof(shades) - 2; step >>= 1) bits++;
            putchar(inside ? '@' : shades[bits]);
        }
        putchar('\n');
    }
}

static void print_ppm(const struct picture *p, FILE *out)
{
    enum { PERIOD = 64 }; /* steps until the colours begin again */
    fprintf(out, "P6\n%u %u\n255\n", p->width, p->height);
    for (size_t i = 0; i < (size_t)p->width * p->height; i++) {
        const uint32_t step = p->steps[i];
        const double t = step < p->iterations ? (double)(step % PERIOD) / PERIOD : 0, u = 1 - t;
        putc((int)(255 * 9 * u * t * t * t), out);
        putc((int)(255 * 15 * u * u * t * t), out);
        putc((int)(255 * 8.5 * u * u * u * t), out);
    }
}

static int show(const struct picture *p, const char *path)
{
    FILE *out = path ? fopen(path, "wb") : stdout;
    if (out && path) print_ppm(p, out);
    if (out && !path) print_text(p);
    if (!out || ferror(out) || fclose(out) != 0) {
        fprintf(stderr, "mandelbrot: %s: %s\n", path ? path : "standard output", strerror(errno));
        return 1;
    }
    return 0;
}

/* ---- arguments ---- */

static const char help[] =
    "usage: mandelbrot [OPTION]...\n"
    "Draw the Mandelbrot set, as text unless a file is named.\n\n"
    "  --width N         1 to 10000; default 64, with --output 1200\n"
    "  --height N        1 to 10000; default 24, with --output 900\n"
    "  --iterations N    1 to 1000000; default 1000\n"
    "  --workers N       1 to 256; default: one for each CPU\n"
    "  --output FILE     write a picture in PPM format\n"
    "  --help            show this\n\n"
    "With HEDDLE_SEED=N in the environment it runs simulated.\n";

struct arguments {
    unsigned width, height, iterations, workers; /* 0: not given */
    const char *output;
};

/* Returns false, with a message, if the text is no number from 1 to `most`. */
static bool read_number(unsigned *number, const char *name, const char *text, unsigned most)
{
    char *end;
    errno = 0;
    const unsigned long value = strtoul(text, &end, 10);
    const bool digits = *text >= '0' && *text <= '9' && *end == '\0' && errno == 0;
    if (!digits || value < 1 || value > most) {
        fprintf(stderr, "mandelbrot: --%s: '%s' is no number from 1 to %u\n", name, text, most);
        return false;
    }
    *number = (unsigned)value;
    return true;
}

/* Returns -1 to go on, or what to exit with. */
static int read_arguments(struct arguments *a, int argc, char **argv)
{
    enum { NUMBER, OUTPUT, HELP };
    static const struct option options[] = {
        {"width", required_argument, NULL, NUMBER},
        {"height", required_argument, NULL, NUMBER},
        {"iterations", required_argument, NULL, NUMBER},
        {"workers", required_argument, NULL, NUMBER},
        {"output", required_argument, NULL, OUTPUT},
        {"help", no_argument, NULL, HELP},
        {NULL, 0, NULL, 0},
    };
    unsigned *const numbers[] = {&a->width, &a->height, &a->iterations, &a->workers};
    static const unsigned most[] = {SIDE_MAX, SIDE_MAX, ITERATIONS_MAX, WORKERS_MAX};
    for (int i = 0, what; (what = getopt_long(argc, argv, "", options, &i)) != -1;) {
        if (what == HELP) return fputs(help, stdout) < 0;
        if (what == OUTPUT) {
            a->output = optarg;
        } else if (what != NUMBER || !read_number(numbers[i], options[i].name, optarg, most[i])) {
            return 2; /* getopt_long() has said why. */
        }
    }
    if (optind == argc) return -1;
    fprintf(stderr, "mandelbrot: '%s' is no option; see --help\n", argv[optind]);
    return 2;
}

static int run(struct picture *p, unsigned workers)
{
    hd_options options = HD_OPTIONS_INIT;
    options.workers = workers;
    const char *wrong = hd_options_error(&options);
    const int err = wrong ? -EINVAL : hd_run(app, p, &options);
    if (err) fprintf(stderr, "mandelbrot: %s\n", wrong ? wrong : strerror(-err));
    return err;
}

int main(int argc, char **argv)
{
    struct arguments a = {.output = NULL};
    const int status = read_arguments(&a, argc, argv);
    if (status >= 0) return status;
    struct picture p = {
        .width = a.width ? a.width : a.output ? 1200 : 64,
        .height = a.height ? a.height : a.output ? 900 : 24,
        .iterations = a.iterations ? a.iterations : 1000,
        .cell = a.output ? 1 : 2, /* A letter is twice as high as wide. */
    };
    p.steps = calloc((size_t)p.width * p.height, sizeof(*p.steps));
    if (!p.steps) {
        fputs("mandelbrot: the picture does not fit into memory\n", stderr);
        return 1;
    }
    int failed = run(&p, a.workers) != 0;
    if (!failed) failed = show(&p, a.output);
    if (!failed) {
        fprintf(stderr, "%u x %u in %.1f ms; workers: %u; jobs taken: %" PRIu64 "\n", p.width,
                p.height, (double)p.ns / HD_MS_NS, p.workers, p.jobs_taken);
    }
    free(p.steps);
    return failed;
}
