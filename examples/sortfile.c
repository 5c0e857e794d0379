/* SPDX-License-Identifier: MIT
 *
 * sortfile: sorts the lines of a file on all cores, by their bytes, as `LC_ALL=C sort` does.
 *
 *   ./sortfile [--output FILE] [FILE]   without a file: the standard input
 *   HEDDLE_SEED=42 ./sortfile FILE      simulated: the same output
 *
 * Every step is parallel. Where a line goes in the table is known once the lines before it are
 * counted, and where it goes in the output once their bytes are: both are running sums, or scans.
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

enum { BLOCK_BYTES = 1 << 16 };

struct line {
    uint64_t first; /* its first 8 bytes as a number: most comparisons end here */
    const char *text;
    size_t bytes; /* with the newline */
};

struct sorting {
    const char *text; /* ends with a newline, or is empty */
    size_t bytes, blocks, count;
    struct line *lines;
    size_t *ends; /* of blocks: how many lines end before; of lines: where they end in the output */
    char *sorted;
    atomic_uint step;

    /* how it went */
    int64_t ns;
    uint64_t jobs_taken;
};

/* ---- the steps ---- */

/* The next newline of a block, or NULL. */
static const char *find_newline(const struct sorting *s, size_t block, const char *from)
{
    const size_t rest = s->bytes - block * BLOCK_BYTES;
    const char *end = s->text + block * BLOCK_BYTES + (rest < BLOCK_BYTES ? rest : BLOCK_BYTES);
    return memchr(from, '\n', (size_t)(end - from));
}

HD_FOR(count_lines, struct sorting *, s, block)
{
    size_t count = 0;
    const char *at = s->text + block * BLOCK_BYTES;
    for (; (at = find_newline(s, block, at)); at++) count++;
    s->ends[block] = count;
}

static struct line line_of(const char *text, size_t bytes)
{
    uint64_t first = 0;
    for (size_t i = 0; i < 8; i++) {
        first = first << 8 | (i + 1 < bytes ? (unsigned char)text[i] : 0);
    }
    return (struct line){first, text, bytes};
}

/* A line is entered by the block it ends in. */
HD_FOR(enter_lines, struct sorting *, s, block)
{
    struct line *line = s->lines + (block > 0 ? s->ends[block - 1] : 0);
    const char *at = s->text + block * BLOCK_BYTES, *end = find_newline(s, block, at);
    while (end && at > s->text && at[-1] != '\n') at--; /* It may begin in another. */
    for (; end; at = end + 1, end = find_newline(s, block, at)) {
        *line++ = line_of(at, (size_t)(end + 1 - at));
    }
}

static bool is_before(const struct line *a, const struct line *b)
{
    if (a->first != b->first) return a->first < b->first;
    const size_t shorter = a->bytes < b->bytes ? a->bytes : b->bytes;
    const int order = memcmp(a->text, b->text, shorter - 1);
    return order ? order < 0 : a->bytes < b->bytes;
}

HD_SORT(sort_lines, struct line, a, b, is_before(a, b));

HD_SCAN(add_up, size_t, a, b, a + b);

HD_FOR(measure_line, struct sorting *, s, i)
{
    s->ends[i] = s->lines[i].bytes;
}

HD_FOR(copy_line, struct sorting *, s, i)
{
    const struct line *line = &s->lines[i];
    memcpy(s->sorted + s->ends[i] - line->bytes, line->text, line->bytes);
}

/* ---- all together ---- */

static const char *const steps[] = {"counting", "splitting", "sorting", "measuring", "copying"};

static int show_progress(void *arg)
{
    struct sorting *s = arg;
    do {
        const unsigned step = atomic_load(&s->step);
        const unsigned all = sizeof(steps) / sizeof(steps[0]);
        fprintf(stderr, "\r[%-*.*s] %-9s", 4 * (int)all, 4 * (int)step, "####################",
                steps[step]);
    } while (hd_sleep_ms(50) == 0);
    fputs("\r\033[K", stderr); /* It was cancelled: wipe the line. */
    return 0;
}

