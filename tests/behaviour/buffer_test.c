/* SPDX-License-Identifier: MIT
 *
 * Buffered readers and writers: nothing is lost, whatever the pieces in which bytes come and go,
 * and whichever calls fail in between.
 */
#include "rt.h"

#include "death.h"

TEST_MAIN

/* ---- a stream of chosen pieces ---- */

/* Each call takes the next step: so many bytes at most, or an error. After the last step all is
 * moved at once. */
struct stream {
    const char *bytes; /* read from here; NULL: a writer's */
    size_t length, at;
    const int *steps;
    size_t count, step;
    char written[8192];
    int64_t deadline; /* of the last call */
    unsigned calls;
};

static int next_step(struct stream *s)
{
    s->calls++;
    return s->step < s->count ? s->steps[s->step++] : INT_MAX;
}

static ssize_t stream_read(void *from, void *buffer, size_t bytes, int64_t deadline)
{
    struct stream *s = from;
    EXPECT(bytes > 0);
    s->deadline = deadline;
    const int step = next_step(s);
    if (step < 0) return step;
    size_t n = s->length - s->at;
    if (n > bytes) n = bytes;
    if (n > (size_t)step) n = (size_t)step;
    memcpy(buffer, s->bytes + s->at, n);
    s->at += n;
    return (ssize_t)n;
}

static ssize_t stream_write(void *to, const void *buffer, size_t bytes, int64_t deadline)
{
    struct stream *s = to;
    EXPECT(bytes > 0);
    s->deadline = deadline;
    const int step = next_step(s);
    if (step < 0) return step;
    const size_t n = bytes < (size_t)step ? bytes : (size_t)step;
    EXPECT(s->length + n <= sizeof(s->written));
    memcpy(s->written + s->length, buffer, n);
    s->length += n;
    return (ssize_t)n;
}

static struct stream from_text(const char *text, const int *steps, size_t count)
{
    return (struct stream){.bytes = text, .length = strlen(text), .steps = steps, .count = count};
}

static bool is(const char *bytes, ssize_t n, const char *text)
{
    return n == (ssize_t)strlen(text) && memcmp(bytes, text, (size_t)n) == 0;
}

/* A function of the draw before; small enough to see through. */
static unsigned draw(unsigned *state, unsigned below)
{
    *state = *state * 1103515245u + 12345u;
    return (*state >> 16) % below;
}

/* ---- lines ---- */

TEST(lines_and_their_ends)
{
    const char *text = "one\ntwo\r\n\n\r\nin\rside\nlast\r";
    const char *lines[] = {"one", "two", "", "", "in\rside", "last\r"};
    for (int piece = 1; piece < 30; piece++) {
        int steps[64];
        for (size_t i = 0; i < 64; i++) steps[i] = piece;
        struct stream s = from_text(text, steps, 64);
        char memory[10];
        hd_reader in;
        hd_reader_init_fn(&in, stream_read, &s, memory, sizeof(memory));
        for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
            const char *line = NULL;
            const ssize_t n = hd_read_line(&in, &line);
            EXPECT(is(line, n, lines[i]));
        }
        const char *none = "untouched";
        EXPECT_EQ(hd_read_line(&in, &none), -EPIPE);
        const unsigned calls = s.calls;
        EXPECT_EQ(hd_read_line(&in, &none), -EPIPE); /* the end is not asked for again */
        EXPECT_EQ(s.calls, calls);
        EXPECT(strcmp(none, "untouched") == 0);
    }
}

