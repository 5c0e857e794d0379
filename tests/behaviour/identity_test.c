/* SPDX-License-Identifier: MIT
 *
 * Who a task is: its id, name, spawn site and runtime, from inside and from its handle.
 */
#include "rt.h"

TEST_MAIN

/* ---- ids ---- */

enum { SPAWNERS = 8, EACH = 100, IDS = SPAWNERS * (EACH + 1) + EACH };
static uint64_t ids[IDS];
static atomic_int id_count;

static void note_id(void)
{
    const uint64_t id = hd_self_id();
    EXPECT(id != 0);
    ids[atomic_fetch_add(&id_count, 1)] = id;
}

static int note_fiber(void *arg)
{
    (void)arg;
    const uint64_t id = hd_self_id();
    note_id();
    for (int i = 0; i < 3; i++) {
        hd_yield(); /* perhaps to another thread */
        EXPECT_EQ(hd_self_id(), id);
    }
    return 0;
}

static hd_poll note_poll(void *state, int *result)
{
    (void)state;
    *result = 0;
    note_id();
    return HD_READY;
}

static int spawn_many(void *arg)
{
    (void)arg;
    note_id();
    for (int i = 0; i < EACH; i++) {
        if (i % 2) {
            EXPECT_EQ(hd_spawn(NULL, note_fiber, NULL), 0);
        } else {
            EXPECT_EQ(hd_spawn_poll(NULL, note_poll, NULL, 0), 0);
        }
    }
    return 0;
}

