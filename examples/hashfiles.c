/* SPDX-License-Identifier: MIT
 *
 * hashfiles: prints the XXH64 hash of files, and of all files in directories, as `xxhsum` does;
 * many at once, in order of their names.
 *
 *   ./hashfiles [--jobs N] [PATH...]    without a path, or for "-": the standard input
 *
 * A few fibers each take the next file, until there are none. They wait for the disk together, and
 * hash on all cores; one more prints what has ended, in order, and the bar if somebody watches.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <heddle.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER_BYTES = 256 << 10, OUTPUT_BYTES = 16 << 10, JOBS_MAX = 256, BAR = 30 };

struct entry {
    char *path;
    unsigned argument; /* which of the program's it was found by */
    uint64_t hash;
    int err;           /* or it has none */
    bool ended;        /* of the one who prints */
};

struct hashing {
    char **arguments;
    unsigned jobs; /* 0: twice as many as workers */
    bool bar;
    int (*print)(struct hashing *h, const struct entry *entry);
    hd_writer out;

    struct entry *entries;
    size_t count, room;
    atomic_size_t next; /* the first that nobody has taken */
    hd_chan *ended;     /* size_t: which */
    size_t printed;
    uint64_t bytes;           /* of all */
    atomic_uint_least64_t done_bytes;
    bool failed; /* something, which was said */
};

/* ---- XXH64 ---- */

#define PRIME_1 UINT64_C(0x9e3779b185ebca87)
#define PRIME_2 UINT64_C(0xc2b2ae3d27d4eb4f)
#define PRIME_3 UINT64_C(0x165667b19e3779f9)
#define PRIME_4 UINT64_C(0x85ebca77c2b2ae63)
#define PRIME_5 UINT64_C(0x27d4eb2f165667c5)

struct xxh {
    uint64_t lanes[4];
    uint64_t bytes; /* so far, a multiple of 32 */
};

static uint64_t rotate(uint64_t x, unsigned by)
{
    return x << by | x >> (64 - by);
}

static uint64_t load(const unsigned char *at, unsigned bytes)
{
    uint64_t x = 0;
    for (unsigned i = 0; i < bytes; i++) x |= (uint64_t)at[i] << 8 * i;
    return x;
}

static uint64_t mix(uint64_t lane, uint64_t input)
{
    return rotate(lane + input * PRIME_2, 31) * PRIME_1;
}

static void xxh_begin(struct xxh *x)
{
    *x = (struct xxh){{PRIME_1 + PRIME_2, PRIME_2, 0, 0 - PRIME_1}, 0};
}

/* `bytes` is a multiple of 32. */
static void xxh_add(struct xxh *x, const unsigned char *at, size_t bytes)
{
    x->bytes += bytes;
    for (const unsigned char *end = at + bytes; at < end; at += 32) {
        for (unsigned i = 0; i < 4; i++) x->lanes[i] = mix(x->lanes[i], load(at + 8 * i, 8));
    }
}

static uint64_t merge(const struct xxh *x)
{
    const uint64_t *lanes = x->lanes;
    uint64_t hash = rotate(lanes[0], 1) + rotate(lanes[1], 7) + rotate(lanes[2], 12) +
                    rotate(lanes[3], 18);
    for (unsigned i = 0; i < 4; i++) hash = (hash ^ mix(0, lanes[i])) * PRIME_1 + PRIME_4;
    return hash;
}

/* The last bytes, fewer than 32. Returns the hash. */
static uint64_t xxh_end(const struct xxh *x, const unsigned char *at, size_t bytes)
{
    uint64_t hash = (x->bytes ? merge(x) : PRIME_5) + x->bytes + bytes;
    for (; bytes >= 8; at += 8, bytes -= 8) {
        hash = rotate(hash ^ mix(0, load(at, 8)), 27) * PRIME_1 + PRIME_4;
    }
    for (; bytes >= 4; at += 4, bytes -= 4) {
        hash = rotate(hash ^ load(at, 4) * PRIME_1, 23) * PRIME_2 + PRIME_3;
    }
    for (; bytes > 0; at++, bytes--) hash = rotate(hash ^ *at * PRIME_5, 11) * PRIME_1;
    hash = (hash ^ hash >> 33) * PRIME_2;
    hash = (hash ^ hash >> 29) * PRIME_3;
    return hash ^ hash >> 32;
}

/* ---- hashing ---- */