TEST(a_line_with_its_end_fills_the_buffer)
{
    struct stream s = from_text("1234567\n12345678\nrest", NULL, 0);
    char memory[8];
    const char *bytes = NULL;
    hd_reader in;
    hd_reader_init_fn(&in, stream_read, &s, memory, sizeof(memory));
    EXPECT_EQ(hd_read_line(&in, &bytes), 7);
    EXPECT(is(bytes, 7, "1234567"));
    EXPECT_EQ(hd_read_line(&in, &bytes), -EMSGSIZE);
    EXPECT_EQ(hd_read_line(&in, &bytes), -EMSGSIZE); /* nothing was consumed */
    EXPECT_EQ(hd_reader_peek(&in, 0, &bytes), 8);
    EXPECT(is(bytes, 8, "12345678"));
    hd_reader_skip(&in, 3); /* the way out: take it in pieces */
    EXPECT_EQ(hd_read_line(&in, &bytes), 5);
    EXPECT(is(bytes, 5, "45678"));
    EXPECT_EQ(hd_read_line(&in, &bytes), 4);
    EXPECT(is(bytes, 4, "rest"));
}

TEST(what_a_failed_call_read_stays)
{
    static const int steps[] = {2, -ECANCELED, 1, -ETIMEDOUT, -EAGAIN, 3, -ECONNRESET, 1, -EIO, 9};
    struct stream s = from_text("abcdefg\nxyz", steps, sizeof(steps) / sizeof(steps[0]));
    char memory[16];
    const char *line = NULL;
    hd_reader in;
    hd_reader_init_fn(&in, stream_read, &s, memory, sizeof(memory));
    in.deadline = 4711;
    EXPECT_EQ(hd_read_line(&in, &line), -ECANCELED);
    EXPECT_EQ(s.deadline, 4711);
    in.deadline = 4712;
    EXPECT_EQ(hd_read_line(&in, &line), -ETIMEDOUT);
    EXPECT_EQ(s.deadline, 4712);
    EXPECT_EQ(hd_read_to(&in, ';', &line), -EAGAIN);
    EXPECT_EQ(hd_read_record(&in, 16, &line), -ECONNRESET);
    EXPECT_EQ(hd_reader_peek(&in, 8, &line), -EIO);
    EXPECT_EQ(hd_reader_peek(&in, 0, &line), 7);
    EXPECT_EQ(hd_read_line(&in, &line), 7);
    EXPECT(is(line, 7, "abcdefg"));
    EXPECT_EQ(hd_read_line(&in, &line), 3);
    EXPECT(is(line, 3, "xyz"));
}

/* ---- delimiters, records, peeking ---- */

TEST(up_to_a_delimiter_with_it)
{
    struct stream s = from_text("a;bc;;left", NULL, 0);
    char memory[32];
    const char *bytes = NULL;
    hd_reader in;
    hd_reader_init_fn(&in, stream_read, &s, memory, sizeof(memory));
    EXPECT_EQ(hd_read_to(&in, ';', &bytes), 2);
    EXPECT(is(bytes, 2, "a;"));
    EXPECT_EQ(hd_read_to(&in, ';', &bytes), 3);
    EXPECT(is(bytes, 3, "bc;"));
    EXPECT_EQ(hd_read_to(&in, ';', &bytes), 1);
    EXPECT_EQ(hd_read_to(&in, ';', &bytes), -EPIPE);
    EXPECT_EQ(hd_reader_peek(&in, 20, &bytes), 4); /* fewer: the end */
    EXPECT(is(bytes, 4, "left"));
    EXPECT_EQ(hd_read_to(&in, 'f', &bytes), 3);
    EXPECT(is(bytes, 3, "lef"));
}

