/* SPDX-License-Identifier: MIT
 *
 * The example hashfiles, over disks that fail; and a fault planted in it: a read that fails is
 * taken for the end of the file.
 */
#include "planted.h"

static ssize_t read_to_error(hd_io io, void *buffer, size_t bytes)
{
    const ssize_t n = hd_read(io, buffer, bytes);
    return planted && n < 0 ? 0 : n;
}

#define main    example_main
#define hd_read read_to_error
#include "../../examples/hashfiles.c" /* NOLINT(bugprone-suspicious-include) */
#undef hd_read
#undef main

#include "files.h"

TEST_MAIN

enum { FILES = 12 };

/* In order, those of directories among them. */
static const char *const names[FILES] = {"/t/0", "/t/1",   "/t/2",   "/t/d/3", "/t/d/4", "/t/d/5",
                                         "/t/e", "/t/f/6", "/t/f/7", "/t/f/8", "/t/g",   "/t/h"};

static size_t size_of(int number)
{
    return (size_t)number * number * 7000;
}

static void make_files(void)
{
    EXPECT_EQ(hd_mkdir("/t", 0755), 0);
    EXPECT_EQ(hd_mkdir("/t/d", 0755), 0);
    EXPECT_EQ(hd_mkdir("/t/f", 0755), 0);
    EXPECT_EQ(hd_mkdir("/t/nothing", 0755), 0);
    char *bytes = calloc(1, size_of(FILES));
    for (int i = 0; i < FILES; i++) {
        memset(bytes, 'a' + i, size_of(FILES));
        files_put(names[i], bytes, size_of(i));
    }
    free(bytes);
}

static uint64_t hash_of(int number)
{
    struct xxh x;
    unsigned char block[32];
    memset(block, 'a' + number, sizeof(block));
    xxh_begin(&x);
    for (size_t i = 0; i < size_of(number) / 32; i++) xxh_add(&x, block, sizeof(block));
    return xxh_end(&x, block, size_of(number) % 32);
}

/* What was printed. */
static int printed, misplaced, wrong, errors;

static int number_of(const char *path)
{
    int number = 0;
    while (number < FILES && strcmp(path, names[number]) != 0) number++;
    return number;
}

static int check_entry(struct hashing *h, const struct entry *entry)
{
    (void)h;
    const int number = number_of(entry->path);
    misplaced += number != printed++;
    if (entry->err)
        errors++;
    else
        wrong += number == FILES || entry->hash != hash_of(number);
    return 0;
}

static int hash_tree(void)
{
    static char path[] = "/t", *arguments[] = {path, NULL};
    struct hashing h = {.arguments = arguments, .print = check_entry};
    printed = misplaced = wrong = errors = 0;
    return app(&h);
}

static int on_a_good_disk(void *arg)
{
    (void)arg;
    make_files();
    EXPECT_EQ(hash_tree(), 0);
    EXPECT_EQ(printed, FILES);
    EXPECT_EQ(misplaced + wrong + errors, 0);
    return 0;
}

TEST_WORLDS(prints_all_files_in_order, options)
{
    if (rt_is_sim(options)) rt_run(on_a_good_disk, NULL, options);
}

/* Returns -EBADMSG if a hash is wrong, or a file is missing and nobody is told. */
static int on_a_bad_disk(void *arg)
{
    (void)arg;
    make_files();
    hd_sim_disk_options disk = HD_SIM_DISK_OPTIONS_INIT;
    disk.read_ppm = HD_SIM_ALWAYS / 20;
    EXPECT_EQ(hd_sim_disk(NULL, &disk), 0);
    const int err = hash_tree();
    if (err) return err;
    return wrong > 0 || (errors == 0 && printed < FILES) ? -EBADMSG : 0;
}

TEST_WORLDS(names_what_it_could_not_read, options)
{
    if (rt_is_sim(options)) rt_run(on_a_bad_disk, NULL, options);
}

TEST(finds_an_error_taken_for_the_end)
{
    planted_found(on_a_bad_disk, 20);
}