static int compare_ids(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

TEST_WORLDS(ids_are_unique_from_1, options)
{
    hd_runtime *runtime = rt_create(options);
    for (int i = 0; i < SPAWNERS; i++) hd_detach(rt_spawn(runtime, spawn_many, NULL));
    for (int i = 0; i < EACH; i++) hd_detach(rt_spawn(runtime, note_fiber, NULL));
    EXPECT_EQ(hd_runtime_drain(runtime, HD_FOREVER), 0);
    EXPECT_EQ(id_count, IDS);
    qsort(ids, IDS, sizeof(ids[0]), compare_ids);
    EXPECT_EQ(ids[0], 1);
    for (int i = 1; i < IDS; i++) EXPECT(ids[i] != ids[i - 1]);
    hd_runtime_destroy(runtime);
}

static int return_id(void *arg)
{
    (void)arg;
    return (int)hd_self_id();
}

TEST_WORLDS(the_first_task_of_every_runtime_has_id_1, options)
{
    for (int i = 0; i < 3; i++) EXPECT_EQ(hd_run(return_id, NULL, options), 1);
}

TEST_WORLDS(a_handle_knows_the_id, options)
{
    hd_runtime *runtime = rt_create(options);
    for (int i = 0; i < 5; i++) {
        hd_task *task = rt_spawn(runtime, return_id, NULL);
        const int id = (int)hd_task_id(task);
        EXPECT_EQ(rt_join(task), id);
    }
    hd_runtime_destroy(runtime);
}

TEST(outside_any_task_there_is_no_id_name_or_runtime)
{
    EXPECT_EQ(hd_self_id(), 0);
    EXPECT(strcmp(hd_self_name(), "") == 0);
    EXPECT(hd_runtime_self() == NULL);
    EXPECT(!hd_cancelled());
}

/* ---- names ---- */

#define LETTERS "abcdefghijklmnopqrstuvwxyz01234567890123456789"

static int name_is(void *wanted)
{
    hd_yield();
    return strcmp(hd_self_name(), wanted) == 0;
}

static hd_poll name_is_poll(void *state, int *result)
{
    *result = strcmp(hd_self_name(), state) == 0;
    return HD_READY;
}

static void expect_name(hd_runtime *runtime, const char *given, const char *kept)
{
    char copy[64];
    hd_spawn_options spawn = HD_SPAWN_OPTIONS_INIT;
    spawn.runtime = runtime;
    if (given) {
        snprintf(copy, sizeof(copy), "%s", given);
        spawn.name = copy;
    }
    hd_task *fiber, *poll;
    char wanted[64];
    snprintf(wanted, sizeof(wanted), "%s", kept);
    EXPECT_EQ(hd_spawn_with(&fiber, name_is, wanted, &spawn), 0);
    EXPECT_EQ(hd_spawn_poll_with(&poll, name_is_poll, wanted, sizeof(wanted), &spawn), 0);
    memset(copy, 'x', sizeof(copy) - 1); /* it was copied */
    EXPECT(strcmp(hd_task_name(fiber), kept) == 0);
    EXPECT(strcmp(hd_task_name(poll), kept) == 0);
    EXPECT_EQ(rt_join(fiber), 1);
    EXPECT_EQ(rt_join(poll), 1);
}

TEST_WORLDS(names_are_copied_and_cut_to_31_bytes, options)
{
    hd_runtime *runtime = rt_create(options);
    expect_name(runtime, "worker", "worker");
    expect_name(runtime, NULL, ""); /* also where a named task was before */
    expect_name(runtime, "", "");
    char text[] = LETTERS, kept[] = LETTERS;
    kept[31] = '\0';
    expect_name(runtime, text, kept);
    text[32] = '\0';
    expect_name(runtime, text, kept);
    text[31] = '\0';
    expect_name(runtime, text, kept);
    text[30] = '\0';
    expect_name(runtime, text, text);
    hd_runtime_destroy(runtime);
}

/* ---- sites ---- */

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static hd_poll nothing_poll(void *state, int *result)
{
    (void)state;
    *result = 0;
    return HD_READY;
}

static void expect_site(hd_task *task, int line)
{
    const hd_site *site = hd_task_site(task);
    EXPECT(site != NULL);
    EXPECT_EQ(site->line, line);
    EXPECT(strcmp(site->file, __FILE__) == 0);
    EXPECT(strcmp(site->function, "spawn_at_known_lines") == 0);
    EXPECT_EQ(rt_join(task), 0);
}

static int spawn_at_known_lines(void *arg)
{
    (void)arg;
    hd_task *tasks[4];
    const hd_spawn_options none = HD_SPAWN_OPTIONS_INIT;
    const int line = __LINE__;
    EXPECT_EQ(hd_spawn(&tasks[0], nothing, NULL), 0);
    EXPECT_EQ(hd_spawn_with(&tasks[1], nothing, NULL, &none), 0);
    EXPECT_EQ(hd_spawn_poll(&tasks[2], nothing_poll, NULL, 0), 0);
    EXPECT_EQ(hd_spawn_poll_with(&tasks[3], nothing_poll, NULL, 0, &none), 0);
    for (int i = 0; i < 4; i++) expect_site(tasks[i], line + 1 + i);
    return 0;
}

TEST_WORLDS(a_site_is_where_the_macro_stands, options)
{
    rt_run(spawn_at_known_lines, NULL, options);
}

TEST_WORLDS(a_site_can_be_given, options)
{
    static const hd_site given = {"elsewhere.c", 123, "somebody"};
    hd_runtime *runtime = rt_create(options);
    hd_spawn_options spawn = HD_SPAWN_OPTIONS_INIT;
    spawn.runtime = runtime;
    hd_task *task;
    EXPECT_EQ(hd_spawn_at(&task, nothing, NULL, &spawn, &given), 0);
    EXPECT(hd_task_site(task) == &given);
    EXPECT_EQ(rt_join(task), 0);
    spawn.site = &given;
    EXPECT_EQ(hd_spawn_with(&task, nothing, NULL, &spawn), 0);
    EXPECT(hd_task_site(task) == &given);
    EXPECT_EQ(rt_join(task), 0);
    hd_runtime_destroy(runtime);
}

/* ---- the runtime ---- */

static int runtime_is(void *wanted)
{
    hd_yield();
    return hd_runtime_self() == wanted;
}

static hd_poll runtime_is_poll(void *state, int *result)
{
    *result = hd_runtime_self() == *(hd_runtime **)state;
    return HD_READY;
}

TEST_WORLDS(a_task_knows_its_runtime, options)
{
    hd_runtime *runtime = rt_create(options);
    EXPECT_EQ(rt_join(rt_spawn(runtime, runtime_is, runtime)), 1);
    EXPECT_EQ(rt_join(rt_spawn_poll(runtime, runtime_is_poll, &runtime, sizeof(void *))), 1);
    EXPECT(hd_runtime_self() == NULL);
    EXPECT_EQ(hd_runtime_world(runtime), options->world);
    EXPECT_EQ(hd_runtime_seed(runtime), options->seed);
    hd_runtime_destroy(runtime);
}

TEST(the_library_is_the_one_of_the_header)
{
    EXPECT(strcmp(hd_version(), HD_VERSION) == 0);
    char text[32];
    snprintf(text, sizeof(text), "%d.%d.%d", HD_VERSION_MAJOR, HD_VERSION_MINOR, HD_VERSION_PATCH);
    EXPECT(strcmp(hd_version(), text) == 0);
}