TEST(records_of_given_lengths)
{
    static const int steps[] = {1, 2, 3, 1, 1, 1};
    struct stream s = from_text("abcdefghijklm", steps, 6);
    char memory[6];
    const char *bytes = NULL;
    hd_reader in;
    hd_reader_init_fn(&in, stream_read, &s, memory, sizeof(memory));
    EXPECT_EQ(hd_read_record(&in, 7, &bytes), -EMSGSIZE);
    EXPECT_EQ(s.calls, 0);
    EXPECT_EQ(hd_read_record(&in, 0, &bytes), 0);
    EXPECT_EQ(s.calls, 0);
    EXPECT_EQ(hd_read_record(&in, 4, &bytes), 0);
    EXPECT(is(bytes, 4, "abcd"));
    EXPECT_EQ(hd_read_record(&in, 6, &bytes), 0);
    EXPECT(is(bytes, 6, "efghij"));
    EXPECT_EQ(hd_read_record(&in, 4, &bytes), -EPIPE);
    EXPECT_EQ(hd_read_record(&in, 3, &bytes), 0);
    EXPECT(is(bytes, 3, "klm"));
    EXPECT_EQ(hd_read_record(&in, 0, &bytes), 0);
    EXPECT_EQ(hd_read_record(&in, 1, &bytes), -EPIPE);
}

TEST(peeking_takes_nothing)
{
    static const int steps[] = {3, 1};
    struct stream s = from_text("abcdefgh", steps, 2);
    char memory[8];
    const char *bytes = NULL;
    hd_reader in;
    hd_reader_init_fn(&in, stream_read, &s, memory, sizeof(memory));
    EXPECT_EQ(hd_reader_peek(&in, 0, &bytes), 0);
    EXPECT_EQ(s.calls, 0);
    EXPECT_EQ(hd_reader_peek(&in, 1, &bytes), 3);
    EXPECT_EQ(hd_reader_peek(&in, 3, &bytes), 3);
    EXPECT_EQ(hd_reader_peek(&in, 4, &bytes), 4);
    hd_reader_skip(&in, 2);
    EXPECT_EQ(hd_reader_peek(&in, 9, &bytes), -EMSGSIZE);
    EXPECT_EQ(hd_reader_peek(&in, 6, &bytes), 6);
    EXPECT(is(bytes, 6, "cdefgh"));
    hd_reader_skip(&in, 6);
    EXPECT_EQ(hd_reader_peek(&in, 1, &bytes), 0);
}

TEST(reading_past_the_buffer)
{
    struct stream s = from_text("abcdefghijklmnop", NULL, 0);
    char memory[4], out[8];
    const char *bytes = NULL;
    hd_reader in;
    hd_reader_init_fn(&in, stream_read, &s, memory, sizeof(memory));
    EXPECT_EQ(hd_reader_read(&in, out, 0), 0);
    EXPECT_EQ(hd_reader_read(&in, out, 2), 2); /* through the buffer */
    EXPECT_EQ(s.at, 4);
    EXPECT_EQ(hd_reader_read(&in, out, 8), 2); /* what it has */
    EXPECT(is(out, 2, "cd"));
    EXPECT_EQ(hd_reader_read(&in, out, 8), 8); /* past it */
    EXPECT(is(out, 8, "efghijkl"));
    EXPECT_EQ(hd_read_record(&in, 4, &bytes), 0);
    EXPECT(is(bytes, 4, "mnop"));
    EXPECT_EQ(hd_reader_read(&in, out, 8), 0);
    EXPECT_EQ(hd_reader_read(&in, out, 1), 0);
}

static void skip_too_far(void *arg)
{
    struct stream s = from_text("abc", NULL, 0);
    char memory[4];
    const char *bytes = NULL;
    hd_reader in;
    hd_reader_init_fn(&in, stream_read, &s, memory, sizeof(memory));
    EXPECT_EQ(hd_reader_peek(&in, 3, &bytes), 3);
    hd_reader_skip(&in, *(size_t *)arg);
}

TEST(skipping_more_than_there_is)
{
    size_t bytes = 4;
    expect_abort(skip_too_far, &bytes, "hd_reader_skip");
}

/* ---- writing ---- */

static void filled_writer(hd_writer *out, struct stream *s, char *memory, size_t bytes)
{
    hd_writer_init_fn(out, stream_write, s, memory, bytes);
    EXPECT_EQ(hd_writer_puts(out, "abcdef"), 0);
    EXPECT_EQ(s->calls, 0);
}

