/* SPDX-License-Identifier: MIT
 *
 * The buffered writer: what was put is what comes out, in order, over a stream that takes any
 * pieces and fails in between.
 */
#include "fuzz.h"

/* Everything put has to come out, so no copy of it is needed: `expected` says what it is. */
struct stream {
    struct fuzz *choices;
    const char *expected;
    size_t put, written;
    bool failed; /* a piece larger than the buffer did, so an unknown part of it was taken */
};

static ssize_t stream_write(void *to, const void *buffer, size_t bytes, int64_t deadline)
{
    struct stream *s = to;
    (void)deadline;
    FUZZ_EXPECT(bytes > 0);
    const ssize_t step = fuzz_step(s->choices);
    if (step < 0) return step;
    const size_t n = bytes < (size_t)step ? bytes : (size_t)step;
    FUZZ_EXPECT(memcmp(buffer, s->expected + s->written, n) == 0);
    s->written += n;
    return (ssize_t)n;
}

static bool passes(int err)
{
    return err == -ECANCELED || err == -ETIMEDOUT || err == -EAGAIN;
}

/* The text is put piece by piece; one that failed is put again. */
static int put(hd_writer *out, const char *text, size_t count, bool formatted)
{
    return formatted ? hd_writer_printf(out, "%.*s", (int)count, text)
                     : hd_writer_put(out, text, count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct stream s = {0};
    size_t length = 0;
    struct fuzz choices = fuzz_split(data, size, &s.expected, &length);
    s.choices = &choices;
    const size_t room = 1 + fuzz_byte(&choices) % 64;
    char *memory = malloc(room);
    if (!memory) return 0;
    hd_writer out;
    hd_writer_init_fn(&out, stream_write, &s, memory, room);
    while (choices.left > 0 && s.put < length && !s.failed) {
        const unsigned what = fuzz_byte(&choices);
        size_t count = fuzz_byte(&choices) % 80;
        if (count > length - s.put) count = length - s.put;
        const char *text = s.expected + s.put;
        const bool formatted = what % 3 == 0 && !memchr(text, 0, count);
        const int err = what % 3 == 1 ? hd_writer_flush(&out) : put(&out, text, count, formatted);
        FUZZ_EXPECT(err == 0 || passes(err));
        if (what % 3 == 1) {
            FUZZ_EXPECT(err != 0 || s.written == s.put);
        } else if (err == 0) {
            s.put += count;
        } else {
            s.failed = count >= room;
        }
        FUZZ_EXPECT(s.failed || (s.written <= s.put && s.put - s.written <= room));
    }
    choices.left = 0;
    FUZZ_EXPECT(hd_writer_flush(&out) == 0);
    FUZZ_EXPECT(s.failed || s.written == s.put);
    free(memory);
    return 0;
}
