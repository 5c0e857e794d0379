/* SPDX-License-Identifier: MIT
 *
 * pipeline: one fiber finds lines, some fibers measure them, one adds up. Channels between
 * them keep everybody busy and nobody ahead: who is too fast waits.
 *
 *   ./pipeline                  on all cores
 *   HEDDLE_SEED=42 ./pipeline   simulated: the same order every time
 */
#include <heddle.h>
#include <stdio.h>
#include <string.h>

enum { WORKERS = 3 };

static const char text[] = "over and under\n"
                           "the weft goes through the warp\n"
                           "one shed open\n"
                           "the heddle rises\n"
                           "and the cloth grows\n";

struct line {
    const char *start;
    size_t bytes;
};

struct measure {
    int worker;
    unsigned lines, words;
};

HD_CHAN_TYPE(lines, struct line);
HD_CHAN_TYPE(measures, struct measure);

struct stage {
    lines *in;
    measures *out;
    int number;
};

static int find_lines(void *arg)
{
    lines *out = arg;
    for (const char *start = text, *end; (end = strchr(start, '\n')); start = end + 1) {
        const int err = lines_send(out, (struct line){start, (size_t)(end - start)});
        if (err) return err;
    }
    return lines_close(out); /* Who receives gets what is left, and then -EPIPE. */
}

static int measure_lines(void *arg)
{
    const struct stage *stage = arg;
    struct measure sum = {.worker = stage->number};
    for (struct line line; lines_recv(stage->in, &line) == 0;) {
        sum.lines++;
        sum.words++;
        for (size_t i = 0; i < line.bytes; i++) sum.words += line.start[i] == ' ';
        hd_yield(); /* as if this were hard work */
    }
    return measures_send(stage->out, sum);
}

static int add_up(measures *in)
{
    unsigned words = 0;
    for (int i = 0; i < WORKERS; i++) {
        struct measure one;
        const int err = measures_recv_until(in, &one, hd_after_ms(5000));
        if (err) return err;
        printf("worker %d: %u words in %u lines\n", one.worker, one.words, one.lines);
        words += one.words;
    }
    printf("%u words\n", words);
    return words == 19 ? 0 : 1;
}

static int app(void *arg)
{
    (void)arg;
    lines *found = lines_create(2);
    measures *measured = measures_create(0); /* handed over, not kept */
    if (!found || !measured) return 1;
    hd_task *tasks[WORKERS + 1];
    struct stage stages[WORKERS];
    if (hd_spawn(&tasks[WORKERS], find_lines, found)) return 1;
    for (int i = 0; i < WORKERS; i++) {
        stages[i] = (struct stage){found, measured, i};
        if (hd_spawn(&tasks[i], measure_lines, &stages[i])) return 1;
    }
    int err = add_up(measured);
    for (int i = 0; i <= WORKERS; i++) {
        int result = 0;
        if (hd_join(tasks[i], &result) != 0 || result != 0) err = 1;
    }
    lines_destroy(found);
    measures_destroy(measured);
    return err;
}

int main(int argc, char **argv)
{
    if (argc > 1) return printf("usage: %s (it takes no arguments)\n", argv[0]) < 0;
    return hd_run(app, NULL, NULL);
}