static int hash_stream(struct hashing *h, hd_io io, unsigned char *buffer, uint64_t *hash)
{
    struct xxh x;
    size_t have = 0;
    ssize_t n;
    xxh_begin(&x);
    while ((n = hd_read(io, buffer + have, BUFFER_BYTES - have)) > 0) {
        have += (size_t)n;
        const size_t whole = have - have % 32;
        xxh_add(&x, buffer, whole);
        memmove(buffer, buffer + whole, have - whole);
        have -= whole;
        atomic_fetch_add(&h->done_bytes, (uint64_t)n);
    }
    if (n < 0) return (int)n;
    *hash = xxh_end(&x, buffer, have);
    return 0;
}

static bool is_input(const struct entry *entry)
{
    return strcmp(entry->path, "-") == 0;
}

static int hash_entry(struct hashing *h, struct entry *entry, unsigned char *buffer)
{
    if (is_input(entry)) return hash_stream(h, hd_stdin(), buffer, &entry->hash);
    hd_io file;
    int err = hd_file_open(&file, entry->path, O_RDONLY, 0);
    if (err) return err;
    err = hash_stream(h, file, buffer, &entry->hash);
    (void)hd_close(file); /* Nothing was written. */
    return err;
}

static int hash_some(void *arg)
{
    struct hashing *h = arg;
    unsigned char *buffer = malloc(BUFFER_BYTES);
    int err = 0;
    for (size_t i; !err && (i = atomic_fetch_add(&h->next, 1)) < h->count;) {
        struct entry *entry = &h->entries[i];
        if (!entry->err) entry->err = buffer ? hash_entry(h, entry, buffer) : -ENOMEM;
        err = hd_chan_send(h->ended, &i);
    }
    free(buffer);
    return err;
}

/* ---- finding ---- */

/* The path is the list's from now on; NULL: there was no memory for it. */
static int add(struct hashing *h, char *path, unsigned argument)
{
    struct entry *entries = h->entries;
    if (path && h->count == h->room) {
        const size_t room = h->room ? 2 * h->room : 64;
        entries = realloc(entries, room * sizeof(*entries));
        if (entries) h->entries = entries, h->room = room;
    }
    if (!path || !entries) {
        free(path);
        return -ENOMEM;
    }
    h->entries[h->count++] = (struct entry){.path = path, .argument = argument};
    return 0;
}

static char *join(const char *dir, const char *name)
{
    const size_t bytes = strlen(dir), slash = bytes > 0 && dir[bytes - 1] != '/';
    char *path = malloc(bytes + slash + strlen(name) + 1);
    if (path) sprintf(path, "%s%s%s", dir, slash ? "/" : "", name);
    return path;
}

/* What a directory has goes to the end of the list. Links are left out: they may lead back. */
static int add_inside(struct hashing *h, size_t which, hd_dir *dir)
{
    hd_dir_entry found;
    int err = 0;
    while (!err && (err = hd_dir_read(dir, &found)) == 1) {
        const struct entry *at = &h->entries[which]; /* which may move */
        const bool link = found.type != DT_REG && found.type != DT_DIR && found.type != DT_UNKNOWN;
        err = link ? 0 : add(h, join(at->path, found.name), at->argument);
    }
    return err;
}

static int compare(const void *a, const void *b)
{
    const struct entry *one = a, *other = b;
    if (one->argument != other->argument) return one->argument < other->argument ? -1 : 1;
    return strcmp(one->path, other->path);
}

/* A directory is replaced by what is in it; *which then has the next to look at. */
static int expand(struct hashing *h, size_t *which)
{
    hd_dir *dir;
    int err = hd_dir_open(&dir, h->entries[*which].path);
    if (err) {
        h->entries[(*which)++].err = err;
        return 0;
    }
    err = add_inside(h, *which, dir);
    hd_dir_close(dir);
    free(h->entries[*which].path);
    h->entries[*which] = h->entries[--h->count];
    return err;
}

/* All files, in order; and what there was no way into, with an error. */
static int find(struct hashing *h)
{
    int err = 0;
    for (unsigned i = 0; h->arguments[i] && !err; i++) err = add(h, strdup(h->arguments[i]), i);
    for (size_t i = 0; i < h->count && !err;) {
        struct stat info = {.st_size = 0};
        struct entry *entry = &h->entries[i];
        if (!is_input(entry)) entry->err = hd_stat(entry->path, &info);
        if (S_ISDIR(info.st_mode)) {
            err = expand(h, &i);
        } else {
            h->bytes += (uint64_t)info.st_size;
            i++;
        }
    }
    if (!err && h->count > 0) qsort(h->entries, h->count, sizeof(*h->entries), compare);
    return err;
}

/* ---- showing ---- */

