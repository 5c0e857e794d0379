/* SPDX-License-Identifier: MIT */
#include "sim/plan.h"

#include "test.h"

TEST_MAIN

static void expect_block(const struct hdi_plan *plan, size_t at, uint32_t task, uint32_t upto,
                         bool preempts)
{
    EXPECT(at < plan->count);
    EXPECT_EQ(plan->blocks[at].task, task);
    EXPECT_EQ(plan->blocks[at].upto, upto);
    EXPECT_EQ(plan->blocks[at].preempts, preempts);
}

TEST(neighbours_of_one_task_are_one_block)
{
    struct hdi_plan plan = {0};
    EXPECT_EQ(hdi_plan_add(&plan, (struct hdi_block){.task = 1, .upto = 2, .preempts = true}), 0);
    EXPECT_EQ(hdi_plan_add(&plan, (struct hdi_block){.task = 1, .upto = 5}), 0);
    EXPECT_EQ(hdi_plan_add(&plan, (struct hdi_block){.task = 0, .upto = 1}), 0);
    EXPECT_EQ(plan.count, 2);
    expect_block(&plan, 0, 1, 5, true);
    expect_block(&plan, 1, 0, 1, false);
    free(plan.blocks);
}

TEST(the_next_block_of_a_task_is_found)
{
    struct hdi_plan plan = {0};
    for (uint32_t i = 0; i < 300; i++) {
        EXPECT_EQ(hdi_plan_add(&plan, (struct hdi_block){.task = i % 3, .upto = i}), 0);
    }
    EXPECT_EQ(hdi_plan_next(&plan, 0), 3);
    EXPECT_EQ(hdi_plan_next(&plan, 296), 299);
    EXPECT_EQ(hdi_plan_next(&plan, 297), 300); /* none */
    free(plan.blocks);
}

TEST(a_run_is_read_as_blocks)
{
    static const uint32_t entries[] = {0, 0, 2 << 1 | 1, 2 << 1, 1 << 1, 0};
    enum { COUNT = sizeof(entries) / sizeof(entries[0]) };
    struct hdi_trace *trace = calloc(1, sizeof(*trace) + sizeof(entries));
    struct hdi_plan plan = {0};
    EXPECT(trace);
    memcpy(trace->entries, entries, sizeof(entries));
    trace->count = COUNT;
    EXPECT_EQ(hdi_plan_add(&plan, (struct hdi_block){.task = 7, .upto = 7}), 0); /* goes */
    EXPECT_EQ(hdi_plan_read(&plan, trace), 0);
    EXPECT_EQ(plan.count, 4);
    expect_block(&plan, 0, 0, 2, false);
    expect_block(&plan, 1, 2, 2, true);
    expect_block(&plan, 2, 1, 1, false);
    expect_block(&plan, 3, 0, 3, false);
    free(plan.blocks);
    free(trace);
}