TEST(what_fits_is_taken_whole_or_not_at_all)
{
    static const int steps[] = {2, -ECANCELED, -ETIMEDOUT, 1, -EAGAIN};
    struct stream s = {.steps = steps, .count = 5};
    char memory[8];
    hd_writer out;
    filled_writer(&out, &s, memory, sizeof(memory));
    out.deadline = 4711;
    EXPECT_EQ(hd_writer_puts(&out, "123456"), -ECANCELED);
    EXPECT_EQ(s.deadline, 4711);
    EXPECT_EQ(hd_writer_puts(&out, "123456"), -ETIMEDOUT);
    EXPECT_EQ(hd_writer_puts(&out, "123456"), -EAGAIN);
    EXPECT_EQ(hd_writer_puts(&out, "123456"), 0);
    EXPECT_EQ(hd_writer_put(&out, NULL, 0), 0);
    EXPECT_EQ(hd_writer_flush(&out), 0);
    EXPECT(is(s.written, (ssize_t)s.length, "abcdef123456"));
    const unsigned calls = s.calls;
    EXPECT_EQ(hd_writer_flush(&out), 0);
    EXPECT_EQ(s.calls, calls);
}

TEST(only_as_much_is_written_as_room_is_needed)
{
    static const int steps[] = {3};
    struct stream s = {.steps = steps, .count = 1};
    char memory[8];
    hd_writer out;
    filled_writer(&out, &s, memory, sizeof(memory));
    EXPECT_EQ(hd_writer_puts(&out, "12345"), 0);
    EXPECT_EQ(s.calls, 1);
    EXPECT_EQ(hd_writer_flush(&out), 0);
    EXPECT(is(s.written, (ssize_t)s.length, "abcdef12345"));
}

TEST(large_pieces_are_not_copied)
{
    static const int steps[] = {4, 3, 5, 4};
    struct stream s = {.steps = steps, .count = 4};
    char memory[8];
    hd_writer out;
    filled_writer(&out, &s, memory, sizeof(memory));
    EXPECT_EQ(hd_writer_puts(&out, "0123456789ABCDEF"), 0);
    EXPECT_EQ(s.length, 15); /* the last 7 are in the buffer */
    EXPECT_EQ(hd_writer_flush(&out), 0);
    EXPECT(is(s.written, (ssize_t)s.length, "abcdef0123456789ABCDEF"));
}

TEST(an_error_is_kept)
{
    static const int steps[] = {1, -ECONNRESET};
    struct stream s = {.steps = steps, .count = 2};
    char memory[8];
    hd_writer out;
    filled_writer(&out, &s, memory, sizeof(memory));
    EXPECT_EQ(hd_writer_flush(&out), -ECONNRESET);
    const unsigned calls = s.calls;
    EXPECT_EQ(hd_writer_flush(&out), -ECONNRESET);
    EXPECT_EQ(hd_writer_puts(&out, "x"), -ECONNRESET);
    EXPECT_EQ(hd_writer_printf(&out, "%d", 1), -ECONNRESET);
    EXPECT_EQ(s.calls, calls);
}

TEST(formatted_texts_of_any_length)
{
    for (int length = 0; length < 40; length++) {
        static const int steps[] = {3, -ECANCELED};
        struct stream s = {.steps = steps, .count = 2};
        char memory[16], expected[128];
        hd_writer out;
        filled_writer(&out, &s, memory, sizeof(memory));
        int err; /* One of these is cancelled while it makes room, and takes nothing. */
        while ((err = hd_writer_printf(&out, "%0*d|", length, 7)) == -ECANCELED) continue;
        EXPECT_EQ(err, 0);
        while ((err = hd_writer_printf(&out, "%s", "end")) == -ECANCELED) continue;
        EXPECT_EQ(err, 0);
        while ((err = hd_writer_flush(&out)) == -ECANCELED) continue;
        EXPECT_EQ(err, 0);
        snprintf(expected, sizeof(expected), "abcdef%0*d|end", length, 7);
        EXPECT(is(s.written, (ssize_t)s.length, expected));
    }
}

