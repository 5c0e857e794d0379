/* SPDX-License-Identifier: MIT
 *
 * The buffered reader against a plain reference that has the whole text: any calls, in any order,
 * over a stream that comes in any pieces and fails in between.
 */
#include "fuzz.h"

struct stream {
    struct fuzz *choices;
    const char *text;
    size_t length, at;
};

static ssize_t stream_read(void *from, void *buffer, size_t bytes, int64_t deadline)
{
    struct stream *s = from;
    (void)deadline;
    FUZZ_EXPECT(bytes > 0);
    const ssize_t step = fuzz_step(s->choices);
    if (step < 0) return step;
    size_t n = s->length - s->at;
    if (n > bytes) n = bytes;
    if (n > (size_t)step) n = (size_t)step;
    memcpy(buffer, s->text + s->at, n);
    s->at += n;
    return (ssize_t)n;
}

static bool passes(ssize_t err)
{
    return err == -ECANCELED || err == -ETIMEDOUT || err == -EAGAIN;
}

/* The text, what was taken of it, and the reader that has to agree. */
struct run {
    struct stream stream;
    hd_reader in;
    size_t size, taken;
};

static const char *rest(const struct run *r)
{
    return r->stream.text + r->taken;
}

static size_t left(const struct run *r)
{
    return r->stream.length - r->taken;
}

/* Bytes up to a delimiter, and with it; 0: there is none. */
static size_t distance(const struct run *r, char delimiter)
{
    const char *at = memchr(rest(r), delimiter, left(r));
    return at ? (size_t)(at - rest(r)) + 1 : 0;
}

static void check_taken(struct run *r, const char *bytes, size_t count, size_t skipped)
{
    FUZZ_EXPECT(count + skipped <= left(r));
    FUZZ_EXPECT(memcmp(bytes, rest(r), count) == 0);
    r->taken += count + skipped;
}

static void line(struct run *r)
{
    const char *bytes = NULL;
    const size_t found = distance(r, '\n');
    const size_t whole = found ? found : left(r);
    const ssize_t n = hd_read_line(&r->in, &bytes);
    if (passes(n)) return;
    if (n == -EMSGSIZE) {
        FUZZ_EXPECT(whole > r->size || (whole == r->size && !found));
    } else if (n == -EPIPE) {
        FUZZ_EXPECT(left(r) == 0);
    } else {
        size_t length = found ? found - 1 : whole;
        if (found && length > 0 && rest(r)[length - 1] == '\r') length--;
        FUZZ_EXPECT(whole > 0 && n == (ssize_t)length);
        check_taken(r, bytes, length, whole - length);
    }
}

static void delimited(struct run *r, char delimiter)
{
    const char *bytes = NULL;
    const size_t found = distance(r, delimiter);
    const ssize_t n = hd_read_to(&r->in, delimiter, &bytes);
    if (passes(n)) return;
    if (n == -EMSGSIZE) {
        FUZZ_EXPECT(found > r->size || (!found && left(r) >= r->size));
    } else if (n == -EPIPE) {
        FUZZ_EXPECT(!found);
    } else {
        FUZZ_EXPECT(n == (ssize_t)found && found > 0);
        check_taken(r, bytes, found, 0);
    }
}

static void record(struct run *r, size_t want)
{
    const char *bytes = NULL;
    const int err = hd_read_record(&r->in, want, &bytes);
    if (passes(err)) return;
    if (err == -EMSGSIZE) {
        FUZZ_EXPECT(want > r->size);
    } else if (err == -EPIPE) {
        FUZZ_EXPECT(want > left(r));
    } else {
        FUZZ_EXPECT(err == 0);
        check_taken(r, bytes, want, 0);
    }
}

static void peek(struct run *r, size_t least, size_t skip)
{
    const char *bytes = NULL;
    const ssize_t n = hd_reader_peek(&r->in, least, &bytes);
    if (passes(n)) return;
    if (n == -EMSGSIZE) {
        FUZZ_EXPECT(least > r->size);
        return;
    }
    FUZZ_EXPECT(n >= 0 && (size_t)n <= left(r) && (size_t)n <= r->size);
    FUZZ_EXPECT((size_t)n >= least || (size_t)n == left(r));
    FUZZ_EXPECT(memcmp(bytes, rest(r), (size_t)n) == 0);
    if (skip > (size_t)n) skip = (size_t)n;
    hd_reader_skip(&r->in, skip);
    r->taken += skip;
}

static void copy(struct run *r, size_t want)
{
    char buffer[256];
    const ssize_t n = hd_reader_read(&r->in, buffer, want);
    if (passes(n)) return;
    FUZZ_EXPECT(n >= 0 && (size_t)n <= want);
    FUZZ_EXPECT(n > 0 || want == 0 || left(r) == 0);
    check_taken(r, buffer, (size_t)n, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct run r = {0};
    struct fuzz choices = fuzz_split(data, size, &r.stream.text, &r.stream.length);
    r.stream.choices = &choices;
    r.size = 1 + fuzz_byte(&choices) % 64;
    char *memory = malloc(r.size); /* of exactly that size, so that ASan sees one byte more */
    if (!memory) return 0;
    hd_reader_init_fn(&r.in, stream_read, &r.stream, memory, r.size);
    while (choices.left > 0) {
        const unsigned what = fuzz_byte(&choices);
        switch (what % 5) {
        case 0: line(&r); break;
        case 1: delimited(&r, (char)fuzz_byte(&choices)); break;
        case 2: record(&r, fuzz_byte(&choices) % 80); break;
        case 3: peek(&r, what / 5, fuzz_byte(&choices) % 80); break;
        default: copy(&r, fuzz_byte(&choices)); break;
        }
    }
    while (left(&r) > 0) copy(&r, 255); /* Nothing was lost. */
    free(memory);
    return 0;
}