static int find_lines(struct sorting *s)
{
    s->ends = calloc(s->blocks + 1, sizeof(*s->ends));
    if (!s->ends) return -ENOMEM;
    int err = count_lines(s, 0, s->blocks, NULL);
    if (!err) err = add_up(s->ends, s->ends, s->blocks, NULL);
    if (err) return err;
    s->count = s->blocks > 0 ? s->ends[s->blocks - 1] : 0;
    s->lines = calloc(s->count + 1, sizeof(*s->lines));
    if (!s->lines) return -ENOMEM;
    atomic_store(&s->step, 1);
    return enter_lines(s, 0, s->blocks, NULL);
}

static int write_lines(struct sorting *s)
{
    free(s->ends);
    s->ends = calloc(s->count + 1, sizeof(*s->ends));
    s->sorted = malloc(s->bytes + 1);
    if (!s->ends || !s->sorted) return -ENOMEM;
    int err = measure_line(s, 0, s->count, NULL);
    if (!err) err = add_up(s->ends, s->ends, s->count, NULL);
    if (err) return err;
    atomic_store(&s->step, 4);
    return copy_line(s, 0, s->count, NULL);
}

static int sort_file(struct sorting *s)
{
    const int64_t start = hd_now(NULL);
    int err = find_lines(s);
    atomic_store(&s->step, 2);
    if (!err) err = sort_lines(s->lines, s->count, NULL);
    atomic_store(&s->step, 3);
    if (!err) err = write_lines(s);
    s->ns = hd_now(NULL) - start;
    hd_stats stats;
    hd_runtime_stats(hd_runtime_self(), &stats);
    s->jobs_taken = stats.jobs_taken;
    return err;
}

static int app(void *arg)
{
    int err = 0;
    HD_NURSERY(n) {
        if (isatty(STDERR_FILENO)) hd_go(n, show_progress, arg);
        err = sort_file(arg);
        hd_nursery_cancel(n);
    }
    return err;
}

/* ---- files ---- */

static int fail(const char *what, int error)
{
    fprintf(stderr, "sortfile: %s: %s\n", what, strerror(error));
    return 1;
}

/* Returns NULL, with errno, if that fails. The last line gets a newline if it has none. */
static char *read_all(FILE *in, size_t *bytes)
{
    size_t room = 1 << 16, got, length = 0;
    char *text = malloc(room);
    while (text && (got = fread(text + length, 1, room - length - 1, in)) > 0) {
        length += got;
        if (length + 1 < room) continue;
        char *larger = realloc(text, room *= 2);
        if (!larger) free(text);
        text = larger;
    }
    if (text && ferror(in)) {
        free(text);
        return NULL;
    }
    if (text && length > 0 && text[length - 1] != '\n') text[length++] = '\n';
    *bytes = length;
    return text;
}

static int write_all(const char *path, const struct sorting *s)
{
    FILE *out = path ? fopen(path, "wb") : stdout;
    if (out && fwrite(s->sorted, 1, s->bytes, out) == s->bytes && fclose(out) == 0) return 0;
    return fail(path ? path : "standard output", errno);
}

static int run(const char *input, const char *output)
{
    struct sorting s = {.count = 0};
    FILE *in = input ? fopen(input, "rb") : stdin;
    char *text = in ? read_all(in, &s.bytes) : NULL;
    if (!text) return fail(input ? input : "standard input", errno);
    if (in != stdin) fclose(in);
    s.text = text;
    s.blocks = (s.bytes + BLOCK_BYTES - 1) / BLOCK_BYTES;
    const int err = hd_run(app, &s, NULL);
    const int failed = err ? fail("sorting", -err) : write_all(output, &s);
    if (!failed) {
        fprintf(stderr, "%zu lines in %.1f ms; jobs taken: %" PRIu64 "\n", s.count,
                (double)s.ns / HD_MS_NS, s.jobs_taken);
    }
    free(s.sorted);
    free(s.ends);
    free(s.lines);
    free(text);
    return failed;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"output", required_argument, NULL, 'o'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    static const char usage[] = "usage: sortfile [--output FILE] [FILE]\n";
    const char *output = NULL;
    for (int what; (what = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (what == 'h') return fputs(usage, stdout) < 0;
        if (what != 'o') return 2; /* getopt_long() has said why. */
        output = optarg;
    }
    if (argc - optind <= 1) return run(argv[optind], output);
    fputs(usage, stderr);
    return 2;
}