/* ---- anything: what goes in comes out ---- */

static const int faults[] = {-ECANCELED, -ETIMEDOUT, -EAGAIN};

static bool passes(ssize_t err)
{
    return err == -ECANCELED || err == -ETIMEDOUT || err == -EAGAIN;
}

/* Put pieces of 0 to 40 bytes through a buffer of 1 to 40. Of a larger piece that failed we do not
 * know what was taken, so these come without faults. */
TEST(everything_written_arrives)
{
    for (unsigned round = 0; round < 300; round++) {
        unsigned state = round;
        int steps[400];
        const size_t size = 1 + draw(&state, 40);
        const bool faulty = round % 2 == 0;
        for (size_t i = 0; i < 400; i++) {
            steps[i] = faulty && draw(&state, 3) == 0 ? faults[draw(&state, 3)]
                                                      : (int)(1 + draw(&state, 20));
        }
        struct stream s = {.steps = steps, .count = 400};
        char memory[40], piece[40], all[8192];
        size_t length = 0;
        hd_writer out;
        hd_writer_init_fn(&out, stream_write, &s, memory, size);
        for (int i = 0; i < 100; i++) {
            const size_t n = draw(&state, faulty ? (unsigned)size + 1 : 40);
            for (size_t k = 0; k < n; k++) piece[k] = (char)draw(&state, 256);
            int err;
            while (passes(err = hd_writer_put(&out, piece, n))) continue;
            EXPECT_EQ(err, 0);
            memcpy(all + length, piece, n);
            length += n;
        }
        int err;
        while (passes(err = hd_writer_flush(&out))) continue;
        EXPECT_EQ(err, 0);
        EXPECT_EQ(s.length, length);
        EXPECT(memcmp(s.written, all, length) == 0);
    }
}

/* One of the ways to take some bytes. Returns how many, as far as it can be told, or an error. */
static ssize_t take_some(hd_reader *in, unsigned *state, char *copy)
{
    const char *bytes = NULL;
    const size_t want = draw(state, 20);
    ssize_t n = 0;
    switch (draw(state, 4)) {
    case 0:
        if ((n = hd_read_to(in, (char)draw(state, 4), &bytes)) < 0) return n;
        break;
    case 1:
        if ((n = hd_read_record(in, want, &bytes)) < 0) return n;
        n = (ssize_t)want;
        break;
    case 2:
        if ((n = hd_reader_peek(in, want, &bytes)) < 0) return n;
        if (n > (ssize_t)want) n = (ssize_t)want;
        memcpy(copy, bytes, (size_t)n);
        hd_reader_skip(in, (size_t)n);
        return n;
    default: return hd_reader_read(in, copy, want);
    }
    memcpy(copy, bytes, (size_t)n);
    return n;
}

TEST(everything_read_was_sent)
{
    for (unsigned round = 0; round < 300; round++) {
        unsigned state = round;
        char text[500], got[600], memory[40];
        int steps[1000];
        for (size_t i = 0; i < sizeof(text); i++) text[i] = (char)draw(&state, 4);
        for (size_t i = 0; i < 1000; i++) {
            steps[i] = draw(&state, 3) == 0 ? faults[draw(&state, 3)] : (int)(1 + draw(&state, 20));
        }
        struct stream s = {.bytes = text, .length = sizeof(text), .steps = steps, .count = 1000};
        size_t length = 0;
        hd_reader in;
        hd_reader_init_fn(&in, stream_read, &s, memory, 1 + draw(&state, 40));
        while (length < sizeof(text)) {
            const ssize_t n = take_some(&in, &state, got + length);
            EXPECT(n >= 0 || passes(n) || n == -EMSGSIZE || n == -EPIPE);
            if (n > 0) length += (size_t)n;
        }
        EXPECT_EQ(length, sizeof(text));
        EXPECT(memcmp(got, text, length) == 0);
    }
}