static int print_entry(struct hashing *h, const struct entry *entry)
{
    if (!entry->err) {
        return hd_writer_printf(&h->out, "%016" PRIx64 "  %s\n", entry->hash, entry->path);
    }
    const int err = hd_writer_flush(&h->out); /* So that it stands where it belongs. */
    fprintf(stderr, "hashfiles: %s: %s\n", entry->path, strerror(-entry->err));
    h->failed = true;
    return err;
}

static void show_bar(struct hashing *h)
{
    const uint64_t done = atomic_load(&h->done_bytes), all = h->bytes > done ? h->bytes : done;
    const int length = all ? (int)((double)done / (double)all * BAR) : BAR;
    fprintf(stderr, "\r[%-*.*s] %zu of %zu files, %.1f of %.1f MB", BAR, length,
            "##############################", h->printed, h->count, (double)done / 1e6,
            (double)all / 1e6);
}

static void wipe_bar(const struct hashing *h)
{
    if (h->bar) fputs("\r\033[K", stderr);
}

/* What has ended is printed once all before it has. */
static int print_ended(struct hashing *h)
{
    int err = 0;
    while (h->printed < h->count && h->entries[h->printed].ended && !err) {
        err = h->print(h, &h->entries[h->printed++]);
    }
    return err;
}

static int print_all(struct hashing *h)
{
    int err = 0;
    while (h->printed < h->count && !err) {
        size_t which;
        if (h->bar) show_bar(h);
        err = hd_chan_recv_until(h->ended, &which, h->bar ? hd_after_ms(100) : HD_FOREVER);
        if (err == -ETIMEDOUT && h->bar) {
            err = 0;
            continue;
        }
        if (err) break;
        h->entries[which].ended = true;
        wipe_bar(h);
        err = print_ended(h);
        if (h->bar && !err) err = hd_writer_flush(&h->out); /* Somebody watches. */
    }
    wipe_bar(h);
    return err;
}

/* ---- the program ---- */

static unsigned choose_jobs(const struct hashing *h)
{
    hd_stats stats;
    hd_runtime_stats(hd_runtime_self(), &stats);
    const unsigned jobs = h->jobs ? h->jobs : 2 * stats.workers;
    return jobs < h->count ? jobs : (unsigned)h->count;
}

static int hash_all(struct hashing *h)
{
    int err = 0;
    h->ended = hd_chan_create(sizeof(size_t), JOBS_MAX);
    if (!h->ended) return -ENOMEM;
    HD_NURSERY(n) {
        const unsigned jobs = choose_jobs(h);
        for (unsigned i = 0; i < jobs && !err; i++) err = hd_go(n, hash_some, h);
        if (!err) err = print_all(h);
        if (err) hd_nursery_cancel(n);
    }
    hd_chan_destroy(h->ended);
    return err;
}

static int app(void *arg)
{
    struct hashing *h = arg;
    char output[OUTPUT_BYTES];
    hd_writer_init(&h->out, hd_stdout(), output, sizeof(output));
    int err = find(h);
    if (!err) err = hash_all(h);
    if (!err) err = hd_writer_flush(&h->out);
    for (size_t i = 0; i < h->count; i++) free(h->entries[i].path);
    free(h->entries);
    return err;
}

static const char usage[] =
    "usage: hashfiles [--jobs N] [PATH...]\n"
    "Prints the XXH64 hash of each file, and of all files in each directory. Without a path, or\n"
    "for \"-\", that of the standard input.\n"
    "  --jobs N   how many files at a time, 1 to 256 (twice as many as there are cores)\n";

/* Returns 0 if it is none. */
static unsigned read_jobs(const char *text)
{
    char *end;
    errno = 0;
    const unsigned long jobs = strtoul(text, &end, 10);
    return errno || *end || text[0] == '-' || jobs > JOBS_MAX ? 0 : (unsigned)jobs;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"jobs", required_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    static char dash[] = "-", *input[] = {dash, NULL};
    struct hashing h = {.bar = isatty(STDERR_FILENO), .print = print_entry};
    for (int what; (what = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (what == 'h') return fputs(usage, stdout) < 0;
        if (what != 'j') return 2; /* getopt_long() has said why. */
        h.jobs = read_jobs(optarg);
        if (h.jobs == 0) {
            fprintf(stderr, "hashfiles: --jobs: '%s' is not a number from 1 to 256\n", optarg);
            return 2;
        }
    }
    h.arguments = argc > optind ? argv + optind : input;
    const int err = hd_run(app, &h, NULL);
    if (err) fprintf(stderr, "hashfiles: %s\n", strerror(-err));
    return err || h.failed;
}