/* ---- over a pipe ---- */

struct pipe {
    hd_io ends[2];
    atomic_int began, gave_up;
};

static int write_slowly(void *arg)
{
    struct pipe *p = arg;
    for (int i = 0; i < 100; i++) {
        char line[32];
        const int n = snprintf(line, sizeof(line), "line %d\n", i);
        for (int k = 0; k < n; k++) {
            EXPECT_EQ(hd_write(p->ends[1], line + k, 1), 1);
            if (k % 3 == 0) hd_yield();
        }
    }
    return hd_close(p->ends[1]);
}

static int read_lines(void *arg)
{
    struct pipe p = {0};
    char memory[16];
    const char *line = NULL;
    (void)arg;
    EXPECT_EQ(hd_pipe(p.ends), 0);
    hd_task *writer = rt_spawn(NULL, write_slowly, &p);
    hd_reader in;
    hd_reader_init(&in, p.ends[0], memory, sizeof(memory));
    for (int i = 0; i < 100; i++) {
        char expected[32];
        snprintf(expected, sizeof(expected), "line %d", i);
        ssize_t n;
        /* Ever again give up, in the middle of a line or not. */
        in.deadline = hd_now(NULL) + 1;
        while ((n = hd_read_line(&in, &line)) == -ETIMEDOUT) in.deadline = hd_now(NULL) + 20000;
        EXPECT(is(line, n, expected));
    }
    in.deadline = HD_FOREVER;
    EXPECT_EQ(hd_read_line(&in, &line), -EPIPE);
    EXPECT_EQ(rt_join(writer), 0);
    EXPECT_EQ(hd_close(p.ends[0]), 0);
    return 0;
}

TEST_IO(lines_from_a_pipe_with_deadlines, options) { rt_run(read_lines, NULL, options); }

static int cancelled_reader(void *arg)
{
    struct pipe *p = arg;
    char memory[16];
    const char *line = NULL;
    hd_reader in;
    hd_reader_init(&in, p->ends[0], memory, sizeof(memory));
    atomic_store(&p->began, 1);
    EXPECT_EQ(hd_read_line(&in, &line), -ECANCELED);
    atomic_store(&p->gave_up, 1);
    EXPECT_EQ(hd_shield(), 0);
    EXPECT_EQ(hd_read_line(&in, &line), 5);
    EXPECT(is(line, 5, "whole"));
    EXPECT_EQ(hd_unshield(), 0);
    return 0;
}

static int cancel_a_reader(void *arg)
{
    struct pipe p = {0};
    char memory[16];
    hd_writer out;
    (void)arg;
    EXPECT_EQ(hd_pipe(p.ends), 0);
    hd_writer_init(&out, p.ends[1], memory, sizeof(memory));
    EXPECT_EQ(hd_writer_puts(&out, "who"), 0);
    EXPECT_EQ(hd_writer_flush(&out), 0);
    hd_task *reader = rt_spawn(NULL, cancelled_reader, &p);
    rt_until(&p.began);
    hd_cancel(reader);
    rt_until(&p.gave_up);
    EXPECT_EQ(hd_writer_printf(&out, "%s\n", "le"), 0);
    EXPECT_EQ(hd_writer_flush(&out), 0);
    EXPECT_EQ(rt_join(reader), 0);
    EXPECT_EQ(hd_close(p.ends[0]), 0);
    EXPECT_EQ(hd_close(p.ends[1]), 0);
    return 0;
}

TEST_IO(half_a_line_survives_a_cancel, options)
{
    const hd_options one = rt_workers(options, 1);
    rt_run(cancel_a_reader, NULL, &one);
}
